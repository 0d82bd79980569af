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
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.by_law import ByLaw
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Density, Gaussian, Gumbel, Laplace, LogisticNoise, Noise, no_noise
from dosimeter.glm.category_steps import few_columns, step_norms
from dosimeter.glm.dense_jacobian import DenseJacobian, Jacobian, Rows, largest_singular_values
from dosimeter.glm.fit import Fit
from dosimeter.glm.known_cells import KnownCells, with_known
from dosimeter.glm.leakage import Leakage
from dosimeter.glm.scalar_jacobian import ScalarJacobian
from dosimeter.glm.softmax_jacobian import SoftmaxJacobian

STANDARD = 1e-6
"""How far mean and deviation of a standardised column may be from 0 and 1."""

BLOCK = 16 << 20
"""Bytes of Jacobians written out at once."""


@dataclass(frozen=True)
class Moments:
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
MOMENTS: ByLaw[Moments] = ByLaw(
    "has no moments here, so what a fitted scaler leaks under it is not known (declare bounds, or another noise)",
    {
        Gaussian: Moments(1.0, 0.0, 1.0, 0.0, 2.0),
        Laplace: Moments(1.0, 0.0, 2.0, 0.0, 1.0),
        LogisticNoise: Moments(1 / 3, 0.0, math.pi**2 / 3, 0.0, (3 + math.pi**2) / 9),
        Gumbel: Moments(1.0, _EULER, math.pi**2 / 6, _EULER - 1.0, math.pi**2 / 6 + (1 - _EULER) ** 2),
    },
)


@dataclass(frozen=True, eq=False)
class Scaler:
    """The features that were standardised by the table itself, and how the unknowns move them."""

    features: Index
    """(k,) their positions among the columns of X."""
    Z: FloatArray
    """(n, k) their values."""
    P: FloatArray
    """(k, m) how each moves with each unknown of its row, with mean and deviation fixed."""

    @classmethod
    def of(cls, X: FloatArray, scaled: Any, P: FloatArray) -> Scaler:
        """X (n, d), scaled (d,) booleans, P (d, m); refused if a marked column is not standardised."""
        mask = np.asarray(scaled)
        if mask.dtype != bool or mask.shape != (X.shape[1],):
            raise Refusal(f"scaled must be one boolean for each of the {X.shape[1]} columns of X")
        features = np.flatnonzero(mask).astype(np.intp)
        Z = np.ascontiguousarray(X[:, features])
        off = np.maximum(np.abs(Z.mean(axis=0)), np.abs(Z.std(axis=0) - 1.0))
        if (off > STANDARD).any():
            j = int(features[int(np.argmax(off))])
            raise Refusal(
                f"column {j} is marked as standardised but does not have mean 0 and deviation 1 (1/n): standardise it"
            )
        return cls(features, Z, np.ascontiguousarray(P[features]))

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.Z)

    @cached_property
    def touched(self) -> Index:
        """The unknowns that move a standardised feature."""
        return np.flatnonzero(np.any(self.P != 0.0, axis=0)).astype(np.intp)

    def rotate_moves(self, rows: Rows, root: FloatArray) -> FloatArray:
        """(b, r, touched) root (r, 2k) times [z P; P]/n, the moves of log-deviation and mean of each feature."""
        P, Z = self.P[:, self.touched] / self.n, self.Z[rows]
        k = len(self.features)
        by_scale = (Z[:, None, :] * root[:, :k]) @ P
        return np.asarray(by_scale + root[:, k:] @ P)


@dataclass(frozen=True, eq=False)
class FloorJacobian(DenseJacobian):
    """The part that no scale of the noise removes: that of the fold's own derivative."""

    scaler: Scaler
    root: FloatArray
    """(r, 2k): rootᵀroot is the information about log-deviations, then means, of the features."""
    target_width: int = 1

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.scaler.n

    @property
    def m(self) -> int:  # type: ignore[override]
        return int(self.scaler.P.shape[1])

    @property
    def width(self) -> int:  # type: ignore[override]
        return len(self.root)

    def dense(self, rows: Rows) -> FloatArray:
        part = self.scaler.rotate_moves(rows, self.root)
        out = np.zeros((len(part), self.width, self.m + self.target_width))
        out[:, :, self.scaler.touched] = part
        return out


