"""Histograms of votes: checked, and reduced so that equal ones are measured once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import Index
from dosimeter.core.errors import Refusal

Counts = NDArray[np.int64]
MOST_VOTES = 1 << 31


@dataclass(frozen=True, eq=False)
class VoteGaps:
    """The distinct shapes among histograms: neither the order of classes nor one more vote for all of them matters."""

    gaps: Counts
    """(u, m - 1) votes by which each other class is behind the first, ascending."""
    inverse: Index
    """(q,) the shape of each histogram."""


def as_histograms(counts: Any, name: str) -> Counts:
    """(q, m) whole numbers of votes, m >= 2, or a refusal that names the first bad one."""
    array = np.asarray(counts)
    if array.ndim != 2 or array.shape[1] < 2:
        raise Refusal(f"{name} must be (queries, classes) with at least two classes, not shape {array.shape}")
    if array.dtype.kind not in "iuf":
        raise Refusal(f"{name} must hold whole numbers of votes, not {array.dtype}")
    bad = ~((array >= 0) & (array < MOST_VOTES))
    if array.dtype.kind == "f":
        bad |= array != np.rint(array)
    if bad.any():
        i, j = (int(k) for k in np.argwhere(bad)[0])
        raise Refusal(f"{name}[{i}, {j}] is {array[i, j]}: a number of votes must be whole, from 0 to 2**31 - 1")
    return array.astype(np.int64)


def as_shift(shift: Any) -> int:
    """The votes that one person controls, at least one."""
    if isinstance(shift, bool) or not isinstance(shift, int | np.integer) or not 1 <= shift < MOST_VOTES:
        raise Refusal(f"shift is the number of votes that one person controls, a whole number >= 1, not {shift!r}")
    return int(shift)


def shapes(histograms: Counts) -> VoteGaps:
    """The distinct shapes of (q, m) histograms.

    >>> shapes(np.array([[3, 1], [0, 2], [1, 1]])).gaps.tolist()
    [[0], [2]]
    """
    ordered = np.sort(histograms, axis=1)[:, ::-1]
    gaps = np.ascontiguousarray(ordered[:, :1] - ordered[:, 1:])
    first, inverse = distinct_rows(gaps)
    return VoteGaps(gaps[first], inverse)


def distinct_rows(rows: Counts) -> tuple[Index, Index]:
    """(u,) one row of each kind and (q,) the kind of each row, by sorting integers into which columns are packed.

    np.unique(axis=0) compares rows as byte strings and takes several times as long.
    """
    base, columns = int(rows.max(initial=0)) + 1, np.ascontiguousarray(rows.T)
    kind, kinds, column = np.zeros(len(rows), dtype=np.int64), 1, 0
    first = np.zeros(min(len(rows), 1), dtype=np.intp)
    while column < len(columns):
        codes = kinds
        while column < len(columns) and codes * base < 1 << 63:
            kind, codes, column = kind * base + columns[column], codes * base, column + 1
        _, first, kind = np.unique(kind, return_index=True, return_inverse=True)
        kinds = len(first)
    return first, kind
