"""The arrays of numpy's files as parts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.files.archive import Archive
from dosimeter.files.npy import UnreadableArray, npy_array
from dosimeter.scan.contents import NUMBERS, Contents, FileArray


def read_npy(data: bytes) -> Contents:
    """A single array."""
    try:
        part = _as_part("array", npy_array(data))
    except UnreadableArray as why:
        return Contents("npy", (), (("array", str(why)),))
    return Contents("npy", (part,))


def read_npz(archive: Archive) -> Contents:
    """An archive of arrays; a member that is no array would be unpickled by numpy, and is not opened here."""
    parts, unread = [], []
    for name in archive.names:
        place = name.removesuffix(".npy")
        try:
            parts.append(_as_part(place, npy_array(archive.read(name))))
        except UnreadableArray as why:
            unread.append((place, str(why)))
    return Contents("npz", tuple(parts), tuple(unread))


def _as_part(place: str, array: NDArray[Any]) -> FileArray:
    return part_of(place, "", "", place.rpartition("/")[2], array)


def part_of(place: str, holder: str, owner: str, name: str, array: NDArray[Any]) -> FileArray:
    """A part of an array, whose letters become a list of text."""
    if array.dtype.kind in "US" and array.size:
        texts = tuple(one if isinstance(one, str) else one.decode("utf-8", "replace") for one in array.ravel().tolist())
        return FileArray(place, holder, owner, name, texts=texts)
    return FileArray(place, holder, owner, name, _plain(array))


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Records as lines of their numbers, the nodes of a tree apart; of complex numbers the real parts."""
    if array.dtype.kind == "c":
        return array.real
    fields = array.dtype.names
    if not fields or "left_child" in fields or "is_leaf" in fields:
        return array
    columns = [array[name].astype(np.float64) for name in fields if array.dtype[name].kind in NUMBERS]
    return np.stack(columns, axis=-1) if columns else array
