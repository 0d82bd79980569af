"""The arrays of numpy's files."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.files.archive import Archive
from dosimeter.files.npy import UnreadableArray, npy_array
from dosimeter.scanner.contents import NUMBERS, Contents, FileArray


def read_npy(data: bytes) -> Contents:
    """A single array."""
    try:
        array = _from_place("array", npy_array(data))
    except UnreadableArray as why:
        return Contents("npy", (), (("array", str(why)),))
    return Contents("npy", (array,))


def read_npz(archive: Archive) -> Contents:
    """An archive of arrays; numpy would unpickle a member that is no array, so it is not opened here."""
    parts, unread = [], []
    for name in archive.names:
        place = name.removesuffix(".npy")
        try:
            parts.append(_from_place(place, npy_array(archive.read(name))))
        except UnreadableArray as why:
            unread.append((place, str(why)))
    return Contents("npz", tuple(parts), tuple(unread))


def _from_place(place: str, array: NDArray[Any]) -> FileArray:
    return file_array(place, "", "", place.rpartition("/")[2], array)


def file_array(place: str, holder: str, owner: str, name: str, array: NDArray[Any]) -> FileArray:
    """A `FileArray` of an array; characters become a list of text."""
    if array.dtype.kind in "US" and array.size:
        texts = tuple(
            cell if isinstance(cell, str) else cell.decode("utf-8", "replace") for cell in array.ravel().tolist()
        )
        return FileArray(place, holder, owner, name, texts=texts)
    return FileArray(place, holder, owner, name, _as_numbers(array))


def _as_numbers(array: NDArray[Any]) -> NDArray[Any]:
    """Records as rows of their numbers, except the nodes of a tree; the real parts of complex numbers."""
    if array.dtype.kind == "c":
        return array.real
    fields = array.dtype.names
    if not fields or "left_child" in fields or "is_leaf" in fields:
        return array
    columns = [array[name].astype(np.float64) for name in fields if array.dtype[name].kind in NUMBERS]
    return np.stack(columns, axis=-1) if columns else array
