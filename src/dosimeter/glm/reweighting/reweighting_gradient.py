"""The total derivative of a reweighted model through every round of its reweighting, by reverse mode.

The path (X, y) -> w⁰ -> η⁰ -> ω¹ -> w¹ ... -> wᵀ is traversed backwards, for all q released values and all rows at
once. A bar marks the derivative of the release by the quantity under it. With K = H⁻¹ and η = uᵀJv, J = -ωK[a x̃gᵀ +
rP, -cx̃]:

    fit      s = Kw̄;  x̃-bar -= ω(a (x̃·s) w + r s),  ȳ += ω x̃·s,  ω̄ -= r x̃·s
    η        s = Ku, β = a g·v - c v_y, q = βx̃ + rPv;  H̄ = Σ η̄ ω s(Kq)ᵀ, then through ω, x̃, w, r, a of J and of H
    update   log ω' = log ω - log η - log Σ(ω/η) + log n

Singular vectors need no derivative of their own: dη = uᵀ dJ v. Derivation: docs/explanation/irfil.md. Time O(T n p³);
the result, (n, q, m + 1), is the largest array.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import CannotMeasure
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.fitting.newton import Loss
from dosimeter.glm.jacobians.dense_jacobian import DenseJacobian, Rows
from dosimeter.glm.jacobians.scalar_jacobian import ScalarJacobian
from dosimeter.glm.losses.loss import ScalarLoss
from dosimeter.glm.reweighting.irfil import EqualisationTarget, Reweighting, ReweightingRound

GAP = 1e-9
"""Two largest singular values of a unit closer than this (relatively) count as equal. η then has no derivative, and the
rounding of a singular vector, about 1e-16 over the gap, would leave fewer than six digits.
"""

BLOCK = 4096
"""Rows whose Jacobians are written out at once."""


@dataclass(frozen=True, eq=False)
class TotalJacobian(DenseJacobian):
    """The whitened total derivative, written out."""

    J: FloatArray
    """(n, q, m + 1), the target last."""
    gap: float = np.inf
    """Smallest relative gap between the two largest singular values on the path; infinite without a round."""

    @property
    def n(self) -> int:  # type: ignore[override]
        return len(self.J)

    @property
    def m(self) -> int:  # type: ignore[override]
        return int(self.J.shape[2]) - 1

    @property
    def target_width(self) -> int:  # type: ignore[override]
        return 1

    @property
    def width(self) -> int:  # type: ignore[override]
        return int(self.J.shape[1])

    def dense(self, rows: Rows) -> FloatArray:
        return np.asarray(self.J[rows])


def no_reweighting_gradient(loss: Loss) -> str:
    """Why the derivative through a reweighting is not known for this loss; "" if it is."""
    if not isinstance(loss, ScalarLoss):
        return f"the derivative through the reweighting needs a loss with one margin, not {loss.name}"
    if not loss.canonical:
        return f"the derivative through the reweighting is for canonical losses, and {loss.name} is not"
    return ""


def refuse_without_gradient(loss: Loss) -> None:
    """Refuse a loss before anything is reweighted."""
    if reason := no_reweighting_gradient(loss):
        raise CannotMeasure(f"{reason}: use the same noise on all weights")


def total_jacobian(reweighting: Reweighting, X: FloatArray, y: FloatArray, W: FloatArray) -> TotalJacobian:
    """d(W wᵀ)/d(row i) for every row: X (n, d), y (n,) the training table, W (q, p) a linear map of the weights.

    ω⁰, the targets and the number of rounds are constants.
    """
    refuse_without_gradient(reweighting.fit.loss)
    level, n = reweighting.level, len(X)
    back = _Backwards.begin(X, y, len(W), reweighting.fit.intercept, level)
    log_bar, w_bar, gap = np.zeros((n, len(W))), W, np.inf
    for t in reversed(range(len(reweighting.path))):
        stage = reweighting.path[t]
        if t < reweighting.rounds:
            after = reweighting.path[t + 1].fit.sample_weight
            log_bar = log_bar - (after / n)[:, None] * log_bar.sum(axis=0)  # Σω' = n removes the common factor
            top = _singular_vectors(level, stage, X, y)
            w_bar, log_bar, gap = *back.figures(stage, top, log_bar), min(gap, top.gap)
        log_bar = log_bar + back.fit(stage.fit, w_bar)
    return TotalJacobian(back.collect(), gap)


@dataclass(frozen=True, eq=False)
class _SingularVectors:
    """The singular vectors of the largest singular value of each unit, row by row."""

    jacobian: ScalarJacobian
    left: FloatArray
    """(n, k) u."""
    v: FloatArray
    """(n, m) a row's part of the right vector, zero at columns that do not count."""
    v_y: FloatArray
    """(n,) its entry for the target."""
    gap: float


