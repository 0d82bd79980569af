"""Noise scales: how much of a privacy budget each of α noisy entries may spend, by eq. 2 of [Zari22] and by accounting.

r is the sensitivity of an entry over the scale of its Laplace noise: the entry alone is r-differentially private.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from dosimeter.core.errors import Refusal

# Steps of the discretised privacy loss per r. Losses are rounded up (pessimistic) and the error is of second order: 4
# steps give 2e-6 of ε for α = 307,720 but 2e-4 for α = 105, where 32 steps cost nothing. A fixed step of 1e-5 took 24 s
# for the larger α.
_FINE, _COARSE, _MANY = 32, 4, 20_000
_WIDEST, _WIDEST_OF_MANY, _MOST_STEPS = 0.01, 0.03, 20_000
_CLOSE = 1e-5
EPSILONS, DELTAS = (1e-5, 1e6), (1e-40, 0.98)
"""Budgets for which Gaussian noise was checked against 60 digits. Outside them dp-accounting's root loses its digits:
at ε = 1e-10, δ = 1e-300 the noise has 1e39 times that δ.
"""
_CLOSER = 1e-20
"""Tolerance of the searches: with dp-accounting's default of 1e-12 an ε of 1e-5 loses a third of its digits."""
_MOST_RATIO = 1e6
"""Above it one step of the loss distribution is e⁵⁰ or more: Σ r is as good a bound, and does not overflow."""


def eps_prime(epsilon: float, delta: float, alpha: int) -> float:
    """ε' per entry by advanced composition, eq. 2 of [Zari22].

    Parameters
    ----------
    epsilon, delta : float
        The budget of all entries together, epsilon > 0 and 0 < delta < 1.
    alpha : int
        Number of entries, d(d + 1)/2.

    Returns
    -------
    float
        ε', the budget of one entry.

    Raises
    ------
    Refusal
        If delta is 0 or alpha is below 1.

    Notes
    -----
    Solves √(2α ln(1/δ)) ε' + α ε'(e^ε' - 1) = ε for log ε'. Over twelve decades of ε the left side lies between linear
    and exponential, so its logarithm is nearly straight.

    Examples
    --------
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
        log_slope = math.log(alpha) + e if e > 500 else math.log(linear + alpha * math.expm1(e))
        return t + log_slope - math.log(epsilon)

    # The left side is at least `linear` · ε' and at least α ε'².
    high = min(math.log(epsilon / linear), 0.5 * math.log(epsilon / alpha))
    low = high - 1.0
    while excess(low) > 0:
        low -= 2 * (high - low)
    from scipy.optimize import brentq

    return math.exp(float(brentq(excess, low, high + 1e-9, xtol=1e-15, rtol=1e-15, maxiter=300)))


def crossover(alpha: int, delta: float) -> float:
    """The ε above which naive composition needs less noise than eq. 2 of [Zari22].

    Parameters
    ----------
    alpha : int
        Number of entries, d(d + 1)/2.
    delta : float
        δ of the budget, 0 < delta < 1.

    Returns
    -------
    float
        ε*; 0 if naive composition is better for every ε.

    Raises
    ------
    Refusal
        If delta is 0.

    Notes
    -----
    ε* = α ln(2 - √(2 ln(1/δ)/α)): above it ε/α > ε'.

    Examples
    --------
    >>> round(crossover(105, 1e-3), 4), crossover(3, 1e-3)
    (51.7679, 0.0)
    """
    check_budget(1.0, delta)
    if delta == 0:
        raise Refusal("advanced composition needs δ > 0")
    share = math.sqrt(2 * math.log(1 / delta) / alpha)
    return 0.0 if share >= 1 else alpha * math.log1p(1 - share)


def laplace_epsilon(entries: Mapping[float, int], delta: float) -> float:
    """ε at δ of independent Laplace noises, {r: entries}: the smaller of Σ r and ε of the privacy loss distribution.

    The distribution is dp-accounting's, discretised pessimistically in steps proportional to r, and composed. An upper
    bound.

    >>> round(laplace_epsilon({0.5: 4}, 0.0), 6), laplace_epsilon({0.03831: 105}, 1e-3) < 1.001
    (2.0, True)
    """
    check_budget(1.0, delta)
    return _laplace_epsilon(tuple(sorted((float(r), int(k)) for r, k in entries.items() if r > 0 and k)), delta)


@lru_cache(maxsize=256)
def _laplace_epsilon(entries: tuple[tuple[float, int], ...], delta: float) -> float:
    total_ratio = math.fsum(r * k for r, k in entries)
    if delta == 0 or not entries or not entries[-1][0] <= _MOST_RATIO:
        return total_ratio
    from dp_accounting.pld import privacy_loss_distribution as pld  # late: a second of import

    step = _step(entries[-1][0], sum(k for _, k in entries))
    composed: Any = None
    for r, k in entries:
        part = pld.from_laplace_mechanism(1 / r, value_discretization_interval=step).self_compose(k)
        composed = part if composed is None else composed.compose(part)
    return min(total_ratio, float(composed.get_epsilon_for_delta(delta)))


def _step(r: float, count: int) -> float:
    """The step of the discretised loss for a largest r: a fraction of r, at most a few hundredths, unless r is huge."""
    steps_per_ratio, widest = (_COARSE, _WIDEST_OF_MANY) if count > _MANY else (_FINE, _WIDEST)
    return max(min(r / steps_per_ratio, widest), r / _MOST_STEPS)


@lru_cache(maxsize=256)
def laplace_share(epsilon: float, delta: float, alpha: int) -> float:
    """The largest r (to 1e-5, from below) at which α Laplace entries together cost at most (ε, δ).

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
        return low  # Σ r or eq. 2 proves it; the discretisation error hides that
    from scipy.optimize import brentq

    r = math.exp(float(brentq(excess, math.log(low), math.log(high), xtol=_CLOSE)))
    while _laplace_epsilon(((r, alpha),), delta) > epsilon:
        r *= 1 - _CLOSE
    return r


