"""From a fit of a wide or sparse table to its reading: the checks, and the Jacobian of its route."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Density, Noise, no_noise
from dosimeter.glm.fitting.route import DIRECT, SolverRoute
from dosimeter.glm.fitting.training_table import refuse_other_table
from dosimeter.glm.fitting.wide_fit import WideFit
from dosimeter.glm.fitting.wide_softmax import CentredSoftmax
from dosimeter.glm.fitting.wide_softmax_fit import WideSoftmaxFit
from dosimeter.glm.jacobians.dense_jacobian import Jacobian
from dosimeter.glm.jacobians.jacobian_of_fit import softmax_jacobian
from dosimeter.glm.jacobians.leakage import Leakage
from dosimeter.glm.jacobians.precision import EPS, PROMISE, refuse_imprecise
from dosimeter.glm.jacobians.sparse_jacobian import SparseJacobian
from dosimeter.glm.linalg.sparse_table import Table, as_table, dense_rows, is_sparse, reach, row_squares
from dosimeter.glm.linalg.validation import HUGE, TINY, as_floats
from dosimeter.glm.losses.softmax import Softmax
from dosimeter.glm.row_maps.mapped_jacobian import MappedJacobian
from dosimeter.glm.row_maps.row_maps import RowMap
from dosimeter.glm.wide.bounded_counts import BoundedCounts
from dosimeter.glm.wide.dual import MANY, dual_jacobian
from dosimeter.glm.wide.first_unknowns import FirstUnknowns
from dosimeter.glm.wide.iterative import iterative_jacobian
from dosimeter.glm.wide.normalised_rows import NormalisedJacobian, normalised_map
from dosimeter.glm.wide.scaled_dual import scaled_dual_jacobian
from dosimeter.glm.wide.scaled_unknowns import ScaledUnknowns
from dosimeter.glm.wide.softmax_bounds import BoundedSoftmax
from dosimeter.glm.wide.softmax_dual import SoftmaxDual
from dosimeter.glm.wide.wide_leakage import WideLeakage


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
) -> Leakage:
    """`glm.measure` of a fit by one of the routes of `fitting/route.py`."""
    X, y = as_table(X), as_floats(y, "y")
    refuse_other_table(fit, X, y)
    if scaled is not None and np.any(scaled):
        raise CannotMeasure("a scaler fitted on the table is not accounted for on a sparse or wide table")
    if not isinstance(target_unit, int | float | np.number) or not TINY <= target_unit <= HUGE:
        raise Refusal(f"target_unit must be a number from {TINY:g} to {HUGE:g}, not {target_unit!r}")
    jacobian = _jacobian(fit, X, input_map, _whitening(noise), float(target_unit))
    kinks = (lambda: fit.kink_distances) if fit.loss.has_kinks else None
    has_noise = noise is not no_noise
    if isinstance(jacobian, MappedJacobian):  # every reading, from Jacobians that are written out block by block
        return Leakage(jacobian, noise, include_target, has_noise, kinks=kinks)
    return WideLeakage(jacobian, noise, include_target, has_noise, kinks=kinks, table=X)


def _jacobian(fit: WideFit, X: Table, input_map: Any, whitening: float, target_unit: float) -> Jacobian:
    """The Jacobian of the fit's route, after the checks of its precision."""
    if isinstance(input_map, RowMap):
        return _behind_rows(fit, X, input_map, whitening, target_unit)
    if isinstance(fit, WideSoftmaxFit):
        inner = _several_classes(fit, X, whitening, target_unit)
        if input_map is None:
            return inner
        unit = units(input_map, X.shape[1])
        return inner if (unit == 1.0).all() else ScaledUnknowns(inner, unit)
    if fit.route is SolverRoute.PRIMAL:
        return _primal(fit, X, input_map, whitening, target_unit)
    if isinstance(input_map, np.ndarray) and input_map.ndim == 1 and len(input_map) < X.shape[1]:
        padded = np.append(input_map, np.full(X.shape[1] - len(input_map), input_map[-1]))
        return FirstUnknowns(_jacobian(fit, X, padded, whitening, target_unit), len(input_map))
    unit, c = units(input_map, X.shape[1]), target_moves(fit, target_unit)
    if fit.route is SolverRoute.DUAL:
        dual = dual_jacobian(fit, X, unit, whitening, c, target_unit)
        lengths = np.linalg.norm(dual.U, axis=1)
        # Rounding of X Xᵀ moves a row by about √ε of its length in any direction, and s/nλ multiplies that.
        product = EPS * row_squares(X) * (dual.level / np.where(lengths > 0, lengths, np.inf)) ** 2
        refuse_imprecise_rows(fit, X, dual.inner.r, c, lengths, dual.level * np.abs(unit), product)
        return dual if dual.alike or dual.m <= MANY else scaled_dual_jacobian(fit, X, dual)
    D = fit.sample_weight * fit.curvature
    numbers = D, fit.sample_weight * fit.residual, c
    return iterative_jacobian(X, D, fit.n * fit.l2, fit.intercept, fit.coef, numbers, unit, whitening)


