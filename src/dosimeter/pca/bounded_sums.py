"""Sums whose rounding is known beforehand: Σ zzᵀ and Σ z over any number of rows, off by a fixed number of roundings.

One product over n rows may be off by n roundings, and the allowance for it grows with n². Here a product is over
`BLOCK` rows at most, and the products are added in pairs, so that every addend goes through few additions however many
rows there are: the bound `ROUNDINGS` is a constant and tells nothing about the table (docs/pca.md, "Rounding").
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.engine import Engine, RowBlock, split
from dosimeter.core.errors import Refusal
from dosimeter.pca.bounds import ROUNDING

BLOCK = 512
"""Rows of one product: as many roundings at most, whatever the order in which BLAS adds them."""
ROUNDINGS = BLOCK + 256
"""Of every addend, at most: its product (BLOCK), 2 · 63 additions in pairs of up to 2⁶³ products, 24 in weighing a row,
2 divisions, and about 100 to spare for their products with each other."""


@dataclass(frozen=True, eq=False)
class Paired:
    """A sum in pairs: at level l stands the sum of 2^l parts or nothing, as the digits of a binary counter.

    Two sums of one level make one of the next, so a part is added l times to reach level l, and once more for each
    level in `total`: at most 2 log₂(parts) + 1 additions, in whichever order an engine adds.

    >>> sum((Paired.of(np.array([x])) for x in (1.0, 2.0, 3.0)), Paired(())).total.tolist()
    [6.0]
    """

    levels: tuple[FloatArray | None, ...]

    @classmethod
    def of(cls, part: FloatArray) -> Paired:
        return cls((part,))

    def __add__(self, other: Paired) -> Paired:
        out: list[FloatArray | None] = []
        carry: FloatArray | None = None
        for level in range(max(len(self.levels), len(other.levels)) + 1):
            here = [s.levels[level] for s in (self, other) if level < len(s.levels)]
            parts = [part for part in (*here, carry) if part is not None]
            carry = parts.pop() + parts.pop() if len(parts) > 1 else None
            out.append(parts.pop() if parts else None)
        while out and out[-1] is None:
            out.pop()
        return Paired(tuple(out))

    @property
    def total(self) -> FloatArray:
        """The sum; the smallest levels first."""
        parts = [part for part in self.levels if part is not None]
        if not parts:
            raise Refusal("nothing to sum: there are no rows")
        found = parts[0]
        for part in parts[1:]:
            found = found + part
        return found


def moments(blocks: Iterable[RowBlock], engine: Engine) -> tuple[FloatArray, FloatArray]:
    """(Σ yyᵀ, Σ r y), (d, d) and (d,), of blocks (y, r): rows y = r z (n, d) with the roots r (n,) of their weights."""
    products, sums = engine.sum_over(blocks, _of_block)
    return products.total, sums.total


def root_weights(person: Sequence[Hashable]) -> tuple[FloatArray, int]:
    """(n,) 1/√k for a row of a person with k rows, and how many people there are; 0 for a row of nobody (None).

    The weights of a person add up to at most 1 in float64 too: each root is short by eight roundings.

    >>> root_weights(["ann", "bob", "ann"])[0].round(3).tolist(), root_weights(["ann", "bob", "ann"])[1]
    ([0.707, 1.0, 0.707], 2)
    """
    counts: dict[Hashable, int] = {}
    for who in person:
        counts[who] = counts.get(who, 0) + 1
    counts.pop(None, None)
    roots = {who: 1.0 if k == 1 else (1 - 8 * ROUNDING) / np.sqrt(k) for who, k in counts.items()}
    return np.array([roots.get(who, 0.0) for who in person]), len(counts)


def _of_block(block: RowBlock) -> tuple[Any, ...]:
    products, sums = Paired(()), Paired(())
    for Y, r in split(block, BLOCK):
        products += Paired.of(Y.T @ Y)
        sums += Paired.of(r @ Y)
    return products, sums
