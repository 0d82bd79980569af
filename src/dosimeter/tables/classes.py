"""Classes that were listed beforehand: what a label means is decided by the list alone, and other labels are gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.location import Location
from dosimeter.tables.column_values import texts
from dosimeter.tables.csv_column import as_declared
from dosimeter.tables.table import Table


def places(cells: Sequence[str], classes: Sequence[str]) -> NDArray[np.intp]:
    """(n,) the place of each label in the list, -1 where it has none; 1 and 1.0 are one class where all are numbers.

    >>> places(["yes", "no", "maybe"], ["no", "yes"]).tolist(), places(["1.0", "abc", "7"], ["0", "1"]).tolist()
    ([1, 0, -1], [1, -1, -1])
    """
    known: dict[Any, int] = {name: k for k, name in enumerate(classes)}
    typed = _typed(classes)
    if typed.dtype.kind == "O":
        return np.array([known.get(cell, -1) for cell in cells], dtype=np.intp)
    known = {value: k for k, value in enumerate(typed.astype(float).tolist())}
    return np.array([known.get(value, -1) for value in as_declared(cells).tolist()], dtype=np.intp)


def of_classes(
    table: Table, target: str, classes: Sequence[str], *, leave_out: bool, source: Location, names: bool = False
) -> Table:
    """The rows with a listed class; others are left out and counted, or refused by their place.

    table: its target read as exact text. The target becomes numbers or truth values where every listed class is one,
    whatever the rows hold; names: it stays the text of the list.
    """
    found = places(table[target].tolist(), classes)
    strange = np.flatnonzero(found < 0)
    if strange.size and not leave_out:
        todo = f"list all classes, or leave such rows out (--missing drop: {strange.size} of {table.n} rows)"
        what = "a label that is not among the listed classes"
        raise source.refusal(what, todo, row=int(table.rows[strange[0]]), column=target)
    if strange.size == table.n:
        raise source.refusal("no row has a listed class", "correct the list of classes", column=target)
    kept = table.take(found >= 0)
    values = (texts(tuple(classes)) if names else _typed(classes))[found[found >= 0]]
    columns = tuple(values if name == target else kept[name] for name in kept.names)
    return Table(kept.names, columns, kept.rows, table.dropped + strange.size, kept.gaps)


def _typed(classes: Sequence[str]) -> NDArray[Any]:
    """(m,) the listed classes as bool, float64 or text."""
    if set(classes) <= {"True", "False"}:
        return np.array([name == "True" for name in classes])
    numbers = as_declared([None if name.strip().isalpha() else name for name in classes])
    plain = bool(np.isfinite(numbers).all()) and len(set(numbers.tolist())) == len(classes)
    return numbers if plain else texts(tuple(classes))
