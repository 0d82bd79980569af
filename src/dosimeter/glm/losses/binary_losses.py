"""Losses of two classes with a link other than the logit: probit and complementary log-log.

    l = -y log F(m) - (1 - y) log(1 - F(m)),   r = -y h + (1 - y) h',   c = h + h'

with F the probability of class 1, h = F'/F and h' = F'/(1 - F).

| loss                | F(m)            | h              | h'             |
| Probit              | Φ(m)            | φ(m)/Φ(m)      | φ(m)/Φ(-m)     |
| ComplementaryLogLog | 1 - exp(-u)     | u/(eᵘ - 1)     | u = eᵐ         |

Both are convex. c is the step of the residual from class 0 to class 1, since l is linear in y.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from dosimeter.core.arrays import FloatArray
from dosimeter.glm.losses.scalar_loss import TwoClassLoss, register

FAR = 50.0
"""Where φ/Φ + m is taken from its asymptotic series: the difference itself has lost four digits there."""


@register
@dataclass(frozen=True)
class Probit(TwoClassLoss):
    """Probit regression, P(y = 1) = Φ(m).

    Examples
    --------
    >>> Probit().residual(np.array([0.0]), np.array([1.0])).round(6)       # -φ(0)/Φ(0)
    array([-0.797885])
    """

    name = "probit"
    steepest_prediction = 1 / math.sqrt(2 * math.pi)

    def value(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(-y * log_ndtr(m) - (1 - y) * log_ndtr(-m))

    def residual(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray((1 - y) * _mills(-m) - y * _mills(m))

    def curvature(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """h(h + m) for class 1, its mirror image for class 0."""
        return np.asarray(y * _mills(m) * _excess(m) + (1 - y) * _mills(-m) * _excess(-m))

    def third(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(y * _bend(m) - (1 - y) * _bend(-m))

    def target_derivative(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(_mills(m) + _mills(-m))

    def prediction(self, m: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.asarray(ndtr(m)), np.exp(-0.5 * m * m) / math.sqrt(2 * math.pi)

    def gradient_bound(self, l2: float, row_norm: float, target_bound: float | None) -> float:
        """At a minimiser n λ|w|²/2 <= Σ l(0) = n log 2, so |m| <= R √(2 log 2/λ); |r| is largest at the end."""
        reach = row_norm * math.sqrt(2 * math.log(2.0) / l2)
        return row_norm * float(_mills(np.array(-reach)))


def _mills(m: FloatArray) -> FloatArray:
    """φ(m)/Φ(m) = √(2/π)/erfcx(-m/√2); 0 where erfcx overflows."""
    with np.errstate(over="ignore"):
        return np.asarray(math.sqrt(2 / math.pi) / erfcx(-m / math.sqrt(2.0)))


def _excess(m: FloatArray) -> FloatArray:
    """φ/Φ + m > 0; far left 1/x - 2/x³ + 10/x⁵ - ..., x = -m."""
    x = np.maximum(-m, FAR)
    q = x**-2.0
    series = (1 - q * (2 - q * (10 - q * (74 - q * (706 - q * 8162))))) / x
    return np.where(m < -FAR, series, _mills(m) + m)


def _bend(m: FloatArray) -> FloatArray:
    """d³/dm³ of -log Φ: -h ((h + m)² + h(h + m) - 1)."""
    h, e = _mills(m), _excess(m)
    return np.asarray(-h * (e * e + h * e - 1))


@register
@dataclass(frozen=True)
class ComplementaryLogLog(TwoClassLoss):
    """Complementary log-log regression, P(y = 1) = 1 - exp(-eᵐ).

    Examples
    --------
    >>> ComplementaryLogLog().residual(np.array([0.0]), np.array([0.0]))       # eᵐ
    array([1.])
    """

    name = "cloglog"
    threshold = math.log(math.log(2.0))
    """P = ½ there."""
    steepest_prediction = math.exp(-1.0)

    def value(self, m: FloatArray, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            u = np.exp(m)
            # log(1 - e⁻ᵘ): next to u = 0 it is log u = m, which stays finite where u underflows.
            log_one = np.where(m < -30.0, m - 0.5 * u, np.log(-np.expm1(-u)))
            return np.asarray(np.where(y == 0, 0.0, -y * log_one) + np.where(y == 1, 0.0, (1 - y) * u))

    def residual(self, m: FloatArray, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.where(y == 1, 0.0, (1 - y) * np.exp(m)) - y * _hazard(m))

    def curvature(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """h(h + u - 1) for class 1, u for class 0."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.where(y == 1, 0.0, (1 - y) * np.exp(m)) + y * _hazard(m) * _surplus(m))

    def target_derivative(self, m: FloatArray, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.asarray(_hazard(m) + np.exp(m))

    def prediction(self, m: FloatArray) -> tuple[FloatArray, FloatArray]:
        u = np.exp(np.minimum(m, 7.0))  # e^-u is 0 beyond
        return -np.expm1(-u), np.exp(np.minimum(m, 7.0) - u)

    def gradient_bound(self, l2: float, row_norm: float, target_bound: float | None) -> float:
        """Σ l(0) <= n, so |m| <= R √(2/λ); |r| <= max(1, eᵐ)."""
        return row_norm * math.exp(row_norm * math.sqrt(2.0 / l2))


def _hazard(m: FloatArray) -> FloatArray:
    """h = u/(eᵘ - 1), 1 at u = 0."""
    u = np.exp(np.minimum(m, 7.0))  # e^1096 overflows, and h is 0 long before
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(u > 0, u / np.expm1(u), 1.0)


def _surplus(m: FloatArray) -> FloatArray:
    """h + u - 1 > 0, by its series next to u = 0."""
    u = np.exp(np.minimum(m, 700.0))  # the hazard beside it is 0 there, and 0 · inf is not a number
    small = np.minimum(u, 0.1)
    series = small * (1 / 2 + small * (1 / 12 - small**2 * (1 / 720 - small**2 * (1 / 30240 - small**2 / 1209600))))
    return np.where(u < 0.1, series, _hazard(m) + u - 1)
