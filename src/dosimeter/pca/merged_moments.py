"""Weighted mean and squared deviations of rows, merged over blocks as by Chan, Golub and LeVeque (1983).

Σ zzᵀ - n m mᵀ cancels if the mean is large beside the spread. Here every block is centred at its own mean first, and
two blocks are merged by the distance of their means: nothing cancels. Internal: all of it is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.engine import term


@term
@dataclass(frozen=True, eq=False)
class MergedMoments:
    """Total weight, mean (d,) and Σ ω (z - mean)(z - mean)ᵀ (d, d) of some rows; those of blocks add.

    >>> halves = [MergedMoments.of(np.array([[1.0], [3.0]])), MergedMoments.of(np.array([[8.0]]))]
    >>> whole = halves[0] + halves[1]
    >>> whole.mean.tolist(), whole.scatter.round(9).tolist()
    ([4.0], [[26.0]])
    """

    weight: float
    mean: FloatArray
    scatter: FloatArray

    @classmethod
    def of(cls, Z: FloatArray, weights: FloatArray | None = None) -> MergedMoments:
        """Of rows (n, d) with weights (n,), 1 each by default."""
        omega = np.ones(len(Z)) if weights is None else weights
        total = float(omega.sum())
        mean = omega @ Z / total if total > 0 else np.zeros(Z.shape[1])
        Y = (Z - mean) * np.sqrt(omega)[:, None]
        return cls(total, mean, Y.T @ Y)

    def __add__(self, other: MergedMoments) -> MergedMoments:
        total = self.weight + other.weight
        if total == 0:
            return self
        apart, share = other.mean - self.mean, other.weight / total
        between = self.weight * share * np.outer(apart, apart)
        return MergedMoments(total, self.mean + share * apart, self.scatter + other.scatter + between)

    @property
    def covariance(self) -> FloatArray:
        """(d, d) about the mean."""
        return self.scatter / max(self.weight, 1.0)

    def about(self, point: FloatArray) -> FloatArray:
        """(d, d) the second moment about a point (d,)."""
        apart = self.mean - point
        return self.covariance + np.outer(apart, apart)
