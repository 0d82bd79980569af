"""The Jacobian of a table for which neither (n, n) nor (p, p) is practical: an upper and a lower bound of every figure.

S = X_cᵀ D X_c + nλ and the elimination of the intercept are in `linalg/conjugate_gradients.py`. Of a row only
xᵀS⁻ᵏx, k = 1, 2, 4, 6, is not known exactly: `linalg/krylov_moments.py` brackets it by Lanczos steps. Everything else
that `wide/row_bracket.py` needs are products of the table with a few vectors that all rows share. Besides

    |u|² <= ℓ (1 − Dᵢℓ)/nλ,     ℓ = xᵀS⁻¹x,

which is at most 1/(4 Dᵢ nλ) before any step. Derivations: docs/explanation/wide.md.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.progress import stage, track
from dosimeter.glm.jacobians.dense_jacobian import Rows
from dosimeter.glm.linalg.conjugate_gradients import Centred, IterativeInverse
from dosimeter.glm.linalg.krylov_moments import Krylov, MomentBounds
from dosimeter.glm.linalg.sparse_table import Table, dense_rows
from dosimeter.glm.wide.bounded_jacobian import BoundedJacobian
from dosimeter.glm.wide.row_bracket import Border, Products, Reach, bracket

TOLERANCE = 0.1
"""Default width of a row's bracket, upper/lower − 1, at which its steps end."""

STEPS = 60
"""Most Lanczos steps of a row."""

ROWS = 64
"""Rows that take their steps together: enough for the products, few enough for the caches."""


@dataclass(frozen=True, eq=False)
class Shared:
    """What all rows share in a figure: u·v (n,), |v|², and the intercept's part."""

    uv: FloatArray
    vv: float
    border: Border | None


