"""Notions of leakage: each has a coordinate in which releases add (the one rule)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from dosimeter.core.arrays import FloatArray


class Standing(StrEnum):
    """What a number is worth. The order is from the strongest to the weakest."""

    EXACT = "exact"
    UPPER_BOUND = "upper bound"
    LOWER_BOUND = "lower bound"
    ESTIMATE = "estimate"
    UNACCOUNTED = "unaccounted"

    def weaker(self, other: Standing) -> Standing:
        """The weaker of two standings; an upper and a lower bound together are only an estimate.

        >>> Standing.EXACT.weaker(Standing.UPPER_BOUND).value
        'upper bound'
        """
        if {self, other} == {Standing.UPPER_BOUND, Standing.LOWER_BOUND}:
            return Standing.ESTIMATE
        order = list(Standing)
        return max(self, other, key=order.index)


@dataclass(frozen=True)
class Notion:
    """One kind of leakage: how it is written into its additive coordinate and read out of it.

    >>> FISHER.read(np.array([9.0, 16.0]))
    array([3., 4.])
    """

    name: str
    symbol: str
    coordinate: str
    law: str
    _read: Callable[[FloatArray], FloatArray]
    _write: Callable[[FloatArray], FloatArray]
    exact_units: frozenset[str] = frozenset()
    """Unit kinds for which the sum of exact doses is exact; for all others it is an upper bound."""

    def read(self, values: FloatArray) -> FloatArray:
        """The figure a person reads, from the additive coordinate. Same shape."""
        return self._read(values)

    def write(self, reading: FloatArray) -> FloatArray:
        """The additive coordinate, from the figure a person reads. Same shape."""
        return self._write(reading)

    def __str__(self) -> str:
        return self.name


def _same(x: FloatArray) -> FloatArray:
    return x


def _squared(x: FloatArray) -> FloatArray:
    """x², rounded up to the least normal number: a leakage that is not zero never becomes zero."""
    squares = np.square(x)
    return np.where((x > 0) & (squares < _LEAST), _LEAST, squares)


_LEAST = float(np.finfo(np.float64).tiny)


_ALL = frozenset({"example", "person", "attribute", "cell", "label", "group", "client", "dataset"})

FISHER = Notion(
    name="Fisher information loss",
    symbol="η",
    coordinate="η²",
    law="information adds: I₁ + I₂ [Hannun21, 3.1]; by the scalar law √(η₁² + η₂²)",
    _read=np.sqrt,
    _write=_squared,
    # One real unknown has a 1 x 1 information matrix, whose norm is additive; a larger matrix has
    # ||I₁ + I₂|| <= ||I₁|| + ||I₂|| only.
    exact_units=frozenset({"cell"}),
)
"""[Hannun21] eq. 2: η² is the 2-norm of the Fisher information matrix about the unit."""

LEAKAGE = Notion(
    name="pointwise conditional maximal leakage",
    symbol="L",
    coordinate="nats",
    law="nats add for queries fixed beforehand [Saeidian21, Lemma 5]",
    _read=_same,
    _write=_same,
)

MEMBERSHIP = Notion(
    name="membership, strongest adversary, Gaussian noise",
    symbol="μ",
    coordinate="μ²",
    law="Gaussian trade-off curves compose in μ²",
    _read=np.sqrt,
    _write=_squared,
    exact_units=_ALL,
)
