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
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.jacobians.dense_jacobian import Rows
from dosimeter.glm.jacobians.screening import Near
from dosimeter.glm.releases.shaped_jacobian import ShapedJacobian, Spectrum
from dosimeter.glm.scalers.fitted_scaler import penalty_part
from dosimeter.glm.scalers.scaler import Scaler


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

    def near(self, columns: Index) -> Near:
        """The frozen bounds, with what the scaler adds to the mean and to the covariance."""
        frozen = super().near(columns)
        size = float(np.linalg.norm(self.scaler.P[:, columns], 2)) if len(columns) else 0.0
        most = float(np.sqrt(max(0.0, np.linalg.eigvalsh(self._gram)[-1]))) if len(self.S) else 0.0
        steps = np.sqrt(np.max(self.scaler.Z**2, axis=1, initial=0.0) + 1.0)
        slack = 0.0 if self.floor else size * np.sqrt(self.scaler.Z**2 @ np.sum(self.moved**2, axis=0))
        return Near(frozen.base, frozen.slack + slack, frozen.below, frozen.below_slack + most * size * steps)

    def _pair(self, first: Index, second: Index) -> FloatArray:
        out, m, P = super()._pair(first, second), self.m, self.scaler.P
        G, k = self._gram, len(self.S)
        x, y = self.scaler.Z[first], self.scaler.Z[second]
        left, right = self._mixed(first, y), self._mixed(second, x)
        fold = x[:, :, None] * y[:, None, :] * G[:k, :k] + x[:, :, None] * G[:k, k:] + y[:, None, :] * G[k:, :k]
        out[:, :m, :m] += 0.5 * (left.transpose(0, 2, 1) @ P + P.T @ right) + P.T @ (fold + G[k:, k:]) @ P
        return out

    def _mixed(self, rows: Index, x: FloatArray) -> FloatArray:
        """(b, k, m) tr(N_a Q_f) of the unknowns of some rows, Q_f = x_f S_f + C_f with x (b, k) of others."""
        Z, (k, p, _) = self._z(rows), self.S.shape
        by_scale, by_mean = (
            (Z @ (2 * V @ self.B).transpose(1, 0, 2).reshape(p, -1)).reshape(len(Z), k, -1) for V in (self.S, self.C)
        )
        return np.asarray(x[:, :, None] * by_scale + by_mean)

    def _information(self, rows: Rows, columns: Index, include_target: bool) -> FloatArray:
        I = super()._information(rows, columns, include_target)
        P, Z, x = self.scaler.P[:, columns], self._z(rows), self.scaler.Z[rows]
        if not P.any():
            return I
        B, k, m = self.B[:, columns], len(self.S), len(columns)
        kappa = 2 * (Z * self.pull) @ B
        parts = []  # tr(N_a Q_f), Q_f = z_f S_f + C_f, by its two terms: (k, p) products with all f at once
        for V in (self.S, self.C):
            sides = (2 * (self.s * V) @ B).transpose(1, 0, 2).reshape(len(B), k * m)
            traces = np.trace(V, axis1=1, axis2=2)
            parts.append((Z @ sides).reshape(len(Z), k, m) + kappa[:, None, :] * traces[:, None])
        mixed = x[:, :, None] * parts[0] + parts[1]
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
