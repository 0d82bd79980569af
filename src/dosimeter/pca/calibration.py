"""Scales: how much of a privacy budget each of α noisy entries may spend, by eq. 2 of [Zari22] and by what it costs.

r is the sensitivity of an entry over the scale of its Laplace noise: the entry alone is r-differentially private.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq

from dosimeter.core.errors import Refusal

# Steps of the discretised privacy loss per r. It is rounded against us and the error is of second order: with 4 it is
# 2e-6 of ε for α = 307,720 and 2e-4 for α = 105, where 32 cost nothing. A fixed step of 1e-5 took 24 s for the former.
_FINE, _COARSE, _MANY = 32, 4, 20_000
_WIDEST, _WIDEST_OF_MANY, _MOST_STEPS = 0.01, 0.03, 20_000
_CLOSE = 1e-5
EPSILONS, DELTAS = (1e-5, 1e6), (1e-40, 0.98)
"""Budgets in which Gaussian noise was checked against 60 digits. Beyond them dp-accounting's root loses its digits:
at ε = 1e-10, δ = 1e-300 the noise costs 1e39 times that δ."""
_CLOSER = 1e-20
"""Where the searches end: at dp-accounting's own 1e-12 an ε of 1e-5 has lost a third of its digits."""
_MOST_RATIO = 1e6
"""Above it a step of the loss distribution is e⁵⁰ and more: Σ r says as much, and does not overflow."""


def eps_prime(epsilon: float, delta: float, alpha: int) -> float:
    """ε' with √(2α ln(1/δ)) ε' + α ε'(e^ε' - 1) = ε: eq. 2 of [Zari22] (advanced composition), solved.

    Solved for log ε': over twelve decades of ε the left side is between linear and exponential, its logarithm nearly
    straight.

    >>> round(eps_prime(1.0, 1e-3, 105), 9)
    0.024570633
    """
    check_budget(epsilon, delta)
    if delta == 0:
        raise Refusal("advanced composition needs δ > 0; with δ = 0 each entry gets ε/α")
    if alpha < 1:
        raise Refusal(f"there must be at least one entry, not {alpha}")
    linear = math.sqrt(2 * alpha * math.log(1 / delta))

    def excess(t: float) -> float:
        e = math.exp(t)
        # log(linear + α expm1(e)) without overflow: e^e passes 1e308 at e = 709.
        grown = math.log(alpha) + e if e > 500 else math.log(linear + alpha * math.expm1(e))
        return t + grown - math.log(epsilon)

    # The left side is at least `linear` · ε' and at least α ε'².
    high = min(math.log(epsilon / linear), 0.5 * math.log(epsilon / alpha))
    low = high - 1.0
    while excess(low) > 0:
        low -= 2 * (high - low)
    return math.exp(float(brentq(excess, low, high + 1e-9, xtol=1e-15, rtol=1e-15, maxiter=300)))


def crossover(alpha: int, delta: float) -> float:
    """ε* = α ln(2 - √(2 ln(1/δ)/α)): above it ε/α > ε', naive composition needs less noise than eq. 2.

    0 where naive composition is better for every ε.

    >>> round(crossover(105, 1e-3), 4), crossover(3, 1e-3)
    (51.7679, 0.0)
    """
    check_budget(1.0, delta)
    if delta == 0:
        raise Refusal("advanced composition needs δ > 0")
    share = math.sqrt(2 * math.log(1 / delta) / alpha)
    return 0.0 if share >= 1 else alpha * math.log1p(1 - share)


def laplace_epsilon(entries: Mapping[float, int], delta: float) -> float:
    """ε at δ of independent Laplace noises, {r: how many}: the least of Σ r and the privacy loss distribution's.

    dp-accounting's distribution, discretised pessimistically in steps that follow r, and composed. An upper bound.

    >>> round(laplace_epsilon({0.5: 4}, 0.0), 6), laplace_epsilon({0.03831: 105}, 1e-3) < 1.001
    (2.0, True)
    """
    check_budget(1.0, delta)
    return _laplace_epsilon(tuple(sorted((float(r), int(k)) for r, k in entries.items() if r > 0 and k)), delta)


