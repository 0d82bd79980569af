"""numpy's own files, taken apart by hand: the header first, then as many bytes as it declares, never an object."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from dosimeter.scan.archive import Archive
from dosimeter.scan.part import NUMBERS, Contents, Part

OBJECTS = "an array of objects is a pickle and may run its author's code: not opened"


class Unreadable(Exception):
    """An array that is not taken, and why."""


def npy_array(data: bytes) -> NDArray[Any]:
    """The array of a .npy file's bytes, read-only; `Unreadable` for objects and for headers that lie.

    >>> made = io.BytesIO(); np.save(made, np.array([1.5, 2.5]))
    >>> npy_array(made.getvalue())
    array([1.5, 2.5])
    """
    shape, fortran, dtype, start = _header(data)
    if dtype.hasobject:
        raise Unreadable(OBJECTS)
    needed = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if needed != len(data) - start or any(size < 0 for size in shape):
        raise Unreadable(f"its header says {needed} bytes and it has {len(data) - start}")
    try:
        flat = np.frombuffer(data, dtype=dtype, offset=start) if needed else np.empty(0, dtype=dtype)
        return flat.reshape(shape, order="F" if fortran else "C")
    except (ValueError, OverflowError):
        raise Unreadable("its header declares an impossible shape") from None


def _header(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    stream = io.BytesIO(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            version = npy.read_magic(stream)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = read(stream)
    except Exception:  # of literal_eval, of dtypes, of the recursion: any of them is a header that is none
        raise Unreadable("not a numpy array") from None
    return shape, bool(fortran), dtype, stream.tell()


def read_npy(data: bytes) -> Contents:
    """A single array."""
    try:
        part = _as_part("array", npy_array(data))
    except Unreadable as why:
        return Contents("npy", (), (("array", str(why)),))
    return Contents("npy", (part,))


def read_npz(archive: Archive) -> Contents:
    """An archive of arrays; a member that is no array would be unpickled by numpy, and is not opened here."""
    parts, unread = [], []
    for name in archive.names:
        place = name.removesuffix(".npy")
        try:
            parts.append(_as_part(place, npy_array(archive.read(name))))
        except Unreadable as why:
            unread.append((place, str(why)))
    return Contents("npz", tuple(parts), tuple(unread))


def _as_part(place: str, array: NDArray[Any]) -> Part:
    return part_of(place, "", "", place.rpartition("/")[2], array)


def part_of(place: str, holder: str, owner: str, name: str, array: NDArray[Any]) -> Part:
    """A part of an array, whose letters become a list of text."""
    if array.dtype.kind in "US" and array.size:
        texts = tuple(one if isinstance(one, str) else one.decode("utf-8", "replace") for one in array.ravel().tolist())
        return Part(place, holder, owner, name, texts=texts)
    return Part(place, holder, owner, name, _plain(array))


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Records as lines of their numbers, the nodes of a tree apart; of complex numbers the real parts."""
    if array.dtype.kind == "c":
        return array.real
    fields = array.dtype.names
    if not fields or "left_child" in fields or "is_leaf" in fields:
        return array
    columns = [array[name].astype(np.float64) for name in fields if array.dtype[name].kind in NUMBERS]
    return np.stack(columns, axis=-1) if columns else array
