"""The protobuf wire format: fields as (number, value), without a message description. Enough to read ONNX files.

A varint has at most ten bytes; a length never exceeds its message. Groups, which protobuf has abandoned, are refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Value = int | memoryview | NDArray[np.uint64]
"""A varint, the bytes of anything else, or many consecutive varints of one field."""


_MOST = 2**22
"""Most fields of one message; a run of numbers counts once. Each costs a microsecond."""


class ProtobufError(Exception):
    """Bytes that are not a protobuf message."""


def fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """(field number, value), in order.

    >>> list(fields(memoryview(bytes([0x08, 0x96, 0x01]))))
    [(1, 150)]
    """
    offset, end = 0, len(message)
    while offset < end:
        tag, offset = _varint(message, offset)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise ProtobufError("field 0")
        if kind == 0:
            start = offset - 1
            value, offset = _varint(message, offset)
            if tag < 0x80 and offset < end and message[offset] == tag:
                run_values, offset = _varint_run(message, start, tag)
                yield number, run_values
            else:
                yield number, value
            continue
        if kind == 2:
            size, offset = _varint(message, offset)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            run = _run_length(message, offset, size) if tag < 0x80 else 1
            if run > 1:
                yield number, _join_run(message, offset, size, run)
                offset += run * (size + 1) - 1
                continue
        else:
            raise ProtobufError(f"wire type {kind}")
        if size > end - offset:
            raise ProtobufError("a length beyond the end of the message")
        yield number, message[offset : offset + size]
        offset += size


def _varint_run(message: memoryview, start: int, tag: int) -> tuple[NDArray[np.uint64], int]:
    """The values of consecutive fields of one tag, the first tag being at `start`; and where they end.

    Tags and values are all varints, so bytes below 0x80 end a tag and a value in turn.
    """
    window = 256
    while True:
        raw = np.frombuffer(message[start : start + window], dtype=np.uint8)
        ends = np.flatnonzero(raw < 0x80)
        ends = ends[: len(ends) // 2 * 2]
        starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
        # The tag is one byte; the first other byte ends the run.
        others = np.flatnonzero((raw[starts[::2]] != tag) | (starts[::2] != ends[::2]))
        if len(others) or start + window >= len(message):
            ends = ends[: 2 * others[0]] if len(others) else ends
            size = int(ends[-1]) + 1 if len(ends) else 0
            if not size:
                raise ProtobufError("the message is cut off")
            return _decode_packed(message[start : start + size])[1::2], start + size
        window *= 8


def _run_length(message: memoryview, offset: int, size: int) -> int:
    """Number of consecutive fields with the same tag (the byte before `offset`) and fixed width, including this one.

    ONNX writes a list of floats as one field per number; a million of them one by one would take seconds.
    """
    step, most = size + 1, (len(message) - offset + 1) // (size + 1)
    bytes_ = np.frombuffer(message, dtype=np.uint8)[offset - 1 : offset - 1 + most * step].reshape(most, step)
    run, ahead = 1, 8
    while run < most:
        other = np.flatnonzero(bytes_[run : run + ahead, 0] != bytes_[0, 0])
        if other.size:
            return run + int(other[0])
        run, ahead = min(run + ahead, most), 4 * ahead
    return min(run, most)


def _join_run(message: memoryview, offset: int, size: int, run: int) -> memoryview:
    step = size + 1
    block = np.frombuffer(message, dtype=np.uint8)[offset - 1 : offset - 1 + run * step].reshape(run, step)
    return memoryview(block[:, 1:].tobytes())


def fields_by_number(message: memoryview) -> dict[int, list[Value]]:
    """All values of every field, in order."""
    by_number: dict[int, list[Value]] = defaultdict(list)
    for count, (number, value) in enumerate(fields(message)):
        if count > _MOST:
            raise ProtobufError("more fields than a model has")
        by_number[number].append(value)
    return by_number


def _varint(message: memoryview, offset: int) -> tuple[int, int]:
    value = 0
    for k in range(10):
        if offset + k >= len(message):
            raise ProtobufError("the message is cut off")
        byte = message[offset + k]
        value |= (byte & 0x7F) << (7 * k)
        if byte < 0x80:
            return value & (2**64 - 1), offset + k + 1
    raise ProtobufError("a varint of more than ten bytes")


def integer(values: list[Value], absent: int = 0) -> int:
    """The last value of a scalar field, unsigned as it was written; `absent` if there is none."""
    last = values[-1] if values else absent
    if isinstance(last, memoryview):
        raise ProtobufError("a number was expected")
    return int(last[-1]) if isinstance(last, np.ndarray) else last


def text(values: list[Value]) -> str:
    """The last value of a text field; "" if there is none."""
    return bytes(message(values[-1])).decode("utf-8", "replace") if values else ""


def message(value: Value) -> memoryview:
    """The value, which must be bytes."""
    if not isinstance(value, memoryview):
        raise ProtobufError("bytes were expected")
    return value


def integers(values: list[Value]) -> NDArray[np.int64]:
    """A repeated field of varints, packed or not."""
    if all(isinstance(value, int) for value in values):
        return np.array(values, dtype=np.uint64).view(np.int64)
    decoded = [
        _decode_packed(v) if isinstance(v, memoryview) else np.atleast_1d(np.asarray(v, dtype=np.uint64))
        for v in values
    ]
    return np.concatenate(decoded).view(np.int64)


def _decode_packed(value: memoryview) -> NDArray[np.uint64]:
    """Consecutive varints, decoded all at once: pass k takes the k-th byte of every number."""
    raw = np.frombuffer(value, dtype=np.uint8) if len(value) else np.empty(0, dtype=np.uint8)
    ends = np.flatnonzero(raw < 0x80)
    starts = np.concatenate([[0], ends[:-1] + 1]) if ends.size else ends
    if (raw.size and not ends.size) or (ends.size and ends[-1] != raw.size - 1) or (ends - starts >= 10).any():
        raise ProtobufError("a varint is cut off, or has more than ten bytes")
    numbers = np.zeros(ends.size, dtype=np.uint64)
    for k in range(int((ends - starts).max(initial=-1)) + 1):
        longer = starts + k <= ends
        byte = raw[(starts + k)[longer]].astype(np.uint64) & np.uint64(0x7F)
        numbers[longer] |= byte << np.uint64(7 * k)
    return numbers


def floats(values: list[Value], dtype: str = "<f4") -> NDArray[np.floating]:
    """A repeated field of fixed-width floats, packed or not."""
    joined = b"".join(bytes(message(value)) for value in values)
    if len(joined) % np.dtype(dtype).itemsize:
        raise ProtobufError("a number is cut off")
    return np.frombuffer(joined, dtype=dtype) if joined else np.empty(0, dtype=dtype)
