"""Missing values that are filled in: a declared constant for a number, a level of its own for a label.

A filled cell is a public constant, so it is no unknown of its row. That it was missing is data, and is not covered.
Never filled with a mean or another statistic of the table: that would make every row a part of the cell.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.core.text import safe_list, safe_text

LEVEL = "missing"
"""The level of a label that was not there."""
Settler = Callable[[NDArray[np.intp]], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Gaps:
    """Where a column had no value, and what stands there instead."""

    mask: NDArray[np.bool_]
    """(n,) True where there was none."""
    value: float | bool | str | None
    """The constant; None where the gap was left for a model's own imputer."""

    def take(self, rows: NDArray[Any]) -> Gaps:
        """Of these rows."""
        return replace(self, mask=self.mask[rows])


def refuse_gaps(masks: Mapping[str, NDArray[np.bool_]], whole: Collection[str], source: Location) -> None:
    """Columns that are never filled: a target or a person that is not there cannot be made up."""
    for name in whole:
        if name in masks and masks[name].any():
            row = int(np.argmax(masks[name]))
            raise source.refusal("missing value", "it is not filled in: leave the row out", row=row, column=name)


def filled(
    gone: NDArray[np.bool_], settler: Settler, name: str, constants: Mapping[str, Any] | None, source: Location
) -> tuple[NDArray[Any], Gaps | None]:
    """The column with its gaps filled, (n,), and its gaps; None of `constants` leaves nan or an empty text."""
    if not gone.any():
        return settler(np.arange(len(gone), dtype=np.intp)), None
    there = np.flatnonzero(~gone)
    if not there.size:
        raise source.refusal("every value is missing", "drop the column (--drop)", column=name)
    values = settler(there)
    value = _placeholder(values) if constants is None else _constant(values, name, int(gone.sum()), constants, source)
    column = np.empty(len(gone), dtype=float if values.dtype.kind == "b" and constants is None else values.dtype)
    column[there], column[gone] = values, value
    return column, Gaps(gone, None if constants is None else value)


def _placeholder(values: NDArray[Any]) -> float | str:
    return "" if values.dtype.kind == "O" else float("nan")


def _constant(
    values: NDArray[Any], name: str, count: int, constants: Mapping[str, Any], source: Location
) -> float | bool | str:
    shown, kind = safe_text(name), values.dtype.kind
    given = constants.get(name)
    if kind == "O":
        if given is None and LEVEL in values.tolist():
            todo = f"declare another (--impute {shown}=LEVEL)"
            raise source.refusal(f"gaps, and a level that is called {LEVEL!r} already", todo, column=name)
        return LEVEL if given is None else str(given)
    if given is None:
        todo = (
            f"declare a public constant (--impute {shown}=VALUE, not the column's mean), or make it a label with a "
            f"level of its own (--nominal {shown})"
        )
        raise source.refusal(f"{count} missing values in a column of numbers", todo, column=name)
    return _truth(given, shown) if kind == "b" else _number(given, shown)


def _number(given: Any, shown: str) -> float:
    try:
        value = float(given)
    except (TypeError, ValueError):
        value = float("nan")
    if isinstance(given, bool) or not np.isfinite(value):
        raise Refusal(f"--impute {shown}={safe_text(given)}: the column holds numbers; give a finite number")
    return value


def _truth(given: Any, shown: str) -> bool:
    truth = {"true": True, "false": False}.get(str(given).lower())
    if truth is None:
        raise Refusal(f"--impute {shown}={safe_text(given)}: the column holds true and false; give one of them")
    return truth


def observed_by_person(column: NDArray[Any], gone: NDArray[np.bool_], ids: Sequence[Any]) -> NDArray[Any]:
    """(n,) the column with each gap holding the first value that its person has elsewhere.

    So a value that never changes on the rows where it stands is known for one value, gaps or not.

    >>> observed_by_person(np.array([7.0, 0.0, 9.0]), np.array([False, True, False]), ["ann", "ann", "bob"]).tolist()
    [7.0, 7.0, 9.0]
    """
    first: dict[Any, Any] = {}
    for who, cell, gap in zip(ids, column.tolist(), gone.tolist(), strict=True):
        if not gap:
            first.setdefault(who, cell)
    nothing = "" if column.dtype.kind == "O" else 0
    whole = np.array(column)
    whole[gone] = [first.get(ids[row], nothing) for row in np.flatnonzero(gone).tolist()]
    return whole


def gap_notes(gaps: Mapping[str, Gaps]) -> tuple[str, ...]:
    """What no figure covers where cells were missing."""
    if not gaps:
        return ()
    return (f"that cells of {safe_list(gaps)} are missing is data and shows in the model: not covered",)


def gap_remarks(gaps: Mapping[str, Gaps]) -> tuple[str, ...]:
    """How many cells were filled, and by what. Internal."""
    return tuple(
        f"{int(gap.mask.sum())} missing cells of {safe_text(name)} are filled with {safe_text(gap.value)}: constants, "
        "not unknowns of their rows"
        for name, gap in gaps.items()
        if gap.value is not None
    )
