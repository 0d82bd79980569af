"""The arrays of numpy's files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.files.archive import Archive
from dosimeter.files.npy import UnreadableArray, npy_array
from dosimeter.scanner.contents import NUMBERS, Contents, FileArray

MOST_DATES = 2**22
"""Dates of one array that are written as text: each becomes an object of fifty bytes and more."""
_NO_NUMBERS = {
    "V": "bytes without a type",
    "m": "lengths of time",
    "M": f"dates without a calendar, or more than {MOST_DATES}",
}


def read_npy(data: bytes) -> Contents:
    """A single array."""
    try:
        parts = _from_place("array", npy_array(data))
    except UnreadableArray as why:
        return Contents("npy", (), (("array", str(why)),))
    return Contents("npy", parts)


def read_npz(archive: Archive) -> Contents:
    """An archive of arrays; numpy would unpickle a member that is no array, so it is not opened here."""
    parts: list[FileArray] = []
    unread = []
    for name in archive.names:
        place = name.removesuffix(".npy")
        try:
            parts += _from_place(place, npy_array(archive.read(name)))
        except UnreadableArray as why:
            unread.append((place, str(why)))
    return Contents("npz", tuple(parts), tuple(unread))


def _from_place(place: str, array: NDArray[Any]) -> tuple[FileArray, ...]:
    return checked_arrays(place, "", "", place.rpartition("/")[2], array)


def checked_arrays(place: str, holder: str, owner: str, name: str, array: NDArray[Any]) -> tuple[FileArray, ...]:
    """`file_arrays`; `UnreadableArray` for what would be compared with nothing."""
    parts = file_arrays(place, holder, owner, name, array)
    if array.size and all(part.values.dtype.kind in _NO_NUMBERS and not part.texts for part in parts):
        kind = parts[0].values.dtype.kind
        if kind != "V" or not _is_tree(array):
            raise UnreadableArray(f"{_NO_NUMBERS[kind]}, which are not compared")
    return parts


def file_arrays(place: str, holder: str, owner: str, name: str, array: NDArray[Any]) -> tuple[FileArray, ...]:
    """An array as numbers or a list of texts; records as rows of their numbers, and lists of their texts."""
    if not array.dtype.names or _is_tree(array) or not array.size:
        return (file_array(place, holder, owner, name, array),)
    leaves = dict(_leaves(array, ""))
    columns = [
        leaf.astype(np.float64).reshape(*array.shape, -1) for leaf in leaves.values() if leaf.dtype.kind in NUMBERS
    ]
    numbers = [FileArray(place, holder, owner, name, np.concatenate(columns, axis=-1))] if columns else []
    others = [
        file_array(f"{place}.{field}", holder, owner, name, leaf)
        for field, leaf in leaves.items()
        if leaf.dtype.kind not in NUMBERS
    ]
    return (*numbers, *others)


def file_array(place: str, holder: str, owner: str, name: str, array: NDArray[Any]) -> FileArray:
    """A `FileArray` of an array without records; characters and dates become a list of text."""
    has_unit = array.dtype.kind == "M" and np.datetime_data(array.dtype)[0] != "generic"
    if has_unit and 0 < array.size <= MOST_DATES:
        array = _written_dates(array)
    if array.dtype.kind in "US" and array.size:
        texts = tuple(
            cell if isinstance(cell, str) else cell.decode("utf-8", "replace") for cell in array.ravel().tolist()
        )
        return FileArray(place, holder, owner, name, texts=texts)
    return FileArray(place, holder, owner, name, array.real if array.dtype.kind == "c" else array)


def _is_tree(array: NDArray[Any]) -> bool:
    """Whether these records are the nodes of a tree, which stay as they are."""
    names = array.dtype.names or ()
    return "left_child" in names or "is_leaf" in names


def _leaves(array: NDArray[Any], above: str) -> Iterator[tuple[str, NDArray[Any]]]:
    """The fields of records, and of records inside them, under their names."""
    for name in array.dtype.names or ():
        field = array[name]
        if field.dtype.names:
            yield from _leaves(field, f"{above}{name}.")
        else:
            yield f"{above}{name}", field


def _written_dates(array: NDArray[Any]) -> NDArray[Any]:
    """Dates as a table writes them: days without a time of day, if all are whole."""
    try:
        days = array.astype("M8[D]")
        return np.datetime_as_string(days if ((array == days) | np.isnat(array)).all() else array.astype("M8[s]"))
    except (ValueError, OverflowError):  # years that no calendar has
        return array
