"""Filling of missing values: a declared constant for a number, a separate level for a label.

A filled cell is a public constant, so it is not an unknown of its row. That it was missing is data, and is not covered.
It is never a mean or another statistic of the table: the cell would then depend on every row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.errors import Refusal
from dosimeter.core.face import entry, option
from dosimeter.core.location import Location
from dosimeter.core.text import safe_list, safe_text

LEVEL = "missing"
"""The level that a missing label gets."""
RowReader = Callable[[NDArray[np.intp]], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Gaps:
    """Where a column had no value, and what replaces it."""

    mask: NDArray[np.bool_]
    """(n,) True where the value was missing."""
    value: float | bool | str | None
    """The constant; None if the gap was left for a model's own imputer."""

    def take(self, rows: NDArray[Any]) -> Gaps:
        """The gaps in these rows."""
        return replace(self, mask=self.mask[rows])


def refuse_gaps(masks: Mapping[str, NDArray[np.bool_]], whole: Collection[str], source: Location) -> None:
    """Refuse gaps in columns that are never filled: a missing target or person cannot be replaced."""
    for name in whole:
        if name in masks and masks[name].any():
            row = int(np.argmax(masks[name]))
            raise source.refusal("missing value", "it is not filled in: leave the row out", row=row, column=name)


def fill_gaps(
    missing: NDArray[np.bool_], read_rows: RowReader, name: str, constants: Mapping[str, Any] | None, source: Location
) -> tuple[NDArray[Any], Gaps | None]:
    """The column with its gaps filled, (n,), and its gaps; without `constants` gaps hold nan or an empty text."""
    if not missing.any():
        return read_rows(np.arange(len(missing), dtype=np.intp)), None
    present = np.flatnonzero(~missing)
    if not present.size:
        raise source.refusal("every value is missing", f"leave the column out ({option('exclude')})", column=name)
    values = read_rows(present)
    value = (
        _placeholder(values) if constants is None else _constant(values, name, int(missing.sum()), constants, source)
    )
    column = np.empty(len(missing), dtype=float if values.dtype.kind == "b" and constants is None else values.dtype)
    column[present], column[missing] = values, value
    return column, Gaps(missing, None if constants is None else value)


def declared_gaps(
    columns: Mapping[str, NDArray[Any]],
    gaps: Mapping[str, Gaps],
    constants: Mapping[str, Any],
    labels: Collection[str],
    source: Location,
) -> dict[str, Gaps]:
    """The gaps, and none of a column that has a constant or is among labels: a release fills these too.

    So a released file and what is said of it do not depend on which columns had a gap.

    >>> columns = {"age": np.array([31.0, 54.0]), "city": np.array(["ulm", "graz"], dtype=object)}
    >>> found = declared_gaps(columns, {}, {"age": "40"}, ["city"], Location("frame"))
    >>> {name: (gap.value, int(gap.mask.sum())) for name, gap in found.items()}
    {'age': (40.0, 0), 'city': ('missing', 0)}
    """
    every = {}
    for name, values in columns.items():
        if name in gaps:
            every[name] = gaps[name]
        elif name in constants:
            value = _constant(values, name, 0, constants, source)
            every[name] = Gaps(np.zeros(len(values), dtype=bool), value)
        elif name in labels:
            every[name] = Gaps(np.zeros(len(values), dtype=bool), LEVEL)
    return every


def _placeholder(values: NDArray[Any]) -> float | str:
    return "" if values.dtype.kind == "O" else float("nan")


def _constant(
    values: NDArray[Any], name: str, count: int, constants: Mapping[str, Any], source: Location
) -> float | bool | str:
    shown, kind = safe_text(name), values.dtype.kind
    declared = constants.get(name)
    if kind == "O":
        if declared is None and LEVEL in values.tolist():
            todo = f"declare another ({entry('impute', shown, 'LEVEL')})"
            raise source.refusal(f"gaps, and a level that is already called {LEVEL!r}", todo, column=name)
        return LEVEL if declared is None else str(declared)
    if declared is None:
        todo = (
            f"declare a public constant ({entry('impute', shown, 'VALUE')}, not the column's mean), or make it a label "
            f"with a level of its own ({option('categorical', shown)})"
        )
        raise source.refusal(
            f"{count} missing value{'' if count == 1 else 's'} in a column of numbers", todo, column=name
        )
    return _truth(declared, shown) if kind == "b" else _number(declared, shown)


def _number(declared: Any, shown: str) -> float:
    try:
        value = float(declared)
    except (TypeError, ValueError):
        value = float("nan")
    if isinstance(declared, bool) or not np.isfinite(value):
        raise Refusal(f"{entry('impute', shown, safe_text(declared))}: the column holds numbers; give a finite number")
    return value


def _truth(declared: Any, shown: str) -> bool:
    truth = {"true": True, "false": False}.get(str(declared).lower())
    if truth is None:
        raise Refusal(
            f"{entry('impute', shown, safe_text(declared))}: the column holds true and false; give one of them"
        )
    return truth


def observed_by_person(column: NDArray[Any], missing: NDArray[np.bool_], ids: Sequence[Any]) -> NDArray[Any]:
    """(n,) the column with each gap replaced by the first value that its person has on another row.

    So gaps do not keep a column from being constant within a person.

    >>> observed_by_person(np.array([7.0, 0.0, 9.0]), np.array([False, True, False]), ["ann", "ann", "bob"]).tolist()
    [7.0, 7.0, 9.0]
    """
    first: dict[Any, Any] = {}
    for person, cell, gap in zip(ids, column.tolist(), missing.tolist(), strict=True):
        if not gap:
            first.setdefault(person, cell)
    placeholder = "" if column.dtype.kind == "O" else 0
    completed = np.array(column)
    completed[missing] = [first.get(ids[row], placeholder) for row in np.flatnonzero(missing).tolist()]
    return completed


def gap_notes(gaps: Mapping[str, Gaps]) -> tuple[str, ...]:
    """What no figure covers if cells were missing."""
    if not gaps:
        return ()
    return (f"whether cells of {safe_list(gaps)} are missing is data and shows in the model: not covered",)


def gap_remarks(gaps: Mapping[str, Gaps]) -> tuple[str, ...]:
    """How many cells were filled, and by what; nothing of a column without a gap. Internal."""
    return tuple(
        f"{int(gap.mask.sum())} missing cells of {safe_text(name)} are filled with {safe_text(gap.value)}: constants, "
        "not unknowns of their rows"
        for name, gap in gaps.items()
        if gap.value is not None and gap.mask.any()
    )
