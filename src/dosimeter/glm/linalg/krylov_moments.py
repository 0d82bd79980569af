"""Bounds of xᵀS⁻ᵏx for every row of a table, from a few Lanczos steps that start at the row.

S = X_cᵀ D X_c + nλ (`linalg/conjugate_gradients.py`) has no eigenvalue below nλ. After j steps the Jacobi matrix T
of S seen from x gives by Gauss quadrature a lower bound of xᵀf(S)x and, with nλ as a prescribed node (Gauss–Radau),
an upper bound, for every f = λ⁻ᵏ: its derivatives alternate in sign [Golub94]. The leading eigenvectors of S are split
off first; their share is exact.

A vector of the row space is held as X ᵀy with y (n,): the steps need n numbers per row instead of d, and K y = X Xᵀy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.glm.linalg.conjugate_gradients import Centred
from dosimeter.glm.linalg.sparse_table import is_sparse

POWERS = (1, 2, 4, 6)
"""The k of the moments xᵀS⁻ᵏx that the figures use."""

LEADING = 128
"""Eigenvectors of S that are split off: each costs n numbers, and they are what makes the steps slow."""

SLACK = 1e-9
"""Relative margin of the bounds for rounding."""


@dataclass(frozen=True, eq=False)
class Leading:
    """Leading eigenvectors φ = Xᵀη of S, with Xφ for inner products."""

    values: FloatArray
    """(q,)."""
    eta: FloatArray
    """(n, q)."""
    image: FloatArray
    """(n, q) Xφ."""

    @classmethod
    def of(cls, S: Centred, count: int) -> Leading:
        """At most `count` of them, by Lanczos on √D X_c X_cᵀ √D (n, n)."""
        n = S.X.shape[0]
        count = min(count, n // 4, S.d // 4)
        if count < 1:
            return cls(np.empty(0), np.empty((n, 0)), np.empty((n, 0)))
        root = np.sqrt(S.D)
        unit = root / np.linalg.norm(root)

        def image(f: FloatArray) -> FloatArray:
            f = np.ravel(f)
            if S.intercept:
                f = f - unit * (unit @ f)
            out = root * (S.X @ (S.X.T @ (root * f)))
            return np.asarray(out - unit * (unit @ out) if S.intercept else out)

        start = np.cos(1.0 + np.arange(n))  # fixed, so that figures do not change from run to run
        values, vectors = eigsh(LinearOperator((n, n), matvec=image, dtype=np.float64), k=count, v0=start, tol=1e-10)
        keep = values > 1e-6 * S.ridge
        values, vectors = values[keep], vectors[:, keep]
        eta = root[:, None] * vectors / np.sqrt(values)
        return cls(values + S.ridge, eta, np.asarray(S.X @ (S.X.T @ eta)))


@dataclass(frozen=True, eq=False)
class MomentBounds:
    """Bounds of xᵀS⁻ᵏx of some rows: one column for each of `POWERS`."""

    low: FloatArray
    """(rows, 4)."""
    high: FloatArray
    """(rows, 4)."""


class RowKrylov:
    """Lanczos steps on S for a block of rows at once."""

    def __init__(self, krylov: Krylov, rows: Index) -> None:
        self.krylov, S = krylov, krylov.S
        X, n = S.X, S.X.shape[0]
        y = np.zeros((n, len(rows)))
        y[rows, np.arange(len(rows))] = 1.0
        z = (X @ X[rows].T).toarray() if is_sparse(X) else X @ X[rows].T
        if S.intercept:
            y -= (S.D / S.total)[:, None]
            z = z - krylov.mean_image[:, None]
        self.share = krylov.leading.image.T @ y
        y -= krylov.leading.eta @ self.share
        z -= krylov.leading.image @ self.share
        self.square = np.maximum(np.einsum("nb,nb->b", y, z), 0.0)
        length = np.sqrt(self.square)
        scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
        self.y, self.z, self.previous = y * scale, z * scale, np.zeros_like(y)
        self.alpha: list[FloatArray] = []
        self.beta: list[FloatArray] = []

    def step(self) -> None:
        """One more row of the Jacobi matrices: a product with X and one with Xᵀ."""
        S, leading = self.krylov.S, self.krylov.leading
        weighed = S.weigh(self.z)
        alpha = S.ridge + np.einsum("nb,nb->b", self.z, weighed)
        y = (S.ridge - alpha) * self.y + weighed
        if self.beta:
            y -= self.beta[-1] * self.previous
        y -= leading.eta @ (leading.image.T @ y)
        z = S.X @ (S.X.T @ y)
        beta = np.sqrt(np.maximum(np.einsum("nb,nb->b", y, z), 0.0))
        # A Krylov space that is exhausted: what follows has weight zero.
        beta[beta <= 1e-13 * alpha] = 0.0
        scale = np.divide(1.0, beta, out=np.zeros_like(beta), where=beta > 0)
        self.previous, self.y, self.z = self.y, y * scale, z * scale
        self.alpha.append(alpha)
        self.beta.append(beta)

    def moments(self) -> MomentBounds:
        """Bounds after the steps so far (at least one)."""
        alpha, beta = np.array(self.alpha).T, np.array(self.beta).T
        node = self.krylov.S.ridge
        inside = [(self.share**2).T @ self.krylov.leading.values[:, None] ** -float(k) for k in POWERS]
        base = np.hstack(inside)
        low = base + self.square[:, None] * _gauss(alpha, beta[:, :-1])
        extended = np.column_stack([alpha, node + _radau_shift(alpha, beta, node)])
        high = base + self.square[:, None] * _gauss(extended, beta)
        return MomentBounds(low * (1.0 - SLACK), np.maximum(high, low) * (1.0 + SLACK))

    def keep(self, mask: Mask) -> None:
        """Go on with some of the rows only."""
        self.y, self.z, self.previous = self.y[:, mask], self.z[:, mask], self.previous[:, mask]
        self.share, self.square = self.share[:, mask], self.square[mask]
        self.alpha, self.beta = [v[mask] for v in self.alpha], [v[mask] for v in self.beta]


@dataclass(frozen=True, eq=False)
class Krylov:
    """What the rows of a table share: S, and its leading eigenvectors."""

    S: Centred
    count: int = LEADING

    @cached_property
    def leading(self) -> Leading:
        return Leading.of(self.S, self.count)

    @cached_property
    def mean_image(self) -> FloatArray:
        """(n,) X μ."""
        return np.asarray(self.S.X @ self.S.mean)

    def start(self, rows: Index) -> RowKrylov:
        """Lanczos from some rows."""
        return RowKrylov(self, rows)


def _gauss(alpha: FloatArray, beta: FloatArray) -> FloatArray:
    """(rows, 4) Σ weight · nodeᵏ⁻ of Jacobi matrices with diagonals alpha (rows, j) and off-diagonals (rows, j − 1)."""
    j = alpha.shape[1]
    T = np.zeros((len(alpha), j, j))
    index = np.arange(j)
    T[:, index, index] = alpha
    T[:, index[1:], index[:-1]] = beta
    nodes, vectors = np.linalg.eigh(T)
    weights = vectors[:, 0, :] ** 2
    return np.stack([np.sum(weights * nodes ** -float(k), axis=1) for k in POWERS], axis=1)


def _radau_shift(alpha: FloatArray, beta: FloatArray, node: float) -> FloatArray:
    """(rows,) β² [(T − node)⁻¹] at its last entry, by the pivots of T − node, which are positive."""
    pivot = np.maximum(alpha[:, 0] - node, 0.0)
    tiny = 1e-14 * np.maximum(alpha[:, 0], node)
    for j in range(1, alpha.shape[1]):
        pivot = alpha[:, j] - node - beta[:, j - 1] ** 2 / np.maximum(pivot, tiny)
    return np.asarray(beta[:, -1] ** 2 / np.maximum(pivot, tiny))
