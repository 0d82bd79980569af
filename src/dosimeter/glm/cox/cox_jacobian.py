"""Sensitivity of the weights of a Cox model to each row, and the reading of a noised release.

With r, A, B, θ of `cox/partial_likelihood.py`, H⁻¹ = A Aᵀ, W the whitening and κⱼ = 2nλⱼ wⱼ/(n - 1) for a penalty on
standardised columns (else 0),

    Jᵢ = -W H⁻¹ [ (rᵢ 1 + θᵢ (Aᵢ xᵢ - Bᵢ) wᵀ + diag(κ ∘ (xᵢ - x̄))) P ,  Δgᵢ ]           (q, m + 1)

The row enters every risk set that holds it, all of them through two running sums. Δg is the largest step of the
gradient over the outcomes the row could have (`cox/outcome_steps.py`). Derivation: docs/explanation/cox.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Density, Gaussian, Noise, no_noise
from dosimeter.glm.cox.cox import CoxFit
from dosimeter.glm.cox.outcome_steps import Steps, event_steps, outcome_steps
from dosimeter.glm.cox.partial_likelihood import pulls
from dosimeter.glm.cox.risk_sets import RiskSets
from dosimeter.glm.jacobians.dense_jacobian import DenseJacobian, Rows
from dosimeter.glm.jacobians.leakage import Leakage
from dosimeter.glm.linalg.validation import HUGE, as_floats
from dosimeter.glm.row_maps.mapped_jacobian import with_row_map
from dosimeter.glm.row_maps.row_maps import RowMap

Outcome = Literal["outcome", "time", "event"]
"""Which steps of a row's outcome are unknown: of time and event together, of the time, or of the event alone."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The largest steps of every row's outcome in the released values, computed when asked for."""

    risk: RiskSets
    theta: FloatArray
    U: FloatArray
    """(n, q) rows in the whitened released values; sorted, as `theta`."""

    @cached_property
    def event(self) -> FloatArray:
        """(n, q)."""
        return event_steps(self.risk, self.theta, self.U)

    @cached_property
    def steps(self) -> Steps:
        """Of the time, and of both."""
        return outcome_steps(self.risk, self.theta, self.U)

    def of(self, target: Outcome) -> FloatArray:
        """(n, q) the step of this part of the outcome."""
        if target == "event":
            return self.event
        return self.steps.time if target == "time" else self.steps.outcome


@dataclass(frozen=True, eq=False)
class CoxJacobian(DenseJacobian):
    """The whitened Jacobian of a Cox model."""

    X: FloatArray
    """(n, p)."""
    P: FloatArray
    """(p, m)."""
    N: FloatArray
    """(q, p) W H⁻¹."""
    g: FloatArray
    """(m,) Pᵀw."""
    residual: FloatArray
    """(n,) r."""
    pull: FloatArray
    """(n, q) W H⁻¹ θ (A x - B)."""
    kappa: FloatArray
    """(p,) κ."""
    outcomes: Outcomes
    target: Outcome
    y: FloatArray
    """(n,) identifies the outcomes."""
    target_unit: float = 1.0
    """A step."""
    target_width: int = 1

    @property
    def n(self) -> int:  # type: ignore[override]
        return len(self.residual)

    @property
    def m(self) -> int:  # type: ignore[override]
        return int(self.P.shape[1])

    @property
    def width(self) -> int:  # type: ignore[override]
        return len(self.N)

    @cached_property
    def _mapped(self) -> tuple[FloatArray, FloatArray]:
        """N P (q, m), and the columns' means (p,)."""
        return self.N @ self.P, self.X.mean(axis=0)

    def with_target(self, target: Outcome) -> CoxJacobian:
        """The same with another part of the outcome as the unknown; what was computed is kept."""
        return replace(self, target=target)

    def dense(self, rows: Rows) -> FloatArray:
        B, mean = self._mapped
        pull, residual = self.pull[rows], self.residual[rows]
        J = np.empty((len(residual), self.width, self.m + 1))
        J[:, :, : self.m] = -residual[:, None, None] * B - pull[:, :, None] * self.g
        if self.kappa.any():
            J[:, :, : self.m] -= (self.N * (self.kappa * (self.X[rows] - mean))[:, None, :]) @ self.P
        J[:, :, self.m] = -self.outcomes.of(self.target)[rows]
        return J


