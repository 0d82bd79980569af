"""Sums over rows and maps over rows: the `Engine` protocol, and the engine of this process.

Every heavy computation is one of the two. A block is a tuple of arrays with the same number of rows. The function is
pure, so it runs unchanged in memory, over a file larger than memory, and on a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from dosimeter.core.errors import Refusal
from dosimeter.core.progress import track

RowBlock = tuple[NDArray[Any], ...]
Terms = tuple[Any, ...]
T = TypeVar("T")


class Engine(Protocol):
    """Two methods; an engine contains no mathematics."""

    def sum_over(self, blocks: Iterable[RowBlock], f: Callable[[RowBlock], Terms]) -> Terms:
        """Entrywise sum of the tuples f(block) over all blocks."""
        ...

    def map_over(self, blocks: Iterable[RowBlock], f: Callable[[RowBlock], T]) -> list[T]:
        """f(block) for each block, in order."""
        ...


@dataclass(frozen=True)
class LocalEngine:
    """One process; BLAS uses its own threads.

    >>> import numpy as np
    >>> LocalEngine().sum_over(split((np.arange(4.0),), rows=3), lambda b: (float(b[0].sum()), len(b[0])))
    (6.0, 4)
    """

    def sum_over(self, blocks: Iterable[RowBlock], f: Callable[[RowBlock], Terms]) -> Terms:
        total: Terms | None = None
        for block in blocks:
            part = f(block)
            total = part if total is None else tuple(t + p for t, p in zip(total, part, strict=True))
        if total is None:
            raise Refusal("nothing to sum: there are no blocks")
        return total

    def map_over(self, blocks: Iterable[RowBlock], f: Callable[[RowBlock], T]) -> list[T]:
        return [f(block) for block in track(blocks)]


def split(arrays: RowBlock, rows: int) -> Iterator[RowBlock]:
    """Consecutive views of `rows` rows each, of arrays of the same length."""
    n = len(arrays[0])
    for start in range(0, n, rows):
        yield tuple(a[start : start + rows] for a in arrays)


def rows_per_block(width: int, block_bytes: int = 8 << 20) -> int:
    """Number of float64 rows of this width that fit into `block_bytes`, at least 256.

    8 MB keeps the number of Python steps small, and temporaries far smaller than any table worth splitting.
    """
    return int(max(256, block_bytes // (8 * max(1, width))))
