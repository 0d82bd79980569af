"""A scaler that was fitted on the table: which features it standardises, and how the unknowns of a row move them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import Refusal
from dosimeter.glm.jacobians.dense_jacobian import Rows

STANDARD = 1e-6
"""How far mean and deviation of a standardised column may be from 0 and 1."""


@dataclass(frozen=True, eq=False)
class Scaler:
    """The features that were standardised by the table itself, and how the unknowns move them."""

    features: Index
    """(k,) their positions among the columns of X."""
    Z: FloatArray
    """(n, k) their values."""
    P: FloatArray
    """(k, m) how each moves with each unknown of its row, with mean and deviation fixed."""
    fitted_rows: int = 0
    """Rows that mean and deviation are of, if Z holds only some of them; 0: those of Z."""
    ones_last: bool = False
    """Whether the last column of X is 1 on every row and no unknown moves it: an intercept with a penalty."""

    @classmethod
    def of(cls, X: FloatArray, scaled: Any, P: FloatArray) -> Scaler:
        """X (n, d), scaled (d,) booleans, P (d, m); refused if a marked column is not standardised."""
        mask = np.asarray(scaled)
        if mask.dtype != bool or mask.shape != (X.shape[1],):
            raise Refusal(f"scaled must be one boolean for each of the {X.shape[1]} columns of X")
        features = np.flatnonzero(mask).astype(np.intp)
        Z = X if len(features) == X.shape[1] else np.ascontiguousarray(X[:, features])
        mean = Z.mean(axis=0)
        # Of a column whose mean is not 0 the deviation loses digits here, and it is refused for its mean.
        deviation = np.sqrt(np.maximum(np.einsum("nk,nk->k", Z, Z) / len(Z) - mean**2, 0.0))
        off = np.maximum(np.abs(mean), np.abs(deviation - 1.0))
        if (off > STANDARD).any():
            j = int(features[int(np.argmax(off))])
            raise Refusal(
                f"column {j} is marked as standardised but does not have mean 0 and deviation 1 (1/n): standardise it"
            )
        ones_last = not mask[-1] and not P[-1].any() and bool((X[:, -1] == 1.0).all())
        return cls(features, Z, np.ascontiguousarray(P[features]), ones_last=ones_last)

    @classmethod
    def of_some_rows(cls, X: FloatArray, scaled: Any, P: FloatArray, n: int) -> Scaler:
        """The same for some of the n rows that were standardised together, whose mean and deviation are known."""
        features = np.flatnonzero(np.asarray(scaled)).astype(np.intp)
        return cls(features, np.ascontiguousarray(X[:, features]), np.ascontiguousarray(P[features]), n)

    @property
    def n(self) -> int:
        """Rows of Z."""
        return len(self.Z)

    @property
    def divisor(self) -> int:
        """Rows that mean and deviation are of."""
        return self.fitted_rows or len(self.Z)

    @cached_property
    def touched(self) -> Index:
        """The unknowns that move a standardised feature."""
        return np.flatnonzero(np.any(self.P != 0.0, axis=0)).astype(np.intp)

    def rotate_moves(self, rows: Rows, root: FloatArray) -> FloatArray:
        """(b, r, touched) root (r, 2k) times [z P; P]/n, the moves of log-deviation and mean of each feature."""
        P, Z = self.P[:, self.touched] / self.divisor, self.Z[rows]
        k = len(self.features)
        by_scale = (Z[:, None, :] * root[:, :k]) @ P
        return np.asarray(by_scale + root[:, k:] @ P)


@dataclass(frozen=True, eq=False)
class StatisticMoves(Scaler):
    """Scalers by any statistics of the table.

    Z holds how a row moves the log of what a feature is multiplied by, by_mean how it moves what is added; both for
    one unit of the feature, the scaler held fixed: -z/n and -1/n for mean and deviation.
    """

    by_mean: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    """(n, k)."""

    @classmethod
    def of_moves(cls, features: Index, by_scale: FloatArray, by_mean: FloatArray, P: FloatArray) -> StatisticMoves:
        """features (k,), by_scale and by_mean (n, k), P (d, m)."""
        return cls(features, by_scale, np.ascontiguousarray(P[features]), fitted_rows=1, by_mean=by_mean)

    def rotate_moves(self, rows: Rows, root: FloatArray) -> FloatArray:
        """(b, r, touched) root (r, 2k) times the moves of log-divisor and shift of each feature."""
        P, k = self.P[:, self.touched], len(self.features)
        moves = self.Z[rows][:, None, :] * root[:, :k] + self.by_mean[rows][:, None, :] * root[:, k:]
        return np.asarray(moves @ P)
