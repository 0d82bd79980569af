"""Values that are one for all rows of a person: one unknown each, whose Jacobians add.

A column that never changes within a person, or the target, is such a value unless the user says otherwise: counted as
one unknown for each row it would be under-reported, by up to the root of the number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.errors import Refusal
from dosimeter.core.location import advice
from dosimeter.core.text import safe_list, safe_text
from dosimeter.tables.table import Table

FEW = 20
"""A column that changes within one person in so many looks like one value of a person with slips."""
UNTIE = "--not-tied NAME (Python: not_tied=) counts it once a row"


@dataclass(frozen=True)
class Tied:
    """Which values are one unknown for all rows of a person."""

    columns: tuple[str, ...] = ()
    label: bool = False
    remarks: tuple[str, ...] = ()


def tie(
    columns: Mapping[str, NDArray[Any]],
    y: NDArray[Any] | None,
    ids: Sequence[Any] | None,
    target: str,
    tied: Sequence[str] = (),
    not_tied: Sequence[str] = (),
    *,
    frame: Any = None,
) -> Tied:
    """Every column (n,) of `columns` and the target y (n,) that never changes within a person, but those in not_tied.

    y: None where the target is taken as known. tied: names that must be constant, or are refused. frame: the caller's,
    whose rows a refusal counts.

    >>> visits = {"born": np.array([1950.0, 1950.0, 1970.0]), "weight": np.array([70.0, 71.0, 80.0])}
    >>> tie(visits, np.array([0.0, 1.0, 1.0]), ["ann", "ann", "bob"], "ill").columns
    ('born',)
    >>> tie(visits, np.array([0.0, 1.0, 1.0]), ["ann", "ann", "bob"], "ill", not_tied=["born"]).remarks[0]
    'not tied, as asked: born, though one value on all rows of a person; its figure is under-reported if it is one'
    """
    if ids is None:
        if tied or not_tied:
            raise Refusal("tied columns are one value per person: name the person column as well")
        return Tied()
    # The target goes by a key of its own: a column may have its name.
    known: dict[str | None, NDArray[Any]] = {} if y is None else {None: y}
    known.update((name, column) for name, column in columns.items())
    keys = {**{name: name for name in columns}, **({} if y is None or target in columns else {target: None})}
    for option, names in (("tied", tied), ("not tied", not_tied)):
        for name in names:
            if name == target and y is None and name not in columns:
                raise Refusal(f"{option}: the target {safe_text(name)} is taken as known: there is nothing to tie")
            if name not in keys:
                raise Refusal(f"{option}: the model has no column {safe_text(name)}: {advice(name, keys)}")
    both = [name for name in tied if name in not_tied]
    if both:
        raise Refusal(f"{safe_text(both[0])} is both tied and not tied: name it once")
    first = _first_row(ids)
    asked, apart = ({keys[name] for name in names} for names in (tied, not_tied))
    several = len(np.unique(first)) < len(first)
    one: list[str | None] = []
    slips: list[str | None] = []
    for key, column in known.items():
        change = _first_change(column, first)
        if key in asked and change is not None:
            what = f"the target {safe_text(target)}" if key is None else f"column {safe_text(key)}"
            raise Refusal(
                f"{what} is tied but not constant within a person ({_place(frame, change)}): leave it out of tied"
            )
        if key in asked or (several and change is None):
            one.append(key)
        elif several and _hardly(column, first):
            slips.append(key)
    chosen, left = [k for k in one if k not in apart], [k for k in one if k in apart]
    remarks = _remarks(
        *(safe_list([f"{target} (the target)" if k is None else k for k in some]) for some in (chosen, left, slips))
    )
    return Tied(tuple(key for key in chosen if key is not None), None in chosen, remarks)


def _remarks(chosen: str, left: str, slips: str) -> tuple[str, ...]:
    made = []
    if chosen:
        made.append(f"tied: {chosen}, one unknown for all rows of a person; {UNTIE}")
    if left:
        made.append(
            f"not tied, as asked: {left}, though one value on all rows of a person; its figure is under-reported if "
            "it is one"
        )
    if slips:
        made.append(
            f"not tied: {slips}, which changes within few people only; if it is one value of a person, mend the slips: "
            "its figure is under-reported"
        )
    return tuple(made)


def _hardly(column: NDArray[Any], first: NDArray[np.intp]) -> bool:
    """Whether a column changes within one in `FEW` people with several rows, or fewer."""
    changed = np.unique(first[np.asarray(column != column[first], dtype=bool)])
    return len(changed) * FEW <= int(np.sum(np.bincount(first) > 1))


def _first_row(ids: Sequence[Any]) -> NDArray[np.intp]:
    """(n,) position of the first row of each row's person."""
    first: dict[Any, int] = {}
    return np.fromiter((first.setdefault(who, row) for row, who in enumerate(ids)), dtype=np.intp, count=len(ids))


def _first_change(column: NDArray[Any], first: NDArray[np.intp]) -> int | None:
    """The first row whose value is not that of its person's first row."""
    other = np.asarray(column != column[first], dtype=bool)
    return int(np.argmax(other)) if other.any() else None


def _place(frame: Any, row: int) -> str:
    """A row as its owner counts it: of a table by its number in the source, where rows may have been left out."""
    return f"row {int(frame.rows[row]) + 1} counted from 1" if isinstance(frame, Table) else f"row {row} counted from 0"