@dataclass(frozen=True, eq=False)
class IterativeJacobian(BoundedJacobian):
    """Bounds of the whitened Jacobians through products with the table."""

    S: Centred
    krylov: Krylov
    a: FloatArray
    r: FloatArray
    c: FloatArray
    g: FloatArray
    unit: FloatArray
    """(m,) how much of a column one unit of its unknown is."""
    whitening: float
    tolerance: float = TOLERANCE

    @property
    def ridge(self) -> float:
        return self.S.ridge

    # --- vectors that all rows share ----------------------------------------------------------------------------

    @cached_property
    def mean_solution(self) -> FloatArray:
        """q₁ = S⁻¹μ (d,); zero without an intercept."""
        return self.S.solve(self.S.mean) if self.S.intercept else np.zeros(self.m)

    @cached_property
    def reach(self) -> Reach:
        """From ||S⁻¹|| <= 1/nλ; ℓ is the size of an unknown that no margin sees, one of all but n, or n + 1 with g."""
        sizes = np.sort(np.abs(self.unit))[::-1] / self.ridge
        corner = float(np.linalg.norm(self.unit * self.mean_solution))
        return Reach(float(sizes[0]), float(np.hypot(sizes[0], corner)), float(sizes[self.n + 1 :].max(initial=0.0)))

    def along(self, t: FloatArray) -> FloatArray:
        """(n,) x_c·t of every row."""
        return np.asarray(self.S.X @ t - self.S.mean @ t)

    @cached_property
    def tau(self) -> FloatArray:
        """(n,) the intercept's entry of H⁻¹x̃; zero without one."""
        return 1.0 / self.S.total - self.along(self.mean_solution) if self.S.intercept else np.zeros(self.n)

    @cached_property
    def _whole(self) -> Shared:
        return self._shared(np.arange(self.m, dtype=np.intp))

    def _shared(self, columns: Index) -> Shared:
        """What all rows share in a figure of some columns, by four solutions."""
        unit = np.zeros(self.m)
        unit[columns] = self.unit[columns]
        v = self.S.solve(unit * self.g)
        uv, border = self.along(self.S.solve(v)), None
        if self.S.intercept:
            t, moved = self.S.solve(unit**2 * self.mean_solution), unit * self.mean_solution
            mixed = -self.along(self.S.solve(t))
            border = Border(self.tau, mixed, -float(self.S.mean @ v), float(moved @ moved), float(t @ t))
        return Shared(uv, float(v @ v), border)

    # --- rows -----------------------------------------------------------------------------------------------------

    def _squared_solutions(self, rows: Rows, moments: MomentBounds) -> tuple[FloatArray, FloatArray]:
        """(k,), (k,) bounds of |u|² of some rows."""
        low, high, D = moments.low, moments.high, self.S.D[rows]
        with np.errstate(divide="ignore"):
            best = np.clip(0.5 / D, low[:, 0], high[:, 0])
        leverage = best * np.maximum(1.0 - D * best, 0.0) / self.ridge
        return low[:, 1], np.maximum(np.minimum(high[:, 1], leverage), low[:, 1])

    @cached_property
    def moments(self) -> MomentBounds:
        """Of all rows that leak, each until its bracket is as narrow as the tolerance."""
        stage("bounding every row")
        low, high = np.zeros((self.n, 4)), np.zeros((self.n, 4))
        rows = np.flatnonzero((self.a != 0) | (self.r != 0) | (self.c != 0)).astype(np.intp)
        blocks = [rows[i : i + ROWS] for i in range(0, len(rows), ROWS)]
        _ = self.krylov.leading, self.krylov.mean_image, self._whole, self.reach  # before the threads
        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            for block, part in zip(blocks, track(pool.map(self._bound, blocks), len(blocks)), strict=True):
                low[block], high[block] = part.low, part.high
        return MomentBounds(low, high)

    def _bound(self, rows: Index) -> MomentBounds:
        """Moments of a block of rows."""
        low, high = np.zeros((len(rows), 4)), np.zeros((len(rows), 4))
        place, lanczos = np.arange(len(rows)), self.krylov.start(rows)
        for step in range(1, STEPS + 1):
            lanczos.step()
            moments = lanczos.moments()
            low[place], high[place] = moments.low, moments.high
            wide = self._width(rows[place], moments) > self.tolerance
            if not wide.any() or step == STEPS:
                break
            if wide.mean() < 0.9:
                lanczos.keep(wide)
                place = place[wide]
        return MomentBounds(low, high)

    def _width(self, rows: Index, moments: MomentBounds) -> FloatArray:
        """upper/lower − 1 of ||J|| of some rows, all their cells and the target unknown."""
        A = self.a[rows] ** 2 * float(self.g @ self.g) + self.c[rows] ** 2
        products = self._products_of(rows, moments, self._whole, whole=True)
        lower, upper = bracket(products, A, self.a[rows], self.r[rows], self.reach)
        with np.errstate(divide="ignore"):
            return np.asarray(upper / lower - 1.0)

    def _products_of(self, rows: Rows, moments: MomentBounds, shared: Shared, whole: bool) -> Products:
        """Of some rows; columns that were left out may take away from |Bᵀu|², never add."""
        u_low, u_high = self._squared_solutions(rows, moments)
        sizes = self.unit**2
        least, most = float(sizes.min()) if whole else 0.0, float(sizes.max())
        h_high = most * moments.high[:, 2]
        alike = whole and least == most
        q_high = most**2 * moments.high[:, 3] if alike else self.reach.b**2 * h_high
        border = shared.border
        if border is not None:
            border = replace(border, tau=border.tau[rows], mixed=border.mixed[rows])
        return Products(u_low, u_high, least * moments.low[:, 2], h_high, q_high, shared.uv[rows], shared.vv, border)

    def products(self, columns: Index) -> Products:
        whole = len(columns) == self.m
        return self._products_of(slice(None), self.moments, self._whole if whole else self._shared(columns), whole)

    def squared_targets(self) -> tuple[FloatArray, FloatArray]:
        low, high = self._squared_solutions(slice(None), self.moments)
        return low + self.tau**2, high + self.tau**2

    def refine(self, tolerance: float) -> IterativeJacobian:
        """The same with narrower brackets."""
        return replace(self, tolerance=tolerance)

    # --- columns and cells ----------------------------------------------------------------------------------------

    @cached_property
    def _column_squares(self) -> tuple[FloatArray, FloatArray]:
        """(m,), (m,) bounds of ||H⁻¹[eⱼ; 0]||²: exact on the leading eigenvectors, by Jensen and 1/nλ on the rest."""
        leading = self.krylov.leading
        phi = np.asarray(self.S.X.T @ leading.eta) if leading.eta.size else np.zeros((self.m, 0))
        shares = phi**2
        inside = shares @ leading.values**-2.0
        rest = np.maximum(1.0 - shares.sum(axis=1), 0.0)
        mean = np.maximum(self.S.diagonal - shares @ leading.values, rest * self.ridge)
        with np.errstate(divide="ignore", invalid="ignore"):
            below = np.where(rest > 0, rest**3 / mean**2, 0.0)
        intercept = self.mean_solution**2
        return inside + below + intercept, inside + rest / self.ridge**2 + intercept

    def column_bounds(self, columns: Index) -> FloatArray:
        return np.sqrt(self._column_squares[1][columns]) * np.abs(self.unit[columns])

    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, j) upper bounds; two solutions per column, so meant for few columns."""
        inverse, out = IterativeInverse(self.S), np.empty((self.n, len(columns)))
        high = self.squared_targets()[1]
        for k, j in enumerate(columns):
            f = np.zeros(self.m + self.S.intercept)
            f[j] = self.unit[j]
            move = inverse.solve(f)
            again = inverse.solve(move)
            cross = self.S.X @ again[: self.m] + (again[-1] if self.S.intercept else 0.0)
            squares = self._cell_squares(high, self.a, self.r, float(self.g[j]), cross, float(move @ move))
            out[:, k] = self.whitening * np.sqrt(squares)
        return out

    @staticmethod
    def _cell_squares(
        lengths: FloatArray,
        a: FloatArray,
        r: FloatArray,
        g: FloatArray | float,
        cross: FloatArray,
        squared: FloatArray | float,
    ) -> FloatArray:
        """|a g u + r b|² from |u|², u·b and |b|², never negative."""
        return np.asarray(np.maximum((a * g) ** 2 * lengths + 2 * a * r * g * cross + r * r * squared, 0.0))

    def cell_bracket(self, rows: Index) -> tuple[FloatArray, FloatArray]:
        """(k, m), (k, m) bounds of every cell of some rows: u is solved for, ||bⱼ|| is bounded."""
        inverse = IterativeInverse(self.S, 1e-10)
        x = dense_rows(self.S.X, rows).T
        x = np.vstack([x, np.ones((1, len(rows)))]) if self.S.intercept else x
        u = inverse.solve(x)
        cross = inverse.solve(u)[: self.m].T * self.unit
        a, r = self.a[rows, None], self.r[rows, None]
        lengths = np.einsum("pk,pk->k", u, u)[:, None]
        bounds = []
        for squared, slack in zip(self._column_squares, (1 - 1e-9, 1 + 1e-9), strict=True):
            square = self._cell_squares(lengths, a, r, self.g, cross, squared * self.unit**2)
            bounds.append(self.whitening * np.sqrt(square) * slack)
        return bounds[0], bounds[1]

    def column_norms(self) -> FloatArray:
        """(m,) |gⱼ| ||Γ||^½ + √ρ ||bⱼ|| with Γ = Σ a²uuᵀ."""
        every = np.arange(self.m, dtype=np.intp)
        size = np.sqrt(self._gram_bound(self.a**2))
        return np.asarray(self.whitening * (np.abs(self.g) * size + np.linalg.norm(self.r) * self.column_bounds(every)))

    # --- the whole table ------------------------------------------------------------------------------------------

    def _gram_bound(self, weight: FloatArray) -> float:
        """An upper bound of ||Σ weight u uᵀ||: weight = min(weight, τ D) + the rest, at the best τ.

        X̃ᵀDX̃ between two H⁻¹ is at most 1/4nλ without an intercept; the rest counts with its trace.
        """
        high, D = self.squared_targets()[1], self.S.D
        quarter, mean = 0.25 / self.ridge, float(np.linalg.norm(self.S.mean))
        if self.S.intercept:
            corner = quarter * mean**2 + 1.0 / self.S.total
            quarter = 0.5 * (quarter + corner) + float(np.hypot(0.5 * (quarter - corner), quarter * mean))
        used = weight > 0
        with np.errstate(divide="ignore"):
            ratio = np.where(used, weight / np.where(D > 0, D, np.nan), 0.0)
        ratio = np.where(np.isnan(ratio), np.inf, ratio)
        order = np.argsort(ratio)
        ratio, w, d = ratio[order], (weight * high)[order], (D * high)[order]
        # The bound is convex and piecewise linear in τ, with corners at the ratios.
        above_w, above_d = w[::-1].cumsum()[::-1], d[::-1].cumsum()[::-1]
        above_w, above_d = np.append(above_w[1:], 0.0), np.append(above_d[1:], 0.0)
        finite = np.isfinite(ratio)
        totals = ratio[finite] * quarter + above_w[finite] - ratio[finite] * above_d[finite]
        return float(min(totals.min(initial=np.inf), w.sum()))

    def together(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> float:
        """The smaller of the sum over rows and, for whole rows, ρ b² + ||Σ A u uᵀ|| + the cross term."""
        by_rows = super().together(rows, columns, include_target, tied)
        if len(tied) or len(columns) < self.m:
            return by_rows
        chosen = np.zeros(self.n, dtype=bool)
        chosen[rows] = True
        a, r = np.where(chosen, self.a, 0.0), np.where(chosen, self.r, 0.0)
        c = np.where(chosen, self.c, 0.0) if include_target else np.zeros(self.n)
        f = np.append(self.S.X.T @ (a * r), [(a * r).sum()] * self.S.intercept)
        inverse = IterativeInverse(self.S)
        xi = inverse.solve(f)
        v = inverse.solve(np.append(self.unit * self.g, [0.0] * self.S.intercept))
        cross = float(xi @ v) + float(np.linalg.norm(xi) * np.linalg.norm(v))
        square = float(r @ r) * self.reach.full**2 + self._gram_bound(a * a * float(self.g @ self.g) + c * c) + cross
        return min(by_rows, self.whitening * float(np.sqrt(max(square, 0.0))))


def iterative_jacobian(
    X: Table,
    D: FloatArray,
    ridge: float,
    intercept: bool,
    w: FloatArray,
    numbers: tuple[FloatArray, FloatArray, FloatArray],
    unit: FloatArray,
    whitening: float,
) -> IterativeJacobian:
    """Of ω times the curvature D (n,), coefficients w (d,) and a, r, c (n,)."""
    S = Centred(X, D, ridge, intercept)
    return IterativeJacobian(S, Krylov(S), *numbers, unit * w, unit, whitening)
