"""Where sums over rows and maps over rows are taken: the protocol, and the local engine.

Everything heavy is one of the two. A block is a tuple of arrays with the same number of rows; the function is pure,
so the same function runs in memory, over a file larger than memory, and on a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from dosimeter.core.errors import Refusal
from dosimeter.core.progress import counted

RowBlock = tuple[NDArray[Any], ...]
Terms = tuple[Any, ...]
T = TypeVar("T")


class Engine(Protocol):
    """Two methods; an engine does no mathematics of its own."""

    def sum_over(self, blocks: Iterable[RowBlock], f: Callable[[RowBlock], Terms]) -> Terms:
        """Entrywise sum of the tuples f(block) over the blocks."""
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
        return [f(block) for block in counted(blocks)]


def split(arrays: RowBlock, rows: int) -> Iterator[RowBlock]:
    """Consecutive views of `rows` rows of arrays that have the same length."""
    n = len(arrays[0])
    for start in range(0, n, rows):
        yield tuple(a[start : start + rows] for a in arrays)


def rows_per_block(width: int, bytes_: int = 8 << 20) -> int:
    """Rows of float64 of this width that fit into `bytes_`: 8 MB keeps the number of Python steps small
    while temporaries stay far below the size of any table worth blocking."""
    return int(max(256, bytes_ // (8 * max(1, width))))
