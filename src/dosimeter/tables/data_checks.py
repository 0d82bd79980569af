"""Remarks on the columns: values that are constant within a person, codes of classes, identifiers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.face import option
from dosimeter.core.text import safe_list, safe_text
from dosimeter.tables.table import Table

_ID = re.compile(r"(?:^|[^A-Za-z])(?:id|ID|Id)(?:$|[^A-Za-z])|[a-z](?:Id|ID)$")
"""Matches the word "id", not the letters: patient_id, ID, patientId; not humidity."""
FEW_ROWS = 10
"""Rows per value, on average, up to which such a column counts as an identifier."""

CODES = range(3, 11)
"""A target of this many distinct whole numbers may be a code of classes."""


def varies(column: NDArray[Any]) -> bool:
    """Whether there are two values."""
    return bool(len(column) and (column != column[0]).any())


def varies_within(column: NDArray[Any], ids: Sequence[Any]) -> bool:
    """Whether some person has two values."""
    first: dict[Any, Any] = {}
    return any(first.setdefault(person, cell) != cell for person, cell in zip(ids, column.tolist(), strict=True))


def target_remarks(table: Table, target: str, loss: str) -> tuple[str, ...]:
    """A target of a few whole numbers may be a code of classes; `loss` is the requested one."""
    column = table[target]
    if loss != "auto" or table.kind(target) != "number" or not _whole(column):
        return ()
    n_values = len(np.unique(column))
    if n_values not in CODES:
        return ()
    classes = option("loss", "softmax")
    return (f"the target {safe_text(target)} has {n_values} whole numbers: if they are codes of classes, {classes}",)


def class_remarks(column: NDArray[Any], ids: Sequence[Any] | None, target: str) -> tuple[str, ...]:
    """Classes that may be typing errors: held by one person (or row), or equal to another except in case or blanks.

    >>> class_remarks(np.array(["yes", "no", "Yes", "yes", "no"], dtype=object), None, "ill")[1]
    'the classes of ill Yes, yes differ in capitals or blanks only: if they are the same class, write them alike'
    """
    cells = column.tolist()
    # Equal pairs of cell and person once: a table has few classes and many rows.
    holders = Counter(cells if ids is None else (cell for cell, _ in set(zip(cells, ids, strict=True))))
    names = Counter[str]()
    for cell, held in holders.items():
        names[str(cell)] += held
    alike: dict[str, set[str]] = {}
    for name in names:
        alike.setdefault(" ".join(name.casefold().split()), set()).add(name)
    shown_target, unit = safe_text(target), "row" if ids is None else "person"
    alone = sorted(name for name, held in names.items() if held == 1)
    remarks = (
        [f"held by one {unit}: {shown_target} = {safe_list(alone)}; if it is a typing error, correct it"]
        if alone
        else []
    )
    for written in alike.values():
        if len(written) > 1:
            shown = safe_list(sorted(written))
            remarks.append(
                f"the classes of {shown_target} {shown} differ in capitals or blanks only: "
                "if they are the same class, write them alike"
            )
    return tuple(remarks)


def ids_alike(ids: Iterable[Any]) -> int:
    """How many persons have an id that is another's except in capitals or blanks.

    >>> ids_alike(["P1", "P1", "p1 ", "P2"]), ids_alike([1, 2])
    (2, 0)
    """
    written = Counter(" ".join(each.casefold().split()) for each in set(ids) if isinstance(each, str))
    return sum(count for count in written.values() if count > 1)


def person_remarks(ids: Sequence[Any] | None) -> tuple[str, ...]:
    """A patient who is written in two ways is two persons, and each of them has a dose of its own."""
    count = 0 if ids is None else ids_alike(ids)
    differ = f"{count} ids of persons differ from another one in capitals or blanks only"
    return (f"{differ}: if they are the same person, write them alike",) if count else ()


def looks_like_id(name: str) -> bool:
    """Whether a name has the word "id"."""
    return bool(_ID.search(name))


def identifiers(table: Table) -> tuple[str, ...]:
    """Columns of whole numbers whose name has the word "id", with few rows per value."""
    return tuple(
        name for name in table.names if table.kind(name) == "number" and _ID.search(name) and _like_an_id(table[name])
    )


def id_remarks(table: Table) -> tuple[str, ...]:
    """A remark on each column that looks like an identifier rather than a measured number.

    >>> visits = Table.of({"patient_id": [7, 7, 7, 8, 8, 9], "humidity": [3, 4, 5, 6, 7, 8]})
    >>> id_remarks(visits)
    ('patient_id looks like an identifier: pass person="patient_id" or exclude="patient_id"',)
    """
    return tuple(map(id_remark, identifiers(table)))


def id_remark(name: str) -> str:
    """The remark on one such column."""
    shown = safe_text(name)
    return f"{shown} looks like an identifier: pass {option('person', shown)} or {option('exclude', shown)}"


def _like_an_id(column: NDArray[Any]) -> bool:
    return _whole(column) and len(column) <= FEW_ROWS * len(np.unique(column))


def _whole(column: NDArray[Any]) -> bool:
    return bool(np.equal(np.mod(column, 1), 0).all())
