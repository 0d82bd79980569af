"""Newton's method with few Hessians, for long tables of tame columns and a loss of one margin.

The careful method (`fitting/newton.py`) first makes the columns orthogonal and then sums a Hessian at every step. Here

1. a fit of every thirty-second row gives the start, if so few rows still determine it;
2. a Hessian is summed at the start; later steps solve H s = g by conjugate gradients, which it preconditions: a pass
   over the rows each, O(np) instead of O(np²). It is summed again only when that has become the more expensive way;
3. the last Hessian, which every figure needs, is summed where no margin is further than NEAR from the minimiser.

Sums are taken in the table's own columns. That costs the square of their condition number in digits of H⁻¹, so the
last factor is taken from them only if the column-scaled Hessian is tame, and otherwise by `inverse_factor`. If anything
is not plain (dependent columns, targets that may be separated, no convergence), the answer is None: use the careful
method.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dosimeter.core.arrays import FloatArray, Mask
from dosimeter.glm.fitting.existence import FAR
from dosimeter.glm.linalg.inverse_hessian import EASY
from dosimeter.glm.losses.loss import ScalarLoss

LONG = 5e7
"""n p² from which on a fit is worth this: below, numpy's cost per call is a large part of either method."""

NEAR = 1e-10
"""Distance of a margin from its minimiser, relative to 1 + |m|, at which a Hessian is the last one."""

STRIDE, FEWEST = 32, 40
"""The start is fitted on every STRIDE-th row if that leaves FEWEST rows for each parameter."""

STEPS, ITERATIONS = 40, 200
"""Steps, and iterations of a solve, after which the careful method takes over."""

CACHE = 1 << 20
"""Bytes of rows that stay in a core's cache between the two products of a pass."""

PANEL = 4 << 20
"""Bytes of rows of one symmetric product; smaller panels spend their time on the sum."""


def is_long(X: Any, intercept: bool) -> bool:
    """Whether a table (n, d) is long enough for this method to be the quicker one."""
    shape = np.shape(X)
    return len(shape) == 2 and shape[0] * float(shape[1] + intercept) ** 2 >= LONG


