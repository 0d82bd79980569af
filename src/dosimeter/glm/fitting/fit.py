"""The exact minimiser of [Hannun21] eq. 13, with its certificate.

w* = argmin Σ ωᵢ l(w·xᵢ + oᵢ, yᵢ) + (n/2) Σ λⱼ wⱼ², float64; o is an optional offset, an optional intercept is the last
parameter and is not penalised unless that is asked for. Newton runs in coordinates v = T⁻¹w in which the Hessian is
close to the identity. Losses that are not convex end at a local minimum; H there is positive definite or it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.sparse import issparse

from dosimeter.core.arrays import FloatArray
from dosimeter.core.engine import Engine, LocalEngine, RowBlock, rows_per_block, split
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.glm.fitting import quick_newton
from dosimeter.glm.fitting.existence import FAR, refuse_if_unbounded
from dosimeter.glm.fitting.iterative_refinement import cancels, refine
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.fitting.newton import Loss, NewtonProblem, surely_positive, with_offset
from dosimeter.glm.fitting.softmax_newton import inverse_root
from dosimeter.glm.fitting.wide_fit import fit_wide, goes_wide
from dosimeter.glm.linalg.inverse_hessian import EASY, Factor, inverse_factor, tame_factor, times
from dosimeter.glm.linalg.validation import check_l2, check_offset, sized_table
from dosimeter.glm.losses.loss import LOSSES, ScalarLoss, is_registered
from dosimeter.glm.losses.softmax import Softmax

__all__ = ["Fit", "Loss", "fit", "fit_at"]


def fit(
    X: Any,
    y: Any,
    loss: Loss,
    l2: Any = 0.0,
    *,
    sample_weight: Any = None,
    intercept: bool = False,
    offset: Any = None,
    penalised_intercept: bool = False,
    start: Any = None,
    engine: Engine | None = None,
    route: str | None = None,
) -> Fit:
    """The exact minimiser of eq. 13 of [Hannun21], or a refusal.

    Parameters
    ----------
    X, y : array_like of shape (n, d) and (n,)
        The table; for losses of two classes y is 0 or 1, for Softmax a class number. X may be a scipy.sparse table; it
        is never written out for a loss with one margin.
    loss : Loss
        One of `glm.LOSSES`, such as `Squared()`, `Logistic()`, `Gamma()`, `Huber(epsilon=1.5)`; or `Softmax(...)`.
    l2 : float or array_like of shape (d,) or (d + 1,), default 0
        λ; the penalty is (nλ/2) ||w||². One number per column gives (n/2) Σ λⱼ wⱼ², the intercept's last if it has one.
    sample_weight : array_like of shape (n,), optional
        ω; default ones.
    intercept : bool, default False
        Whether to add an intercept, the last parameter; it is not penalised.
    offset : array_like of shape (n,), optional
        Known constants that are added to the margins, such as the logarithm of an exposure. No figure is about them.
    penalised_intercept : bool, default False
        Penalise the intercept like the columns, as liblinear does.
    start : array_like of shape (p,) or (p, K'), optional
        Parameters to start from; an earlier fit makes the next one cheap.
    engine : Engine, optional
        Where the sums run; default: in this process.
    route : {"primal", "dual", "iterative"}, optional
        Through (p, p) matrices, (n, n) matrices or neither; default: by the size of the table, `glm.choose_route`.

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
    w* = argmin Σ ωᵢ l(w·xᵢ + oᵢ, yᵢ) + (n/2) Σ λⱼ wⱼ², eq. 13 if o = 0 and all λ are equal. A loss that is not convex
    has a local minimum there, which is certified: H of the observed curvatures is positive definite.

    Examples
    --------
    >>> from dosimeter.glm.losses.loss import Squared
    >>> fit([[1.0], [2.0]], [1.0, 2.0], Squared()).gradient_norm < 1e-12
    True
    >>> fit([[1.0], [2.0]], [2.0, 3.0], Squared(), offset=[1.0, 1.0]).w.round(12)
    array([1.])
    """
    options = {"sample_weight": sample_weight, "intercept": intercept, "route": route, "engine": engine}
    dense_only = offset is not None or penalised_intercept
    if (wide := _wide(X, y, loss, l2, dense_only, options | {"start": start})) is not None:
        return wide
    if engine is None and not dense_only and route is None:
        quick = _quick_fit(X, y, loss, l2, sample_weight, intercept, start)
        if quick is not None:
            return quick
    problem = _problem(X, y, loss, l2, sample_weight, intercept, offset, penalised_intercept, engine)
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
    l2: Any = 0.0,
    *,
    sample_weight: Any = None,
    intercept: bool = False,
    offset: Any = None,
    penalised_intercept: bool = False,
    engine: Engine | None = None,
    route: str | None = None,
) -> Fit:
    """The state at given parameters, minimiser or not; `decrement` states how far off they are.

    Parameters
    ----------
    X, y, loss, l2, sample_weight, intercept, offset, penalised_intercept, engine, route
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
        If the loss is not finite at w, its Hessian there is not positive definite, or the table is invalid.

    Examples
    --------
    >>> from dosimeter.glm.losses.loss import Squared
    >>> round(fit_at([[1.0], [2.0]], [1.0, 2.0], Squared(), [0.5]).decrement, 4)
    1.118
    """
    options = {"sample_weight": sample_weight, "intercept": intercept, "route": route, "engine": engine}
    dense_only = offset is not None or penalised_intercept
    if (wide := _wide(X, y, loss, l2, dense_only, options | {"at": w})) is not None:
        return wide
    problem = _problem(X, y, loss, l2, sample_weight, intercept, offset, penalised_intercept, engine)
    return _finish(problem, problem.coordinates(np.asarray(w, dtype=np.float64)), 0)


def _wide(X: Any, y: Any, loss: Loss, l2: Any, dense_only: bool, options: dict[str, Any]) -> Fit | None:
    """The fit of a sparse table, or of one with too many columns for (p, p) matrices; None for all others.

    dense_only: whether there is an offset or a penalised intercept, which only the dense route has; a penalty for each
    column and losses that are not smooth and convex are further such cases.
    """
    # Kinks end Newton's method in finitely many steps; a sparse table has no other way, a dense one a careful one.
    smooth = not isinstance(loss, ScalarLoss) or (loss.convex and (issparse(X) or not loss.has_kinks))
    if dense_only or np.ndim(l2) or not smooth:
        if issparse(X) or options["route"] not in (None, "primal"):
            raise CannotMeasure(
                "an offset, a penalised intercept, a penalty for each column, and losses without convexity are not "
                "measured on a sparse table: write it out (X.toarray())"
            )
        return None
    wide = goes_wide(X, loss, l2, options["route"], options["engine"])
    return fit_wide(X, y, loss, l2, **options) if wide else None


def _quick_fit(X: Any, y: Any, loss: Loss, l2: Any, sample_weight: Any, intercept: bool, start: Any) -> Fit | None:
    """The same minimiser by `fitting/quick_newton.py`; None if the careful method is needed or as quick."""
    if not isinstance(loss, ScalarLoss) or loss.quadratic or np.ndim(l2) or not quick_newton.is_long(X, intercept):
        return None
    if not loss.convex or loss.has_kinks or loss.lowest_margin > -np.inf:
        return None
    X, y, weight, sizes, strengths, _, penalty = _checked(X, y, loss, l2, sample_weight, intercept, None, False)
    table = quick_newton.RowPanels(X, y, weight, intercept)
    if start is None:
        start = _short_fit(X, y, loss, float(l2), weight, intercept)
    w0 = np.asarray(start, dtype=np.float64) if start is not None else np.zeros(table.p)
    if w0.shape != (table.p,) or (start is None and loss.link(y).any()):
        return None
    minimum = quick_newton.minimise(table, penalty, loss, w0, may_separate=not float(l2))
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
        l2_by_parameter=strengths,
        intercept=intercept,
        w=w,
        factor=factor,
        inner=np.eye(len(w)),
        y=y,
        offset=None,
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
    X: Any,
    y: Any,
    loss: Loss,
    l2: Any,
    sample_weight: Any,
    intercept: bool,
    offset: Any,
    penalised_intercept: bool,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray | None, FloatArray]:
    """X, y, ω, the sizes of the columns, λ (p,), the offset and the penalty (p,), after checks without arithmetic."""
    X, y, weight, sizes = sized_table(X, y, sample_weight)
    if not is_registered(loss) and type(loss) is not Softmax:  # a derived class may have other derivatives
        known = ", ".join(f"{kind.__name__}()" for kind in LOSSES.values())
        raise Refusal(f"loss must be one of {known}, Softmax(...), not {loss!r}")
    loss.check(y)
    n, d = X.shape
    strengths, added = check_l2(l2, d, intercept, penalised_intercept), check_offset(offset, n)
    if added is not None and isinstance(loss, Softmax):
        raise Refusal("an offset is for models with a single margin, not softmax: leave it out")
    refuse_if_unbounded(y, weight, loss, strengths, intercept)
    return X, y, weight, sizes, strengths, added, n * strengths


def _problem(
    X: Any,
    y: Any,
    loss: Loss,
    l2: Any,
    sample_weight: Any,
    intercept: bool,
    offset: Any,
    penalised_intercept: bool,
    engine: Engine | None,
) -> NewtonProblem:
    X, y, weight, _, strengths, added, penalty = _checked(
        X, y, loss, l2, sample_weight, intercept, offset, penalised_intercept
    )
    blocks = list(split((X, y, weight) if added is None else (X, y, weight, added), rows_per_block(X.shape[1])))
    engine = engine or LocalEngine()
    factor = inverse_factor([(b[0], b[2]) for b in blocks], penalty, engine)
    return NewtonProblem(blocks, penalty, loss, strengths, intercept, factor, engine)


def _finish(problem: NewtonProblem, v: FloatArray, steps: int) -> Fit:
    """Margins, the factor of the Hessian at the minimiser, and the certificate."""
    value, g, H = problem.sums(v)
    if not np.isfinite(value):
        raise Refusal("the loss is not finite at these parameters: they cannot be a minimiser of this table")
    _refuse_indefinite(problem.loss, H)
    margin = np.concatenate([with_offset(problem.Z(b) @ v.T, b) for b in problem.blocks])
    offset = None if len(problem.blocks[0]) < 4 else np.concatenate([b[3] for b in problem.blocks])
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
    reach += 0.0 if offset is None else float(np.abs(offset).max())
    if problem.loss.quadratic and steps and (not factor.easy or cancels(residual, reach)):
        w, residual = refine(w, problem.blocks, problem.penalty, factor, problem.engine)
    g_w = np.linalg.solve(problem.T.T, g.reshape(v.shape).T)
    softmax = isinstance(problem.loss, Softmax)
    flat = inner.T @ g if softmax else solve_triangular(cholesky(H, lower=True), g, lower=True)
    return Fit(
        loss=problem.loss,
        l2_by_parameter=problem.l2,
        intercept=problem.intercept,
        w=w,
        factor=factor,
        inner=inner,
        y=y,
        offset=offset,
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


def _refuse_indefinite(loss: Loss, H: FloatArray) -> None:
    """The certificate of a loss whose curvature may be negative or zero: H is positive definite."""
    if isinstance(loss, Softmax) or (loss.convex and not loss.has_kinks) or surely_positive(H):
        return
    if loss.convex:
        raise Refusal(
            "too few rows lie where the loss bends, so the Hessian is singular and the minimiser is not unique: use "
            "l2 > 0"
        )
    raise Refusal(
        f"the Hessian of the {loss.name} loss is not positive definite here, so this is no local minimum: use a larger "
        "l2, another start, or a link with which the loss is convex"
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
