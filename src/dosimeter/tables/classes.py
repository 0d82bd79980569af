"""Classes of a target: as a table names them, or listed in advance.

A list alone decides what a label means, and any other label counts as missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.location import Location
from dosimeter.core.text import safe_text
from dosimeter.tables.column_levels import level_positions
from dosimeter.tables.column_values import text_array
from dosimeter.tables.csv_column import parse_numbers
from dosimeter.tables.table import NoCompleteRow, Table

MOST_CLASSES = 50
"""Classes that a vote is on."""


def class_names(table: Table, target: str, classes: Sequence[str] | None = None) -> NDArray[np.str_]:
    """(n,) the target as the names of classes: whole numbers without a point, text as it is.

    classes: listed in advance. Then the number of classes in the table is private and never refused.
    """
    levels, position = level_positions(table, target)
    shown = safe_text(target)
    if len(levels) < 2 and classes is None:
        raise Refusal(f"the target {shown} has one value only: there is nothing to vote on")
    if len(levels) > MOST_CLASSES:
        raise Refusal(
            f"the target {shown} has {len(levels)} values and at most {MOST_CLASSES} classes are taken: a vote is on "
            "classes, not on amounts"
        )
    return np.asarray(levels)[position].reshape(table.n)


def class_positions(cells: Sequence[str], classes: Sequence[str]) -> NDArray[np.intp]:
    """(n,) the position of each label in the list, -1 if it is not listed. If all classes are numbers, 1 equals 1.0.

    >>> class_positions(["yes", "no", "maybe"], ["no", "yes"]).tolist()
    [1, 0, -1]
    >>> class_positions(["1.0", "abc", "7"], ["0", "1"]).tolist()
    [1, -1, -1]
    """
    known: dict[Any, int] = {name: k for k, name in enumerate(classes)}
    typed = typed_classes(classes)
    if typed.dtype.kind == "O":
        return np.array([known.get(cell, -1) for cell in cells], dtype=np.intp)
    known = {value: k for k, value in enumerate(typed.astype(float).tolist())}
    return np.array([known.get(value, -1) for value in parse_numbers(cells).tolist()], dtype=np.intp)


def keep_listed_classes(
    table: Table, target: str, classes: Sequence[str], *, leave_out: bool, source: Location, names: bool = False
) -> Table:
    """The rows with a listed class. Other rows are left out and counted, or refused by their row number.

    table: its target read as exact text. The target becomes numbers or booleans if every listed class is one, whatever
    the rows hold; names: it stays text, as listed.
    """
    positions = class_positions(table[target].tolist(), classes)
    unlisted = np.flatnonzero(positions < 0)
    if unlisted.size and not leave_out:
        todo = (
            f"list all classes, or leave such rows out ({option('missing', 'drop')}: {unlisted.size} of {table.n} rows)"
        )
        fault = "a label that is not among the listed classes"
        raise source.refusal(fault, todo, row=int(table.rows[unlisted[0]]), column=target)
    if unlisted.size == table.n:
        refusal = source.refusal("no row has a listed class", "correct the list of classes", column=target)
        raise NoCompleteRow(str(refusal))
    kept = table.take(positions >= 0)
    values = (text_array(tuple(classes)) if names else typed_classes(classes))[positions[positions >= 0]]
    columns = tuple(values if name == target else kept[name] for name in kept.names)
    return Table(kept.names, columns, kept.rows, table.dropped + unlisted.size, kept.gaps, kept.texts)


def typed_classes(classes: Sequence[str]) -> NDArray[Any]:
    """(m,) the listed classes as bool, float64 or text."""
    if set(classes) <= {"True", "False"}:
        return np.array([name == "True" for name in classes])
    numbers = parse_numbers([None if name.strip().isalpha() else name for name in classes])
    all_numbers = bool(np.isfinite(numbers).all()) and len(set(numbers.tolist())) == len(classes)
    return numbers if all_numbers else text_array(tuple(classes))
