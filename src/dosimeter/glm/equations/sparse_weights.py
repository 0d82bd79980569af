"""Weights under an L1 penalty, on their active set: Lasso, ElasticNet, LogisticRegression with L1 or elastic net.

    Σ ω l(w·x̃, y) + l1 ||w||₁ + (l2/2) ||w||²,        S = {j: w_j ≠ 0},  s_j = sign(w_j)

On S the objective is smooth: G_S = Σ ω r x̃_S + l1 s + l2 w_S. The L1 part is constant there, so its derivative is zero
and J_S is that of the model on the columns S with the penalty l2. A column outside S has w_j = 0 while
|Σ ω r x_j| < l1: its cells move neither w_S nor w_j, so their η is zero. That is local: S itself depends on the table,
and a cell that moves it is not covered. The distance to the nearest change of S is returned.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.checks import number
from dosimeter.core.density import Density
from dosimeter.core.engine import LocalEngine
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Noise
from dosimeter.glm.equations.estimating_equations import (
    AT_A_KINK,
    EstimatingEquations,
    Kink,
    Solution,
    accept,
    newton,
    state_at,
)
from dosimeter.glm.equations.released_map import ReleasedMap
from dosimeter.glm.jacobians.dense_jacobian import Jacobian, Rows
from dosimeter.glm.jacobians.scalar_jacobian import ScalarJacobian
from dosimeter.glm.linalg.inverse_hessian import inverse_factor
from dosimeter.glm.linalg.validation import HUGE, as_floats, check_table
from dosimeter.glm.losses.label_weights import LabelWeights
from dosimeter.glm.losses.loss import ScalarLoss, TargetKind

ACTIVE_SET = "which columns have the weight zero depends on the table: the choice is not covered"
_FIT_AGAIN = "fit with a smaller tol or more iterations, or pass the training table"


@dataclass(frozen=True, eq=False, repr=False)
class SparseWeights(EstimatingEquations):
    """A scalar loss with an L1 penalty; θ = the weights that are not zero, then the intercept. Internal.

    Parameters
    ----------
    X, y : array_like of shape (n, d) and (n,)
        The table.
    loss : ScalarLoss
        `Squared()`, `Logistic()`, ...
    weights : array_like of shape (d,), or (d + 1,) with the intercept last
        The fitted weights: those that are exactly zero are excluded, and Newton starts at the others.
    l1, l2 : float
        The penalties l1 ||w||₁ + (l2/2) ||w||² on the sum over the rows. ElasticNet: alpha · l1_ratio · Σω and
        alpha · (1 - l1_ratio) · Σω. LogisticRegression: l1_ratio/C and (1 - l1_ratio)/C.
    sample_weight : array_like of shape (n,), optional
        ω; default ones.
    intercept : bool, default False
        Whether there is an unpenalised intercept.
    label_weights : LabelWeights, optional
        What each row weighs with each label, if that depends on the label.

    Raises
    ------
    Refusal
        If the table is invalid, or every weight is zero and there is no intercept.

    Notes
    -----
    `solve` refuses weights that are not the minimum, and a table on which a column stands at its threshold.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.5]]), np.array([1.0, 0.1, 2.0])
    >>> SparseWeights(X, y, glm.Squared(), [0.8, 0.0], l1=1.0).solve().theta.round(4)
    array([0.8])
    """

    X: FloatArray
    y: FloatArray
    loss: ScalarLoss
    weights: FloatArray
    l1: float
    l2: float = 0.0
    sample_weight: Any = None
    intercept: bool = False
    label_weights: LabelWeights | None = None

    def __post_init__(self) -> None:
        X, y, weight = check_table(self.X, self.y, self.sample_weight)
        self.loss.check(y)
        number("l1", self.l1, 0.0, HUGE)
        number("l2", self.l2, 0.0, HUGE, strictly=False)
        w = as_floats(self.weights, "weights")
        if w.shape != (X.shape[1] + self.intercept,) or not np.isfinite(w).all():
            raise Refusal(f"weights must be {X.shape[1] + self.intercept} finite numbers, not of shape {w.shape}")
        for name, values in (("X", X), ("y", y), ("sample_weight", weight), ("weights", w)):
            object.__setattr__(self, name, values)
        if not len(self.active) and not self.intercept:
            raise Refusal("every weight is zero, so nothing is released that moves with a cell: use a smaller penalty")

    @property
    def target(self) -> TargetKind:  # type: ignore[override]
        """What the loss predicts."""
        return self.loss.target

    @cached_property
    def active(self) -> Index:
        """S: the columns with a weight."""
        return np.flatnonzero(self.weights[: self.d])

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return (*(f"weight {j}" for j in self.active), *(["intercept"] if self.intercept else []))

    @property
    def not_covered(self) -> tuple[str, ...]:
        return (ACTIVE_SET,)

    @cached_property
    def released(self) -> ReleasedMap:
        """All d weights, zeros among them, and the intercept."""
        names = (*(f"weight {j}" for j in range(self.d)), *(["intercept"] if self.intercept else []))
        return ReleasedMap.linear(self._embedding, "the weights", names)

    def value(self, theta: FloatArray) -> FloatArray:
        _, r, _ = self._scalars(theta, np.s_[:])
        return np.asarray(r @ self._rows(np.s_[:]) + self._ridge * theta + self.l1 * self._signs)

    def derivative(self, theta: FloatArray) -> tuple[FloatArray, ...]:
        X, (a, _, _) = self._rows(np.s_[:]), self._scalars(theta, np.s_[:])
        return ((X.T * a) @ X + np.diag(self._ridge),)

    def row_derivative(self, theta: FloatArray, rows: Rows) -> FloatArray:
        X, S, (a, r, c) = self._rows(rows), self.active, self._scalars(theta, rows)
        out = np.zeros((len(X), len(theta), self.d + 1))
        out[:, :, S] = (a[:, None] * X)[:, :, None] * theta[: len(S)]
        out[:, np.arange(len(S)), S] += r[:, None]
        out[:, :, -1] = -c[:, None] * X
        return out

    def start(self) -> FloatArray:
        """The given weights."""
        return self.weights[self._positions]

    def solve(self, start: Any = None) -> Solution:
        """The exact minimum with the given zeros and signs; refused if the zeros or signs are not those of a minimum.

        Raises
        ------
        CannotMeasure
            If they are not, or a column stands at its threshold.
        """
        theta, steps = newton(self, self._parameters(self.start() if start is None else start))
        S, margins = self.active, self.margins(theta)
        turned = np.flatnonzero(np.sign(theta[: len(S)]) != self._signs[: len(S)])
        if len(turned):
            raise CannotMeasure(
                f"the weight of column {S[turned[0]]} changes its sign on the way to the minimum, so the weights are "
                f"not the minimum of this table: {_FIT_AGAIN}"
            )
        if margins.min(initial=np.inf) < -AT_A_KINK:
            raise CannotMeasure(
                f"column {int(margins.argmin())} has the weight zero, but the minimum has another there: {_FIT_AGAIN}"
            )
        return accept(state_at(self, theta, steps))

    def margins(self, theta: FloatArray) -> FloatArray:
        """(d,) 1 - |Σ ω r x_j|/l1 of each excluded column, the relative distance to its threshold; inf if active."""
        _, r, _ = self._scalars(theta, np.s_[:])
        out = 1.0 - np.abs(r @ self.X) / self.l1
        out[self.active] = np.inf
        return np.asarray(out)

    def kinks(self, theta: FloatArray) -> tuple[Kink, ...]:
        """The excluded column nearest to its threshold, and the active weight nearest to zero."""
        S, kinks = self.active, []
        if len(S) < self.d:
            margins = self.margins(theta)
            j = int(margins.argmin())
            kinks.append(Kink(f"column {j} without a weight is at its threshold", float(margins[j])))
        if len(S):
            (H,) = self.derivative(theta)
            # How far the weight's gradient must move before the weight is zero, relative to the threshold.
            sizes = np.abs(theta[: len(S)]) * np.diag(H)[: len(S)] / self.l1
            k = int(sizes.argmin())
            kinks.append(Kink(f"the weight of column {S[k]} is about to be zero", float(sizes[k])))
        return tuple(kinks)

    def closed_form(
        self, solution: Solution, released: ReleasedMap, noise: Noise, P: Any, unit: FloatArray
    ) -> Jacobian | None:
        """The Jacobian of the smooth model on the active columns, if the weights are released through one map P."""
        if callable(P) or released is not self.released or not len(self.active):
            return None
        X, (a, r, c) = np.ascontiguousarray(self.X[:, self.active]), self._scalars(solution.theta, np.s_[:])
        factor = inverse_factor([(X, a)], self._ridge, LocalEngine())
        # Weights that are zero do not move; under independent noise they say nothing.
        A = factor.matrix if isinstance(noise, Density) else self._embedding @ factor.matrix
        P = np.vstack([P[self.active], np.zeros((int(self.intercept), P.shape[1]))])
        return ScalarJacobian(
            X=X,
            factor=factor,
            F=np.asarray(noise.whiten(A)),
            P=P,
            g=P.T @ solution.theta,
            a=a,
            r=r,
            c=c * unit[0],
            y=self.y,
            target_unit=float(unit[0]),
        )

    @cached_property
    def _positions(self) -> Index:
        """Positions of θ among the released weights."""
        return np.append(self.active, [self.d] * self.intercept).astype(np.intp)

    @property
    def _embedding(self) -> FloatArray:
        """(d + intercept, q)."""
        return np.eye(self.d + self.intercept)[:, self._positions]

    @cached_property
    def _signs(self) -> FloatArray:
        """(q,) s, 0 for the intercept."""
        signs = np.sign(self.start())
        signs[len(self.active) :] = 0.0
        return signs

    @cached_property
    def _ridge(self) -> FloatArray:
        ridge = np.full(len(self._positions), self.l2)
        ridge[len(self.active) :] = 0.0
        return ridge

    def _rows(self, rows: Rows) -> FloatArray:
        X = self.X[rows][:, self.active]
        return np.column_stack([X, np.ones(len(X))]) if self.intercept else X

    def _scalars(self, theta: FloatArray, rows: Rows) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(k,) curvature, residual and target derivative of each row, times ω."""
        margin, y, weight = self._rows(rows) @ theta, self.y[rows], np.asarray(self.sample_weight)[rows]
        with np.errstate(over="ignore"):
            scalars = [f(margin, y) for f in (self.loss.curvature, self.loss.residual, self.loss.target_derivative)]
        a, r, c = (weight * np.where(weight > 0, values, 0.0) for values in scalars)
        if self.label_weights is not None:
            c = self.label_weights.response(self.loss, margin, rows)
        return a, r, c
