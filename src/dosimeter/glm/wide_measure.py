"""From a fit of a wide or sparse table to its reading: the checks, and the Jacobian of its route."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Density, Gaussian, Noise, no_noise
from dosimeter.glm.dense_jacobian import Jacobian
from dosimeter.glm.dual import DualJacobian, dual_jacobian
from dosimeter.glm.fisher import refuse_other_table
from dosimeter.glm.iterative_refinement import cancels
from dosimeter.glm.precision import EPS, PROMISE
from dosimeter.glm.route import Route
from dosimeter.glm.sparse_table import Table, as_table, is_sparse, reach, row_squares
from dosimeter.glm.validation import HUGE, TINY, as_floats
from dosimeter.glm.wide_fit import WideFit
from dosimeter.glm.wide_leakage import WideLeakage


def measure_wide(
    fit: WideFit,
    X: Any,
    y: Any,
    noise: Noise,
    *,
    include_target: bool,
    input_map: Any,
    target_unit: float,
    scaled: Any,
) -> WideLeakage:
    """`glm.measure` of a fit by one of the routes of `glm/route.py`."""
    X, y = as_table(X), as_floats(y, "y")
    refuse_other_table(fit, X, y)
    if scaled is not None and np.any(scaled):
        raise CannotMeasure("a scaler fitted on the table is not accounted for on a sparse or wide table")
    if not isinstance(target_unit, int | float | np.number) or not TINY <= target_unit <= HUGE:
        raise Refusal(f"target_unit must be a number from {TINY:g} to {HUGE:g}, not {target_unit!r}")
    jacobian = _jacobian(fit, X, input_map, _whitening(noise), float(target_unit))
    return WideLeakage(jacobian, noise, include_target, noise is not no_noise, table=X)


def _jacobian(fit: WideFit, X: Table, input_map: Any, whitening: float, target_unit: float) -> Jacobian:
    unit = units(input_map, X.shape[1])
    if fit.route is Route.DUAL:
        dual = dual_jacobian(fit, X, unit, whitening, target_unit)
        _refuse_imprecise(fit, X, dual)
        return dual
    raise NotImplementedError


def _whitening(noise: Noise) -> float:
    """s: what one released value's noise multiplies a Jacobian by."""
    if noise is no_noise:
        return 1.0
    if not isinstance(noise, Density):
        raise CannotMeasure(
            f"{noise} is not the same in every direction; a wide table is measured under independent noise of one "
            "scale, such as Gaussian(0.1)"
        )
    return float(np.asarray(noise.whiten(np.ones((1, 1))))[0, 0])


def units(input_map: Any, d: int) -> FloatArray:
    """(d,) how much of a column one unit of its unknown is: the diagonal of the input map."""
    if input_map is None:
        return np.ones(d)
    sparse = is_sparse(input_map)
    P = as_table(input_map, "input_map")
    if P.ndim == 1 and P.shape == (d,):
        diagonal = P
    elif P.ndim == 2 and P.shape == (d, d) and _count(P, sparse) == np.count_nonzero(P.diagonal()):
        diagonal = np.asarray(P.diagonal())
    else:
        raise CannotMeasure(
            f"the input map of a wide table must be diagonal: a scale for each of {d} columns, not of shape {P.shape}"
        )
    if not ((np.abs(diagonal) >= TINY) & (np.abs(diagonal) <= HUGE)).all():
        raise Refusal(f"the input map of a wide table must have scales from {TINY:g} to {HUGE:g} for all its columns")
    return diagonal


def _count(P: Table, sparse: bool) -> int:
    return int(P.nnz) if sparse else int(np.count_nonzero(P))


def _refuse_imprecise(fit: WideFit, X: Table, jacobian: DualJacobian) -> None:
    """The promise of `glm/precision.py` for figures that come from X Xᵀ.

    Rounding of X Xᵀ moves a row by about √ε of its length in an arbitrary direction, which 1/nλ multiplies: relative
    to ||u||² that is ε ||x||² (s/nλ)² / ||u||². Margins and residuals have the errors named there.
    """
    if not fit.iterations:
        return
    inner, used = jacobian.inner, fit.sample_weight > 0
    lengths = np.linalg.norm(jacobian.U, axis=1)
    d = X.shape[1]
    moved = EPS * (reach(X, fit.w[:d]) + (abs(float(fit.w[-1])) if fit.intercept else 0.0))
    if fit.loss.quadratic:
        margin, residual = np.zeros(fit.n), np.maximum(moved, EPS * np.abs(fit.y))
    else:
        margin = moved + fit.decrement * np.sqrt(row_squares(X) / (fit.n * fit.l2))
        residual = fit.curvature * margin + EPS * np.maximum(np.abs(fit.residual), np.abs(fit.y))
    figures = np.maximum(inner.c * lengths, np.abs(inner.r) * jacobian.level * float(jacobian.unit.min()))
    used &= figures > 0
    with np.errstate(divide="ignore"):
        from_rows = EPS * row_squares(X)[used] * (jacobian.level / lengths[used]) ** 2
    move = jacobian.level * float(np.abs(jacobian.unit).max())
    from_residual = (fit.sample_weight * residual)[used] * move / figures[used]
    worst = float(np.max(margin[used] + np.minimum(from_rows, 1.0) + from_residual, initial=0.0))
    if worst > PROMISE:
        raise Refusal(
            f"float64 would give these figures a relative error of {worst:.1g}, but {PROMISE:g} is promised: the "
            "penalty is small relative to the table; use a larger l2, or scale the rows"
        )


_ = cancels, Gaussian
