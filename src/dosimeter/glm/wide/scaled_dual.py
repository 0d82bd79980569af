"""The dual route with a unit for each column: cells, columns and targets exact, whole rows between two bounds.

With P = diag(unit) the matrix H⁻¹P²H⁻¹ no longer respects the row space, and no reduced form of it is exact. A row's
u = H⁻¹x̃, Bᵀu and BBᵀu are solved for, so only the 2 x 2 bound of `wide/row_bracket.py` remains. A figure that names at
most `MANY` columns is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.progress import track
from dosimeter.glm.fitting.wide_fit import WideFit
from dosimeter.glm.fitting.wide_inverse import DualInverse
from dosimeter.glm.jacobians.dense_jacobian import Rows
from dosimeter.glm.linalg.sparse_table import Table, dense_rows
from dosimeter.glm.wide.bounded_jacobian import BoundedJacobian
from dosimeter.glm.wide.dual import MANY, DualJacobian
from dosimeter.glm.wide.row_bracket import Border, Products, Reach

BLOCK = 8 << 20
"""Numbers of a block of rows written out."""


@dataclass(frozen=True, eq=False)
class ScaledDualJacobian(BoundedJacobian):
    """Bounds for whole rows, everything else from the exact Jacobian of single columns."""

    exact: DualJacobian
    inverse: DualInverse
    X: Table

    @property
    def a(self) -> FloatArray:  # type: ignore[override]
        return self.exact.inner.a

    @property
    def r(self) -> FloatArray:  # type: ignore[override]
        return self.exact.inner.r

    @property
    def c(self) -> FloatArray:  # type: ignore[override]
        return self.exact.inner.c

    @property
    def g(self) -> FloatArray:  # type: ignore[override]
        return self.exact.g

    @property
    def whitening(self) -> float:  # type: ignore[override]
        return self.exact.level * self.inverse.ridge

    @cached_property
    def reach(self) -> Reach:
        """From ||S⁻¹|| <= 1/nλ; ℓ is the size of an unknown outside as many directions as the rows have, and g."""
        sizes = np.sort(np.abs(self.exact.unit))[::-1] / self.inverse.ridge
        lost = self.exact.space.width + 1
        corner = float(np.linalg.norm(self.exact.unit * self._constant[:-1])) if self.inverse.intercept else 0.0
        return Reach(float(sizes[0]), float(np.hypot(sizes[0], corner)), float(sizes[lost:].max(initial=0.0)))

    @cached_property
    def _constant(self) -> FloatArray:
        """H⁻¹ of the intercept's axis, (p,): −q₁ and 1/t + μ·q₁; empty without an intercept."""
        return self.inverse.solve(np.append(np.zeros(self.m), 1.0)) if self.inverse.intercept else np.empty(0)

    @cached_property
    def _whole(self) -> Products:
        unit, d, intercept = self.exact.unit, self.m, int(self.inverse.intercept)
        zeros = [0.0] * intercept
        v = self.inverse.solve(np.append(unit * self.g, zeros))
        t = self.inverse.solve(np.append(-(unit**2) * self._constant[:d], zeros))[:d] if intercept else np.zeros(d)
        out = np.empty((6, self.n))
        step = max(1, BLOCK // (d + 1))
        for i in track(range(0, self.n, step)):
            s = slice(i, min(i + step, self.n))
            x = dense_rows(self.X, s).T
            u = self.inverse.solve(np.vstack([x, np.ones((intercept, x.shape[1]))]))
            none = np.zeros((intercept, x.shape[1]))
            Bu = unit[:, None] * self.inverse.solve(np.vstack([u[:d], none]))[:d]
            BBu = self.inverse.solve(np.vstack([unit[:, None] * Bu, none]))[:d]
            out[:3, s] = [np.einsum("pn,pn->n", f, f) for f in (u[:d], Bu, BBu)]
            out[3:, s] = v[:d] @ u[:d], -t @ u[:d], u[-1]
        uu, hh, qq, uv, mixed, tau = out
        border = None
        if intercept:
            moved = unit * self._constant[:d]
            border = Border(tau, mixed, float(v[-1]), float(moved @ moved), float(t @ t))
        return Products(uu, uu, hh, hh, qq, uv, float(v[:d] @ v[:d]), border)

    def products(self, columns: Index) -> Products:
        return self._whole  # only whole rows come here: see row_bracket

    def row_bracket(self, columns: Index, include_target: bool) -> tuple[FloatArray, FloatArray]:
        """(n,), (n,) equal where few columns are named."""
        if len(columns) == self.m > MANY:
            return super().row_bracket(columns, include_target)
        norms = self.exact.row_norms(columns, include_target)
        return norms, norms

    def squared_targets(self) -> tuple[FloatArray, FloatArray]:
        squares = np.einsum("nq,nq->n", self.exact.U, self.exact.U) / self.whitening**2
        return squares, squares

    def column_bounds(self, columns: Index) -> FloatArray:
        return np.sqrt(self.exact.squared_moves[columns]) / self.whitening

    def cell_norms(self, columns: Index) -> FloatArray:
        return self.exact.cell_norms(columns)

    def cells_of(self, rows: Index) -> FloatArray:
        """(k, m) every cell of some rows, exact."""
        return self.exact.cells_of(rows)

    def column_norms(self) -> FloatArray:
        return self.exact.column_norms()

    def frobenius(self, include_target: bool) -> FloatArray:
        """(n,) exact."""
        return self.exact.frobenius(include_target)

    def together(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> float:
        """Exact for few columns, otherwise an upper bound."""
        if len(columns) <= MANY:
            return self.exact.together(rows, columns, include_target, tied)
        return super().together(rows, columns, include_target, tied)

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """Exact for few columns, otherwise upper bounds."""
        if len(columns) <= MANY:
            return self.exact.norms_together(rows, columns, include_target, tied)
        return super().norms_together(rows, columns, include_target, tied)


def scaled_dual_jacobian(fit: WideFit, X: Table, exact: DualJacobian) -> ScaledDualJacobian:
    """Of a fit by the dual route, from its Jacobian of single columns."""
    if fit.gram is None:
        raise TypeError("this Jacobian is for the dual route")
    e, ridge = np.sqrt(fit.sample_weight * fit.curvature), fit.n * fit.l2
    C = fit.gram * e * e[:, None]
    C[np.diag_indices(len(C))] += ridge
    triangle = cho_factor(C, lower=True, overwrite_a=True)
    return ScaledDualJacobian(exact, DualInverse(X, ridge, fit.intercept, e, triangle, cho_solve(triangle, e)), X)