def _behind_rows(fit: WideFit, X: Table, maps: RowMap, whitening: float, target_unit: float) -> Jacobian:
    """About unknowns behind a map of each row: exact on the primal route, otherwise an upper bound."""
    if maps.d != X.shape[1] or maps.m == 0:
        raise Refusal(f"input_map must map unknowns to the {X.shape[1]} columns of X, not to {maps.d}")
    inner, form = _jacobian(fit, X, None, whitening, target_unit), normalised_map(maps, X)
    if isinstance(inner, SparseJacobian):
        return MappedJacobian(inner, maps) if form is None else NormalisedJacobian(inner, form)
    if form is None or form.base.any():
        raise CannotMeasure(
            f"counts of {X.shape[1]} columns behind these steps are read through matrices with a row for every column, "
            f"of at most {DIRECT}: use fewer words (max_features, min_df), an l2 norm, or TruncatedSVD"
        )
    return BoundedCounts(inner if maps.m == inner.m else FirstUnknowns(inner, maps.m), form.bound, form)


def _several_classes(fit: WideSoftmaxFit, X: Table, whitening: float, target_unit: float) -> Jacobian:
    """About the columns of X, in units of one."""
    loss, weight = fit.loss, fit.sample_weight
    if not isinstance(loss, Softmax):
        raise TypeError("this is for several classes")
    if fit.reduced is None:
        D = weight[:, None, None] * fit.curvature
        S = CentredSoftmax(X, D, fit.n * fit.l2, fit.intercept)
        C = loss.contrast * target_unit
        moves = None if fit.label_moves is None else fit.label_moves * target_unit
        return BoundedSoftmax(S, fit.coef, weight[:, None] * fit.residual, weight, C, whitening, moves)
    rows = dense_rows(X, slice(None)) if fit.space is None else fit.space.rows
    k = rows.shape[1]
    P = np.eye(k + fit.intercept, k)
    reduced = replace(fit.reduced, label_weights=fit.label_weights)
    inner = softmax_jacobian(reduced, rows, P, lambda matrix: whitening * matrix, target_unit)
    refuse_imprecise(fit.reduced, inner)
    dual = SoftmaxDual(fit.space, inner, X.shape[1], whitening / (fit.n * fit.l2) if fit.l2 else 0.0)
    if fit.iterations and fit.space is not None:
        _refuse_lost_rows(dual, X)
    return dual


def _refuse_lost_rows(dual: SoftmaxDual, X: Table) -> None:
    """Rounding of X Xᵀ moves a row by about √ε of its length in any direction, and s/nλ multiplies that."""
    figures, rho = dual.target_norms(), np.linalg.norm(dual.inner.rho, axis=1)
    figures = np.maximum(figures, dual.level * rho)
    moved = dual.level * dual.inner.label_sizes
    used = figures > 0
    worst = float((EPS * row_squares(X)[used] * (moved[used] / figures[used]) ** 2).max(initial=0.0))
    if worst > PROMISE:
        raise Refusal(
            f"float64 would give these figures a relative error of {worst:.1g}, but {PROMISE:g} is promised: the "
            "penalty is small relative to the table; use a larger l2, or scale the rows"
        )


def target_moves(fit: WideFit, target_unit: float) -> FloatArray:
    """(n,) ω times the target's unit, and times −d²l/dm dy if that is not 1."""
    return fit.target_response * target_unit


