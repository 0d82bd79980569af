"""numpy's .npy files, parsed here: the header first, then exactly the bytes it declares, never objects."""

from __future__ import annotations

import io
import math
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from dosimeter.core.location import Location
from dosimeter.files.file_checks import os_error_refusal

OBJECTS = "an array of objects is a pickle and may run its author's code: not opened"
# The longest header of version 1, and more than any array of numbers needs.
_MOST_HEADER = 1 << 17


class UnreadableArray(Exception):
    """An array that is not read; the message says why."""


def npy_array(data: bytes) -> NDArray[Any]:
    """The array in the bytes of a .npy file, read-only; `UnreadableArray` for objects and wrong headers.

    >>> file = io.BytesIO(); np.save(file, np.array([1.5, 2.5]))
    >>> npy_array(file.getvalue())
    array([1.5, 2.5])
    """
    shape, fortran, dtype, start = _checked_header(data, len(data))
    try:
        flat = np.frombuffer(data, dtype=dtype, offset=start) if len(data) > start else np.empty(0, dtype=dtype)
        return flat.reshape(shape, order="F" if fortran else "C")
    except (ValueError, OverflowError):
        raise UnreadableArray("its header declares an impossible shape") from None


def npy_map(path: Path, source: Location, remedy: str) -> NDArray[Any]:
    """The array in a .npy file of any size, on disk and read-only; only its header is read here."""
    try:
        with path.open("rb") as file:
            size, data = os.fstat(file.fileno()).st_size, file.read(_MOST_HEADER)
            shape, fortran, dtype, start = _checked_header(data, size)
            if not math.prod(shape):
                return np.empty(shape, dtype=dtype)
            return np.memmap(file, dtype=dtype, mode="r", offset=start, shape=shape, order="F" if fortran else "C")
    except UnreadableArray as error:
        raise source.refusal(str(error), remedy) from None
    except OSError as error:
        raise os_error_refusal(error, source, "read") from None
    except (ValueError, OverflowError):
        raise source.refusal("its header declares an impossible shape", remedy) from None


def npy_array_of(data: bytes, source: Location, remedy: str) -> NDArray[Any]:
    """`npy_array`, with a refusal that names the file."""
    try:
        return npy_array(data)
    except UnreadableArray as error:
        raise source.refusal(str(error), remedy) from None


def _checked_header(data: bytes, size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order, type and the first byte of the numbers, from the beginning of a file of this many bytes."""
    shape, fortran, dtype, start = _header(data)
    if dtype.hasobject:
        raise UnreadableArray(OBJECTS)
    if any(type(length) is not int or length < 0 for length in shape):
        raise UnreadableArray("its header declares an impossible shape")
    needed = math.prod(shape) * dtype.itemsize
    if needed != size - start:
        raise UnreadableArray(f"its header declares {needed} bytes and it has {size - start}")
    return shape, fortran, dtype, start


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
