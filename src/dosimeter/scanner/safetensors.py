"""safetensors: eight bytes of length, a JSON header, then the numbers. Offsets are checked against the file's size."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.location import Location
from dosimeter.scanner.contents import Contents, FileArray

_LARGEST_HEADER = 2**24
_REMEDY = "save it again with safetensors"
_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?", "BF16": "<u2",
}  # fmt: skip


def read_safetensors(data: bytes, source: Location) -> Contents:
    """Every tensor, and the metadata as text."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(_LARGEST_HEADER, len(data) - 8):
        raise source.refusal(f"not a safetensors file (a header of {length} bytes)", _REMEDY)
    try:
        header = json.loads(data[8 : 8 + length])
        metadata = header.pop("__metadata__", {})
        texts = [
            FileArray(f"__metadata__.{k}", "__metadata__", "", str(k), texts=(str(v),)) for k, v in metadata.items()
        ]
    except (ValueError, RecursionError, AttributeError, TypeError):
        raise source.refusal("not a safetensors file (its header is not a JSON object)", _REMEDY) from None
    body, parts, unread = memoryview(data)[8 + length :], list[FileArray](), list[tuple[str, str]]()
    _refuse_overlap(header, source)
    for name, entry in header.items():
        kind = entry.get("dtype") if isinstance(entry, dict) else None
        if isinstance(kind, str) and kind not in _DTYPES:
            unread.append((str(name), "numbers of an unknown type"))
            continue
        array = _tensor(entry, body)
        if array is None:
            raise source.refusal("the offsets of a tensor do not fit the file", _REMEDY)
        holder, _, last = str(name).rpartition(".")
        parts.append(FileArray(str(name), holder, "", last, array))
    used = sum(end - begin for begin, end in _offsets(header))
    if used < len(body):
        unread.append(("between the tensors", f"{len(body) - used} bytes that belong to no tensor"))
    return Contents("safetensors", (*parts, *texts), tuple(unread))


def _offsets(header: dict[str, Any]) -> list[tuple[int, int]]:
    """Offsets of the tensors, in order; invalid ones are left out, and refused when they are read."""
    entries = [entry.get("data_offsets") for entry in header.values() if isinstance(entry, dict)]
    return sorted(
        (offsets[0], offsets[1])
        for offsets in entries
        if isinstance(offsets, list)
        and len(offsets) == 2
        and type(offsets[0]) is type(offsets[1]) is int
        and offsets[0] <= offsets[1]
    )


def _refuse_overlap(header: dict[str, Any], source: Location) -> None:
    """Tensors must not overlap: the format says so, and many over the same bytes would be read many times."""
    offsets = _offsets(header)
    if any(end > begin for (_, end), (begin, _) in pairwise(offsets)):
        raise source.refusal("two tensors share bytes", _REMEDY)


def _tensor(entry: Any, body: memoryview) -> NDArray[Any] | None:
    try:
        dtype = np.dtype(_DTYPES[entry["dtype"]])
        shape = tuple(int(size) for size in entry["shape"])
        begin, end = (int(place) for place in entry["data_offsets"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    if any(size < 0 for size in shape) or not 0 <= begin <= end <= len(body):
        return None
    if int(np.prod(shape, dtype=object)) * dtype.itemsize != end - begin:
        return None
    try:
        flat = np.frombuffer(body[begin:end], dtype=dtype) if end > begin else np.empty(0, dtype=dtype)
        array = flat.reshape(shape)
    except (ValueError, OverflowError):  # a dimension of 0 beside a huge one
        return None
    # bfloat16 is the upper half of a float32.
    return (array.astype(np.uint32) << 16).view(np.float32) if entry["dtype"] == "BF16" else array