@dataclass(frozen=True, eq=False)
class RowPanels:
    """The rows, in panels; parameters are those of the columns and, if there is one, the intercept last."""

    X: FloatArray
    y: FloatArray
    weight: FloatArray
    intercept: bool

    @property
    def p(self) -> int:
        """Parameters."""
        return int(self.X.shape[1]) + self.intercept

    def panels(self, size: int = CACHE) -> list[slice]:
        """Consecutive slices of that many bytes."""
        n, d = self.X.shape
        step = max(16, size // (8 * d))
        return [slice(i, i + step) for i in range(0, n, step)]

    @cached_property
    def weightless(self) -> Mask | None:
        """(n,) rows without weight; None if there are none."""
        mask = self.weight == 0
        return mask if mask.any() else None

    def counted(self, margin: FloatArray, s: slice) -> FloatArray:
        """The margins of some rows, zero where a row has no weight: its loss must not overflow."""
        return margin if self.weightless is None else np.where(self.weightless[s], 0.0, margin)

    def products(self, w: FloatArray, s: slice) -> FloatArray:
        """x̃·w of some rows."""
        d = self.X.shape[1]
        out = self.X[s] @ w[:d]
        if self.intercept:
            out += w[d]
        return np.asarray(out)

    def reach(self, sizes: FloatArray) -> float:
        """The largest Σ |xⱼ| sizesⱼ of a row."""
        d, largest, panels = self.X.shape[1], 0.0, self.panels()
        work = np.empty((min(len(self.X), panels[0].stop), d))
        for s in panels:
            largest = max(largest, float((np.abs(self.X[s], out=work[: len(self.X[s])]) @ sizes[:d]).max()))
        return largest + (float(sizes[d]) if self.intercept else 0.0)

    def add(self, total: FloatArray, s: slice, values: FloatArray) -> None:
        """Adds Σ values x̃ over some rows to total (p,)."""
        d = self.X.shape[1]
        total[:d] += values @ self.X[s]
        if self.intercept:
            total[d] += values.sum()

    def gram(self, weight: FloatArray, penalty: FloatArray) -> FloatArray:
        """Σ weight x̃x̃ᵀ + diag(penalty), (p, p)."""
        d, p = self.X.shape[1], self.p
        H, roots, panels = np.zeros((p, p)), np.sqrt(weight), self.panels(PANEL)
        work = np.empty((min(len(self.X), panels[0].stop), d))
        for s in panels:
            scaled = np.multiply(self.X[s], roots[s, None], out=work[: len(self.X[s])])
            H[:d, :d] += scaled.T @ scaled
            if self.intercept:
                H[d, :d] += roots[s] @ scaled
        if self.intercept:
            H[:d, d] = H[d, :d]
            H[d, d] = weight.sum()
        H[np.diag_indices(p)] += penalty
        return H


@dataclass(frozen=True, eq=False)
class Minimum:
    """The minimiser of eq. 13 and what was summed there."""

    w: FloatArray
    """(p,)."""
    margin: FloatArray
    """(n,)."""
    gradient: FloatArray
    """(p,) of eq. 13 at w."""
    hessian: FloatArray
    """(p, p) of eq. 13 within NEAR of w."""
    steps: int


@dataclass(frozen=True, eq=False)
class _Point:
    w: FloatArray
    margin: FloatArray
    residual: FloatArray
    gradient: FloatArray


def minimise(
    table: RowPanels, penalty: FloatArray, loss: ScalarLoss, start: FloatArray, may_separate: bool
) -> Minimum | None:
    """The minimiser from `start` (p,), or None if the careful method is needed."""
    point = _at(table, penalty, loss, start)
    solver = _Solver.at(table, penalty, loss, point)
    fresh = True
    for step in range(1, STEPS + 1):
        if solver is None or not np.isfinite(point.gradient).all():
            return None
        if may_separate and np.abs(table.counted(point.margin, slice(None))).max() > FAR:
            return None
        move, shift, iterations = solver.solve(table, penalty, loss, point, fresh)
        if iterations > ITERATIONS:
            return None
        if _size(table, point, shift) <= NEAR:
            return _last(table, penalty, loss, point, step)
        following = _downhill(table, penalty, loss, point, move)
        if following is None:
            return None
        point, fresh = following, False
        # A Hessian costs about p/15 passes: summed again where the last solve took that many, it pays at once.
        if iterations > max(2, table.p // 15):
            solver, fresh = _Solver.at(table, penalty, loss, point), True
    return None


def _at(table: RowPanels, penalty: FloatArray, loss: ScalarLoss, w: FloatArray) -> _Point:
    """Margins, residuals and gradient in one pass."""
    n = len(table.y)
    margin, residual, gradient = np.empty(n), np.empty(n), penalty * w
    with np.errstate(over="ignore", invalid="ignore"):  # a step that is too long; its gradient is not finite
        for s in table.panels():
            margin[s] = table.products(w, s)
            residual[s] = table.weight[s] * loss.residual(table.counted(margin[s], s), table.y[s])
            table.add(gradient, s, residual[s])
    return _Point(w, margin, residual, gradient)


def _curvature(table: RowPanels, loss: ScalarLoss, point: _Point) -> FloatArray:
    return np.asarray(table.weight * loss.curvature(table.counted(point.margin, slice(None)), table.y))


def _size(table: RowPanels, point: _Point, shift: FloatArray) -> float:
    """The largest |Δm| / (1 + |m|) over rows of positive weight."""
    return float((np.abs(shift) / (1.0 + np.abs(point.margin)))[table.weight > 0].max())


@dataclass(frozen=True, eq=False)
class _Solver:
    """A Cholesky factor of an earlier Hessian."""

    factor: tuple[FloatArray, bool]

    @classmethod
    def at(cls, table: RowPanels, penalty: FloatArray, loss: ScalarLoss, point: _Point) -> _Solver | None:
        """The factor at a point; None if the columns are not tame there."""
        H = table.gram(_curvature(table, loss, point), penalty)
        if not np.isfinite(H).all() or scaled_spread(H) > EASY**2:
            return None
        return cls(cho_factor(H, lower=True, check_finite=False))

    def solve(
        self, table: RowPanels, penalty: FloatArray, loss: ScalarLoss, point: _Point, fresh: bool
    ) -> tuple[FloatArray, FloatArray, int]:
        """The Newton step (p,), how it shifts the margins (n,), and the passes that it took."""
        if fresh:  # the factor is that of the Hessian here
            move = cho_solve(self.factor, point.gradient, check_finite=False)
            return move, _shift(table, move), 1
        bend = _curvature(table, loss, point)
        residual, move = point.gradient.copy(), np.zeros_like(point.gradient)
        pull = cho_solve(self.factor, residual, check_finite=False)
        product = float(residual @ pull)
        shift, direction, iterations = np.zeros(len(table.y)), pull, 0
        # The decrement over √Σωa is the move of a typical margin: its square is what Newton's method leaves anyway.
        typical = np.sqrt(product / bend.sum()) if product > 0 else 0.0
        target = product * np.clip(typical, 1e-4, 0.1) ** 2
        while product > target and iterations <= ITERATIONS:
            moved, image = _bent(table, bend, direction)
            image += penalty * direction
            length = product / float(direction @ image)
            move += length * direction
            shift += length * moved
            residual -= length * image
            pull = cho_solve(self.factor, residual, check_finite=False)
            product, before = float(residual @ pull), product
            direction = pull + (product / before) * direction
            iterations += 1
        return move, shift, iterations


def scaled_spread(H: FloatArray) -> float:
    """Largest over smallest eigenvalue of H with its diagonal scaled to one; infinite if it is not positive."""
    norms = np.sqrt(np.maximum(np.diag(H), 0.0))
    if not (norms > 0).all():
        return np.inf
    values = np.linalg.eigvalsh(H / norms / norms[:, None])
    return float(values[-1] / values[0]) if values[0] > 1e-300 else np.inf


def _shift(table: RowPanels, move: FloatArray) -> FloatArray:
    out = np.empty(len(table.y))
    for s in table.panels():
        out[s] = table.products(move, s)
    return out


def _bent(table: RowPanels, bend: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """X̃x (n,) and X̃ᵀ diag(bend) X̃x (p,) in one pass."""
    moved, image = np.empty(len(table.y)), np.zeros(table.p)
    for s in table.panels():
        moved[s] = table.products(x, s)
        table.add(image, s, bend[s] * moved[s])
    return moved, image


def _downhill(
    table: RowPanels, penalty: FloatArray, loss: ScalarLoss, point: _Point, move: FloatArray
) -> _Point | None:
    """The point at the end of a step, or of a part of it; None if no part is found.

    Along a line a convex objective falls as long as its slope is negative. A slope that is positive but has lost nine
    tenths of its size means that the lowest point was passed a little; the objective itself is not needed.
    """
    slope, length = float(point.gradient @ move), 1.0
    while length > 1e-6:
        trial = _at(table, penalty, loss, point.w - length * move)
        there = float(trial.gradient @ move)
        if np.isfinite(there) and there >= -0.1 * slope:
            return trial
        length /= 2
    return None


def _last(table: RowPanels, penalty: FloatArray, loss: ScalarLoss, point: _Point, step: int) -> Minimum | None:
    """One more step with the Hessian of this point, which is kept."""
    H = table.gram(_curvature(table, loss, point), penalty)
    try:
        move = cho_solve(cho_factor(H, lower=True, check_finite=False), point.gradient, check_finite=False)
    except LinAlgError:
        return None
    end = _at(table, penalty, loss, point.w - move)
    # Where the step is rounding it may not help; the better of the two ends is the answer.
    better = end if _flat(end, H) <= _flat(point, H) else point
    return Minimum(better.w, better.margin, better.gradient, H, step + 1)


def _flat(point: _Point, H: FloatArray) -> float:
    scale = np.sqrt(np.diag(H))
    return float(np.linalg.norm(point.gradient / scale))
