"""The protobuf wire format: fields as (number, value), no message described. Enough to read ONNX without its library.

A varint is at most ten bytes; a length never reaches beyond its message. Groups, which protobuf gave up, are refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Value = int | memoryview | NDArray[np.uint64]
"""A varint, the bytes of anything else, or many varints of one field that follow each other."""


_MOST = 2**22
"""Fields of one message, runs of numbers counted once: every one costs a microsecond."""


class ProtobufError(Exception):
    """Bytes that are no message."""


def fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """(field number, value), in order.

    >>> list(fields(memoryview(bytes([0x08, 0x96, 0x01]))))
    [(1, 150)]
    """
    at, end = 0, len(message)
    while at < end:
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise ProtobufError("field 0")
        if kind == 0:
            start = at - 1
            value, at = _varint(message, at)
            if tag < 0x80 and at < end and message[at] == tag:
                many, at = _varint_run(message, start, tag)
                yield number, many
            else:
                yield number, value
            continue
        if kind == 2:
            size, at = _varint(message, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            run = _run(message, at, size) if tag < 0x80 else 1
            if run > 1:
                yield number, _joined(message, at, size, run)
                at += run * (size + 1) - 1
                continue
        else:
            raise ProtobufError(f"wire type {kind}")
        if size > end - at:
            raise ProtobufError("a length beyond the end")
        yield number, message[at : at + size]
        at += size


def _varint_run(message: memoryview, start: int, tag: int) -> tuple[NDArray[np.uint64], int]:
    """The values of fields of one tag that follow each other, the first tag standing at `start`; and where they end.

    Tags and values are all varints, so the bytes below 0x80 end one of either, turn by turn.
    """
    window = 256
    while True:
        raw = np.frombuffer(message[start : start + window], dtype=np.uint8)
        ends = np.flatnonzero(raw < 0x80)
        ends = ends[: len(ends) // 2 * 2]
        starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
        # A tag of ours is one byte; the first that is none ends the run.
        others = np.flatnonzero((raw[starts[::2]] != tag) | (starts[::2] != ends[::2]))
        if len(others) or start + window >= len(message):
            ends = ends[: 2 * others[0]] if len(others) else ends
            size = int(ends[-1]) + 1 if len(ends) else 0
            if not size:
                raise ProtobufError("cut off")
            return _packed(message[start : start + size])[1::2], start + size
        window *= 8


def _run(message: memoryview, at: int, size: int) -> int:
    """How many fields of the same tag (the byte before `at`) and fixed width follow each other, this one included.

    ONNX writes a list of floats as one field a number; a million of them one by one would take seconds.
    """
    step, most = size + 1, (len(message) - at + 1) // (size + 1)
    bytes_ = np.frombuffer(message, dtype=np.uint8)[at - 1 : at - 1 + most * step].reshape(most, step)
    run, ahead = 1, 8
    while run < most:
        other = np.flatnonzero(bytes_[run : run + ahead, 0] != bytes_[0, 0])
        if other.size:
            return run + int(other[0])
        run, ahead = min(run + ahead, most), 4 * ahead
    return min(run, most)


def _joined(message: memoryview, at: int, size: int, run: int) -> memoryview:
    step = size + 1
    block = np.frombuffer(message, dtype=np.uint8)[at - 1 : at - 1 + run * step].reshape(run, step)
    return memoryview(block[:, 1:].tobytes())


def gathered(message: memoryview) -> dict[int, list[Value]]:
    """All values of every field, in order."""
    found: dict[int, list[Value]] = defaultdict(list)
    for count, (number, value) in enumerate(fields(message)):
        if count > _MOST:
            raise ProtobufError("more fields than a model has")
        found[number].append(value)
    return found


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for k in range(10):
        if at + k >= len(message):
            raise ProtobufError("cut off")
        byte = message[at + k]
        value |= (byte & 0x7F) << (7 * k)
        if byte < 0x80:
            return value & (2**64 - 1), at + k + 1
    raise ProtobufError("a varint of more than ten bytes")


def integer(values: list[Value], absent: int = 0) -> int:
    """The last value of a scalar field, as it was written (without a sign); `absent` where there is none."""
    last = values[-1] if values else absent
    if isinstance(last, memoryview):
        raise ProtobufError("a number was expected")
    return int(last[-1]) if isinstance(last, np.ndarray) else last


def text(values: list[Value]) -> str:
    """The last value of a text field, "" where there is none."""
    return bytes(message(values[-1])).decode("utf-8", "replace") if values else ""


def message(value: Value) -> memoryview:
    """A value that must be bytes."""
    if not isinstance(value, memoryview):
        raise ProtobufError("bytes were expected")
    return value


def integers(values: list[Value]) -> NDArray[np.int64]:
    """A repeated field of varints, packed or not."""
    if all(isinstance(value, int) for value in values):
        return np.array(values, dtype=np.uint64).view(np.int64)
    made = [_packed(v) if isinstance(v, memoryview) else np.atleast_1d(np.asarray(v, dtype=np.uint64)) for v in values]
    return np.concatenate(made).view(np.int64)


def _packed(value: memoryview) -> NDArray[np.uint64]:
    """Varints one after the other, all at once: the k-th byte of every number is taken in the k-th turn."""
    raw = np.frombuffer(value, dtype=np.uint8) if len(value) else np.empty(0, dtype=np.uint8)
    ends = np.flatnonzero(raw < 0x80)
    starts = np.concatenate([[0], ends[:-1] + 1]) if ends.size else ends
    if (raw.size and not ends.size) or (ends.size and ends[-1] != raw.size - 1) or (ends - starts >= 10).any():
        raise ProtobufError("a varint cut off, or of more than ten bytes")
    made = np.zeros(ends.size, dtype=np.uint64)
    for k in range(int((ends - starts).max(initial=-1)) + 1):
        longer = starts + k <= ends
        byte = raw[(starts + k)[longer]].astype(np.uint64) & np.uint64(0x7F)
        made[longer] |= byte << np.uint64(7 * k)
    return made


def floats(values: list[Value], dtype: str = "<f4") -> NDArray[np.floating]:
    """A repeated field of fixed-width floats, packed or not."""
    joined = b"".join(bytes(message(value)) for value in values)
    if len(joined) % np.dtype(dtype).itemsize:
        raise ProtobufError("half a number")
    return np.frombuffer(joined, dtype=dtype) if joined else np.empty(0, dtype=dtype)
