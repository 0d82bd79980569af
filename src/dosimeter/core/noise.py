"""Noise: the densities that a mechanism adds, one small class a law, and no noise at all.

What all of them have, and what a law on the line has besides, is in `core/density.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dosimeter.core.density import MOST, Array, Density, Noise, Size
from dosimeter.core.errors import CannotMeasure

_ndtr: Callable[[Array], Array] = special.ndtr
_log_ndtr: Callable[[Array], Array] = special.log_ndtr
_ndtri: Callable[[Array], Array] = special.ndtri
_expit: Callable[[Array], Array] = special.expit
_log_expit: Callable[[Array], Array] = special.log_expit
_logit: Callable[[Array], Array] = special.logit
_exprel: Callable[[Array], Array] = special.exprel


@dataclass(frozen=True)
class Gaussian(Density):
    """p(x) = exp(-x²/2σ²) / √(2πσ²). Output perturbation of [Hannun21], section 4.

    Parameters
    ----------
    sigma : float
        Its standard deviation, σ > 0.

    Raises
    ------
    Refusal
        If the scale is not a finite number above 0.

    Examples
    --------
    >>> Gaussian(2.0).fisher_information
    0.25
    >>> round(float(Gaussian(1.0).logcdf(-40.0)), 4)
    -804.6084
    """

    sigma: float

    log_concave = True
    symmetric = True
    _parameter = "sigma"
    _unit_variance = 1.0
    _unit_information = 1.0

    def _logpdf(self, z: Array) -> Array:
        return -0.5 * z * z - 0.5 * math.log(2 * math.pi)

    def _cdf(self, z: Array) -> Array:
        return _ndtr(z)

    def _logcdf(self, z: Array) -> Array:
        return _log_ndtr(z)

    def _score(self, z: Array) -> Array:
        return -z

    def _quantile(self, u: Array) -> Array:
        return _ndtri(u)

    def _draw(self, rng: np.random.Generator, size: Size) -> Array:
        return np.asarray(rng.standard_normal(size))


@dataclass(frozen=True)
class Laplace(Density):
    """p(x) = exp(-|x|/b) / 2b. The noise of [Saeidian21], there with gamma = 1/b.

    Parameters
    ----------
    b : float
        Its scale, b > 0; the standard deviation is √2 b.

    Raises
    ------
    Refusal
        If the scale is not a finite number above 0.

    Examples
    --------
    >>> Laplace(2.0).fisher_information, Laplace(2.0).variance
    (0.25, 8.0)
    """

    b: float

    log_concave = True
    symmetric = True
    _parameter = "b"
    _unit_variance = 2.0
    _unit_information = 1.0

    def _logpdf(self, z: Array) -> Array:
        return -np.abs(z) - math.log(2)

    def _cdf(self, z: Array) -> Array:
        tail = 0.5 * np.exp(-np.abs(z))
        return np.where(z < 0, tail, 1 - tail)

    def _logcdf(self, z: Array) -> Array:
        return np.where(z < 0, z - math.log(2), np.log1p(-0.5 * np.exp(-np.abs(z))))

    def _score(self, z: Array) -> Array:
        return -np.sign(z)

    def _quantile(self, u: Array) -> Array:
        return np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))

    def _draw(self, rng: np.random.Generator, size: Size) -> Array:
        return np.asarray(rng.laplace(size=size))


@dataclass(frozen=True)
class Gumbel(Density):
    """p(x) = exp(-z - exp(-z)) / s with z = x/s; noisy max with it is the exponential mechanism.

    The law of the largest of many, not centred: its mean is 0.5772 s.

    Parameters
    ----------
    s : float
        Its scale, s > 0; the standard deviation is π s/√6.

    Raises
    ------
    Refusal
        If the scale is not a finite number above 0.

    Examples
    --------
    >>> Gumbel(2.0).fisher_information
    0.25
    >>> float(Gumbel(1.0).logsf(800.0))
    -800.0
    """

    s: float

    log_concave = True
    _parameter = "s"
    _unit_variance = math.pi**2 / 6
    _unit_information = 1.0

    def _logpdf(self, z: Array) -> Array:
        return -np.maximum(z, -MOST) - np.exp(-z)  # the maximum avoids inf - inf at z = -inf

    def _cdf(self, z: Array) -> Array:
        return np.exp(-np.exp(-z))

    def _logcdf(self, z: Array) -> Array:
        return -np.exp(-z)

    def _sf(self, z: Array) -> Array:
        return -np.expm1(-np.exp(-z))

    def _logsf(self, z: Array) -> Array:
        # With t = exp(-z), 1 - exp(-t) = t exprel(-t); log(-expm1(-t)) is -inf once t underflows, at z = 746.
        left = np.log1p(-np.exp(-np.exp(-np.minimum(z, 0.0))))
        return np.where(z < 0, left, -z + np.log(_exprel(-np.exp(-np.maximum(z, 0.0)))))

    def _score(self, z: Array) -> Array:
        return np.expm1(-z)

    def _quantile(self, u: Array) -> Array:
        return -np.log(-np.log(u))

    def _draw(self, rng: np.random.Generator, size: Size) -> Array:
        return np.asarray(rng.gumbel(size=size))


@dataclass(frozen=True)
class Exponential(Density):
    """p(x) = exp(-x/s) / s for x >= 0, nothing below; noisy max with it is permute-and-flip.

    The jump at 0 breaks eq. 6 of [Hannun21] (the score has mean -1/s), so it has no Fisher information: the
    least of k releases of one value finds it with variance s²/k², where s²/k would be claimed as a bound.

    Parameters
    ----------
    s : float
        Its scale, s > 0: mean and standard deviation.

    Raises
    ------
    Refusal
        If the scale is not a finite number above 0.

    Examples
    --------
    >>> Exponential(2.0).regular, float(Exponential(2.0).sf(2.0)) == math.exp(-1)
    (False, True)
    """

    s: float

    regular = False
    log_concave = True
    _parameter = "s"
    _unit_variance = 1.0

    @property
    def fisher_information(self) -> float:
        """Does not exist."""
        raise CannotMeasure(
            f"{self} has no Fisher information: its density jumps at 0, so the score has mean "
            f"{-1 / self.scale:g}, not zero (eq. 6 of [Hannun21]), and the Cramér-Rao bound fails, although "
            f"quadrature of score² p would give {1 / self.scale**2:g}; use Gaussian, Laplace or LogisticNoise"
        )

    def _logpdf(self, z: Array) -> Array:
        return np.where(z < 0, -np.inf, -z)

    def _cdf(self, z: Array) -> Array:
        return -np.expm1(-np.maximum(z, 0.0))

    def _logcdf(self, z: Array) -> Array:
        # log(-expm1) keeps the digits near 0, log1p(-exp) those far out; they change places at log 2.
        z = np.maximum(z, 0.0)
        return np.where(z < math.log(2), np.log(-np.expm1(-z)), np.log1p(-np.exp(-np.maximum(z, 0.5))))

    def _sf(self, z: Array) -> Array:
        return np.exp(-np.maximum(z, 0.0))

    def _logsf(self, z: Array) -> Array:
        return -np.maximum(z, 0.0)

    def _score(self, z: Array) -> Array:
        return np.where(z < 0, 0.0, -1.0)

    def _quantile(self, u: Array) -> Array:
        return -np.log1p(-u)

    def _draw(self, rng: np.random.Generator, size: Size) -> Array:
        return np.asarray(rng.standard_exponential(size))


@dataclass(frozen=True)
class LogisticNoise(Density):
    """p(x) = exp(-z) / s(1 + exp(-z))² with z = x/s. Named so that it is not taken for the loss.

    Parameters
    ----------
    s : float
        Its scale, s > 0; the standard deviation is π s/√3.

    Raises
    ------
    Refusal
        If the scale is not a finite number above 0.

    Examples
    --------
    >>> round(LogisticNoise(2.0).fisher_information, 6), float(LogisticNoise(1.0).logcdf(-800.0))
    (0.083333, -800.0)
    """

    s: float

    log_concave = True
    symmetric = True
    _parameter = "s"
    _unit_variance = math.pi**2 / 3
    _unit_information = 1 / 3

    def _logpdf(self, z: Array) -> Array:
        distance: Array = np.abs(z)
        return -distance - 2.0 * np.log1p(np.exp(-distance))

    def _cdf(self, z: Array) -> Array:
        return _expit(z)

    def _logcdf(self, z: Array) -> Array:
        return _log_expit(z)

    def _score(self, z: Array) -> Array:
        return -np.tanh(z / 2)

    def _quantile(self, u: Array) -> Array:
        return _logit(u)

    def _draw(self, rng: np.random.Generator, size: Size) -> Array:
        return np.asarray(rng.logistic(size=size))


@dataclass(frozen=True, repr=False)
class NoNoise:
    """An exact release: a point mass at 0, which has no density. There is one, `no_noise`.

    >>> no_noise, no_noise.fisher_information
    (no_noise, inf)
    """

    regular: ClassVar[bool] = False
    log_concave: ClassVar[bool] = False  # no density, so no shortcut that needs one
    scale: ClassVar[float] = 0.0
    variance: ClassVar[float] = 0.0
    fisher_information: ClassVar[float] = math.inf

    def whiten(self, J: ArrayLike) -> Array:
        """Refused: an exact value carries unbounded information."""
        raise CannotMeasure(
            "unbounded: without noise the release is the exact value, its Fisher information has no limit: "
            "add noise, e.g. Gaussian(sigma)"
        )

    def draw(self, rng: np.random.Generator, size: Size = ()) -> Array:
        """Zeros of shape `size`."""
        return np.zeros(size)

    def __repr__(self) -> str:
        return "no_noise"

    def __reduce__(self) -> str:
        return "no_noise"  # a copy, or one that went through another process, is still the one


no_noise = NoNoise()


NOISES: dict[str, type[Density]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "gumbel": Gumbel,
    "exponential": Exponential,
    "logistic": LogisticNoise,
}
"""Every law by its name on the command line and in the estimators; `tests/laws/test_noise_laws.py` runs on all."""

__all__ = [
    "NOISES",
    "Density",
    "Exponential",
    "Gaussian",
    "Gumbel",
    "Laplace",
    "LogisticNoise",
    "NoNoise",
    "Noise",
    "no_noise",
]
