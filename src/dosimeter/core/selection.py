"""Exact quantiles of numbers that are seen a block at a time: count, then collect one bin of each wanted rank.

A float64 has an order-preserving integer; its first 24 bits are a bin, about one part in 4000 wide. The first pass
counts the bins. The second collects the numbers of the bins in which the wanted ranks lie: a few in ten thousand, or
many equal ones, which are kept once with their number. So two passes give the quantiles exactly, whatever the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.core.engine import term

SHIFT = np.uint64(40)
"""Bits of a float64 that a bin leaves open."""
_SIGN = np.uint64(1 << 63)
_ALL = np.uint64((1 << 64) - 1)
DENSE = 1 << 21
"""Bins in a row up to which a block is counted without sorting."""


def order_keys(values: FloatArray) -> NDArray[np.uint64]:
    """Integers (k,) in the order of the numbers (k,), without nan; -0 counts as 0."""
    bits = (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)
    return np.asarray(bits ^ np.where(bits & _SIGN, _ALL, _SIGN))


def bins_of(values: FloatArray) -> NDArray[np.int64]:
    """(k,) the bin of each number."""
    return np.asarray(order_keys(values) >> SHIFT).astype(np.int64)


@term
@dataclass(frozen=True)
class Counts:
    """How many numbers lie in each bin; counts of blocks add.

    >>> (Counts.of(np.array([1.0, 5.0])) + Counts.of(np.array([1.0]))).counts.tolist()
    [2, 1]
    """

    bins: NDArray[np.int64]
    """(b,) ascending."""
    counts: NDArray[np.int64]
    """(b,)."""

    @classmethod
    def of(cls, values: FloatArray) -> Counts:
        """Of numbers (k,) without nan."""
        bins = bins_of(values)
        if not len(bins):
            return cls(bins, bins)
        low, high = int(bins.min()), int(bins.max())
        if high - low < DENSE:
            dense = np.bincount(bins - low)
            used = np.flatnonzero(dense)
            return cls(used + low, dense[used])
        return cls(*np.unique(bins, return_counts=True))

    @property
    def total(self) -> int:
        """How many numbers."""
        return int(self.counts.sum())

    def __add__(self, other: Counts) -> Counts:
        return Counts(*_merge(self.bins, self.counts, other.bins, other.counts))

    def bins_for(self, shares: Sequence[float]) -> NDArray[np.int64]:
        """The bins that the quantiles of these shares need, ascending."""
        if not self.total:
            return np.empty(0, dtype=np.int64)
        ends = np.cumsum(self.counts)
        ranks = sorted({rank for share in shares for rank in _ranks(share, self.total)[:2]})
        return np.unique(self.bins[np.searchsorted(ends, ranks, side="right")])


@term
@dataclass(frozen=True)
class Collected:
    """The numbers of some bins, equal ones once with their number; those of blocks add."""

    values: FloatArray
    """(v,) ascending."""
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, values: FloatArray, bins: NDArray[np.int64]) -> Collected:
        """Of those numbers (k,) that lie in the bins (b,), ascending."""
        if not len(bins) or not len(values):
            return cls(np.empty(0), np.empty(0, dtype=np.int64))
        mine = bins_of(values)
        place = np.minimum(np.searchsorted(bins, mine), len(bins) - 1)
        return cls(*np.unique(np.asarray(values, dtype=np.float64)[bins[place] == mine] + 0.0, return_counts=True))

    def __add__(self, other: Collected) -> Collected:
        return Collected(*_merge(self.values, self.counts, other.values, other.counts))


def quantile(counts: Counts, collected: Collected, share: float) -> float:
    """The quantile of all numbers that were counted, by linear interpolation as `numpy.quantile`.

    >>> numbers = np.array([3.0, 1.0, 2.0, 10.0])
    >>> counts = Counts.of(numbers)
    >>> quantile(counts, Collected.of(numbers, counts.bins_for([0.5])), 0.5)
    2.5
    """
    low, high, weight = _ranks(share, counts.total)
    a, b = _at(counts, collected, low), _at(counts, collected, high)
    if a == b or weight == 0.0:
        return a
    return b - (b - a) * (1 - weight) if weight >= 0.5 else a + (b - a) * weight


def _ranks(share: float, n: int) -> tuple[int, int, float]:
    place = share * (n - 1)
    low = int(np.floor(place))
    return low, min(low + 1, n - 1), place - low


def _at(counts: Counts, collected: Collected, rank: int) -> float:
    """The number of this rank, from 0."""
    ends = np.cumsum(counts.counts)
    k = int(np.searchsorted(ends, rank, side="right"))
    before = int(ends[k] - counts.counts[k])
    start = int(np.searchsorted(bins_of(collected.values), counts.bins[k]))
    within = np.cumsum(collected.counts[start:])
    return float(collected.values[start + int(np.searchsorted(within, rank - before, side="right"))])


def _merge(
    keys: NDArray[Any], counts: NDArray[np.int64], more: NDArray[Any], more_counts: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    every = np.concatenate([keys, more])
    merged, place = np.unique(every, return_inverse=True)
    totals = np.zeros(len(merged), dtype=np.int64)
    np.add.at(totals, place, np.concatenate([counts, more_counts]))
    return merged, totals


@term
@dataclass(frozen=True)
class Top:
    """The largest numbers and what goes with them; of equal ones the lowest rows. Those of blocks add.

    >>> top = Top.of(np.array([1.0, 3.0, 3.0]), np.array([7, 8, 9]), most=2)
    >>> (top + Top.of(np.array([3.0, 4.0]), np.array([1, 2]), most=2)).rows.tolist()
    [2, 1]
    """

    values: FloatArray
    """(t,) largest first."""
    rows: NDArray[np.int64]
    """(t,) the number of each one's row."""
    most: int

    @classmethod
    def of(cls, values: FloatArray, rows: NDArray[np.int64], most: int) -> Top:
        """Of numbers (k,) on rows (k,)."""
        if len(values) > most:
            least = np.partition(values, len(values) - most)[len(values) - most]
            values, rows = values[values >= least], rows[values >= least]
        order = np.lexsort((rows, -values))[:most]
        return cls(values[order], rows[order], most)

    def __add__(self, other: Top) -> Top:
        values, rows = np.concatenate([self.values, other.values]), np.concatenate([self.rows, other.rows])
        return Top.of(values, rows, self.most)
