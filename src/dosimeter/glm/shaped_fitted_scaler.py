"""Noise shaped by the Hessian, with a scaler that was fitted on the same table: docs/explanation/scaler.md, section 5.

R = A(w + N(0, cH⁻ᵖ)) is released, so the covariance in raw units is A cH⁻ᵖ Aᵀ. H is a statistic of standardised rows;
its total derivative is the frozen one less two sums over the rows that no row changes, and the fold adds its own:

    N_ij -> N_ij + Σ_f P_fj (z_if S_f + C_f)

with S_f, C_f symmetric (p, p). With p = 1 and no penalty both are zero: then cH⁻¹ folds into the same covariance
for any scaler.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.glm.dense_jacobian import Rows
from dosimeter.glm.fit import Fit
from dosimeter.glm.fitted_scaler import penalty_part
from dosimeter.glm.scaler import Scaler
from dosimeter.glm.shaped_noise import ShapedJacobian, Spectrum


@dataclass(frozen=True, eq=False)
class ScaledShapedJacobian(ShapedJacobian):
    """The Jacobian of shaped noise with what a fitted scaler adds to the mean and to the covariance."""

    scaler: Scaler = None  # type: ignore[assignment]
    moved: FloatArray = None  # type: ignore[assignment]
    """(p, k) what one z P of a feature adds to the whitened mean."""
    S: FloatArray = None  # type: ignore[assignment]
    """(k, p, p)."""
    C: FloatArray = None  # type: ignore[assignment]
    """(k, p, p)."""

    def _location(self, rows: Rows) -> FloatArray:
        J = super()._location(rows)
        if self.floor:
            return J
        touched = self.scaler.touched
        J = J.copy()
        J[:, :, touched] += (self.scaler.Z[rows][:, None, :] * self.moved) @ self.scaler.P[:, touched]
        return J

    def dense(self, rows: Rows) -> FloatArray:
        """(k, q, m + 1)."""
        out, p = super().dense(rows), len(self.s)
        a, b = np.triu_indices(p)
        weight = np.where(a == b, np.sqrt(0.5), 1.0)
        pairs = [weight[:, None] * V[:, a, b].T for V in (self.S, self.C)]
        touched = self.scaler.touched
        by_row = self.scaler.Z[rows][:, None, :] * pairs[0] + pairs[1]
        out[:, p:, touched] += by_row @ self.scaler.P[:, touched]
        return out

    @cached_property
    def _gram(self) -> FloatArray:
        """(2k, 2k) ½ tr of products of S and C."""
        V = np.concatenate([self.S, self.C]).reshape(2 * len(self.S), -1)
        return np.asarray(0.5 * V @ V.T)

    def _information(self, rows: slice, columns: Index, include_target: bool) -> FloatArray:
        I = super()._information(rows, columns, include_target)
        P, Z, x = self.scaler.P[:, columns], self._z(rows), self.scaler.Z[rows]
        if not P.any():
            return I
        B, k = self.B[:, columns], len(self.S)
        kappa = 2 * (Z * self.pull) @ B
        mixed = np.empty((len(Z), k, len(columns)))  # tr(N_a Q_f), Q_f = z_f S_f + C_f
        for f in range(k):
            by_scale, by_mean = ((2 * Z @ (self.s * V[f]) @ B + kappa * np.trace(V[f])) for V in (self.S, self.C))
            mixed[:, f] = x[:, [f]] * by_scale + by_mean
        cross = 0.5 * mixed.transpose(0, 2, 1) @ P
        G = self._gram
        both = x[:, :, None] * G[:k, k:]
        scaler_part = x[:, :, None] * x[:, None, :] * G[:k, :k] + both + both.transpose(0, 2, 1) + G[k:, k:]
        c = len(columns)
        I[:, :c, :c] += cross + cross.transpose(0, 2, 1) + P.T @ scaler_part @ P
        return I


def add_scaler(jacobian: ShapedJacobian, fit: Fit, H: Spectrum, p: float, scaler: Scaler) -> ScaledShapedJacobian:
    """The same noise on weights that are folded into raw units by a scaler of this table."""
    n, U, D = scaler.n, H.U, H.powers(p / 2)
    z = jacobian._z(slice(None))
    S: list[FloatArray] = []
    C: list[FloatArray] = []
    for k, f in enumerate(scaler.features):
        B = H.roots * U[f]
        for matrices, weight, row in ((S, scaler.Z[:, k], int(f)), (C, np.ones(n), len(U) - 1)):
            summed = weight @ z
            N = jacobian.s * (np.outer(summed, B) + np.outer(B, summed))
            N += 2 * float((summed * jacobian.pull) @ B) * np.eye(len(B))
            fold = np.outer(U[row] / D, U[f] * D)
            matrices.append((fold + fold.T - N) / n)
    return ScaledShapedJacobian(
        jacobian.mean,
        jacobian.R,
        jacobian.s,
        jacobian.pull,
        jacobian.weight,
        scaler=scaler,
        moved=penalty_part(jacobian.mean, fit, scaler),
        S=np.array(S),
        C=np.array(C),
    )