@lru_cache(maxsize=256)
def gaussian_deviation(epsilon: float, delta: float) -> float:
    """The smallest deviation of Gaussian noise that is (ε, δ)-private at sensitivity 1 [dp-accounting, analytic].

    >>> round(gaussian_deviation(1.0, 1e-5), 5)
    3.73063
    """
    check_gaussian(epsilon, delta)
    from dp_accounting.gaussian_mechanism import get_sigma_gaussian  # late: a second of import

    # Noise must not be below the root. Against 60 digits it was, by at most 2e-14/ε; five times that is added.
    with np.errstate(divide="ignore"):
        return float(get_sigma_gaussian(epsilon, delta, tol=_CLOSER)) * (1 + 1e-9 + 1e-13 / epsilon)


def gaussian_epsilon(deviation: float, delta: float) -> float:
    """ε at δ of Gaussian noise of this deviation at sensitivity 1: an upper bound, and at least the smallest ε checked.

    >>> round(gaussian_epsilon(3.730632, 1e-5), 6)
    1.0
    """
    checked_delta = min(delta, DELTAS[1])  # ε at a smaller δ is at least as large
    check_gaussian(1.0, checked_delta)
    from dp_accounting.gaussian_mechanism import get_epsilon_gaussian

    with np.errstate(divide="ignore"):
        epsilon = float(get_epsilon_gaussian(deviation, checked_delta, tol=_CLOSER))
    return max(epsilon * (1 + 1e-10) + 4e-14, EPSILONS[0])


def check_gaussian(epsilon: float, delta: float) -> None:
    """Refuse a budget for which the deviation of Gaussian noise was not checked."""
    check_budget(epsilon, delta)
    if delta == 0:
        raise Refusal("Gaussian noise needs δ > 0")
    if not EPSILONS[0] <= epsilon <= EPSILONS[1]:
        raise Refusal(
            f"epsilon = {epsilon:g}: use {EPSILONS[0]:g} to {EPSILONS[1]:g}, where Gaussian noise was checked"
        )
    if not DELTAS[0] <= delta <= DELTAS[1]:
        raise Refusal(f"delta = {delta:g}: use {DELTAS[0]:g} to {DELTAS[1]:g}, where Gaussian noise was checked")


def check_budget(epsilon: float, delta: float) -> None:
    """Refuse an invalid budget."""
    if isinstance(epsilon, bool) or not (math.isfinite(epsilon) and epsilon > 0):
        raise Refusal(f"epsilon must be a finite number > 0, not {epsilon}")
    if isinstance(delta, bool) or not 0 <= delta < 1:
        raise Refusal(f"delta must be at least 0 and below 1, not {delta}")
