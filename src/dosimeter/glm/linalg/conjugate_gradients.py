"""f ↦ H⁻¹f by conjugate gradients, where no square matrix of the table's size is practical.

An unpenalised intercept is eliminated first. With weights D = ωa, total t and weighted mean row μ, S = X_cᵀ D X_c + nλ
of the rows centred at μ, and H⁻¹[f; φ] = [x; φ/t − μ·x] with x = S⁻¹(f − μφ). S ⪰ nλ, and its condition does not
depend on the columns' common offset. Without an intercept μ = 0 and S = H.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.glm.linalg.sparse_table import Table, column_squares

TOLERANCE = 1e-12
"""Residual of a solution, relative to its right-hand side in the norm of the preconditioner."""

MOST = 5_000
"""Iterations after which a penalty is too small for this route."""


@dataclass(frozen=True, eq=False)
class Centred:
    """S = X_cᵀ D X_c + nλ as an operator, and its inverse by conjugate gradients with a diagonal preconditioner."""

    X: Table
    D: FloatArray
    """(n,) ω times the curvature."""
    ridge: float
    intercept: bool

    @property
    def d(self) -> int:
        return int(self.X.shape[1])

    @cached_property
    def total(self) -> float:
        """t = Σ D."""
        return float(self.D.sum())

    @cached_property
    def mean(self) -> FloatArray:
        """μ (d,): the weighted mean row, zero without an intercept."""
        return np.asarray(self.X.T @ self.D / self.total) if self.intercept else np.zeros(self.d)

    @cached_property
    def diagonal(self) -> FloatArray:
        """(d,) of S."""
        squares = column_squares(self.X, self.D) - self.total * self.mean**2
        return np.asarray(np.maximum(squares, 0.0) + self.ridge)

    def weigh(self, z: FloatArray) -> FloatArray:
        """D (z − its weighted mean), (n,) or (n, k), of z = X v: what X_cᵀ D X_c v is the pull of."""
        D = self.D if z.ndim == 1 else self.D[:, None]
        if self.intercept:
            z = z - self.D @ z / self.total
        return np.asarray(D * z)

    def apply(self, v: FloatArray) -> FloatArray:
        """S v, (d,) or (d, k)."""
        return np.asarray(self.X.T @ self.weigh(self.X @ v) + self.ridge * v)

    def solve(self, f: FloatArray, tolerance: float = TOLERANCE) -> FloatArray:
        """S⁻¹f, (d,) or (d, k), each column to its own tolerance."""
        columns = f.reshape(len(f), -1)
        scale = 1.0 / self.diagonal[:, None]
        x, r = np.zeros_like(columns), columns.copy()
        z = scale * r
        direction, size = z.copy(), np.einsum("dk,dk->k", r, z)
        goal = tolerance**2 * size
        for _ in range(MOST):
            active = size > goal
            if not active.any():
                return x.reshape(f.shape)
            image = self.apply(direction)
            # A finished column has direction 0: its step is 0 / 1.
            length = np.where(active, size, 0.0) / np.where(active, np.einsum("dk,dk->k", direction, image), 1.0)
            x += length * direction
            r -= length * image
            z = scale * r
            new = np.einsum("dk,dk->k", r, z)
            direction = z + direction * np.where(active, new / np.where(size > 0, size, 1.0), 0.0)
            direction[:, ~(new > goal)] = 0.0
            size = new
        raise Refusal(
            f"conjugate gradients did not converge in {MOST} steps: the penalty is small relative to the table; use a "
            "larger l2 or scale the columns alike"
        )


@dataclass(frozen=True, eq=False)
class IterativeInverse:
    """H⁻¹ of all p parameters through S⁻¹."""

    centred: Centred
    tolerance: float = TOLERANCE

    def solve(self, f: FloatArray) -> FloatArray:
        """H⁻¹f, (p,) or (p, k)."""
        S = self.centred
        if not S.intercept:
            return S.solve(f, self.tolerance)
        columns = f.reshape(len(f), -1)
        x = S.solve(columns[:-1] - np.outer(S.mean, columns[-1]), self.tolerance)
        out = np.vstack([x, columns[-1:] / S.total - S.mean @ x])
        return out.reshape(f.shape)
