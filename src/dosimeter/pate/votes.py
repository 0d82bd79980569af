"""Votes: the class that each teacher gave each query, checked once, and the votes of the others.

The votes may be a memory map of a file that is larger than memory: `vote_blocks` passes through it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dosimeter.core.errors import Refusal
from dosimeter.core.progress import track
from dosimeter.pate.histograms import Counts, as_histograms
from dosimeter.pate.vote_blocks import VoteBlocks, count_votes, read_block, read_only_map, vote_type

Plain = str | int | float | bool | None

_MOST_CLASSES = 1 << 31
# Counts that may be held at once: 2 GB.
_MOST_COUNTS = 1 << 28


@dataclass(frozen=True, eq=False)
class Votes:
    """One class for each teacher and query. Internal: a vote is private, and so is every count of votes.

    Parameters
    ----------
    values : array_like of int, shape (teachers, queries)
        Classes 0..m-1. Copied in a small integer type, except for integers in a memory map that was opened for reading
        only (``numpy.load(file, mmap_mode="r")``): they stay on disk, and the file must not change meanwhile.
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

    values: NDArray[Any]
    """(teachers, queries) in 0..m-1, of any integer type, read-only."""
    n_classes: int
    """m, a public constant: never the highest vote that was cast."""
    provenance: Mapping[str, Plain] = field(default_factory=dict)
    """Public constants and digests: where the votes come from."""

    def __post_init__(self) -> None:
        m = as_classes(self.n_classes)
        values = _as_numbers(self.values, "votes")
        if values.ndim != 2 or not values.size:
            raise Refusal(f"votes must be (teachers, queries) and not empty, not shape {values.shape}")
        if m > _MOST_COUNTS:
            raise Refusal(f"{m} classes are too many to count: use fewer")
        if len(values) < 2:
            raise Refusal("a vote of one teacher is that teacher's answer: use at least two teachers")
        stored = _checked(values, m)
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
        """(queries, m) histograms v, each summing to L; refused if they would fill the memory."""
        k, m = self.n_queries, self.n_classes
        if k * m > _MOST_COUNTS:
            raise Refusal(f"{m} classes for each of {k} queries are too many counts to hold: take blocks of queries")
        parts = [count_votes(read_block(block, m), m) for (block,) in VoteBlocks(self.values, m)]
        out = np.concatenate(parts)
        out.setflags(write=False)
        return out

    def others(self, teacher: int) -> Counts:
        """(queries, m) v⁻, the histograms without this teacher's votes, each summing to L - 1."""
        t = self.check_teacher(teacher)
        out = self.counts.copy()
        out[np.arange(self.n_queries), self.values[t]] -= 1
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


def _as_numbers(values: ArrayLike, name: str) -> NDArray[Any]:
    """The array, if it holds numbers; whether they are whole is seen block by block."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise Refusal(f"{name} must be a rectangular array of whole numbers, not rows of different lengths") from None
    if array.dtype.kind not in "iuf":
        raise Refusal(f"{name} must be whole numbers, not {array.dtype}: number the classes from 0")
    return array


def _checked(values: NDArray[Any], m: int) -> NDArray[Any]:
    """(teachers, queries) checked: a copy of its own, or a memory map as it is."""
    mapped = values.dtype.kind in "iu" and not values.flags.writeable and read_only_map(values) is not None
    stored = values if mapped else np.empty(values.shape, dtype=vote_type(m))
    blocks, first = VoteBlocks(values, m), 0
    blocks.announce("checking votes")
    for (block,) in track(blocks):
        checked = read_block(block, m, first)
        if not mapped:
            stored[:, first : first + len(block)] = checked
        first += len(block)
    stored.setflags(write=False)
    return stored
