"""Sums with a rounding error known in advance: Σ zzᵀ and Σ z over any number of rows, with a fixed number of roundings.

One product over n rows may be off by n roundings, and the allowance for it grows with n². Here a product covers at most
`BLOCK` rows, and products are added pairwise. Every addend then passes through few additions, however many rows there
are. The bound `ROUNDINGS` is a constant, so it reveals nothing about the table (docs/explanation/pca.md, "Rounding").
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.engine import Engine, RowBlock, split, term
from dosimeter.core.errors import Refusal
from dosimeter.pca.bounds import ROUNDING

BLOCK = 512
"""Rows in one product: at most this many roundings, in whatever order BLAS adds them."""
ROUNDINGS = BLOCK + 256
"""Roundings of every addend, at most: BLOCK in its product, 2 · 63 in pairwise additions of up to 2⁶³ products, 24 in
weighting a row, 2 divisions, and about 100 spare for their products with each other.
"""


@term
@dataclass(frozen=True, eq=False)
class PairwiseSum:
    """A pairwise sum: level l holds the sum of 2^l parts or nothing, like the digits of a binary counter.

    Two sums of one level make one of the next. So a part takes l additions to reach level l, and one more for each
    level in `total`: at most 2 log₂(parts) + 1 additions, in whatever order an engine adds.

    >>> sum((PairwiseSum.of(np.array([x])) for x in (1.0, 2.0, 3.0)), PairwiseSum(())).total.tolist()
    [6.0]
    """

    levels: tuple[FloatArray | None, ...]

    @classmethod
    def of(cls, part: FloatArray) -> PairwiseSum:
        """A sum of one part."""
        return cls((part,))

    def __add__(self, other: PairwiseSum) -> PairwiseSum:
        levels_out: list[FloatArray | None] = []
        carry: FloatArray | None = None
        for level in range(max(len(self.levels), len(other.levels)) + 1):
            operands = [s.levels[level] for s in (self, other) if level < len(s.levels)]
            parts = [part for part in (*operands, carry) if part is not None]
            carry = parts.pop() + parts.pop() if len(parts) > 1 else None
            levels_out.append(parts.pop() if parts else None)
        while levels_out and levels_out[-1] is None:
            levels_out.pop()
        return PairwiseSum(tuple(levels_out))

    @property
    def total(self) -> FloatArray:
        """The sum, smallest levels first."""
        parts = [part for part in self.levels if part is not None]
        if not parts:
            raise Refusal("nothing to sum: the table has no rows")
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total


def moments(blocks: Iterable[RowBlock], engine: Engine) -> tuple[FloatArray, FloatArray]:
    """(Σ yyᵀ, Σ r y), (d, d) and (d,), of blocks (y, r): rows y = r z (n, d), r (n,) the roots of their weights."""
    products, sums = engine.sum_over(blocks, block_moments)
    return products.total, sums.total


def root_weights(person: Sequence[Hashable]) -> tuple[FloatArray, int]:
    """(n,) 1/√k for a row of a person with k rows, and the number of people; 0 for a row without a person (None).

    A person's weights add up to at most 1 in float64 too: each root is lowered by eight roundings.

    >>> root_weights(["ann", "bob", "ann"])[0].round(3).tolist(), root_weights(["ann", "bob", "ann"])[1]
    ([0.707, 1.0, 0.707], 2)
    """
    counts: dict[Hashable, int] = {}
    for name in person:
        counts[name] = counts.get(name, 0) + 1
    counts.pop(None, None)
    roots = {name: 1.0 if k == 1 else (1 - 8 * ROUNDING) / np.sqrt(k) for name, k in counts.items()}
    return np.array([roots.get(name, 0.0) for name in person]), len(counts)


def block_moments(block: RowBlock) -> tuple[PairwiseSum, PairwiseSum]:
    """Both sums of one block (y, r)."""
    products, sums = PairwiseSum(()), PairwiseSum(())
    for Y, r in split(block, BLOCK):
        products += PairwiseSum.of(Y.T @ Y)
        sums += PairwiseSum.of(r @ Y)
    return products, sums
