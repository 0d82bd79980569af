"""The exact minimiser of [Hannun21] eq. 13, with its certificate.

w* = argmin Σ ωᵢ l(w·xᵢ, yᵢ) + (nλ/2) ||w||², float64; an optional intercept is the last parameter and is not penalised.
Newton runs in coordinates v = T⁻¹w in which the Hessian is close to the identity.
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
from dosimeter.glm import quick_newton
from dosimeter.glm.existence import FAR, refuse_if_unbounded
from dosimeter.glm.inverse_hessian import EASY, Factor, inverse_factor, tame_factor, times
from dosimeter.glm.iterative_refinement import cancels, refine
from dosimeter.glm.loss import LOSSES, ScalarLoss, is_registered
from dosimeter.glm.newton import Loss, NewtonProblem
from dosimeter.glm.softmax import Softmax
from dosimeter.glm.softmax_newton import inverse_root
from dosimeter.glm.validation import HUGE, sized_table

__all__ = ["Fit", "Loss", "fit", "fit_at"]


@dataclass(frozen=True, eq=False)
class Fit:
    """A minimiser and what its leakage needs. Internal: it holds per-row margins and is never released.

    Examples
    --------
    >>> from dosimeter.glm.loss import Squared
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
    """A (p, p): A Aᵀ = H⁻¹ for a single margin; for Softmax the scale of the columns, see `inner`."""
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
    """√(∇ᵀ H⁻¹ ∇): the distance to the minimiser, in the metric of the Hessian."""
    iterations: int
    """Newton steps; 0 if the parameters were given."""
    reach: float
    """Largest Σ|xⱼ wⱼ| of a row: the size against which rounding of a margin is judged."""
    fingerprint_direction: FloatArray
    """(d,) a direction unrelated to w; its products with the rows identify the table."""
    fingerprint: FloatArray
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
    """The exact minimiser of eq. 13 of [Hannun21], or a refusal.

    Parameters
    ----------
    X, y : array_like of shape (n, d) and (n,)
        The table; for Logistic y is 0 or 1, for Softmax a class number.
    loss : Loss
        `Squared()`, `Logistic()`, `Poisson()` or `Softmax(...)`.
    l2 : float, default 0
        λ; the penalty is (nλ/2) ||w||².
    sample_weight : array_like of shape (n,), optional
        ω; default ones.
    intercept : bool, default False
        Whether to add an unpenalised intercept, the last parameter.
    start : array_like of shape (p,) or (p, K'), optional
        Parameters to start from; an earlier fit makes the next one cheap.
    engine : Engine, optional
        Where the sums run; default: in this process.

    Returns
    -------
    Fit
        Exact to rounding. Internal.

    Raises
    ------
    Refusal
        If no unique finite minimiser exists, or the table is invalid; the message says what to do.

    Notes
    -----
    w* = argmin Σ ωᵢ l(w·xᵢ, yᵢ) + (nλ/2) ||w||², eq. 13.

    Examples
    --------
    >>> from dosimeter.glm.loss import Squared
    >>> fit([[1.0], [2.0]], [1.0, 2.0], Squared()).gradient_norm < 1e-12
    True
    """
    if engine is None and (quick := _quick_fit(X, y, loss, l2, sample_weight, intercept, start)) is not None:
        return quick
    problem = _problem(X, y, loss, l2, sample_weight, intercept, engine)
    v0 = problem.link_start() if start is None else problem.coordinates(np.asarray(start, dtype=np.float64))
    v, steps = problem.minimise(v0)
    fitted = _finish(problem, v, steps)
    used = fitted.sample_weight > 0
    if np.abs(fitted.margin[used]).max() > FAR:
        problem.refuse_separated(v)
    _refuse_lost_residuals(fitted)
    return fitted


def _refuse_lost_residuals(fitted: Fit) -> None:
    """Refuse residuals that are only rounding, if H⁻¹ multiplies them; only those of the squared loss are refined."""
    if fitted.loss.quadratic or fitted.factor.easy:
        return
    size = float(np.sqrt(np.mean(fitted.residual**2)))
    if size < 1e-9 * (1.0 + float(np.abs(fitted.margin).max())):
        raise Refusal(
            "the targets are fitted to rounding (predictions of another model?) and the columns are nearly dependent "
            f"(condition number {fitted.condition:.0e}): no digit of the figures would be certain; use l2 > 0"
        )


