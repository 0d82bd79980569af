"""The partial likelihood of a Cox model [Cox72]: value, gradient and Hessian from running sums.

In the notation of `cox/risk_sets.py`, with x̄ = Σ f θ x / E the mean of a term's risk set and f = 1 off the ties,

    hazard of a row    A = Σ c f / E          over the terms that hold the row
    pull of a row      B = Σ c f x̄ / E
    residual           r = θ A - ω δ          minus the martingale residual
    gradient           Σ r x
    Hessian            Σ θ A x xᵀ - Σ c x̄ x̄ᵀ

A and B are sums over the slots before a row plus its own slot: O(n p) for all rows, O(n p²) for the Hessian.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.glm.cox.risk_sets import RiskSets
from dosimeter.glm.linalg.inverse_hessian import gram


@dataclass(frozen=True, eq=False)
class LikelihoodState:
    """The partial likelihood at given margins; rows in the order of the risk sets."""

    value: float
    """-log partial likelihood, without the penalty; infinite if a sum overflows or vanishes."""
    theta: FloatArray
    """(n,) ω exp(m), up to one factor for each stratum."""
    denominator: FloatArray
    """(E,) E."""
    hazard: FloatArray
    """(n,) A."""
    residual: FloatArray
    """(n,) r."""


def state_at(risk: RiskSets, margin: FloatArray) -> LikelihoodState:
    """Value, hazards and residuals at margins (n,) of sorted rows."""
    top = np.full(len(risk.segments), -np.inf)
    np.maximum.at(top, risk.stratum, margin)
    theta = risk.weight * np.exp(margin - top[risk.stratum])
    others, events = risk.at_risk(theta)
    E = others[risk.term_slot] + risk.fraction * events[risk.term_slot]
    if not (np.isfinite(margin).all() and (E > 0).all()):
        return LikelihoodState(np.inf, theta, E, theta, theta)
    term_stratum = risk.stratum[risk.starts][risk.term_slot]
    died = risk.event
    value = float(risk.coefficient @ (np.log(E) + top[term_stratum]) - risk.weight[died] @ margin[died])
    hazard = held_sums(risk, risk.coefficient / E)
    return LikelihoodState(value, theta, E, hazard, theta * hazard - np.where(died, risk.weight, 0.0))


def held_sums(risk: RiskSets, values: FloatArray) -> FloatArray:
    """(n, ...) Σ f · value over the terms (E, ...) that hold each sorted row; f = 1 unless it is an event there."""
    full = risk.by_term(values)
    shape = (-1, *[1] * (values.ndim - 1))
    tied = risk.by_term(risk.fraction.reshape(shape) * values)
    own = np.where(risk.event.reshape(shape), tied[risk.slot], full[risk.slot])
    return np.asarray(risk.before(full)[risk.slot] + own)


def term_means(risk: RiskSets, state: LikelihoodState, Z: FloatArray) -> FloatArray:
    """(E, p) x̄ of each term, from the columns Z (n, p) of sorted rows."""
    others, events = risk.at_risk(state.theta[:, None] * Z)
    mixed = others[risk.term_slot] + risk.fraction[:, None] * events[risk.term_slot]
    return np.asarray(mixed / state.denominator[:, None])


def pulls(risk: RiskSets, state: LikelihoodState, Z: FloatArray) -> FloatArray:
    """(n, p) θ (A x - B): how the gradient moves as the margin of a sorted row moves."""
    means = term_means(risk, state, Z)
    B = held_sums(risk, (risk.coefficient / state.denominator)[:, None] * means)
    return np.asarray(state.theta[:, None] * (state.hazard[:, None] * Z - B))


def hessian(risk: RiskSets, state: LikelihoodState, Z: FloatArray) -> FloatArray:
    """(p, p) in the columns Z (n, p) of sorted rows, without the penalty."""
    return np.asarray(gram(Z, state.theta * state.hazard) - gram(term_means(risk, state, Z), risk.coefficient))