def _primal(fit: WideFit, X: Table, input_map: Any, whitening: float, target_unit: float) -> SparseJacobian:
    """A sparse table with few columns: any input map, written out."""
    d = X.shape[1]
    P = np.eye(d) if input_map is None else _written_out(input_map, d)
    P = np.vstack([P, np.zeros((1, P.shape[1]))]) if fit.intercept else P
    omega = fit.sample_weight
    jacobian = SparseJacobian(
        X=X,
        factor=fit.factor,
        F=whitening * fit.factor.matrix,
        P=P,
        g=P.T @ fit.w,
        a=omega * fit.curvature,
        r=omega * fit.residual,
        c=target_moves(fit, target_unit),
        y=fit.y,
        target_unit=target_unit,
    )
    moves = np.sqrt(np.einsum("pj,pj->j", jacobian.b, jacobian.b))
    lengths = jacobian.target_norms() / np.where(jacobian.c != 0, np.abs(jacobian.c), 1.0)
    product = np.full(fit.n, EPS * fit.condition**2)
    refuse_imprecise_rows(fit, X, jacobian.r, jacobian.c, lengths, moves, product)
    return jacobian


def _written_out(input_map: Any, d: int) -> FloatArray:
    P = as_table(input_map, "input_map")
    P = np.asarray(P.toarray()) if is_sparse(P) else np.eye(d, len(P)) * P if P.ndim == 1 and len(P) <= d else P
    if P.ndim != 2 or len(P) != d or P.shape[1] == 0 or not np.abs(P).max() <= HUGE:
        raise Refusal(f"input_map must be a ({d}, m) array, m > 0, of numbers up to {HUGE:g}, not of shape {P.shape}")
    return P


def _whitening(noise: Noise) -> float:
    """s: what one released value's noise multiplies a Jacobian by."""
    if noise is no_noise:
        return 1.0
    if not isinstance(noise, Density):
        raise CannotMeasure(
            f"{noise} is not the same in every direction; a sparse or wide table is measured under independent noise "
            "of one scale, such as Gaussian(0.1)"
        )
    return float(np.asarray(noise.whiten(np.ones((1, 1))))[0, 0])


def units(input_map: Any, d: int) -> FloatArray:
    """(d,) how much of a column one unit of its unknown is: the diagonal of the input map."""
    if input_map is None:
        return np.ones(d)
    P = as_table(input_map, "input_map")
    if P.shape == (d,):
        diagonal = P
    elif P.shape == (d, d) and _entries(P) == np.count_nonzero(P.diagonal()):
        diagonal = np.asarray(P.diagonal())
    else:
        raise CannotMeasure(
            f"the input map of a wide table must be diagonal: a scale for each of {d} columns, not a matrix of shape "
            f"{P.shape} with other entries"
        )
    if not ((np.abs(diagonal) >= TINY) & (np.abs(diagonal) <= HUGE)).all():
        raise Refusal(f"the input map of a wide table must have scales from {TINY:g} to {HUGE:g} for all its columns")
    return np.asarray(diagonal)


def _entries(P: Table) -> int:
    return int(P.nnz) if is_sparse(P) else int(np.count_nonzero(P))


def refuse_imprecise_rows(
    fit: WideFit, X: Table, r: FloatArray, c: FloatArray, lengths: FloatArray, moves: FloatArray, product: FloatArray
) -> None:
    """The promise of `jacobians/precision.py` for figures from X Xᵀ or XᵀDX.

    lengths (n,) are ||u|| of the rows, moves (m,) ||b|| of the columns or a bound, product (n,) the relative error of
    ||u|| from the rounding of the product. Margins and residuals have the errors named there.
    """
    if not fit.iterations:  # given parameters are not our minimiser, and nothing is promised for them
        return
    moved = EPS * (reach(X, fit.coef) + (abs(float(fit.w[-1])) if fit.intercept else 0.0))
    largest = float(moves.max())
    if fit.loss.quadratic:
        margin, residual = np.zeros(fit.n), np.maximum(moved, EPS * np.abs(fit.y))
    else:
        margin = moved + fit.decrement * np.sqrt(row_squares(X) * largest)
        residual = fit.curvature * margin + EPS * np.maximum(np.abs(fit.residual), np.abs(fit.y))
    figures = np.maximum(c * lengths, np.abs(r) * float(moves.min()))
    used = figures > 0
    share = (c * lengths)[used] / figures[used]
    errors = margin[used] + share * product[used] + (fit.sample_weight * residual)[used] * largest / figures[used]
    worst = float(errors.max(initial=0.0))
    if worst > PROMISE:
        raise Refusal(
            f"float64 would give these figures a relative error of {worst:.1g}, but {PROMISE:g} is promised: the "
            "penalty is small relative to the table; use a larger l2, or scale the rows"
        )