@lru_cache(maxsize=256)
def _laplace_epsilon(entries: tuple[tuple[float, int], ...], delta: float) -> float:
    plain = math.fsum(r * k for r, k in entries)
    if delta == 0 or not entries or not entries[-1][0] <= _MOST_RATIO:
        return plain
    from dp_accounting.pld import privacy_loss_distribution as pld  # late: a second of import

    step = _step(entries[-1][0], sum(k for _, k in entries))
    total: Any = None
    for r, k in entries:
        part = pld.from_laplace_mechanism(1 / r, value_discretization_interval=step).self_compose(k)
        total = part if total is None else total.compose(part)
    return min(plain, float(total.get_epsilon_for_delta(delta)))


def _step(r: float, count: int) -> float:
    """The step of the discretised loss for a largest r: a share of it, at most some hundredths, unless r is huge."""
    few, widest = (_COARSE, _WIDEST_OF_MANY) if count > _MANY else (_FINE, _WIDEST)
    return max(min(r / few, widest), r / _MOST_STEPS)


@lru_cache(maxsize=256)
def laplace_share(epsilon: float, delta: float, alpha: int) -> float:
    """The largest r (to 1e-5, from below) at which α Laplace entries together cost no more than (ε, δ).

    >>> round(laplace_share(1.0, 1e-3, 105), 4)
    0.0383
    """
    check_budget(epsilon, delta)
    low = epsilon / alpha
    if delta == 0:
        return low
    low = max(low, eps_prime(epsilon, delta, alpha))
    high = 1.5 * low
    while _laplace_epsilon(((high, alpha),), delta) <= epsilon:
        low, high = high, 1.5 * high

    def excess(t: float) -> float:
        return math.log(_laplace_epsilon(((math.exp(t), alpha),), delta) / epsilon)

    if excess(math.log(low)) >= 0:
        return low  # Σ r or eq. 2 proves it; the discretisation's own error hides that
    r = math.exp(float(brentq(excess, math.log(low), math.log(high), xtol=_CLOSE)))
    while _laplace_epsilon(((r, alpha),), delta) > epsilon:
        r *= 1 - _CLOSE
    return r


@lru_cache(maxsize=256)
def gaussian_deviation(epsilon: float, delta: float) -> float:
    """The least deviation of Gaussian noise that is (ε, δ) private at sensitivity 1 [dp-accounting, analytic].

    >>> round(gaussian_deviation(1.0, 1e-5), 5)
    3.73063
    """
    check_gaussian(epsilon, delta)
    from dp_accounting.gaussian_mechanism import get_sigma_gaussian  # late: a second of import

    # Noise must not be below the root. It was, against 60 digits, by 2e-14/ε at most; five times that are added.
    with np.errstate(divide="ignore"):
        return float(get_sigma_gaussian(epsilon, delta, tol=_CLOSER)) * (1 + 1e-9 + 1e-13 / epsilon)


def gaussian_epsilon(deviation: float, delta: float) -> float:
    """ε at δ of Gaussian noise of this deviation at sensitivity 1, an upper bound, never below the least ε checked.

    >>> round(gaussian_epsilon(3.730632, 1e-5), 6)
    1.0
    """
    at = min(delta, DELTAS[1])  # a smaller δ costs no less
    check_gaussian(1.0, at)
    from dp_accounting.gaussian_mechanism import get_epsilon_gaussian

    with np.errstate(divide="ignore"):
        found = float(get_epsilon_gaussian(deviation, at, tol=_CLOSER))
    return max(found * (1 + 1e-10) + 4e-14, EPSILONS[0])


def check_gaussian(epsilon: float, delta: float) -> None:
    """Refuse a budget for which the deviation of Gaussian noise is not known to be enough."""
    check_budget(epsilon, delta)
    if delta == 0:
        raise Refusal("Gaussian noise needs δ > 0")
    if not EPSILONS[0] <= epsilon <= EPSILONS[1]:
        raise Refusal(f"epsilon = {epsilon:g}: Gaussian noise is proved from {EPSILONS[0]:g} to {EPSILONS[1]:g}")
    if not DELTAS[0] <= delta <= DELTAS[1]:
        raise Refusal(f"delta = {delta:g}: Gaussian noise is proved from {DELTAS[0]:g} to {DELTAS[1]:g}")


def check_budget(epsilon: float, delta: float) -> None:
    """Refuse a budget that is none."""
    if isinstance(epsilon, bool) or not (math.isfinite(epsilon) and epsilon > 0):
        raise Refusal(f"epsilon must be a finite number > 0, not {epsilon}")
    if isinstance(delta, bool) or not 0 <= delta < 1:
        raise Refusal(f"delta must be at least 0 and below 1, not {delta}")
