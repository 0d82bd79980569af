"""Eq. 13 of [Hannun21] for a wide or sparse table, and Newton's method on it through products with the table alone.

The Hessian H = X̃ᵀ diag(ωa) X̃ + diag(nλ) is never formed here: a route of `fitting/route.py` provides f ↦ H⁻¹f.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.glm.fitting.newton import ROUNDING, SETTLED, STEPS
from dosimeter.glm.linalg.sparse_table import Table
from dosimeter.glm.losses.loss import ScalarLoss


class Inverse(Protocol):
    """H⁻¹ at one curvature, as a map of vectors."""

    def solve(self, f: FloatArray) -> FloatArray:
        """H⁻¹f of one vector (p,) or of several (p, k)."""
        ...


@dataclass(frozen=True, eq=False)
class WideProblem:
    """Σ ω l(m, y) + (nλ/2) ||w||² for margins m = X̃w."""

    X: Table
    y: FloatArray
    weight: FloatArray
    loss: ScalarLoss
    l2: float
    intercept: bool

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        return int(self.X.shape[1])

    @property
    def p(self) -> int:
        return self.d + self.intercept

    @property
    def ridge(self) -> float:
        """nλ."""
        return self.n * self.l2

    def margins(self, w: FloatArray) -> FloatArray:
        """X̃w, (n,) or (n, k), of parameters (p,) or (p, k)."""
        m = self.X @ w[: self.d]
        return np.asarray(m + w[self.d] if self.intercept else m)

    def pull(self, f: FloatArray) -> FloatArray:
        """X̃ᵀf, (p,) or (p, k), of f (n,) or (n, k)."""
        out = self.X.T @ f
        return np.concatenate([out, f.sum(axis=0, keepdims=True)]) if self.intercept else np.asarray(out)

    def value(self, m: FloatArray, w: FloatArray) -> float:
        """Eq. 13; infinite if it overflows."""
        used = np.where(self.weight > 0, m, 0.0)  # a row without weight must not overflow
        total = float(self.weight @ self.loss.value(used, self.y))
        return total + 0.5 * self.ridge * float(w[: self.d] @ w[: self.d])

    def residual(self, m: FloatArray) -> FloatArray:
        """(n,) dl/dm, zero for rows without weight."""
        return np.where(self.weight > 0, self.loss.residual(m, self.y), 0.0)

    def curvature(self, m: FloatArray) -> FloatArray:
        """(n,) d²l/dm², zero for rows without weight."""
        return np.where(self.weight > 0, self.loss.curvature(m, self.y), 0.0)

    def gradient(self, m: FloatArray, w: FloatArray) -> FloatArray:
        """(p,) of eq. 13."""
        g = self.pull(self.weight * self.residual(m))
        g[: self.d] += self.ridge * w[: self.d]
        return g

    def relative_move(self, m: FloatArray, change: FloatArray) -> float:
        """The rule of `fitting/newton.py`: max |Δm| / (1 + |m|) over rows of weight; relative for the squared loss."""
        used = self.weight > 0
        moved, size = np.abs(change[used]), np.abs(m[used])
        if self.loss.quadratic:
            largest = max(float(size.max()), float(np.abs(self.y[used]).max()))
            return float(moved.max()) / largest if largest > 0 else 0.0
        return float((moved / (1.0 + size)).max())


def minimise(
    problem: WideProblem, inverse_at: Callable[[FloatArray], Inverse], w: FloatArray
) -> tuple[FloatArray, FloatArray, int]:
    """Parameters (p,), margins (n,) and Newton steps from w (p,); `inverse_at` takes ω times the curvature, (n,)."""
    m = problem.margins(w)
    value = problem.value(m, w)
    if not np.isfinite(value):
        w, m = np.zeros_like(w), np.zeros(problem.n)
        value = problem.value(m, w)
    inverse = inverse_at(problem.weight * problem.curvature(m))
    least, stalled, size = np.inf, 0, np.inf
    for step in range(1, STEPS + 1):
        move = inverse.solve(problem.gradient(m, w))
        change = problem.margins(move)
        size = problem.relative_move(m, change)
        stalled = stalled + 1 if size > 0.9 * least else 0
        if step > 1 and (size <= SETTLED or (stalled >= 3 and size <= ROUNDING)):
            return w, m, step
        least = min(least, size)
        w, value = _downhill(problem, w, m, move, change, value)
        m = problem.margins(w)
        if not problem.loss.quadratic:
            inverse = inverse_at(problem.weight * problem.curvature(m))
    raise Refusal(f"Newton did not converge in {STEPS} steps (margins still move by {size:.1e}): use a larger l2")


def _downhill(
    problem: WideProblem, w: FloatArray, m: FloatArray, move: FloatArray, change: FloatArray, value: float
) -> tuple[FloatArray, float]:
    """The first of the steps 1, 1/2, 1/4, ... that does not raise the objective; margins move along a line."""
    length = 1.0
    while length >= 1e-12:
        trial = w - length * move
        trial_value = problem.value(m - length * change, trial)
        # Near the end the value no longer falls visibly: allow a rise within rounding.
        if np.isfinite(trial_value) and trial_value <= value + 1e-13 * abs(value):
            return trial, trial_value
        length /= 2
    raise Refusal("no step lowers the loss: rescale the columns or use a larger l2")
