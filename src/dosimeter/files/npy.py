"""numpy's .npy files, parsed here: the header first, then exactly the bytes it declares, never objects."""

from __future__ import annotations

import io
import math
import warnings
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from dosimeter.core.location import Location

OBJECTS = "an array of objects is a pickle and may run its author's code: not opened"


class UnreadableArray(Exception):
    """An array that is not read; the message says why."""


def npy_array(data: bytes) -> NDArray[Any]:
    """The array in the bytes of a .npy file, read-only; `UnreadableArray` for objects and wrong headers.

    >>> file = io.BytesIO(); np.save(file, np.array([1.5, 2.5]))
    >>> npy_array(file.getvalue())
    array([1.5, 2.5])
    """
    shape, fortran, dtype, start = _header(data)
    if dtype.hasobject:
        raise UnreadableArray(OBJECTS)
    if any(type(size) is not int or size < 0 for size in shape):
        raise UnreadableArray("its header declares an impossible shape")
    needed = math.prod(shape) * dtype.itemsize
    if needed != len(data) - start:
        raise UnreadableArray(f"its header declares {needed} bytes and it has {len(data) - start}")
    try:
        flat = np.frombuffer(data, dtype=dtype, offset=start) if needed else np.empty(0, dtype=dtype)
        return flat.reshape(shape, order="F" if fortran else "C")
    except (ValueError, OverflowError):
        raise UnreadableArray("its header declares an impossible shape") from None


def npy_array_of(data: bytes, source: Location, remedy: str) -> NDArray[Any]:
    """`npy_array`, with a refusal that names the file."""
    try:
        return npy_array(data)
    except UnreadableArray as error:
        raise source.refusal(str(error), remedy) from None


def _header(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    stream = io.BytesIO(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            version = npy.read_magic(stream)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = read(stream)
    except Exception:  # from literal_eval, the tokenizer, dtypes or recursion: all mean that there is no header
        raise UnreadableArray("not a numpy array file") from None
    return shape, bool(fortran), dtype, stream.tell()
