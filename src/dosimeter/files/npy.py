"""numpy's own files, taken apart by hand: the header first, then as many bytes as it declares, never an object."""

from __future__ import annotations

import io
import math
import warnings
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

OBJECTS = "an array of objects is a pickle and may run its author's code: not opened"


class UnreadableArray(Exception):
    """An array that is not taken, and why."""


def npy_array(data: bytes) -> NDArray[Any]:
    """The array of a .npy file's bytes, read-only; `UnreadableArray` for objects and for headers that lie.

    >>> made = io.BytesIO(); np.save(made, np.array([1.5, 2.5]))
    >>> npy_array(made.getvalue())
    array([1.5, 2.5])
    """
    shape, fortran, dtype, start = _header(data)
    if dtype.hasobject:
        raise UnreadableArray(OBJECTS)
    if any(type(size) is not int or size < 0 for size in shape):
        raise UnreadableArray("its header declares an impossible shape")
    needed = math.prod(shape) * dtype.itemsize
    if needed != len(data) - start:
        raise UnreadableArray(f"its header says {needed} bytes and it has {len(data) - start}")
    try:
        flat = np.frombuffer(data, dtype=dtype, offset=start) if needed else np.empty(0, dtype=dtype)
        return flat.reshape(shape, order="F" if fortran else "C")
    except (ValueError, OverflowError):
        raise UnreadableArray("its header declares an impossible shape") from None


def _header(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    stream = io.BytesIO(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            version = npy.read_magic(stream)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = read(stream)
    except Exception:  # of literal_eval, of the tokenizer, of dtypes, of the recursion: any is a header that is none
        raise UnreadableArray("not a numpy array file") from None
    return shape, bool(fortran), dtype, stream.tell()
