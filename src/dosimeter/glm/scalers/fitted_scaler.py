"""What a scaler fitted on the table adds: the total derivative of weights released in the columns' raw units.

Columns are standardised by their mean m and deviation s (1/n), and R = A(w + noise) is released, the weights folded
into raw units: A = [[1/s, 0], [-m/s, 1]] is a function of the table. With M = A⁻¹A', for one unknown that moves feature
f of row i by P,

    M_ff = -z P/n,   M_0f = -P/n       (z the standardised value, 0 the intercept)

and the information is that of the mean w' + Mw, whitened by the noise, plus a part in M that no scale removes: the
floor. For Gaussian noise it is ½ tr(M + Mᵀ)², (2z² + 1)P²/n² for one cell. The mean moves only by the frozen Jacobian
and -2λ w_f H⁻¹e_f z P, because without a penalty the folded minimiser does not depend on m and s. All of it, for every
law and for several rows together: docs/explanation/scaler.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.by_law import ByLaw
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.noise import Density, Gaussian, Gumbel, Laplace, LogisticNoise, Noise, no_noise
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.jacobians.dense_jacobian import Jacobian
from dosimeter.glm.jacobians.known_cells import KnownCells, with_known
from dosimeter.glm.jacobians.leakage import Leakage
from dosimeter.glm.jacobians.scalar_jacobian import ScalarJacobian
from dosimeter.glm.jacobians.softmax_jacobian import SoftmaxJacobian
from dosimeter.glm.row_maps.mapped_jacobian import MappedJacobian, with_row_map
from dosimeter.glm.scalers.column_scale_floor import ColumnScaleFloor, ColumnScaleMoves
from dosimeter.glm.scalers.scaled_jacobian import ScaledJacobian
from dosimeter.glm.scalers.scaler import Scaler, StatisticMoves
from dosimeter.glm.scalers.scaler_floor import FloorJacobian


@dataclass(frozen=True)
class LawMoments:
    """Of a law at scale 1, with score s = (log p)': what location, shift of another coordinate and scale tell."""

    information: float
    """E s²."""
    mean: float
    variance: float
    cross: float
    """E s²x: location and scale together; zero for a symmetric law."""
    scale: float
    """E (1 + s x)²."""


_EULER = float(np.euler_gamma)
MOMENTS: ByLaw[LawMoments] = ByLaw(
    "has no moments here, so what a fitted scaler leaks under it is not known (declare bounds, or another noise)",
    {
        Gaussian: LawMoments(1.0, 0.0, 1.0, 0.0, 2.0),
        Laplace: LawMoments(1.0, 0.0, 2.0, 0.0, 1.0),
        LogisticNoise: LawMoments(1 / 3, 0.0, math.pi**2 / 3, 0.0, (3 + math.pi**2) / 9),
        Gumbel: LawMoments(1.0, _EULER, math.pi**2 / 6, _EULER - 1.0, math.pi**2 / 6 + (1 - _EULER) ** 2),
    },
)


def fold_leakage(leak: Leakage, fit: Fit, scaler: Scaler) -> Leakage:
    """The leakage of the folded weights R = A(w + noise), from the frozen one of w + noise."""
    if not fit.intercept and not scaler.ones_last:
        raise CannotMeasure(
            "a fitted mean folds into an intercept, but this model has none: fit an intercept, or declare bounds"
        )
    base, noise = leak.jacobian, leak.noise if leak.has_noise else Gaussian(1.0)
    classes = len(fit.inner) // len(fit.factor.basis)
    moved = penalty_part(base, fit, scaler)
    shifted = np.zeros_like(moved) if fit.intercept else intercept_part(base, fit, scaler)
    return _fold(leak, base, scaler, moved, shifted, noise, classes)


def fold_dense_leakage(leak: Leakage, w: FloatArray, X: FloatArray, scaled: Any, input_map: FloatArray) -> Leakage:
    """The same for weights w (p,) whose frozen Jacobian is written out (a reweighted fit), by sums over the rows.

    For any statistic of standardised rows the total derivative by x_if is the frozen one less
    (z_if/n) Σ_k z_kf frozen_kf and (1/n) Σ_k frozen_kf.
    """
    scaler = Scaler.of(X, scaled, input_map)
    base, noise = leak.jacobian, leak.noise
    unknown_of_feature = [np.flatnonzero(row) for row in scaler.P]
    if any(len(j) != 1 for j in unknown_of_feature) or np.any(np.sum(input_map[:, scaler.touched] != 0.0, axis=0) != 1):
        raise CannotMeasure("the derivative through reweighting and scaler needs columns that are one feature each")
    columns = np.array([int(j[0]) for j in unknown_of_feature], dtype=np.intp)
    by_feature = base.dense(slice(None))[:, :, columns] / scaler.P[np.arange(len(unknown_of_feature)), columns]
    unit = (noise if isinstance(noise, Density) else Gaussian(1.0)).whiten(np.eye(len(w)))
    shrink = w[scaler.features] / scaler.divisor
    moved = -np.einsum("nk,nqk->qk", scaler.Z, by_feature) / scaler.divisor - unit[:, scaler.features] * shrink
    shifted = -by_feature.sum(axis=0) / scaler.divisor - np.outer(unit[:, -1], shrink)
    return _fold(leak, base, scaler, moved, shifted, noise, 1)


