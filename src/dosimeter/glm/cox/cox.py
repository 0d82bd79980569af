"""The exact minimiser of a penalised Cox model [Cox72], with its certificate.

    w* = argmin  -log partial likelihood + ½ Σ Λⱼ wⱼ²,     Λⱼ = nλⱼ,  or nλⱼ sⱼ² on standardised columns (lifelines)

sⱼ² is the variance of column j, with the divisor n - 1. Derivation: docs/explanation/cox.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from dosimeter.core.arrays import FloatArray
from dosimeter.core.engine import LocalEngine
from dosimeter.core.errors import Refusal
from dosimeter.glm.cox.cox_newton import CoxNewton, newton_problem
from dosimeter.glm.cox.cox_table import CoxTable, cox_table
from dosimeter.glm.cox.partial_likelihood import LikelihoodState, hessian
from dosimeter.glm.cox.risk_sets import Ties
from dosimeter.glm.jacobians.precision import EPS, PROMISE
from dosimeter.glm.linalg.inverse_hessian import Factor, inverse_factor
from dosimeter.glm.losses.loss import TargetKind

FLAT = 1e-9
"""Least share of a direction's variance that must lie within risk sets: below it the Hessian is rounding."""


@dataclass(frozen=True)
class Cox:
    """The negative log partial likelihood of a Cox model.

    Parameters
    ----------
    ties : {"efron", "breslow"}
        How events at the same time are counted [Efron77], [Breslow74].

    Examples
    --------
    >>> Cox("breslow").name, Cox().ties
    ('cox', 'efron')
    """

    ties: Ties = "efron"
    name: ClassVar[str] = "cox"
    target: ClassVar[TargetKind] = TargetKind.TWO_CLASSES
    """The outcome is a category: its unknown is a step (docs/explanation/cox.md)."""
    score_name: ClassVar[str] = "concordance"
    quadratic: ClassVar[bool] = False
    uses_target_bound: ClassVar[bool] = False
    default_model: ClassVar[str] = ""
    penalised_mean: ClassVar[bool] = False

    @property
    def description(self) -> str:
        """Its name and settings, in results."""
        return f"{self.name} ({self.ties} ties)"


@dataclass(frozen=True, eq=False)
class CoxFit:
    """A minimiser and what its leakage needs. Internal: it holds the table and is never released.

    Examples
    --------
    >>> fit = fit_cox([[1.0], [0.0], [2.0]], time=[1, 2, 3], event=[1, 0, 0])
    >>> bool(fit.gradient_norm < 1e-12), fit.n, round(fit.condition, 6)
    (True, 3, 1.0)
    """

    table: CoxTable
    loss: Cox
    w: FloatArray
    """(p,)."""
    state: LikelihoodState
    """The partial likelihood at w; rows in the order of the risk sets."""
    factor: Factor
    """A (p, p): A Aᵀ = H⁻¹."""
    gradient_norm: float
    """||∇|| of the objective at w: the convergence certificate."""
    decrement: float
    """√(∇ᵀ H⁻¹ ∇): the distance to the minimiser, in the metric of the Hessian."""
    iterations: int
    """Newton steps; 0 if the parameters were given."""
    reach: float
    """Largest Σ|xⱼ wⱼ| of a row of the centred table."""
    y: FloatArray
    """(n,) identifies the outcomes: twice the position of the time, plus the event."""

    intercept: ClassVar[bool] = False
    quadratic: ClassVar[bool] = False
    target: ClassVar[TargetKind] = Cox.target

    @property
    def n(self) -> int:
        """Rows of the table."""
        return len(self.y)

    @property
    def coef(self) -> FloatArray:
        """(p,) the weights: a Cox model has no intercept."""
        return self.w

    @property
    def l2(self) -> FloatArray:
        """(p,) λ of each column."""
        return self.table.l2

    @property
    def X(self) -> FloatArray:
        """(n, p) the table."""
        return self.table.X

    @property
    def sample_weight(self) -> FloatArray:
        """(n,) ω."""
        return self.table.risk.unsort(self.table.risk.weight)

    @property
    def condition(self) -> float:
        """Condition number of the column-scaled table, weighted as in the Hessian."""
        return self.factor.condition

    def __repr__(self) -> str:
        return (
            f"<CoxFit {self.loss.ties}, {self.n} rows, {int(self.table.event.sum())} events, {len(self.w)} parameters, "
            f"gradient norm {self.gradient_norm:.1e}>"
        )