@dataclass(frozen=True, eq=False)
class _Backwards:
    """Sums of the derivatives by the table so far; its arrays are updated in place."""

    X: FloatArray
    Xt: FloatArray
    """(n, p) x̃."""
    level: EqualisationTarget
    X_bar: FloatArray
    """(q, n, p)."""
    y_bar: FloatArray
    """(n, q)."""

    @classmethod
    def begin(cls, X: FloatArray, y: FloatArray, q: int, intercept: bool, level: EqualisationTarget) -> _Backwards:
        Xt = np.column_stack([X, np.ones(len(X))]) if intercept else X
        return cls(X, Xt, level, np.zeros((q, *Xt.shape)), np.zeros((len(y), q)))

    def fit(self, fit: Fit, w_bar: FloatArray) -> FloatArray:
        """Through the minimiser, by the implicit function theorem; (n, q) the derivative by log ω."""
        A, omega = fit.factor.matrix, fit.sample_weight
        pull = omega[:, None] * fit.factor.rows(self.X, A.T @ w_bar.T)
        self.y_bar[...] += pull
        for k, s in enumerate(w_bar @ A @ A.T):
            self.X_bar[k] -= np.outer(fit.curvature * pull[:, k], fit.w) + np.outer(omega * fit.residual, s)
        return np.asarray(-fit.residual[:, None] * pull)

    def figures(
        self, stage: ReweightingRound, top: _SingularVectors, log_bar: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Through log ω' = log ω - log η; (q, p) the derivative by w, (n, q) that by log ω."""
        fit, Xt, jacobian = stage.fit, self.Xt, top.jacobian
        a, r, omega, A = fit.curvature, fit.residual, fit.sample_weight, fit.factor.matrix
        b = _scalar(fit).third(fit.margin, fit.y)
        S = top.left @ (jacobian.F @ A.T)
        Pv, g_v = top.v @ jacobian.P.T, top.v @ jacobian.g
        beta = a * g_v - self.level.target_unit * top.v_y
        Kq = beta[:, None] * fit.factor.rows(self.X, A.T) + r[:, None] * (Pv @ A @ A.T)
        S_x, S_Pv = np.einsum("np,np->n", S, Xt), np.einsum("np,np->n", S, Pv)
        eta_bar = -_over_units(self.level, log_bar, len(stage.eta)) / stage.eta[:, None]
        e = self.level.of_rows(eta_bar) * omega[:, None]
        self.y_bar[...] += e * S_Pv[:, None]
        log_bar = log_bar - e * (beta * S_x + r * S_Pv)[:, None]
        m_bar = -e * (b * g_v * S_x + a * S_Pv)[:, None]
        for k in range(e.shape[1]):
            H_bar = (S * e[:, k, None]).T @ Kq
            turned = Xt @ (H_bar + H_bar.T)
            half = 0.5 * omega * np.einsum("np,np->n", turned, Xt)
            log_bar[:, k] += a * half
            m_bar[:, k] += b * half
            turned *= (omega * a)[:, None]
            turned -= (e[:, k] * beta)[:, None] * S
            turned += np.outer(m_bar[:, k], fit.w)
            self.X_bar[k] += turned
        return np.asarray(m_bar.T @ Xt - (e * (a * S_x)[:, None]).T @ Pv), log_bar

    def collect(self) -> FloatArray:
        """(n, q, m + 1) by the unknowns: x̃ = Pz + const, y in units of the target."""
        d = self.X.shape[1]
        P = np.eye(d) if self.level.input_map is None else self.level.input_map
        q, n, _ = self.X_bar.shape
        J = np.empty((n, q, P.shape[1] + 1))
        J[:, :, :-1] = (self.X_bar[:, :, :d] @ P).transpose(1, 0, 2)
        J[:, :, -1] = self.y_bar * self.level.target_unit
        return J


def _singular_vectors(
    level: EqualisationTarget, stage: ReweightingRound, X: FloatArray, y: FloatArray
) -> _SingularVectors:
    jacobian = level.leakage(stage.fit, X, y).jacobian
    if not isinstance(jacobian, ScalarJacobian):
        raise TypeError("a loss with one margin has a scalar Jacobian")
    n, m, units = jacobian.n, jacobian.m, len(stage.eta)
    columns = np.arange(m, dtype=np.intp) if level.columns is None else level.columns
    pick = np.append(columns, m) if level.columns is None and level.include_target else columns
    tied_positions = [*([] if level.tied is None else level.tied.tolist()), *([m] if level.tied_target else [])]
    tied = np.intersect1d(tied_positions, pick).astype(np.intp)
    unit = np.arange(n, dtype=np.intp) if level.groups is None else level.groups
    left, gaps = _left_vectors(jacobian, unit, pick, tied)
    _refuse_equal(level, gaps)
    v = np.zeros((n, m + 1))
    for rows in _blocks(np.arange(n, dtype=np.intp)):
        projected = np.einsum("nkc,nk->nc", jacobian.dense(rows)[:, :, pick], left[unit[rows]])
        v[np.ix_(rows, pick)] = projected / stage.eta[unit[rows], None]
    if len(tied):  # one unknown for the whole group, whose rows' Jacobians add
        v[:, tied] = _over_units(level, v[:, tied], units)[unit]
    return _SingularVectors(jacobian, left[unit], v[:, :m], v[:, m], float(gaps.min()))


def _left_vectors(jacobian: ScalarJacobian, unit: Index, pick: Index, tied: Index) -> tuple[FloatArray, FloatArray]:
    """(units, k) left vectors and (units,) gaps; groups of the same size are computed together."""
    sizes = np.bincount(unit)
    left, gaps = np.empty((len(sizes), len(jacobian.F))), np.empty(len(sizes))
    by_unit = np.split(np.argsort(unit, kind="stable"), np.cumsum(sizes)[:-1])
    for size in np.unique(sizes):
        for units in _blocks(np.flatnonzero(sizes == size), max(1, BLOCK // int(size))):
            rows = np.concatenate([by_unit[k] for k in units]).astype(np.intp)
            J = jacobian.dense(rows).reshape(len(units), size, len(jacobian.F), -1)
            free = J[..., pick if size == 1 else np.setdiff1d(pick, tied)].transpose(0, 2, 1, 3)
            flat = free.reshape(len(units), len(jacobian.F), -1)
            if size > 1:
                flat = np.concatenate([flat, J[..., tied].sum(axis=1)], axis=2)
            left[units], gaps[units] = top_left_vectors(flat)
    return left, gaps


def top_left_vectors(J: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(k, q) left singular vector of the largest singular value, and (k,) its relative gap to the next; J (k, q, m)."""
    if J.shape[1] <= J.shape[2]:
        squares, vectors = np.linalg.eigh(J @ J.transpose(0, 2, 1))
        return np.asarray(vectors[:, :, -1]), _gaps(squares)
    squares, vectors = np.linalg.eigh(J.transpose(0, 2, 1) @ J)
    left = np.einsum("kqm,km->kq", J, vectors[:, :, -1])
    return left / np.linalg.norm(left, axis=1, keepdims=True), _gaps(squares)


def _gaps(squares: FloatArray) -> FloatArray:
    """(k,) 1 - σ₂/σ₁ from ascending squares (k, q)."""
    if squares.shape[1] == 1:
        return np.ones(len(squares))
    return np.asarray(1.0 - np.sqrt(np.maximum(squares[:, -2], 0.0) / squares[:, -1]))


def _refuse_equal(level: EqualisationTarget, gaps: FloatArray) -> None:
    unit = int(np.argmin(gaps))
    if gaps[unit] < GAP:
        raise CannotMeasure(
            f"{level.name(unit)} has two equal largest singular values (relative gap {gaps[unit]:.1e}): its η has no "
            "derivative there, so the reweighted weights have none: use fewer rounds, or another reading"
        )


def _scalar(fit: Fit) -> ScalarLoss:
    if not isinstance(fit.loss, ScalarLoss):
        raise TypeError("a single margin is needed")
    return fit.loss


def _over_units(level: EqualisationTarget, rows: FloatArray, units: int) -> FloatArray:
    """(units, k) sums of (n, k) over each unit's rows."""
    if level.groups is None:
        return rows
    total = np.zeros((units, rows.shape[1]))
    np.add.at(total, level.groups, rows)
    return total


def _blocks(rows: Index, step: int = BLOCK) -> list[Index]:
    return [rows[i : i + step] for i in range(0, len(rows), step)]
