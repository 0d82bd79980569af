"""Blocks of queries: votes checked, counted and given back, so that a file larger than memory is only passed through.

A block is what `core.engine` takes: a tuple of arrays with a row for each query, the first of them the (queries,
teachers) votes. The functions on a block are pure, so any engine can run them.
"""

from __future__ import annotations

import math
import mmap
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.engine import RowBlock
from dosimeter.core.errors import Refusal
from dosimeter.core.progress import note, stage
from dosimeter.pate.histograms import Counts

MOST_QUERIES = 1 << 16
"""Queries of a block, at most: a strip of 64 kB of each teacher's votes on disk, if they are stored by teacher."""
# Votes of a block, and counts of its distinct histograms without one vote: 32 MB each, as 64-bit numbers.
_MOST_CELLS = 1 << 22
# Votes that are counted or gathered at once: what is made of them stays in the second-level cache.
_CELLS = 1 << 20
# From here on one pass over all votes costs less than one comparison of all votes for each class.
_MANY_CLASSES = 32


class VoteBlocks:
    """The blocks of (teachers, queries) votes, in order, each with the same queries of further arrays beside it.

    >>> [len(block[0]) for block in VoteBlocks(np.zeros((3, 5), np.int8), 2, block_size=2)]
    [2, 2, 1]
    """

    def __init__(
        self, values: NDArray[Any], n_classes: int, *beside: NDArray[Any], block_size: int | None = None
    ) -> None:
        self._arrays = (values.T, *beside)
        self._size = queries_per_block(len(values), n_classes) if block_size is None else block_size

    def announce(self, task: str) -> None:
        """Report a stage; one block alone is too short for it."""
        if len(self) > 1:
            stage(task)

    def __len__(self) -> int:
        return math.ceil(len(self._arrays[0]) / self._size)

    def __iter__(self) -> Iterator[RowBlock]:
        k, since = len(self._arrays[0]), time.monotonic()
        for start in range(0, k, self._size):
            yield tuple(array[start : start + self._size] for array in self._arrays)
            spent = time.monotonic() - since
            if spent > 1:
                note(f"{min(start + self._size, k) / spent:,.0f} queries/s")


def queries_per_block(n_teachers: int, n_classes: int) -> int:
    """Queries of a block: from the numbers of teachers and classes alone, so that a simulation repeats itself."""
    # L votes fall into histograms of at most √(2L) + 1 different counts, so a query has at most that many different v⁻.
    different = min(n_classes, math.isqrt(2 * n_teachers) + 1)
    return max(1, min(MOST_QUERIES, 2 * _MOST_CELLS // n_teachers, _MOST_CELLS // (n_classes * different)))


def vote_type(n_classes: int) -> np.dtype[Any]:
    """The smallest signed type for the classes and -1."""
    return np.dtype(np.int8 if n_classes <= 1 << 7 else np.int16 if n_classes <= 1 << 15 else np.int32)


def read_block(votes: NDArray[Any], n_classes: int, first: int | None = None) -> NDArray[Any]:
    """(teachers, queries) of a (queries, teachers) block: a copy in the smallest type, checked.

    Pages of a read-only memory map are given back afterwards: they count as memory of the process otherwise.
    first: the number of the block's first query, for the message; None if the votes were checked before.
    """
    own = np.ascontiguousarray(votes.T)
    if own.dtype.kind == "f":
        fractional = ~np.isfinite(own) | (own != np.floor(own))
        if fractional.any():
            _refuse(own, fractional, first, "and votes must be whole numbers")
    remedy = f"number the classes from 0 to {n_classes - 1}"
    if own.min() < 0:
        _refuse(own, own < 0, first, f"negative: {remedy}")
    if own.max() >= n_classes:
        _refuse(own, own >= n_classes, first, f"not one of the classes 0..{n_classes - 1}: {remedy}")
    checked = own.astype(vote_type(n_classes))
    give_back(votes)
    return checked


def _refuse(votes: NDArray[Any], bad: NDArray[np.bool_], first: int | None, why: str) -> None:
    t, q = (int(i) for i in np.argwhere(bad)[0])
    if first is None:
        raise Refusal(f"votes changed while they were read: one of teacher {t} is {votes[t, q]:g}, {why}")
    raise Refusal(f"votes[{t}, {first + q}] (teacher {t}, query {first + q}) is {votes[t, q]:g}, {why}")


def count_votes(votes: NDArray[Any], n_classes: int) -> Counts:
    """(queries, m) histograms of checked (teachers, queries) votes.

    >>> count_votes(np.array([[0, 2], [0, 1], [1, 1]]), 3).tolist()
    [[2, 1, 0], [0, 2, 1]]
    """
    (L, k), m = votes.shape, n_classes
    out = np.empty((k, m), dtype=np.int64)
    size = max(1, _CELLS // L)
    for start in range(0, k, size):
        part = votes[:, start : start + size]
        out[start : start + size] = _count_by_class(part, m) if m <= _MANY_CLASSES else _count_by_query(part, m)
    return out


def _count_by_class(votes: NDArray[Any], m: int) -> Counts:
    """(queries, m): bytes are compared and added many at a time, 255 teachers before a byte may overflow."""
    out = np.zeros((m, votes.shape[1]), dtype=np.int64)
    for j in range(m):
        own = (votes == j).view(np.uint8)
        for t in range(0, len(votes), 255):
            out[j] += np.add.reduce(own[t : t + 255], axis=0, dtype=np.uint8)
    return out.T


def _count_by_query(votes: NDArray[Any], m: int) -> Counts:
    cell = votes + np.arange(votes.shape[1], dtype=np.int64) * m
    return np.bincount(cell.ravel(), minlength=votes.shape[1] * m).reshape(-1, m)


def sum_by_teacher(votes: NDArray[Any], table: NDArray[np.float64]) -> NDArray[np.float64]:
    """(teachers,) Σ over the queries of table[query, own vote]; votes (teachers, queries), table (queries, m)."""
    (L, k), m = votes.shape, table.shape[1]
    out, size = np.zeros(L), max(1, _CELLS // L)
    for start in range(0, k, size):
        part, flat = votes[:, start : start + size], table[start : start + size].ravel()
        out += flat.take(part + np.arange(part.shape[1], dtype=np.int64) * m).sum(axis=1)
    return out


def read_only_map(array: Any) -> mmap.mmap | None:
    """The memory map of a file opened for reading only, of which this array is a view; None if it is another array."""
    holder: Any = array
    while isinstance(holder, np.ndarray):
        source: Any = holder.base
        if isinstance(holder, np.memmap) and holder.mode == "r" and isinstance(source, mmap.mmap):
            return source
        holder = source
    return None


def give_back(array: NDArray[Any]) -> None:
    """Let the operating system have the pages that were read; they are read again if they are needed."""
    source = read_only_map(array)
    if source is not None and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
        source.madvise(mmap.MADV_DONTNEED)