def _fold(
    leak: Leakage,
    base: Jacobian,
    scaler: Scaler,
    moved: FloatArray,
    shifted: FloatArray,
    noise: Noise | None,
    classes: int,
) -> Leakage:
    p, k = len(moved) // classes, len(scaler.features)
    if isinstance(noise, CorrelatedGaussian):
        root = floor = _correlated_root(noise, scaler, p, classes)
    else:
        law = _moments(noise)
        own_scale, own_mean, root = _own_parts(law, scaler.features, p, classes)
        moved, shifted = moved - own_scale / scaler.divisor, shifted - own_mean / scaler.divisor
        floor = _floor_root(law, k, classes)
    floor_jacobian = FloorJacobian(scaler, floor, base.target_width)
    jacobian = ScaledJacobian(base, scaler, moved, shifted, root, floor_jacobian)
    return replace(leak, jacobian=jacobian, of="the weights in the columns' own units", members=None)


def with_fold(
    leak: Leakage, fit: Fit, moves: StatisticMoves, by_scale: FloatArray, by_mean: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(q, k) what moves of log-divisor and of shift add to the mean, with the fold's part; (2k, 2k) the rows below.

    by_scale, by_mean: without the fold's part.
    """
    classes = len(fit.inner) // len(fit.factor.basis)
    law = _moments(leak.noise if leak.has_noise else None)
    own_scale, own_mean, root = _own_parts(law, moves.features, len(by_scale) // classes, classes)
    return by_scale + own_scale, by_mean + own_mean, root


def _own_parts(law: LawMoments, features: Any, p: int, classes: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(q, k) what the noise itself adds to the whitened mean, by log-divisor and by shift; (2k, 2k) what is left."""
    k = len(features)
    by_scale, by_mean = np.zeros((classes * p, k)), np.zeros((classes * p, k))
    feature_rows = [c * p + int(f) for c in range(classes) for f in features]
    by_scale[feature_rows, np.tile(np.arange(k), classes)] = law.cross / math.sqrt(law.information)
    by_mean[[c * p + p - 1 for c in range(classes)]] = math.sqrt(law.information) * law.mean
    rest = np.full(k, classes * (law.scale - law.cross**2 / law.information))
    shear = np.full(k, classes * law.information * law.variance)
    return by_scale, by_mean, np.diag(np.sqrt(np.concatenate([rest, shear])))


def _floor_root(law: LawMoments, k: int, classes: int) -> FloatArray:
    """R (2k, 2k): RᵀR is the information about log-divisors and shifts of k features that no scale removes."""
    shear = np.full(k, classes * law.information * law.variance)
    common = classes * law.information * law.mean**2
    G = np.zeros((2 * k, 2 * k))
    G[:k, :k] = classes * law.scale * np.eye(k)
    G[k:, k:] = np.diag(shear) + common
    return _root(G) if common else np.diag(np.sqrt(np.diagonal(G)))


def floor_of_statistics(leak: Leakage, classes: int, moves: Scaler) -> Leakage:
    """What scalers by any statistics of the table leave at any noise of the law of `leak`, of weights by class."""
    root = _floor_root(_moments(leak.noise if leak.has_noise else None), len(moves.features), classes)
    jacobian = FloorJacobian(moves, root, leak.jacobian.target_width)
    return replace(leak, jacobian=jacobian, has_noise=True, of="the fitted scaler", members=None)


def floor_of_columns(
    leak: Leakage, classes: int, moves: ColumnScaleMoves | None, others: StatisticMoves | None
) -> Leakage:
    """What scales of a sparse table's columns, and scalers of other columns beside it, leave at any noise."""
    law = _moments(leak.noise if leak.has_noise else None)
    numbers = None
    if others is not None:
        numbers = FloorJacobian(others, _floor_root(law, len(others.features), classes), leak.jacobian.target_width)
    nothing = ColumnScaleMoves.nothing(leak.n, leak.m)
    floor = ColumnScaleFloor(moves or nothing, classes * law.scale, leak.jacobian.target_width, numbers)
    return Leakage(floor, leak.noise, leak.include_target, has_noise=True, of="the fitted scaler")


def _moments(noise: Noise | None) -> LawMoments:
    if noise is None or noise is no_noise:
        return MOMENTS[Gaussian]
    return MOMENTS[noise]


def penalty_part(base: Jacobian, fit: Fit, scaler: Scaler) -> FloatArray:
    """(q, k) whitened -2λ_f H⁻¹(w_f ⊗ e_f): the folded minimiser moves with the scaler only through its penalty."""
    if fit.penalises_intercept:
        raise CannotMeasure(
            "what a fitted scaler leaks is derived for an intercept without a penalty: a penalised one moves with the "
            "means; fit without penalised_intercept, or declare bounds"
        )
    strength = fit.l2_by_parameter[scaler.features]
    E = np.zeros((len(fit.factor.basis), len(scaler.features)))
    E[scaler.features, np.arange(len(scaler.features))] = 1.0
    A = fit.factor.columns(E)
    if isinstance(base, ScalarJacobian):
        return np.asarray(-2.0 * (base.F @ A) * (strength * fit.w[scaler.features]))
    if isinstance(base, SoftmaxJacobian):
        q, (p, K) = len(base.N), fit.w.shape
        by_class = base.N.reshape(q, K, p) @ A
        return np.asarray(-2.0 * strength * np.einsum("qck,kc->qk", by_class, fit.w[scaler.features]))
    raise TypeError(f"no scaler is known before {type(base).__name__}")


def intercept_part(base: Jacobian, fit: Fit, scaler: Scaler) -> FloatArray:
    """(q, k) whitened -λ₀ H⁻¹(w_f e₀ + w₀ e_f): a penalised intercept, the last weight, moves with the means."""
    if not isinstance(base, ScalarJacobian):
        raise CannotMeasure(
            "what a fitted scaler leaks is not derived for several classes and an intercept with a penalty: fit one "
            "without, or declare bounds"
        )
    k, last = len(scaler.features), len(fit.w) - 1
    E = np.zeros((len(fit.factor.basis), k + 1))
    E[[*scaler.features, last], np.arange(k + 1)] = 1.0
    moves = base.F @ fit.factor.columns(E)
    of_features, of_intercept = moves[:, :k], moves[:, k:]
    both = of_intercept * fit.w[scaler.features] + of_features * fit.w[last]
    return np.asarray(-fit.l2_by_parameter[last] * both)


def _correlated_root(noise: CorrelatedGaussian, scaler: Scaler, p: int, classes: int) -> FloatArray:
    """(2k, 2k) for N(0, Σ), Σ = LLᵀ public: ½ tr of products of B + Bᵀ, B = L⁻¹ M L, M the unit moves."""
    L = noise.cholesky
    moves = []
    for position in [(f, f) for f in scaler.features] + [(p - 1, f) for f in scaler.features]:
        M = np.zeros((p, p))
        M[position] = -1.0
        B = noise.whiten(np.kron(np.eye(classes), M) @ L)
        moves.append((B + B.T).ravel())
    K = np.array(moves)
    return _root(0.5 * K @ K.T)


def _root(G: FloatArray) -> FloatArray:
    """R with RᵀR = G."""
    values, vectors = np.linalg.eigh(G)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def floor_of(leak: Leakage) -> Leakage | None:
    """The part that no scale removes, as a leakage; None if nothing was fitted on the table."""
    jacobian = leak.jacobian
    if isinstance(jacobian, KnownCells):
        inner_floor = floor_of(replace(leak, jacobian=jacobian.inner))
        return None if inner_floor is None else with_known(inner_floor, jacobian.known)
    if isinstance(jacobian, MappedJacobian):
        inner_floor = floor_of(replace(leak, jacobian=jacobian.inner))
        return None if inner_floor is None else with_row_map(inner_floor, jacobian.maps)
    if not isinstance(jacobian, ScaledJacobian):
        return None
    return replace(leak, jacobian=jacobian.floor, has_noise=True, of="the fitted scaler", members=None)


def frozen_of(leak: Leakage) -> Leakage:
    """The same release with mean and deviation regarded as public."""
    jacobian = leak.jacobian
    if isinstance(jacobian, KnownCells):
        return with_known(frozen_of(replace(leak, jacobian=jacobian.inner)), jacobian.known)
    if isinstance(jacobian, MappedJacobian):
        return with_row_map(frozen_of(replace(leak, jacobian=jacobian.inner)), jacobian.maps)
    return replace(leak, jacobian=jacobian.base) if isinstance(jacobian, ScaledJacobian) else leak


__all__ = [
    "MOMENTS",
    "LawMoments",
    "floor_of",
    "floor_of_statistics",
    "fold_dense_leakage",
    "fold_leakage",
    "frozen_of",
    "intercept_part",
    "penalty_part",
    "with_fold",
]
