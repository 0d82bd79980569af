"""The exact minimiser of [Hannun21] eq. 13, with its certificate.

w* = argmin Σ ωᵢ l(w·xᵢ, yᵢ) + (nλ/2) ||w||², float64; an intercept, where asked for, is the last parameter and is not
penalised. Newton runs in coordinates v = T⁻¹w in which the Hessian is close to the identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from dosimeter.core.arrays import FloatArray
from dosimeter.core.engine import Engine, LocalEngine, RowBlock, rows_per_block, split
from dosimeter.core.errors import Refusal
from dosimeter.glm.existence import FAR, refuse_if_unbounded
from dosimeter.glm.inverse_hessian import Factor, inverse_factor, times
from dosimeter.glm.iterative_refinement import cancels, refined
from dosimeter.glm.loss import Logistic, Poisson, Squared
from dosimeter.glm.newton import Loss, NewtonProblem
from dosimeter.glm.softmax import Softmax
from dosimeter.glm.validation import HUGE, check_table

__all__ = ["Fit", "Loss", "at", "fit"]


@dataclass(frozen=True, eq=False)
class Fit:
    """A minimiser and what its leakage needs. Internal: it holds per-row margins and is never released.

    >>> X, y = np.array([[1.0], [2.0]]), np.array([1.0, 2.0])
    >>> fit(X, y, Squared(), l2=0.0).w.round(12)
    array([1.])
    """

    loss: Loss
    l2: float
    intercept: bool
    w: FloatArray
    """(p,), or (p, K') for Softmax; the intercept last."""
    factor: Factor
    """A (p, p): A Aᵀ = H⁻¹ for a single margin; for Softmax the columns' own scale, see `inner`."""
    inner: FloatArray
    """(q, q) with H⁻¹ = (I ⊗ A) inner innerᵀ (I ⊗ A)ᵀ, class after class; the identity for a single margin."""
    y: FloatArray
    """(n,) the targets."""
    margin: FloatArray
    """(n,) or (n, K') w·x of each row."""
    curvature: FloatArray
    """(n,) or (n, K', K') d²l/dm² of each row."""
    residual: FloatArray
    """(n,) or (n, K') dl/dm of each row, relatively exact where it is a small difference."""
    sample_weight: FloatArray
    """(n,) ω."""
    gradient_norm: float
    """||∇|| of eq. 13 at w: the convergence certificate."""
    decrement: float
    """√(∇ᵀ H⁻¹ ∇): how far the minimiser is, in the metric of the Hessian."""
    iterations: int
    reach: float
    """Largest Σ|xⱼ wⱼ| of a row: the size against which rounding of a margin is judged."""
    mark: FloatArray
    """(d,) a direction that has nothing to do with w; its products with the rows tell the table from another."""
    marks: FloatArray
    """(n,) those products."""

    @property
    def condition(self) -> float:
        """Condition number of the column-scaled weighted table."""
        return self.factor.condition

    @property
    def n(self) -> int:
        """Rows of the table."""
        return len(self.sample_weight)

    @property
    def coef(self) -> FloatArray:
        """(d,) or (d, K'): w without the intercept."""
        return self.w[:-1] if self.intercept else self.w

    def __repr__(self) -> str:
        return (
            f"<Fit {self.loss.name}, {self.n} rows, {self.w.size} parameters, l2 = {self.l2:g}, "
            f"gradient norm {self.gradient_norm:.1e}>"
        )


def fit(
    X: Any,
    y: Any,
    loss: Loss,
    l2: float = 0.0,
    *,
    sample_weight: Any = None,
    intercept: bool = False,
    start: Any = None,
    engine: Engine | None = None,
) -> Fit:
    """The minimiser of eq. 13 for X (n, d), y (n,); exact to rounding, or a refusal that says what to do.

    start: (p,) or (p, K') parameters to begin at (an earlier fit makes the next one cheap).
    """
    problem = _problem(X, y, loss, l2, sample_weight, intercept, engine)
    v0 = problem.link_start() if start is None else problem.coordinates(np.asarray(start, dtype=np.float64))
    v, steps = problem.minimise(v0)
    found = _finish(problem, v, steps)
    used = found.sample_weight > 0
    if np.abs(found.margin[used]).max() > FAR:
        problem.refuse_separated(v)
    _refuse_lost_residuals(found)
    return found


def _refuse_lost_residuals(found: Fit) -> None:
    """Where every residual is rounding and H⁻¹ multiplies it, no figure can be had; only squared ones are refined."""
    if isinstance(found.loss, Squared) or found.factor.easy:
        return
    size = float(np.sqrt(np.mean(found.residual**2)))
    if size < 1e-9 * (1.0 + float(np.abs(found.margin).max())):
        raise Refusal(
            "the targets are fitted to rounding (soft labels of another model?) and the columns are nearly dependent "
            f"(condition number {found.condition:.0e}): no digit of the figures would be certain; use l2 > 0"
        )


def at(
    X: Any,
    y: Any,
    loss: Loss,
    w: Any,
    l2: float = 0.0,
    *,
    sample_weight: Any = None,
    intercept: bool = False,
    engine: Engine | None = None,
) -> Fit:
    """The state at given parameters, minimiser or not; `decrement` tells how far off they are."""
    problem = _problem(X, y, loss, l2, sample_weight, intercept, engine)
    return _finish(problem, problem.coordinates(np.asarray(w, dtype=np.float64)), 0)


def _problem(
    X: Any, y: Any, loss: Loss, l2: float, sample_weight: Any, intercept: bool, engine: Engine | None
) -> NewtonProblem:
    X, y, weight = check_table(X, y, sample_weight)
    if type(loss) not in (Squared, Logistic, Poisson, Softmax):  # one derived from them may have other derivatives
        raise Refusal(f"loss is one of Squared(), Logistic(), Poisson(), Softmax(...), not {loss!r}")
    loss.check(y)
    if isinstance(l2, bool) or not isinstance(l2, int | float | np.number) or not 0 <= l2 <= HUGE:
        raise Refusal(f"l2 must be a finite number >= 0 (and at most {HUGE:g}), not {l2!r}")
    l2 = float(l2)
    n, d = X.shape
    penalty = np.append(np.full(d, n * l2), [0.0] * intercept)
    refuse_if_unbounded(y, weight, loss, l2, intercept, d)
    blocks = list(split((X, y, weight), rows_per_block(d)))
    engine = engine or LocalEngine()
    factor = inverse_factor(blocks, penalty, engine)
    return NewtonProblem(blocks, penalty, loss, l2, intercept, factor, engine)


def _finish(problem: NewtonProblem, v: FloatArray, steps: int) -> Fit:
    """Margins, the factor of the Hessian at the minimiser, and the certificate."""
    value, g, H = problem.sums(v)
    if not np.isfinite(value):
        raise Refusal("the loss is not finite at these parameters: they cannot be a minimiser of this table")
    margin = np.concatenate([problem.Z(b) @ v.T for b in problem.blocks])
    w = problem.T @ v.T
    if isinstance(problem.loss, Softmax):
        factor, inner = problem.factor, _inner(H)
    else:
        margin, w = margin[:, 0], w[:, 0]
        factor, inner = _at_margin(problem, margin), np.eye(len(problem.T))
    y, weight = (np.concatenate([b[k] for b in problem.blocks]) for k in (1, 2))
    # A row without weight leaks nothing; far out it would be inf, and 0 · inf is no number.
    residual = _weighted(weight, problem.loss.residual(margin, y))
    reach = max(float(times(np.abs(b[0]), np.abs(w.reshape(len(w), -1))).max()) for b in problem.blocks)
    if isinstance(problem.loss, Squared) and steps and (not factor.easy or cancels(residual, reach)):
        w, residual = refined(w, problem.blocks, problem.penalty, factor, problem.engine)
    g_w = np.linalg.solve(problem.T.T, g.reshape(v.shape).T)
    L = cholesky(H, lower=True)
    return Fit(
        loss=problem.loss,
        l2=problem.l2,
        intercept=problem.intercept,
        w=w,
        factor=factor,
        inner=inner,
        y=y,
        margin=margin,
        curvature=_weighted(weight, problem.loss.curvature(margin)),
        residual=residual,
        sample_weight=weight,
        gradient_norm=float(np.linalg.norm(g_w)),
        decrement=float(np.linalg.norm(solve_triangular(L, g, lower=True))),
        iterations=steps,
        reach=reach,
        mark=(mark := _mark(problem.blocks)),
        marks=np.concatenate([b[0] @ mark for b in problem.blocks]),
    )


def _at_margin(problem: NewtonProblem, margin: FloatArray) -> Factor:
    """The factor of the Hessian at the minimiser of a loss with a single margin."""
    loss = problem.loss
    if isinstance(loss, Softmax | Squared):
        return problem.factor
    ends = np.cumsum([len(b[1]) for b in problem.blocks])[:-1]
    parts = zip(problem.blocks, np.split(margin, ends), strict=True)
    curved = [(b[0], b[2] * _weighted(b[2], loss.curvature(m))) for b, m in parts]
    return inverse_factor(curved, problem.penalty, problem.engine, start=problem.T)


def _weighted(weight: FloatArray, values: FloatArray) -> FloatArray:
    """Values of the rows that have a weight, zero for the others; rows along the first axis."""
    return np.where((weight > 0).reshape(-1, *[1] * (values.ndim - 1)), values, 0.0)


def _mark(blocks: Sequence[RowBlock]) -> FloatArray:
    """(d,) fixed cosines over the columns' sizes."""
    largest = np.max([np.abs(b[0]).max(axis=0) for b in blocks], axis=0)
    return np.asarray(np.cos(1.0 + np.arange(len(largest))) / np.where(largest > 0, largest, 1.0))


def _inner(H: FloatArray) -> FloatArray:
    """L⁻ᵀ (q, q) of the softmax Hessian H = L Lᵀ in the columns' own scale."""
    eigenvalues = np.linalg.eigvalsh(H)
    if eigenvalues[0] <= 1e-9 * eigenvalues[-1]:
        raise Refusal(
            "the softmax Hessian is singular to rounding: the minimiser is not unique or nearly at infinity; "
            "use Softmax(reference=...) or a larger l2"
        )
    return np.asarray(solve_triangular(cholesky(H, lower=True), np.eye(len(H)), lower=True).T)
