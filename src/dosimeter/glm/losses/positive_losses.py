"""Losses of positive numbers whose variance is a power of their mean μ: Gamma, inverse Gaussian, Tweedie.

Minus the quasi-likelihood from 1 to μ for the variance μᵖ, which is half the deviance up to a function of y alone:

    l = -∫₁^μ (y - t) t⁻ᵖ dt

| p      | law              | scikit-learn                    | statsmodels             |
| 0      | Gaussian         | TweedieRegressor(power=0)       | Gaussian                |
| 1      | Poisson          | PoissonRegressor                | Poisson                 |
| (1, 2) | compound Poisson | TweedieRegressor                | Tweedie(var_power)      |
| 2      | Gamma            | GammaRegressor                  | Gamma                   |
| 3      | inverse Gaussian | TweedieRegressor(power=3)       | InverseGaussian         |

With the log link μ = eᵐ, s = 1 - p, t = 2 - p:

    r = eᵗᵐ - y eˢᵐ,   a = t eᵗᵐ - s y eˢᵐ,   c = eˢᵐ

and with a power link μ = mᵏ, m > 0, α = k(1 - p), β = k(2 - p):

    r = k (mᵝ⁻¹ - y mᵅ⁻¹),   a = k ((β-1) mᵝ⁻² - (α-1) y mᵅ⁻²),   c = k mᵅ⁻¹

The canonical links (inverse for Gamma, inverse-squared for inverse Gaussian) are convex, and so is the log link for p
from 1 to 2. The others are not: a < 0 where μ is far above y.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.glm.losses.scalar_loss import ScalarLoss, TargetKind, first_row, register

LINKS: dict[str, float | None] = {
    "log": None,
    "identity": 1.0,
    "inverse": -1.0,
    "inverse-squared": -0.5,
    "sqrt": 2.0,
}
"""Link functions, by the exponent k of μ = mᵏ; None for μ = eᵐ."""


class PowerVariance(ScalarLoss):
    """A mean μ, a variance μᵖ and a link; see the top of the file."""

    target = TargetKind.NUMBER
    score_name = "D²"
    penalised_mean = True

    @property
    @abstractmethod
    def power(self) -> float:
        """p."""

    @property
    @abstractmethod
    def link_function(self) -> str:
        """One of `LINKS`."""

    def __post_init__(self) -> None:
        if self.link_function not in LINKS:
            raise Refusal(f"link_function must be one of {', '.join(LINKS)}, not {self.link_function!r}")

    @property
    def _k(self) -> float | None:
        return LINKS[self.link_function]

    @property
    def has_expected_score(self) -> bool:
        """With a power link the noise may take a margin below 0, where no mean exists."""
        return self._k is None

    @property
    def convex(self) -> bool:
        p, k = self.power, self._k
        if k is None:
            return 1 <= p <= 2
        return k * (1 - k * (1 - p)) >= 0 and k * (k * (2 - p) - 1) >= 0

    @property
    def lowest_margin(self) -> float:
        return -math.inf if self._k is None else 0.0

    def check(self, y: FloatArray) -> None:
        """Targets > 0 from p = 2 on, >= 0 from 1 to 2, any for p = 0."""
        if self.power == 0:
            return
        bad, needed = (y <= 0, "> 0") if self.power >= 2 else (y < 0, ">= 0")
        if bad.any():
            row = first_row(bad)
            raise Refusal(f"{self.description} needs targets {needed}; row {row} has {y[row]:g}")

    def _terms(self, m: FloatArray, order: int) -> tuple[FloatArray, FloatArray]:
        """The derivatives of this order of ∫₁^μ t⁻ᵖ dt and ∫₁^μ t¹⁻ᵖ dt by m; nan below the lowest margin."""
        s, t, k = 1 - self.power, 2 - self.power, self._k
        with np.errstate(all="ignore"):  # an infinite value makes the line search step back
            if k is None:
                low, high = (e ** max(order - 1, 0) * np.exp(e * m) if order else _integral(e, m) for e in (s, t))
                return low, high
            inside = np.where(m > 0, m, np.nan)
            if order == 0:
                low, high = (_integral(e, k * np.log(inside)) for e in (s, t))
                return low, high
            low, high = (k * _falling(k * e, order) * inside ** (k * e - order) for e in (s, t))
            return low, high

    def value(self, m: FloatArray, y: FloatArray) -> FloatArray:
        low, high = self._terms(m, 0)
        with np.errstate(invalid="ignore", over="ignore"):
            value = high - np.where(y == 0, 0.0, y * low)
        return np.where(np.isnan(value), np.inf, value)

    def residual(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """μ' μ⁻ᵖ (μ - y); with the log link eᵗᵐ(1 - y/μ) where the fit is good, which is relatively exact."""
        low, high = self._terms(m, 1)
        with np.errstate(all="ignore"):
            r = high - np.where(y == 0, 0.0, y * low)
            if self._k is None:
                rest = np.log(y) - m
                r = np.where(np.abs(rest) < 1.0, high * -np.expm1(rest), r)
        return np.asarray(r)

    def curvature(self, m: FloatArray, y: FloatArray) -> FloatArray:
        low, high = self._terms(m, 2)
        with np.errstate(all="ignore"):
            return np.asarray(high - np.where(y == 0, 0.0, y * low))

    def scoring_curvature(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """The expected curvature μ'² μ⁻ᵖ."""
        k, t = self._k, 2 - self.power
        with np.errstate(all="ignore"):
            if k is None:
                return np.exp(t * m)
            return np.asarray(k * k * np.where(m > 0, m, np.nan) ** (k * t - 2))

    def third(self, m: FloatArray, y: FloatArray) -> FloatArray:
        low, high = self._terms(m, 3)
        with np.errstate(all="ignore"):
            return np.asarray(high - np.where(y == 0, 0.0, y * low))

    def target_derivative(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return self._terms(m, 1)[0]

    def link(self, y: FloatArray) -> FloatArray:
        inside = y if self.power >= 2 else np.maximum(y, 0.0) + 0.5
        return np.log(inside) if self._k is None else np.asarray(inside ** (1 / self._k))

    def prediction(self, m: FloatArray) -> tuple[FloatArray, FloatArray]:
        k = self._k
        with np.errstate(all="ignore"):
            if k is None:
                return np.exp(m), np.exp(m)
            positive = np.where(m > 0, m, np.nan)  # no mean belongs to another margin
            return positive**k, k * positive ** (k - 1)

    def recession(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Only with the log link does a margin run away, and only that of a target <= 0."""
        free = (y <= 0) & (self._k is None)
        return np.where(free, -1.0, 0.0), (~free).astype(float)

    def no_minimiser(self, y: FloatArray) -> str:
        return "no target is above zero" if self._k is None and np.all(y <= 0) else ""

    def score(self, m: FloatArray, y: FloatArray) -> float:
        """Share of the deviance explained; -inf if a margin has no mean."""
        if not (m > self.lowest_margin).all():
            return -math.inf
        with np.errstate(over="ignore"):
            logarithm = m if self._k is None else self._k * np.log(m)
            return self._explained(y, self.deviance(y, logarithm, np.zeros_like(y)))

    def expected_score(self, m: FloatArray, y: FloatArray, variance: FloatArray) -> float:
        """Log link: E log μ = m and E μˢ = exp(s m + s² variance/2)."""
        if self._k is not None:
            return super().expected_score(m, y, variance)
        with np.errstate(over="ignore"):
            return self._explained(y, self.deviance(y, m, variance))

    def deviance(self, y: FloatArray, logarithm: FloatArray, variance: FloatArray) -> float:
        """Σ E d(y, μ), log μ Gaussian with this mean and variance."""
        s, t = 1 - self.power, 2 - self.power
        with np.errstate(over="ignore", invalid="ignore"):
            low, high = (np.exp(e * logarithm + e * e * variance / 2) / e if e else logarithm for e in (s, t))
            total = float(2 * np.sum(_least(y, s, t) - np.where(y == 0, 0.0, y * low) + high))
        return math.inf if math.isnan(total) else total  # both overflow for p > 2, and -y·low is the larger

    def _explained(self, y: FloatArray, deviance: float) -> float:
        """1 - deviance over that of the mean; 0 where float64 cannot tell the targets from their mean."""
        of_mean = self.null_deviance(y, float(y.mean()))
        return 1.0 - deviance / of_mean if of_mean > 0 else 0.0

    def null_deviance(self, y: FloatArray, mean: float) -> float:
        """Σ d(y, mean)."""
        if self.power == 0:
            return float(np.sum((y - mean) ** 2))
        return self.deviance(y, np.full_like(y, np.log(mean)), np.zeros_like(y))


def _integral(e: float, logarithm: FloatArray) -> FloatArray:
    """∫₁^μ tᵉ⁻¹ dt = (μᵉ - 1)/e, log μ if e = 0: no constant 1/e that would drown it next to 0."""
    return np.expm1(e * logarithm) / e if e else logarithm


def _falling(e: float, order: int) -> float:
    """(e - 1)(e - 2) ... of order - 1 factors."""
    return math.prod(e - j for j in range(1, order))


def _least(y: FloatArray, s: float, t: float) -> FloatArray:
    """y yˢ/s - yᵗ/t, which makes the deviance zero at μ = y."""
    first = xlogy(y, y) if s == 0 else np.power(np.abs(y), t) / s
    second = np.log(y) if t == 0 else np.power(np.abs(y), t) / t
    return np.asarray(first - second)


@register
@dataclass(frozen=True)
class Gamma(PowerVariance):
    """Gamma regression, variance μ², y > 0.

    Parameters
    ----------
    link_function : str, default "log"
        "log" as GammaRegressor; "inverse" is canonical and the default of statsmodels; "identity" and others.

    Raises
    ------
    Refusal
        If the link is not known.

    Examples
    --------
    >>> Gamma().curvature(np.array([0.0]), np.array([2.0]))       # y e⁻ᵐ
    array([2.])
    """

    link_function: str = "log"
    name = "gamma"
    power = 2.0

    @property
    def default_model(self) -> str:
        return "GammaRegressor(alpha=1.0)" if self.link_function == "log" else ""


@register
@dataclass(frozen=True)
class InverseGaussian(PowerVariance):
    """Inverse Gaussian regression, variance μ³, y > 0; not convex with the log link.

    Parameters
    ----------
    link_function : str, default "log"
        "log" as TweedieRegressor(power=3); "inverse-squared" is canonical and the default of statsmodels.

    Raises
    ------
    Refusal
        If the link is not known.

    Examples
    --------
    >>> InverseGaussian().residual(np.array([0.0]), np.array([2.0]))       # e⁻ᵐ - y e⁻²ᵐ
    array([-1.])
    """

    link_function: str = "log"
    name = "inverse-gaussian"
    power = 3.0

    @property
    def default_model(self) -> str:
        return "TweedieRegressor(power=3, alpha=1.0)" if self.link_function == "log" else ""


@register
@dataclass(frozen=True)
class Tweedie(PowerVariance):
    """Regression with variance μᵖ: many zeros beside positive amounts for 1 < p < 2.

    Parameters
    ----------
    power : float, default 1.5
        p: 0, or at least 1. `Tweedie(0.0)` is the Gaussian with the log link; scikit-learn's link='auto' means the
        identity there, which is `Squared()`.
    link_function : str, default "log"
        A link; for power 0 the log link only.

    Raises
    ------
    Refusal
        If no law has this power, or the link is not known.

    Examples
    --------
    >>> Tweedie(1.5).residual(np.array([0.0]), np.array([3.0]))       # e^½ᵐ - y e^-½ᵐ
    array([-2.])
    """

    power: float = 1.5
    link_function: str = "log"
    name = "tweedie"

    def __post_init__(self) -> None:
        super().__post_init__()
        p = self.power
        if isinstance(p, bool) or not isinstance(p, int | float) or not (p == 0 or 1 <= p < math.inf):
            raise Refusal(f"power must be 0, or a finite number >= 1, not {p!r}")
        if p == 0 and self.link_function != "log":
            raise Refusal("power 0 has the log link only here: with the identity it is Squared()")

    @property
    def default_model(self) -> str:
        return f"TweedieRegressor(power={self.power:g}, alpha=1.0)" if self.link_function == "log" else ""
