"""Votes: the class that each teacher gave each query, checked once, and the votes of the others.

A teacher's v⁻ at a query depends only on its own vote, so a query has at most m distinct v⁻, however many teachers
there are. Everything per teacher is computed per (query, own vote) and gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.pate.histograms import Counts, as_histograms

Plain = str | int | float | bool | None
ByHistogram = Callable[[Counts], FloatArray]
"""(rows, m) histograms v⁻ -> (rows,) nats."""

# Numbers in one temporary array: 8 MB.
_CELLS = 1 << 20
_MOST_CLASSES = 1 << 31
# Counts of all queries: 2 GB.
_MOST_COUNTS = 1 << 28


@dataclass(frozen=True, eq=False)
class Votes:
    """One class for each teacher and query. Internal: a vote is private, and so is every count of votes.

    Parameters
    ----------
    values : array_like of int, shape (teachers, queries)
        Classes 0..m-1.
    n_classes : int
        m, a public constant: never the highest vote that was cast.
    provenance : mapping, optional
        Public constants and digests: where the votes come from.

    Raises
    ------
    Refusal
        If a vote is not a class, or there is only one teacher.

    Examples
    --------
    >>> v = Votes([[0, 2], [0, 1], [1, 1]], n_classes=3)     # three teachers, two queries
    >>> v.counts.tolist(), v.others(0).tolist()
    ([[2, 1, 0], [0, 2, 1]], [[1, 1, 0], [0, 2, 0]])
    >>> v
    <Votes of 3 teachers on 2 queries, 3 classes, internal>
    """

    values: NDArray[np.int32]
    """(teachers, queries) in 0..m-1."""
    n_classes: int
    """m, a public constant: never the highest vote that was cast."""
    provenance: Mapping[str, Plain] = field(default_factory=dict)
    """Public constants and digests: where the votes come from."""

    def __post_init__(self) -> None:
        m = as_classes(self.n_classes)
        values = _as_whole(self.values, "votes")
        if values.ndim != 2 or not values.size:
            raise Refusal(f"votes must be (teachers, queries) and not empty, not shape {values.shape}")
        if values.shape[1] * m > _MOST_COUNTS:
            raise Refusal(f"{m} classes for each of {values.shape[1]} queries are too many to count: use fewer")
        if len(values) < 2:
            raise Refusal("a vote of one teacher is that teacher's answer: use at least two teachers")
        for bad, why in ((values < 0, "negative"), (values >= m, f"not one of the classes 0..{m - 1}")):
            if bad.any():
                t, q = (int(i) for i in np.argwhere(bad)[0])
                raise Refusal(f"votes[{t}, {q}] is {values[t, q]:g}, {why}: number the classes from 0 to {m - 1}")
        stored = values.astype(np.int32)
        stored.setflags(write=False)
        for name, value in self.provenance.items():
            if not (value is None or isinstance(value, str | int | float | bool)):
                raise Refusal(f"provenance must hold plain public constants; {name!r} is {type(value).__name__}")
        object.__setattr__(self, "values", stored)
        object.__setattr__(self, "n_classes", m)
        object.__setattr__(self, "provenance", MappingProxyType(dict(self.provenance)))

    @property
    def n_teachers(self) -> int:
        """L."""
        return int(self.values.shape[0])

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return int(self.values.shape[1])

    @cached_property
    def counts(self) -> Counts:
        """(queries, m) histograms v, each summing to L."""
        q, m = self.n_queries, self.n_classes
        out = np.zeros((q, m), dtype=np.int64)
        size = max(1, _CELLS // self.n_teachers)
        for start in range(0, q, size):
            block = self.values[:, start : start + size]
            cell = block + np.arange(block.shape[1], dtype=np.int64) * m
            tally = np.bincount(cell.ravel(), minlength=block.shape[1] * m)
            out[start : start + size] = tally.reshape(-1, m)
        out.setflags(write=False)
        return out

    def others(self, teacher: int) -> Counts:
        """(queries, m) v⁻, the histograms without this teacher's votes, each summing to L - 1."""
        t = self.check_teacher(teacher)
        out = self.counts.copy()
        out[np.arange(self.n_queries), self.values[t]] -= 1
        return out

    def leak_by_own_vote(self, leak: ByHistogram) -> Iterator[tuple[slice, FloatArray]]:
        """Blocks of queries with their (block, m) table of leak(v - δⱼ); 0 if no teacher voted j."""
        m = self.n_classes
        size = max(1, _CELLS // max(m * m, self.n_teachers))
        for start in range(0, self.n_queries, size):
            rows = slice(start, min(start + size, self.n_queries))
            counts = self.counts[rows]
            query, vote = np.nonzero(counts)
            histograms = counts[query]
            histograms[np.arange(len(vote)), vote] -= 1
            table = np.zeros(counts.shape)
            table[query, vote] = leak(histograms)
            yield rows, table

    def matrix(self, leak: ByHistogram) -> FloatArray:
        """(teachers, queries) leak(v⁻) of each teacher at each query. Internal."""
        out = np.empty(self.values.shape)
        for rows, table in self.leak_by_own_vote(leak):
            out[:, rows] = table[np.arange(len(table)), self.values[:, rows]]
        return out

    def totals(self, leak: ByHistogram) -> FloatArray:
        """(teachers,) leak(v⁻) summed over the queries, without holding the matrix. Internal."""
        out = np.zeros(self.n_teachers)
        for rows, table in self.leak_by_own_vote(leak):
            out += table[np.arange(len(table)), self.values[:, rows]].sum(axis=1)
        return out

    def check_teacher(self, teacher: Any) -> int:
        """A teacher's number, or a refusal."""
        if isinstance(teacher, bool) or not isinstance(teacher, int | np.integer) or not 0 <= teacher < self.n_teachers:
            raise Refusal(f"teacher must be from 0 to {self.n_teachers - 1}, not {teacher!r}")
        return int(teacher)

    def __reduce__(self) -> tuple[type[Votes], tuple[object, ...]]:
        return Votes, (self.values, self.n_classes, dict(self.provenance))

    def __repr__(self) -> str:
        return f"<Votes of {self.n_teachers} teachers on {self.n_queries} queries, {self.n_classes} classes, internal>"


def check_histograms(counts: ArrayLike, teachers: int | None = None) -> Counts:
    """(queries, m) histograms as whole numbers; refused if one is negative, fractional or has a wrong total.

    >>> check_histograms([[2, 1, 0]], teachers=3).tolist()
    [[2, 1, 0]]
    """
    out = as_histograms(counts, "counts")
    if not len(out):
        raise Refusal("counts is empty: at least one query is needed")
    totals = out.sum(axis=1)
    if teachers is not None and (totals != teachers).any():
        i = int(np.flatnonzero(totals != teachers)[0])
        raise Refusal(f"counts[{i}] sums to {totals[i]}, but there are {teachers} teachers, one vote each")
    return out


def as_classes(n_classes: Any) -> int:
    """m, a whole number >= 2, or a refusal."""
    if isinstance(n_classes, bool) or not isinstance(n_classes, int | np.integer):
        raise Refusal(f"n_classes={n_classes!r}: must be a whole number, the public number of classes")
    if n_classes < 2:
        raise Refusal(f"n_classes={n_classes}: use at least two classes, else there is nothing to vote on")
    if n_classes >= _MOST_CLASSES:
        raise Refusal(f"n_classes={n_classes}: use at most 2**31 - 1 classes")
    return int(n_classes)


def _as_whole(values: ArrayLike, name: str) -> NDArray[Any]:
    """The array, its numbers whole; whole floats are accepted."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise Refusal(f"{name} must be a rectangular array of whole numbers, not rows of different lengths") from None
    if array.dtype.kind not in "iuf":
        raise Refusal(f"{name} must be whole numbers, not {array.dtype}: number the classes from 0")
    if array.dtype.kind == "f":
        bad = ~np.isfinite(array) | (array != np.floor(array))
        if bad.any():
            place = ", ".join(str(int(i)) for i in np.argwhere(bad)[0])
            value = array[tuple(np.argwhere(bad)[0])]
            raise Refusal(f"{name}[{place}] is {value:g}: votes and counts must be whole numbers")
    return array
