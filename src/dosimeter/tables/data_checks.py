"""What the reader of the figures should know of the columns: values tied to a person, codes, identifiers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.text import safe_list, safe_text
from dosimeter.tables.table import Table

_ID = re.compile(r"(?:^|[^A-Za-z])(?:id|ID|Id)(?:$|[^A-Za-z])|[a-z](?:Id|ID)$")
"""The word and not the letters: patient_id, ID, patientId; not humidity."""
FEW_ROWS = 10
"""Rows per value, on average, up to which such a column is taken for an identifier."""

CODES = range(3, 11)
"""A target of this many distinct whole numbers may be a code of classes."""


def varies(column: NDArray[Any]) -> bool:
    """Whether there are two values."""
    return bool(len(column) and (column != column[0]).any())


def varies_within(column: NDArray[Any], ids: Sequence[Any]) -> bool:
    """Whether some person has two values."""
    first: dict[Any, Any] = {}
    return any(first.setdefault(who, cell) != cell for who, cell in zip(ids, column.tolist(), strict=True))


def target_remarks(table: Table, target: str, loss: str) -> tuple[str, ...]:
    """A target of a few whole numbers may be a code of classes; `loss` is what was asked for."""
    column = table[target]
    if loss != "auto" or table.kind(target) != "number" or not _whole(column):
        return ()
    found = len(np.unique(column))
    if found not in CODES:
        return ()
    return (f"the target {safe_text(target)} has {found} whole numbers: if they are codes of classes, --loss softmax",)


def class_remarks(column: NDArray[Any], ids: Sequence[Any] | None, target: str) -> tuple[str, ...]:
    """Classes that may be slips: held by one person (or row), or the same as another but for capitals and blanks.

    >>> class_remarks(np.array(["yes", "no", "Yes", "yes", "no"], dtype=object), None, "ill")[1]
    'the classes of ill Yes, yes differ in capitals or blanks only: if they are one, make them one'
    """
    holders: dict[str, set[Any]] = {}
    alike: dict[str, set[str]] = {}
    for who, cell in zip(range(len(column)) if ids is None else ids, map(str, column.tolist()), strict=True):
        holders.setdefault(cell, set()).add(who)
        alike.setdefault(" ".join(cell.casefold().split()), set()).add(cell)
    of, one = safe_text(target), "row" if ids is None else "person"
    alone = sorted(name for name, held in holders.items() if len(held) == 1)
    said = [f"held by one {one}: {of} = {safe_list(alone)}; if it is a slip, mend it there"] if alone else []
    for names in alike.values():
        if len(names) > 1:
            shown = safe_list(sorted(names))
            said.append(
                f"the classes of {of} {shown} differ in capitals or blanks only: if they are one, make them one"
            )
    return tuple(said)


def identifiers(table: Table) -> tuple[str, ...]:
    """Columns of whole numbers under a name with the word "id", a few rows each."""
    return tuple(
        name for name in table.names if table.kind(name) == "number" and _ID.search(name) and _like_an_id(table[name])
    )


def id_remarks(table: Table) -> tuple[str, ...]:
    """Whole numbers under a name with the word "id", a few rows each: whose row it is rather than an amount.

    >>> visits = Table.of({"patient_id": [7, 7, 7, 8, 8, 9], "humidity": [3, 4, 5, 6, 7, 8]})
    >>> id_remarks(visits)
    ('patient_id looks like an identifier: pass --person patient_id or --drop patient_id',)
    """
    return tuple(
        f"{safe_text(name)} looks like an identifier: pass --person {safe_text(name)} or --drop {safe_text(name)}"
        for name in identifiers(table)
    )


def _like_an_id(column: NDArray[Any]) -> bool:
    return _whole(column) and len(column) <= FEW_ROWS * len(np.unique(column))


def _whole(column: NDArray[Any]) -> bool:
    return bool(np.equal(np.mod(column, 1), 0).all())