@dataclass(frozen=True, eq=False)
class ScaledJacobian(DenseJacobian):
    """The whitened total Jacobian: the frozen one, the scaler's part of the mean, and the floor's rows below them."""

    base: Jacobian
    """With mean and deviation fixed."""
    scaler: Scaler
    moved: FloatArray
    """(q, k) what one z P of a feature adds to the whitened mean."""
    shifted: FloatArray
    """(q, k) what one P adds."""
    root: FloatArray
    """(r, 2k) of the part that is independent of the mean: see `FloorJacobian`."""
    floor: FloorJacobian
    """What remains at an infinite scale."""

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.base.n

    @property
    def m(self) -> int:  # type: ignore[override]
        return self.base.m

    @property
    def target_width(self) -> int:  # type: ignore[override]
        return self.base.target_width

    @property
    def width(self) -> int:  # type: ignore[override]
        return len(self.moved) + len(self.root)

    def dense(self, rows: Rows) -> FloatArray:
        J = self.base.dense(rows)
        q, touched, P = len(self.moved), self.scaler.touched, self.scaler.P
        out = np.empty((len(J), self.width, J.shape[2]))
        out[:, :q], out[:, q:] = J, 0.0
        if len(touched):
            Z = self.scaler.Z[rows]
            out[:, :q, touched] += (Z[:, None, :] * self.moved + self.shifted) @ P[:, touched]
            out[:, q:, touched] = self.scaler.rotate_moves(rows, self.root)
        return out

    def _blocks(self) -> Iterator[slice]:
        step = max(1, BLOCK // (8 * self.width * (self.m + self.target_width)))
        return (slice(i, min(i + step, self.n)) for i in range(0, self.n, step))

    def _is_frozen(self, columns: Index) -> bool:
        """Whether none of the unknowns moves a standardised feature: the frozen figure is then the total one."""
        return not np.isin(columns, self.scaler.touched).any()

    def _narrow(self, columns: Index) -> ScaledJacobian:
        """The same about the unknowns `columns` and the target only: a few columns cost little."""
        scaler = replace(self.scaler, P=np.ascontiguousarray(self.scaler.P[:, columns]))
        floor = replace(self.floor, scaler=scaler)
        return replace(self, base=narrow_jacobian(self.base, columns), scaler=scaler, floor=floor)

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,)."""
        if self._is_frozen(columns):
            return self.base.row_norms(columns, include_target)
        if len(columns) < self.m:
            return self._narrow(columns).row_norms(np.arange(len(columns), dtype=np.intp), include_target)
        return self._norms_of(np.arange(self.n, dtype=np.intp), columns, include_target)

    def _norms_of(self, rows: Index, columns: Index, include_target: bool) -> FloatArray:
        pick, step = (
            self._picked(columns, include_target),
            max(1, BLOCK // (8 * self.width * (self.m + self.target_width))),
        )
        parts = [rows[i : i + step] for i in range(0, len(rows), step)]
        return np.concatenate([largest_singular_values(self.dense(part)[:, :, pick]) for part in parts])

    def highest(self, columns: Index, include_target: bool) -> float:
        """The largest of `row_norms`; writes out only rows that can be the largest.

        A row's norm is within |moved z + shifted| |P| of the frozen one, and the floor's rows add their square.
        """
        frozen = self.base.row_norms(columns, include_target)
        if self._is_frozen(columns):
            return float(frozen.max())
        size = float(np.linalg.norm(self.scaler.P[:, columns], 2))
        squares = np.zeros(self.n)
        for f in range(len(self.scaler.features)):
            squares += np.sum((self.scaler.Z[:, [f]] * self.moved[:, f] + self.shifted[:, f]) ** 2, axis=1)
        slack = size * np.sqrt(squares)
        steps = np.sqrt(np.max(self.scaler.Z**2, axis=1, initial=0.0) + 1.0)
        rest = float(np.linalg.norm(self.root, 2)) * size / self.n * steps
        above, below = np.hypot(frozen + slack, rest), frozen - slack
        rows = np.flatnonzero(above >= (1 - 1e-9) * below.max()).astype(np.intp)
        return float(self._norms_of(rows, columns, include_target).max())

    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, k)."""
        mixed = np.isin(columns, self.scaler.touched)
        out = np.empty((self.n, len(columns)))
        if not mixed.all():
            out[:, ~mixed] = self.base.cell_norms(columns[~mixed])
        if mixed.any():
            few = self._narrow(columns[mixed])
            for s in few._blocks():
                out[s, mixed] = np.linalg.norm(few.dense(s)[:, :, : few.m], axis=1)
        return out

    def target_norms(self) -> FloatArray:
        """(n,): no target moves a scaler."""
        return self.base.target_norms()

    def column_norms(self) -> FloatArray:
        """(m,)."""
        out, touched = self.base.column_norms().copy(), self.scaler.touched
        few = self._narrow(touched)
        total = np.zeros((len(touched), self.width, self.width))
        for s in few._blocks():
            J = np.ascontiguousarray(few.dense(s)[:, :, : few.m].transpose(2, 1, 0))
            total += J @ J.transpose(0, 2, 1)
        out[touched] = np.sqrt(np.maximum(np.linalg.eigvalsh(total)[:, -1], 0.0)) if len(touched) else 0.0
        return out

    def outer(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(q + r, q + r) J Jᵀ of some rows' unknowns together."""
        narrow_columns = np.union1d(columns, tied[tied < self.m]).astype(np.intp)
        if self._is_frozen(narrow_columns):
            out, q = np.zeros((self.width, self.width)), len(self.moved)
            out[:q, :q] = self.base.outer(rows, columns, include_target, tied)
            return out
        if len(narrow_columns) == self.m:
            return super().outer(rows, columns, include_target, tied)
        labels = tied[tied >= self.m] - self.m + len(narrow_columns)
        positions = np.searchsorted(narrow_columns, columns).astype(np.intp)
        tied_positions = np.concatenate([np.searchsorted(narrow_columns, tied[tied < self.m]), labels]).astype(np.intp)
        return DenseJacobian.outer(self._narrow(narrow_columns), rows, positions, include_target, tied_positions)

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(g,) ||J|| of g groups of k rows each, rows (g, k)."""
        pick, (g, k) = self._picked(columns, include_target), rows.shape
        step = max(1, BLOCK // (8 * self.width * (self.m + self.target_width) * k))
        out = np.empty(g)
        for i in range(0, g, step):
            part = rows[i : i + step]
            J = self.dense(part.ravel()).reshape(*part.shape, self.width, -1)
            untied = J[..., pick].transpose(0, 2, 1, 3).reshape(len(part), self.width, -1)
            unknowns = np.concatenate([untied, J[..., tied].sum(axis=1)], axis=2)
            out[i : i + step] = largest_singular_values(unknowns)
        return out


@step_norms.register
def _(jacobian: ScaledJacobian, columns: Index, vertices: FloatArray) -> FloatArray:
    """A category that no scaler touches is read from the frozen Jacobian."""
    if jacobian._is_frozen(columns):
        return step_norms(jacobian.base, columns, vertices)
    plain: Any = step_norms.dispatch(object)
    return np.asarray(plain(jacobian, columns, vertices))


@few_columns.register
def _(jacobian: ScaledJacobian, columns: Index) -> tuple[Jacobian, Index]:
    return jacobian._narrow(columns), np.arange(len(columns), dtype=np.intp)


@dataclass(frozen=True, eq=False)
class SomeColumns(DenseJacobian):
    """Some unknowns of a Jacobian that is written out anyway, and the target."""

    inner: Jacobian
    columns: Index

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.inner.n

    @property
    def m(self) -> int:  # type: ignore[override]
        return len(self.columns)

    @property
    def target_width(self) -> int:  # type: ignore[override]
        return self.inner.target_width

    @property
    def width(self) -> int:  # type: ignore[override]
        return int(self.inner.dense(np.array([0], dtype=np.intp)).shape[1])

    def dense(self, rows: Rows) -> FloatArray:
        m = self.inner.m
        return self.inner.dense(rows)[:, :, [*self.columns, *range(m, m + self.target_width)]]


def narrow_jacobian(jacobian: Jacobian, columns: Index) -> Jacobian:
    """A frozen Jacobian about some of its unknowns and the target."""
    if isinstance(jacobian, ScalarJacobian):
        return replace(jacobian, P=np.ascontiguousarray(jacobian.P[:, columns]), g=jacobian.g[columns])
    if isinstance(jacobian, SoftmaxJacobian):
        return replace(jacobian, P=np.ascontiguousarray(jacobian.P[:, columns]))
    return SomeColumns(jacobian, columns)


def fold_leakage(leak: Leakage, fit: Fit, X: FloatArray, scaled: Any, input_map: FloatArray) -> Leakage:
    """The leakage of the folded weights R = A(w + noise), from the frozen one of w + noise.

    X (n, d) is standardised in the columns marked by `scaled` (d,); input_map (d, m) as in `glm.measure`.
    """
    scaler = Scaler.of(X, scaled, input_map)
    if not fit.intercept:
        raise CannotMeasure(
            "a fitted mean folds into an intercept, but this model has none: fit an intercept, or declare bounds"
        )
    base, noise = leak.jacobian, leak.noise if leak.has_noise else Gaussian(1.0)
    classes = len(fit.inner) // len(fit.factor.basis)
    moved = penalty_part(base, fit, scaler)
    shifted = np.zeros_like(moved)
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
    shrink = w[scaler.features] / scaler.n
    moved = -np.einsum("nk,nqk->qk", scaler.Z, by_feature) / scaler.n - unit[:, scaler.features] * shrink
    shifted = -by_feature.sum(axis=0) / scaler.n - np.outer(unit[:, -1], shrink)
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
        feature_rows = [c * p + int(f) for c in range(classes) for f in scaler.features]
        moved, shifted = moved.copy(), shifted.copy()
        moved[feature_rows, np.tile(np.arange(k), classes)] -= law.cross / math.sqrt(law.information) / scaler.n
        shifted[[c * p + p - 1 for c in range(classes)]] -= math.sqrt(law.information) * law.mean / scaler.n
        rest = np.full(k, classes * (law.scale - law.cross**2 / law.information))
        shear = np.full(k, classes * law.information * law.variance)
        root = np.diag(np.sqrt(np.concatenate([rest, shear])))
        common = classes * law.information * law.mean**2
        G = np.zeros((2 * k, 2 * k))
        G[:k, :k] = classes * law.scale * np.eye(k)
        G[k:, k:] = np.diag(shear) + common
        floor = _root(G)
    floor_jacobian = FloorJacobian(scaler, floor, base.target_width)
    jacobian = ScaledJacobian(base, scaler, moved, shifted, root, floor_jacobian)
    return replace(leak, jacobian=jacobian, of="the weights in the columns' own units", members=None)


def _moments(noise: Noise | None) -> Moments:
    if noise is None or noise is no_noise:
        return MOMENTS[Gaussian]
    return MOMENTS[noise]


def penalty_part(base: Jacobian, fit: Fit, scaler: Scaler) -> FloatArray:
    """(q, k) whitened -2λ H⁻¹(w_f ⊗ e_f): the folded minimiser moves with the scaler only through its penalty."""
    E = np.zeros((len(fit.factor.basis), len(scaler.features)))
    E[scaler.features, np.arange(len(scaler.features))] = 1.0
    A = fit.factor.columns(E)
    if isinstance(base, ScalarJacobian):
        return np.asarray(-2.0 * fit.l2 * (base.F @ A) * fit.w[scaler.features])
    if isinstance(base, SoftmaxJacobian):
        q, (p, K) = len(base.N), fit.w.shape
        by_class = base.N.reshape(q, K, p) @ A
        return np.asarray(-2.0 * fit.l2 * np.einsum("qck,kc->qk", by_class, fit.w[scaler.features]))
    raise TypeError(f"no scaler is known before {type(base).__name__}")


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
    if not isinstance(jacobian, ScaledJacobian):
        return None
    return replace(leak, jacobian=jacobian.floor, has_noise=True, of="the fitted scaler", members=None)


def frozen_of(leak: Leakage) -> Leakage:
    """The same release with mean and deviation regarded as public."""
    jacobian = leak.jacobian
    if isinstance(jacobian, KnownCells):
        return with_known(frozen_of(replace(leak, jacobian=jacobian.inner)), jacobian.known)
    return replace(leak, jacobian=jacobian.base) if isinstance(jacobian, ScaledJacobian) else leak


__all__ = [
    "MOMENTS",
    "FloorJacobian",
    "Moments",
    "ScaledJacobian",
    "Scaler",
    "floor_of",
    "fold_dense_leakage",
    "fold_leakage",
    "frozen_of",
    "penalty_part",
]