def measure_cox(
    fit: CoxFit,
    noise: Noise,
    *,
    include_target: bool = True,
    target: Outcome | None = None,
    input_map: Any = None,
) -> Leakage:
    """Fisher information loss of fit.w + noise about the training table of a Cox model.

    Parameters
    ----------
    fit : CoxFit
        The exact fit, from `fit_cox`; it holds its table.
    noise : Noise
        The noise on the weights, e.g. `Gaussian(0.1)`, or `no_noise` for an exact release.
    include_target : bool, default True
        Whether a row's outcome is unknown too.
    target : {"outcome", "time", "event"}, optional
        Which part of the outcome `labels` is about: the largest step of time and event together, of the time with its
        event kept, or of the event at its time. Default "outcome", and "event" if the target is not included: the
        other two cost O(n T q), T distinct times.
    input_map : array_like of shape (p, m), or RowMap, optional
        P = dx/dz, the frozen map from the unknown quantities z to the columns; a `RowMap` if it differs from row to
        row. Default: the identity.

    Returns
    -------
    Leakage
        η of rows, cells, columns, groups and the table. Internal.

    Raises
    ------
    Refusal
        If an argument is invalid.
    CannotMeasure
        If the noise has no Fisher information.

    Notes
    -----
    η = ||W J||₂ (eq. 17 of [Hannun21]) with J of docs/explanation/cox.md. Columns have derivatives. An outcome has
    steps, exact in the gradient and linear in the response of the weights.

    Examples
    --------
    >>> from dosimeter import glm
    >>> fit = glm.fit_cox([[1.0], [0.0], [2.0]], time=[1, 2, 3], event=[1, 0, 0])
    >>> leak = measure_cox(fit, Gaussian(0.5), target="event")
    >>> leak.cells[:, 0].round(4), leak.labels.round(4)         # |1/3 - δ| / (2/3) / σ, and |x̄ at risk - x| / (2/3) / σ
    (array([2., 1., 1.]), array([0., 3., 0.]))
    """
    if not isinstance(noise, Density | Noise):
        raise Refusal(f"noise must be a noise such as Gaussian(0.1), or no_noise, not {noise!r}")
    if target is None:
        target = "outcome" if include_target else "event"
    if target not in get_args(Outcome):
        raise Refusal(f"target must be 'outcome', 'time' or 'event', not {target!r}")
    p, table = len(fit.w), fit.table
    row_map = input_map if isinstance(input_map, RowMap) else None
    if row_map is not None and (row_map.d != p or row_map.m == 0):
        raise Refusal(f"input_map must map unknowns to the {p} columns of X, not to {row_map.d}")
    P = np.eye(p) if input_map is None or row_map is not None else as_floats(input_map, "input_map")
    if P.ndim != 2 or len(P) != p or P.shape[1] == 0 or not np.abs(P).max() <= HUGE:
        raise Refusal(f"input_map must be a ({p}, m) array, m > 0, of numbers up to {HUGE:g}, not of shape {P.shape}")
    has_noise = noise is not no_noise
    F = (noise if has_noise else Gaussian(1.0)).whiten(fit.factor.matrix)
    U = fit.factor.rows(table.centred, F.T)
    kappa = 2.0 * fit.n * fit.l2 * fit.w / max(fit.n - 1, 1) if table.standardised else np.zeros(p)
    jacobian = CoxJacobian(
        X=table.X,
        P=P,
        N=F @ fit.factor.matrix.T,
        g=P.T @ fit.w,
        residual=table.risk.unsort(fit.state.residual),
        pull=table.risk.unsort(pulls(table.risk, fit.state, U)),
        kappa=kappa,
        outcomes=Outcomes(table.risk, fit.state.theta, U),
        target=target,
        y=fit.y,
    )
    leak = Leakage(jacobian, noise, include_target, has_noise, of="the weights of a Cox model")
    return leak if row_map is None else with_row_map(leak, row_map)
