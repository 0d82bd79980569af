"""Values that are constant within a person: one unknown each, whose Jacobians add.

A column, or the target, that never changes within a person is tied unless the user says otherwise. Counted as one
unknown per row, its leakage would be under-reported by up to the square root of the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.engine import term
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.location import advice
from dosimeter.core.text import safe_list, safe_text
from dosimeter.tables.table import Table

FEW = 20
"""A column that changes within at most one person in this many looks like one value per person with typing errors."""


@dataclass(frozen=True)
class Tied:
    """Which values are one unknown for all rows of a person."""

    columns: tuple[str, ...] = ()
    target: bool = False
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
    'not tied, as requested: born, though constant within a person; if it is one unknown, its figure is too low'
    """
    if ids is None:
        if tied or not_tied:
            raise Refusal("tied columns are one value per person: name the person column as well")
        return Tied()
    facts = tie_facts(columns, y, ids)
    return decide_ties(tuple(columns), y is not None, facts, target, tied, not_tied, partial(_place, frame))


@term
@dataclass(frozen=True)
class TieFacts:
    """Where values change within a person, on some rows that hold all rows of their people; those of parts add."""

    several: int
    """People with several rows."""
    changed: NDArray[np.int64]
    """(keys,) people within whom each value changes."""
    change: NDArray[np.int64]
    """(keys,) the first row whose value is not that of its person's first row; NEVER if there is none."""

    def __add__(self, other: TieFacts) -> TieFacts:
        change = np.minimum(self.change, other.change)
        return TieFacts(self.several + other.several, self.changed + other.changed, change)


NEVER = int(np.iinfo(np.int64).max)


def tie_facts(
    columns: Mapping[str, NDArray[Any]],
    y: NDArray[Any] | None,
    ids: Sequence[Any],
    rows: NDArray[Any] | None = None,
) -> TieFacts:
    """Of each column and then the target, if it counts. rows: their numbers; positions if None."""
    known = [*columns.values(), *([] if y is None else [y])]
    first = _first_row(ids)
    several = int(np.sum(np.bincount(first) > 1))
    changed, change = [], []
    for column in known:
        other = np.asarray(column != column[first], dtype=bool)
        changed.append(len(np.unique(first[other])))
        at = np.flatnonzero(other)
        change.append(NEVER if not at.size else int(at[0] if rows is None else rows[at].min()))
    return TieFacts(several, np.array(changed, dtype=np.int64), np.array(change, dtype=np.int64))


def decide_ties(
    columns: tuple[str, ...],
    with_target: bool,
    facts: TieFacts,
    target: str,
    tied: Sequence[str],
    not_tied: Sequence[str],
    place: Callable[[int], str],
) -> Tied:
    """What is tied, from where values change. place: how a refusal shows a row."""
    # The key of the target is None: a column may have the same name.
    known: list[str | None] = [*columns, *([None] if with_target else [])]
    keys = {**{name: name for name in columns}, **({} if not with_target or target in columns else {target: None})}
    for role, names in (("tied", tied), ("not tied", not_tied)):
        for name in names:
            if name == target and not with_target and name not in columns:
                raise Refusal(f"{role}: the target {safe_text(name)} is taken as known: there is nothing to tie")
            if name not in keys:
                raise Refusal(f"{role}: the model has no column {safe_text(name)}: {advice(name, keys)}")
    both = [name for name in tied if name in not_tied]
    if both:
        raise Refusal(f"{safe_text(both[0])} is both tied and not tied: name it once")
    required, exempt = ({keys[name] for name in names} for names in (tied, not_tied))
    constant_keys: list[str | None] = []
    rarely_changing: list[str | None] = []
    for key, changed, change in zip(known, facts.changed.tolist(), facts.change.tolist(), strict=True):
        if key in required and changed:
            subject = f"the target {safe_text(target)}" if key is None else f"column {safe_text(key)}"
            raise Refusal(f"{subject} is tied but not constant within a person ({place(change)}): leave it out of tied")
        if key in required or (facts.several and not changed):
            constant_keys.append(key)
        elif facts.several and changed * FEW <= facts.several:
            rarely_changing.append(key)
    tied_keys, untied = [k for k in constant_keys if k not in exempt], [k for k in constant_keys if k in exempt]
    remarks = _remarks(
        *(
            safe_list([f"{target} (the target)" if k is None else k for k in some])
            for some in (tied_keys, untied, rarely_changing)
        )
    )
    return Tied(tuple(key for key in tied_keys if key is not None), None in tied_keys, remarks)


def _remarks(tied: str, untied: str, rarely_changing: str) -> tuple[str, ...]:
    remarks = []
    if tied:
        remarks.append(
            f"tied: {tied}, one unknown for all rows of a person; {option('not_tied', 'NAME')} counts it once per row"
        )
    if untied:
        remarks.append(
            f"not tied, as requested: {untied}, though constant within a person; if it is one unknown, its figure is "
            "too low"
        )
    if rarely_changing:
        remarks.append(
            f"not tied: {rarely_changing}, which changes within few people only; if it is one value per person, its "
            "figure is too low: correct the typing errors"
        )
    return tuple(remarks)


def _first_row(ids: Sequence[Any]) -> NDArray[np.intp]:
    """(n,) position of the first row of each row's person."""
    first: dict[Any, int] = {}
    return np.fromiter((first.setdefault(person, row) for row, person in enumerate(ids)), dtype=np.intp, count=len(ids))


def _place(frame: Any, row: int) -> str:
    """A row as the caller counts it: for a Table by its number in the source, where rows may have been left out."""
    return f"row {int(frame.rows[row]) + 1} counted from 1" if isinstance(frame, Table) else f"row {row} counted from 0"
