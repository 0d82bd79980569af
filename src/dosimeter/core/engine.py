"""Sums over rows and maps over rows: the `Engine` protocol, and the engine of this process.

Every heavy computation is one of the two. A block is a tuple of arrays with the same number of rows. The function is
pure, so it runs unchanged in memory, over a file larger than memory, and on a cluster.

What is summed over is a block, or a `Part`: something that yields blocks where they are (the row group of a file, the
rows of a site). A part can be read again and again and gives the same blocks each time. Engines in other processes need
parts and functions that can be pickled: module-level functions and `functools.partial`, no closures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.errors import Refusal
from dosimeter.core.progress import track

RowBlock = tuple[NDArray[Any], ...]
Terms = tuple[Any, ...]
T = TypeVar("T")


@runtime_checkable
class Part(Protocol):
    """A piece of a table that is read where it is, a block at a time."""

    def blocks(self) -> Iterator[Any]:
        """Its blocks, in order; the same ones at every call."""
        ...


class Engine(Protocol):
    """Two methods; an engine contains no mathematics."""

    def sum_over(self, blocks: Iterable[Any], f: Callable[[Any], Terms]) -> Terms:
        """Entrywise sum of the tuples f(block) over all blocks, and over the blocks of all parts."""
        ...

    def map_over(self, blocks: Iterable[Any], f: Callable[[Any], T]) -> list[T]:
        """f(block) for each block, in order."""
        ...


class NoBlocks(Refusal):
    """A sum over nothing."""

    def __init__(self) -> None:
        super().__init__("nothing to sum: there are no blocks")


@dataclass(frozen=True)
class LocalEngine:
    """One process; BLAS uses its own threads.

    >>> import numpy as np
    >>> LocalEngine().sum_over(split((np.arange(4.0),), rows=3), lambda b: (float(b[0].sum()), len(b[0])))
    (6.0, 4)
    """

    def sum_over(self, blocks: Iterable[Any], f: Callable[[Any], Terms]) -> Terms:
        total: Terms | None = None
        for block in blocks_of(blocks):
            total = add_terms(total, f(block))
        if total is None:
            raise NoBlocks
        return total

    def map_over(self, blocks: Iterable[Any], f: Callable[[Any], T]) -> list[T]:
        return [f(block) for block in blocks_of(track(blocks))]


def blocks_of(items: Iterable[Any]) -> Iterator[Any]:
    """The blocks, and the blocks of the parts, in order."""
    for item in items:
        if isinstance(item, Part):
            yield from item.blocks()
        else:
            yield item


def add_terms(total: Terms | None, terms: Terms) -> Terms:
    """The entrywise sum; None is the empty one."""
    return terms if total is None else tuple(t + k for t, k in zip(total, terms, strict=True))


@dataclass(frozen=True)
class MappedPart:
    """The blocks of a part after a function that can be pickled: how rows become numbers, say."""

    part: Part
    function: Callable[[Any], Any]

    @property
    def rows(self) -> int:
        """Rows of the part, if it says how many."""
        return int(getattr(self.part, "rows", 1))

    def blocks(self) -> Iterator[Any]:
        """function(block) for each block of the part."""
        for block in self.part.blocks():
            yield self.function(block)


TERMS: dict[str, type[Any]] = {}
"""Kinds of terms besides arrays and numbers, by name: frozen dataclasses of arrays, numbers and texts with a sum."""


def term(cls: type[T]) -> type[T]:
    """Register a kind of term, so that an engine can store it."""
    TERMS[cls.__name__] = cls
    return cls


@term
@dataclass(frozen=True)
class Largest:
    """A term whose sum is the maximum, entry by entry.

    >>> import numpy as np
    >>> (Largest(np.array([1.0, 5.0])) + Largest(np.array([3.0, 2.0]))).value
    array([3., 5.])
    """

    value: NDArray[Any]

    def __add__(self, other: Largest) -> Largest:
        return Largest(np.maximum(self.value, other.value))


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


@term
@dataclass(frozen=True)
class Each:
    """Several terms of their own kinds, added one by one.

    >>> (Each((1, 2.5)) + Each((3, 0.5))).items
    (4, 3.0)
    """

    items: Terms

    def __add__(self, other: Each) -> Each:
        return Each(tuple(a + b for a, b in zip(self.items, other.items, strict=True)))


@term
@dataclass(frozen=True)
class Joined:
    """Arrays whose sum is one array after the other, along the first axis.

    >>> (Joined((np.array([1, 2]),)) + Joined((np.array([3]),))).arrays[0].tolist()
    [1, 2, 3]
    """

    arrays: RowBlock

    def __add__(self, other: Joined) -> Joined:
        return Joined(tuple(np.concatenate([a, b]) for a, b in zip(self.arrays, other.arrays, strict=True)))
