"""One person under one id: the rule of the ledger, and a remark on ids that may be one person under two.

A figure of a person covers the rows under one id. Two spellings of one id would make two people of them, each with a
lower dose.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.text import id_text
from dosimeter.tables.column_values import text_array
from dosimeter.tables.table import Table


def with_person_ids(table: Table, person: str | None) -> Table:
    """The table with each person under one id: no blanks around it, Unicode's form NFC.

    >>> with_person_ids(Table.of({"id": ["ann", "ann "], "age": [44, 44]}), "id")["id"].tolist()
    ['ann', 'ann']
    """
    if person is None or person not in table.names or table[person].dtype.kind != "O":
        return table
    cells = table[person].tolist()
    spelled = {cell: _text(cell) for cell in set(cells)}
    if all(cell == text for cell, text in spelled.items()):
        return table
    column: NDArray[Any] = text_array([spelled[cell] for cell in cells])
    columns = tuple(column if name == person else old for name, old in zip(table.names, table.columns, strict=True))
    return replace(table, columns=columns)


def same_people(ids: Sequence[Hashable]) -> tuple[Hashable, ...]:
    """The ids with those that are one person in the first of their spellings; numbers and texts of one id are equal.

    >>> same_people(["ann", "bob", "ann ", 17, "17", 17.0])
    ('ann', 'bob', 'ann', 17, 17, 17)
    """
    first: dict[Hashable, Hashable] = {}
    spelled = {cell: first.setdefault(_key(cell), cell) for cell in dict.fromkeys(ids)}
    return tuple(spelled[cell] for cell in ids)


def id_remarks_of_people(ids: Iterable[Hashable]) -> tuple[str, ...]:
    """A remark if ids differ only in capitals, blanks, leading zeros or characters that are not seen. It names none.

    >>> id_remarks_of_people(["ann", "bob"])
    ()
    """
    texts = {str(cell) for cell in set(ids)}
    twice = len(texts) - len({_alike(text) for text in texts})
    if not twice:
        return ()
    differ = "ids of persons differ" if twice > 1 else "id of a person differs"
    return (
        f"{twice} {differ} from another only in capitals, blanks, leading zeros or invisible characters: if both are "
        "one person, each figure covers a part of their rows; write the ids alike",
    )


def _alike(text: str) -> str:
    if not text.isascii():
        folded = unicodedata.normalize("NFKC", text).casefold()
        text = "".join(letter for letter in folded if unicodedata.category(letter) != "Cf")
    joined = " ".join(text.lower().split())
    return joined.lstrip("0") or joined[:1]


def _text(cell: str) -> str:
    """An id that is only blanks stays as it is."""
    return id_text(cell) or cell


def _key(cell: Hashable) -> Hashable:
    if isinstance(cell, str):
        return _text(cell)
    if isinstance(cell, bool | np.bool_) or not isinstance(cell, int | float | np.integer | np.floating):
        return cell
    return str(int(cell)) if float(cell).is_integer() else str(cell)