def fit_at(
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
    """The state at given parameters, minimiser or not; `decrement` states how far off they are.

    Parameters
    ----------
    X, y, loss, l2, sample_weight, intercept, engine
        As in `fit`.
    w : array_like of shape (p,) or (p, K')
        The parameters, intercept last.

    Returns
    -------
    Fit
        With `iterations` 0. Internal.

    Raises
    ------
    Refusal
        If the loss is not finite at w, or the table is invalid.

    Examples
    --------
    >>> from dosimeter.glm.loss import Squared
    >>> round(fit_at([[1.0], [2.0]], [1.0, 2.0], Squared(), [0.5]).decrement, 4)
    1.118
    """
    problem = _problem(X, y, loss, l2, sample_weight, intercept, engine)
    return _finish(problem, problem.coordinates(np.asarray(w, dtype=np.float64)), 0)


def _quick_fit(X: Any, y: Any, loss: Loss, l2: float, sample_weight: Any, intercept: bool, start: Any) -> Fit | None:
    """The same minimiser with few Hessians, `glm/quick_newton.py`; None if the careful method is needed or as quick."""
    if not isinstance(loss, ScalarLoss) or loss.quadratic or not quick_newton.is_long(X, intercept):
        return None
    X, y, weight, sizes, l2, penalty = _checked(X, y, loss, l2, sample_weight, intercept)
    table = quick_newton.Table(X, y, weight, intercept)
    if start is None:
        start = _short_fit(X, y, loss, l2, weight, intercept)
    w0 = np.asarray(start, dtype=np.float64) if start is not None else np.zeros(table.p)
    if w0.shape != (table.p,) or (start is None and loss.link(y).any()):
        return None
    minimum = quick_newton.minimise(table, penalty, loss, w0, may_separate=l2 == 0)
    if minimum is None:
        return None
    H, w = minimum.hessian, minimum.w
    curvature = _weighted(weight, loss.curvature(minimum.margin, y))
    factor = tame_factor(H)
    if factor.condition**2 > EASY:
        blocks = list(split((X, weight * curvature), rows_per_block(X.shape[1])))
        factor = inverse_factor(blocks, penalty, LocalEngine(), start=factor.matrix)
    direction = _cosines(sizes)
    reach, fingerprint = table.reach(np.abs(w)), table.products(np.append(direction, [0.0] * intercept), slice(None))
    fitted = Fit(
        loss=loss,
        l2=l2,
        intercept=intercept,
        w=w,
        factor=factor,
        inner=np.eye(len(w)),
        y=y,
        margin=minimum.margin,
        curvature=curvature,
        residual=_weighted(weight, loss.residual(minimum.margin, y)),
        sample_weight=weight,
        gradient_norm=float(np.linalg.norm(minimum.gradient)),
        decrement=float(np.linalg.norm(factor.matrix.T @ minimum.gradient)),
        iterations=minimum.steps,
        reach=reach,
        fingerprint_direction=direction,
        fingerprint=fingerprint,
    )
    _refuse_lost_residuals(fitted)
    return fitted


def _short_fit(
    X: FloatArray, y: FloatArray, loss: Loss, l2: float, weight: FloatArray, intercept: bool
) -> FloatArray | None:
    """The minimiser of some of the rows, as a start; None if there are too few, or they have no minimiser."""
    some = slice(None, None, quick_newton.STRIDE)
    if len(X) < quick_newton.STRIDE * quick_newton.FEWEST * (X.shape[1] + intercept):
        return None
    try:
        return fit(X[some], y[some], loss, l2, sample_weight=weight[some], intercept=intercept).w
    except Refusal:
        return None


def _checked(
    X: Any, y: Any, loss: Loss, l2: float, sample_weight: Any, intercept: bool
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, float, FloatArray]:
    """X, y, ω, the sizes of the columns, λ and the penalty (p,), after every check that needs no arithmetic."""
    X, y, weight, sizes = sized_table(X, y, sample_weight)
    if not is_registered(loss) and type(loss) is not Softmax:  # a derived class may have other derivatives
        known = ", ".join(f"{kind.__name__}()" for kind in LOSSES.values())
        raise Refusal(f"loss must be one of {known}, Softmax(...), not {loss!r}")
    loss.check(y)
    if isinstance(l2, bool) or not isinstance(l2, int | float | np.number) or not 0 <= l2 <= HUGE:
        raise Refusal(f"l2 must be a finite number >= 0 (and at most {HUGE:g}), not {l2!r}")
    l2 = float(l2)
    n, d = X.shape
    refuse_if_unbounded(y, weight, loss, l2, intercept, d)
    return X, y, weight, sizes, l2, np.append(np.full(d, n * l2), [0.0] * intercept)


def _problem(
    X: Any, y: Any, loss: Loss, l2: float, sample_weight: Any, intercept: bool, engine: Engine | None
) -> NewtonProblem:
    X, y, weight, _, l2, penalty = _checked(X, y, loss, l2, sample_weight, intercept)
    blocks = list(split((X, y, weight), rows_per_block(X.shape[1])))
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
        factor, inner = problem.factor, inverse_root(H)
    else:
        margin, w = margin[:, 0], w[:, 0]
        factor, inner = _factor_at_margin(problem, margin), np.eye(len(problem.T))
    y, weight = (np.concatenate([b[k] for b in problem.blocks]) for k in (1, 2))
    # A row without weight leaks nothing. Far out its residual would be inf, and 0 · inf is not a number.
    residual = _weighted(weight, problem.loss.residual(margin, y))
    reach = max(float(times(np.abs(b[0]), np.abs(w.reshape(len(w), -1))).max()) for b in problem.blocks)
    if problem.loss.quadratic and steps and (not factor.easy or cancels(residual, reach)):
        w, residual = refine(w, problem.blocks, problem.penalty, factor, problem.engine)
    g_w = np.linalg.solve(problem.T.T, g.reshape(v.shape).T)
    softmax = isinstance(problem.loss, Softmax)
    flat = inner.T @ g if softmax else solve_triangular(cholesky(H, lower=True), g, lower=True)
    return Fit(
        loss=problem.loss,
        l2=problem.l2,
        intercept=problem.intercept,
        w=w,
        factor=factor,
        inner=inner,
        y=y,
        margin=margin,
        curvature=_weighted(weight, problem.loss.curvature(margin, y)),
        residual=residual,
        sample_weight=weight,
        gradient_norm=float(np.linalg.norm(g_w)),
        decrement=float(np.linalg.norm(flat)),
        iterations=steps,
        reach=reach,
        fingerprint_direction=(fingerprint_direction := _fingerprint_direction(problem.blocks)),
        fingerprint=np.concatenate([b[0] @ fingerprint_direction for b in problem.blocks]),
    )


def _factor_at_margin(problem: NewtonProblem, margin: FloatArray) -> Factor:
    """The factor of the Hessian at the minimiser of a loss with a single margin."""
    loss = problem.loss
    if isinstance(loss, Softmax) or loss.quadratic:
        return problem.factor
    ends = np.cumsum([len(b[1]) for b in problem.blocks])[:-1]
    parts = zip(problem.blocks, np.split(margin, ends), strict=True)
    curvature_blocks = [(b[0], b[2] * _weighted(b[2], loss.curvature(m, b[1]))) for b, m in parts]
    return inverse_factor(curvature_blocks, problem.penalty, problem.engine, start=problem.T)


def _weighted(weight: FloatArray, values: FloatArray) -> FloatArray:
    """Values of the rows that have a weight, zero for the others; rows along the first axis."""
    return np.where((weight > 0).reshape(-1, *[1] * (values.ndim - 1)), values, 0.0)


def _fingerprint_direction(blocks: Sequence[RowBlock]) -> FloatArray:
    """(d,) fixed cosines divided by the columns' sizes."""
    return _cosines(np.max([np.abs(b[0]).max(axis=0) for b in blocks], axis=0))


def _cosines(sizes: FloatArray) -> FloatArray:
    return np.asarray(np.cos(1.0 + np.arange(len(sizes))) / np.where(sizes > 0, sizes, 1.0))
