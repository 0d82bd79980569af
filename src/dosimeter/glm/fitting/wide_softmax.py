"""Softmax on a sparse table: eq. 13 of [Hannun21] by Newton's method through products with the table alone.

With S'ᵢ (K', K') the weighted curvature of a row and x̃ᵢ = [xᵢ; 1], H = Σ S'ᵢ ⊗ x̃ᵢx̃ᵢᵀ + nλ. An unpenalised intercept is
eliminated: with Hbb = Σ S'ᵢ and M = H_wb Hbb⁻¹, vᵢ = I ⊗ xᵢ − M are the centred rows,

    S = Σ vᵢ S'ᵢ vᵢᵀ + nλ ⪰ nλ,      H⁻¹[f; φ] = [x; Hbb⁻¹φ − Mᵀx],   x = S⁻¹(f − Mφ),

and S times a vector is one pass over the table. Derivation: docs/explanation/wide.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.glm.fitting.newton import ROUNDING, SETTLED, STEPS
from dosimeter.glm.linalg.conjugate_gradients import MOST
from dosimeter.glm.linalg.sparse_table import Table, column_squares
from dosimeter.glm.losses.softmax import Softmax

NEWTON_TOLERANCE = 1e-7
"""Residual of a Newton step by conjugate gradients."""


@dataclass(frozen=True, eq=False)
class SoftmaxProblem:
    """Σ ω l(m, y) + (nλ/2) ||W||² for margins m = X W + b, (n, K')."""

    X: Table
    y: FloatArray
    weight: FloatArray
    loss: Softmax
    l2: float
    intercept: bool

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        return int(self.X.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Of the parameters: (p, K')."""
        return self.d + self.intercept, int(self.loss.contrast.shape[1])

    @property
    def ridge(self) -> float:
        """nλ."""
        return self.n * self.l2

    def margins(self, w: FloatArray) -> FloatArray:
        """(n, K') of parameters (p, K')."""
        m = self.X @ w[: self.d]
        return np.asarray(m + w[self.d] if self.intercept else m)

    def value(self, m: FloatArray, w: FloatArray) -> float:
        """Eq. 13."""
        return float(self.weight @ self.loss.value(m, self.y)) + 0.5 * self.ridge * float(np.sum(w[: self.d] ** 2))

    def residual(self, m: FloatArray) -> FloatArray:
        """(n, K') dl/dm, zero for rows without weight."""
        return np.where(self.weight[:, None] > 0, self.loss.residual(m, self.y), 0.0)

    def curvature(self, m: FloatArray) -> FloatArray:
        """(n, K', K') d²l/dm², zero for rows without weight."""
        return np.where(self.weight[:, None, None] > 0, self.loss.curvature(m, self.y), 0.0)

    def gradient(self, m: FloatArray, w: FloatArray) -> FloatArray:
        """(p, K') of eq. 13."""
        pull = self.weight[:, None] * self.residual(m)
        out = np.asarray(self.X.T @ pull) + self.ridge * w[: self.d]
        return np.vstack([out, pull.sum(axis=0)]) if self.intercept else out


@dataclass(frozen=True, eq=False)
class CentredSoftmax:
    """S as an operator on (d, K'), and its inverse by conjugate gradients with a diagonal preconditioner."""

    X: Table
    D: FloatArray
    """(n, K', K') ω times the curvature."""
    ridge: float
    intercept: bool

    @classmethod
    def of(cls, problem: SoftmaxProblem, m: FloatArray) -> CentredSoftmax:
        """At margins m (n, K')."""
        D = problem.weight[:, None, None] * problem.curvature(m)
        return cls(problem.X, D, problem.ridge, problem.intercept)

    @property
    def classes(self) -> int:
        """K'."""
        return int(self.D.shape[1])

    @cached_property
    def corner(self) -> FloatArray:
        """Hbb⁻¹ (K', K'); zero without an intercept."""
        return np.linalg.inv(self.D.sum(axis=0)) if self.intercept else np.zeros((self.classes, self.classes))

    @cached_property
    def mean(self) -> FloatArray:
        """M (K', d, K'): block k, column a; zero without an intercept."""
        K = self.classes
        flat = np.asarray(self.X.T @ self.D.reshape(len(self.D), -1)).reshape(-1, K, K)
        return np.ascontiguousarray((flat @ self.corner).transpose(1, 0, 2))

    def weigh(self, z: FloatArray) -> FloatArray:
        """(n, K') S'(z − its weighted mean) of z = X v (n, K')."""
        out = np.einsum("nab,nb->na", self.D, z)
        if self.intercept:
            out = out - self.D @ (self.corner @ out.sum(axis=0))
        return np.asarray(out)

    def apply(self, v: FloatArray) -> FloatArray:
        """S v, (d, K')."""
        return np.asarray(self.X.T @ self.weigh(np.asarray(self.X @ v))) + self.ridge * v

    @cached_property
    def diagonal(self) -> FloatArray:
        """(d, K') of S, an upper bound where the mean is subtracted."""
        parts = [column_squares(self.X, np.ascontiguousarray(self.D[:, k, k])) for k in range(self.classes)]
        return np.column_stack(parts) + self.ridge

    def solve(self, f: FloatArray, tolerance: float = 1e-12) -> FloatArray:
        """S⁻¹f, (d, K')."""
        scale, x, r = 1.0 / self.diagonal, np.zeros_like(f), f.copy()
        z = scale * r
        direction, size = z, float(np.vdot(r, z))
        goal = tolerance**2 * size
        for _ in range(MOST):
            if size <= goal:
                return x
            image = self.apply(direction)
            length = size / float(np.vdot(direction, image))
            x += length * direction
            r -= length * image
            z = scale * r
            size, previous = float(np.vdot(r, z)), size
            direction = z + (size / previous) * direction
        raise Refusal(
            f"conjugate gradients did not converge in {MOST} steps: the penalty is small relative to the table; use a "
            "larger l2 or scale the columns alike"
        )

    def solve_all(self, f: FloatArray, tolerance: float = NEWTON_TOLERANCE) -> FloatArray:
        """H⁻¹f of all parameters, (p, K')."""
        if not self.intercept:
            return self.solve(f, tolerance)
        d = self.X.shape[1]
        lifted = self.D @ (self.corner @ f[d])
        x = self.solve(f[:d] - np.asarray(self.X.T @ lifted), tolerance)
        back = np.einsum("nab,nb->a", self.D, np.asarray(self.X @ x))
        return np.vstack([x, self.corner @ (f[d] - back)])


def minimise(problem: SoftmaxProblem, w: FloatArray) -> tuple[FloatArray, FloatArray, int]:
    """Parameters (p, K'), margins (n, K') and Newton steps from w."""
    m = problem.margins(w)
    value = problem.value(m, w)
    if not np.isfinite(value):
        w, m = np.zeros(problem.shape), np.zeros((problem.n, problem.shape[1]))
        value = problem.value(m, w)
    least, stalled = np.inf, 0
    used = problem.weight > 0
    for step in range(1, STEPS + 1):
        move = CentredSoftmax.of(problem, m).solve_all(problem.gradient(m, w))
        change = problem.margins(move)
        size = float((np.abs(change[used]) / (1.0 + np.abs(m[used]))).max(initial=0.0))
        stalled = stalled + 1 if size > 0.9 * least else 0
        if step > 1 and (size <= SETTLED or (stalled >= 3 and size <= ROUNDING)):
            return w, m, step
        least = min(least, size)
        w, value = _downhill(problem, w, m, move, change, value)
        m = problem.margins(w)
    raise Refusal(f"Newton did not converge in {STEPS} steps (margins still move by {size:.1e}): use a larger l2")


def _downhill(
    problem: SoftmaxProblem, w: FloatArray, m: FloatArray, move: FloatArray, change: FloatArray, value: float
) -> tuple[FloatArray, float]:
    """The first of the steps 1, 1/2, 1/4, ... that does not raise the objective."""
    length = 1.0
    while length >= 1e-12:
        trial = w - length * move
        trial_value = problem.value(m - length * change, trial)
        if np.isfinite(trial_value) and trial_value <= value + 1e-13 * abs(value):  # within rounding near the end
            return trial, trial_value
        length /= 2
    raise Refusal("no step lowers the loss: rescale the columns or use a larger l2")
