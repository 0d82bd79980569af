"""Sums over the rows of each class, and how they move with one row: what discriminant analysis and naive Bayes share.

With indicators e_ik of the classes, N_k = Σ ω e_ik, μ_k = Σ ω e_ik x_i / N_k:

    dμ_k/dx_i = ω e_ik/N_k,        dμ_k/de_ik = ω (x_i - μ_k)/N_k,        dN_k/de_ik = ω

The indicators move with the unknowns of the target by `indicator_moves` (`equations/class_target.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.glm.equations.class_target import indicator_moves, indicators
from dosimeter.glm.jacobians.dense_jacobian import Rows


@dataclass(frozen=True, eq=False, repr=False)
class ClassMoments:
    """Counts and means of the classes of a table."""

    X: FloatArray
    """(n, d)."""
    e: FloatArray
    """(n, K) indicators."""
    weight: FloatArray
    """(n,) ω."""

    @classmethod
    def of(cls, X: FloatArray, y: FloatArray, weight: FloatArray, n_classes: int) -> ClassMoments:
        """From class numbers y (n,)."""
        return cls(X, indicators(y, n_classes), weight)

    @property
    def K(self) -> int:
        """Classes."""
        return int(self.e.shape[1])

    @property
    def T(self) -> FloatArray:
        """(K, t) de/d(target)."""
        return indicator_moves(self.K)

    def counts(self) -> FloatArray:
        """N (K,)."""
        return self.weight @ self.e

    def means(self) -> FloatArray:
        """μ (K, d)."""
        return np.asarray((self.weight[:, None] * self.e).T @ self.X / self.counts()[:, None])

    def deviations(self, means: FloatArray, rows: Rows) -> FloatArray:
        """(k, K, d) x - μ_k of some rows from every class."""
        return np.asarray(self.X[rows][:, None, :] - means)

    def count_moves(self, rows: Rows) -> FloatArray:
        """(k, K, d + t)."""
        weight, d = self.weight[rows], self.X.shape[1]
        out = np.zeros((len(weight), self.K, d + self.T.shape[1]))
        out[:, :, d:] = weight[:, None, None] * self.T
        return out

    def mean_moves(self, counts: FloatArray, means: FloatArray, rows: Rows) -> FloatArray:
        """(k, K, d, d + t)."""
        share, d = self.shares(counts, rows), self.X.shape[1]
        out = np.zeros((len(share), self.K, d, d + self.T.shape[1]))
        out[:, :, np.arange(d), np.arange(d)] = (share * self.e[rows])[:, :, None]
        deviation = share[:, :, None] * self.deviations(means, rows)
        out[:, :, :, d:] = deviation[:, :, :, None] * self.T[:, None, :]
        return out

    def shares(self, counts: FloatArray, rows: Rows) -> FloatArray:
        """(k, K) ω/N_k."""
        return np.asarray(self.weight[rows][:, None] / counts)


def check_priors(priors: Any, n_classes: int) -> FloatArray | None:
    """(K,) positive shares that sum to one, or None if they are estimated."""
    if priors is None:
        return None
    shares = np.asarray(priors, dtype=np.float64)
    if shares.shape != (n_classes,) or not (shares > 0).all() or abs(float(shares.sum()) - 1.0) > 1e-9:
        raise Refusal(f"priors must be {n_classes} positive numbers that sum to one, not {priors!r}")
    return shares
