"""The moments accountant of [Abadi16] with orders up to 32, which [Geyer19] uses before each round.

It accounts Poisson sampling under addition or removal of one client. It is here to reproduce that paper: with
`federated.accountant`, which is equally sound, the same rounds cost less.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, logsumexp

from dosimeter.core.arrays import FloatArray
from dosimeter.core.checks import whole
from dosimeter.federated.accountant import Spend, as_delta, as_epsilon
from dosimeter.federated.client_sampling import Cohort

ORDERS = 32
"""λ = 1, ..., 32, the authors' choice."""


def log_moment(q: float, z: float, order: int) -> float:
    """α(λ) = log E[(ν/ν₀)^(λ+1)] under ν₀ = N(0, z²), ν = (1-q)ν₀ + q N(1, z²): the binomial sum, nats.

    The other expectation in [Abadi16], with the roles exchanged, is never the larger one.

    >>> round(log_moment(1.0, 2.0, 1), 6)                # λ(λ+1)/2z²
    0.25
    """
    a = order + 1
    k = np.arange(a + 1)
    if q == 1:
        return a * order / (2 * z * z)
    choose = gammaln(a + 1) - gammaln(k + 1) - gammaln(a - k + 1)
    return float(logsumexp(choose + (a - k) * np.log1p(-q) + k * np.log(q) + k * (k - 1) / (2 * z * z)))


def delta(spent: Sequence[Spend], cohort: Cohort, epsilon: float) -> float:
    """min over λ of exp(Σ α(λ) - λε), at most 1."""
    order = np.arange(1, ORDERS + 1)
    return float(np.exp(min(0.0, float((_sum_of_log_moments(spent, cohort) - order * as_epsilon(epsilon)).min()))))


def epsilon(spent: Sequence[Spend], cohort: Cohort, delta: float) -> float:
    """min over λ of (Σ α(λ) + log 1/δ)/λ."""
    if not spent:
        return 0.0
    order = np.arange(1, ORDERS + 1)
    return float(((_sum_of_log_moments(spent, cohort) - np.log(as_delta(delta))) / order).min())


def rounds_allowed(cohort: Cohort, per_round: float, noise: float, epsilon: float, delta: float) -> int:
    """The largest number of rounds for which δ at ε does not exceed `delta`.

    >>> from dosimeter.federated import PoissonSampling
    >>> rounds_allowed(PoissonSampling(100), 30, 1.0, 8.0, 1e-3)
    14
    """
    order = np.arange(1, ORDERS + 1)
    rounds_by_order = (np.log(as_delta(delta)) + order * as_epsilon(epsilon)) / _log_moments(
        cohort.rate(per_round), noise
    )
    return max(int(np.floor(rounds_by_order.max())), 0)


def noise_needed(cohort: Cohort, per_round: float, rounds: int, epsilon: float, delta: float) -> float:
    """The least multiplier, to four decimals and rounded up, that allows this many rounds."""
    times = whole("rounds", rounds, 1, 1 << 20)
    low, high = 500, 1_000_000  # in steps of 1e-4
    while low < high:
        middle = (low + high) // 2
        if rounds_allowed(cohort, per_round, middle / 1e4, epsilon, delta) >= times:
            high = middle
        else:
            low = middle + 1
    return high / 1e4


def _sum_of_log_moments(spent: Sequence[Spend], cohort: Cohort) -> FloatArray:
    """(32,) log moments of all rounds."""
    total = np.zeros(ORDERS)
    for s in spent:
        total = total + s.rounds * _log_moments(cohort.rate(s.per_round), s.noise)
    return total


@lru_cache(maxsize=1024)
def _log_moments(q: float, z: float) -> FloatArray:
    log_moments = np.array([log_moment(q, z, order) for order in range(1, ORDERS + 1)])
    log_moments.setflags(write=False)
    return log_moments