def fit_cox(
    X: Any,
    time: Any,
    event: Any,
    *,
    strata: Any = None,
    sample_weight: Any = None,
    ties: Ties = "efron",
    l2: Any = 0.0,
    standardised: bool = False,
    offset: Any = None,
    start: Any = None,
) -> CoxFit:
    """The exact minimiser of a penalised Cox model, or a refusal.

    Parameters
    ----------
    X : array_like of shape (n, p)
        The columns, without a constant.
    time, event : array_like of shape (n,)
        When the row's event happened (event 1) or its observation ended (event 0). Only the order of the times counts.
    strata : array_like of shape (n,), optional
        Rows are compared within their stratum only; default: one stratum.
    sample_weight : array_like of shape (n,), optional
        Case weights ω > 0; default ones.
    ties : {"efron", "breslow"}
        How events at the same time are counted.
    l2 : float or array_like of shape (p,), default 0
        λ; the penalty is (n/2) Σ λⱼ wⱼ².
    standardised : bool, default False
        Whether the penalty is on wⱼ times the standard deviation of column j (divisor n - 1), as in lifelines.
    offset : array_like of shape (n,), optional
        Known constants that are added to the margins. No figure is about them.
    start : array_like of shape (p,), optional
        Weights to start from.

    Returns
    -------
    CoxFit
        Exact to rounding. Internal.

    Raises
    ------
    Refusal
        If no unique finite minimiser exists (no event, a constant column, a monotone likelihood), or the table is
        invalid.

    Notes
    -----
    See docs/explanation/cox.md for the objective and its derivatives.

    Examples
    --------
    >>> fit_cox([[1.0], [0.0], [2.0]], time=[1, 2, 3], event=[1, 0, 0]).w      # the event has the mean of those at risk
    array([0.])
    """
    problem = newton_problem(cox_table(X, time, event, strata, sample_weight, ties, l2, standardised, offset))
    v = np.zeros(len(problem.T)) if start is None else problem.coordinates(start)
    v, steps = problem.minimise(v)
    return _finish(problem, v, steps)


def fit_cox_at(
    X: Any,
    time: Any,
    event: Any,
    w: Any,
    *,
    strata: Any = None,
    sample_weight: Any = None,
    ties: Ties = "efron",
    l2: Any = 0.0,
    standardised: bool = False,
    offset: Any = None,
) -> CoxFit:
    """The state at given weights, minimiser or not; `decrement` states how far off they are.

    Parameters
    ----------
    X, time, event, strata, sample_weight, ties, l2, standardised, offset
        As in `fit_cox`.
    w : array_like of shape (p,)
        The weights.

    Returns
    -------
    CoxFit
        With `iterations` 0. Internal.

    Raises
    ------
    Refusal
        If the partial likelihood is not finite at w, or the table is invalid.

    Examples
    --------
    >>> round(fit_cox_at([[2.0], [0.0], [1.0]], [1, 2, 3], [1, 0, 0], [0.0]).decrement, 4)      # 1 / √(2/3)
    1.2247
    """
    problem = newton_problem(cox_table(X, time, event, strata, sample_weight, ties, l2, standardised, offset))
    return _finish(problem, problem.coordinates(w), 0)


def _finish(problem: CoxNewton, v: FloatArray, steps: int) -> CoxFit:
    """The factor of the Hessian at w, and the certificate."""
    table, (value, state) = problem.table, problem.at(v)
    if not np.isfinite(value):
        raise Refusal("the partial likelihood is not finite at these weights: they cannot be a minimiser of this table")
    w = problem.T @ v
    block = (table.centred, state.theta * state.hazard)
    outer = inverse_factor([block], table.penalty, LocalEngine(), start=problem.T)
    Z, roots = outer.rows(table.centred), outer.columns(np.diag(np.sqrt(table.penalty)))
    G = hessian(table.risk, state, Z) + roots @ roots.T
    least = float(np.linalg.eigvalsh(G)[0])
    if least < FLAT:
        problem.refuse_flat()
    A = np.asarray(solve_triangular(cholesky(G, lower=True), np.eye(len(G)), lower=True).T)
    factor = Factor(outer.basis, outer.mixing @ A, outer.condition / min(1.0, least) ** 0.5)
    reach = float((np.abs(table.centred) @ np.abs(w)).max())
    if steps and EPS * (reach + 1.0 / least) > PROMISE:
        raise Refusal(
            f"margins reach {reach:.1e}, and float64 would leave too few digits: rescale the columns or clip the "
            "outermost rows"
        )
    g = Z.T @ state.residual + roots @ (np.sqrt(table.penalty) * w)
    return CoxFit(
        table=table,
        loss=Cox(table.risk.ties),
        w=w,
        state=state,
        factor=factor,
        gradient_norm=float(np.linalg.norm(table.centred.T @ state.residual + table.penalty * w)),
        decrement=float(np.linalg.norm(A.T @ g)),
        iterations=steps,
        reach=reach,
        y=table.outcome,
    )
