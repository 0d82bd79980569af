"""Noise: the densities that a mechanism adds, one small class a law.

Each notion of leakage is a functional of one such density: Fisher information loss reads the location
information E[(log p)'²], maximal leakage reads pdf and cdf, differential privacy the divergence of shifted
copies. `Noise` is the seam that all of them have; `Density` is what a law on the line has besides.
The arrays `x` and `u` below have any shape, and the answer has the same.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dosimeter.core.refusal import CannotMeasure, Refusal

Array = NDArray[np.float64]
Size = int | tuple[int, ...]

_ndtr: Callable[[Array], Array] = special.ndtr
_log_ndtr: Callable[[Array], Array] = special.log_ndtr
_ndtri: Callable[[Array], Array] = special.ndtri
_expit: Callable[[Array], Array] = special.expit
_log_expit: Callable[[Array], Array] = special.log_expit
_logit: Callable[[Array], Array] = special.logit
_exprel: Callable[[Array], Array] = special.exprel

# Between these the scale, its square and the inverse of its square are all ordinary float64 numbers.
_LEAST, _MOST = 1e-150, 1e150


@runtime_checkable
class Noise(Protocol):
    """What every noise has, on the line or not: its laws, and `whiten`, the seam of Fisher information loss.

    >>> all(isinstance(noise, Noise) for noise in (Gaussian(1.0), no_noise))
    True
    """

    @property
    def regular(self) -> bool:
        """Whether the score has mean zero, eq. 6 of [Hannun21], so that a Fisher information exists."""

    @property
    def log_concave(self) -> bool:
        """Whether log p is concave, which gates the shortcuts of PATE."""

    def whiten(self, J: ArrayLike) -> Array:
        """W with WᵀW the Fisher information matrix, (k, k), of a release through the Jacobian J, (p, k)."""

    def draw(self, rng: np.random.Generator, size: Size = ()) -> Array:
        """Noise for simulation only; releases are drawn by `sampling/`."""


@dataclass(frozen=True)
class Density(ABC):
    """A law on the line with a scale: p(x) = f(x/scale)/scale, where f is the law at scale one.

    A law gives the methods below the line, in z = x/scale; those above it follow. `_sf` and `_logsf` are
    given for symmetric laws, any other must bring its own.

    >>> float(Laplace(2.0).pdf(0.0)), Laplace(2.0).with_scale(0.5)
    (0.25, Laplace(b=0.5))
    """

    regular: ClassVar[bool] = True
    log_concave: ClassVar[bool]
    _parameter: ClassVar[str]
    _unit_variance: ClassVar[float]
    _unit_information: ClassVar[float]

    def __post_init__(self) -> None:
        object.__setattr__(self, self._parameter, self._checked(getattr(self, self._parameter)))

    def _checked(self, value: Any) -> float:
        name = f"{type(self).__name__}({self._parameter}={value!r})"
        if isinstance(value, bool) or not isinstance(value, Real):
            raise Refusal(f"{name}: the scale must be a real number, not {type(value).__name__}")
        try:
            scale = float(value)
        except OverflowError:  # an int of more than 308 digits
            scale = math.inf
        if not 0 < scale < math.inf:  # nan fails too
            raise Refusal(f"{name}: the scale must be finite and > 0; use no_noise for an exact release")
        if not _LEAST <= scale <= _MOST:
            raise Refusal(f"{name}: the scale must lie in [{_LEAST}, {_MOST}]; release in another unit")
        return scale

    @property
    def scale(self) -> float:
        """The one parameter of the law, in the unit of the released value."""
        return float(getattr(self, self._parameter))

    @property
    def variance(self) -> float:
        """E[(x - E x)²]."""
        return self._unit_variance * self.scale**2

    @property
    def fisher_information(self) -> float:
        """Information about the location, E[(log p)'²]: eq. 1 of [Hannun21] for one released value."""
        return self._unit_information / self.scale**2

    def with_scale(self, scale: float) -> Self:
        """The same law at another scale."""
        return replace(self, **{self._parameter: scale})

    def whiten(self, J: ArrayLike) -> Array:
        """J √E[(log p)'²]: W with WᵀW = E[(log p)'²] JᵀJ, the Fisher information matrix of iid noise.

        J is (..., p, k), the derivatives of the p released values by the k unknowns; W has its shape.
        """
        return as_jacobian(J) * math.sqrt(self.fisher_information)

    def draw(self, rng: np.random.Generator, size: Size = ()) -> Array:
        """Independent noise of shape `size`, for simulation only; releases are drawn by `sampling/`."""
        return self.scale * self._draw(as_generator(rng), size)

    def pdf(self, x: ArrayLike) -> Array:
        """Density p(x)."""
        return self._at(lambda z: np.exp(self._logpdf(z)) / self.scale, x)

    def logpdf(self, x: ArrayLike) -> Array:
        """log p(x)."""
        return self._at(lambda z: self._logpdf(z) - math.log(self.scale), x)

    def cdf(self, x: ArrayLike) -> Array:
        """P(noise <= x)."""
        return self._at(self._cdf, x)

    def logcdf(self, x: ArrayLike) -> Array:
        """log P(noise <= x), with all its digits in both tails."""
        return self._at(self._logcdf, x)

    def sf(self, x: ArrayLike) -> Array:
        """P(noise > x)."""
        return self._at(self._sf, x)

    def logsf(self, x: ArrayLike) -> Array:
        """log P(noise > x), with all its digits in both tails."""
        return self._at(self._logsf, x)

    def score(self, x: ArrayLike) -> Array:
        """d/dx log p(x); 0 at a kink and where there is no density."""
        return self._at(lambda z: self._score(z) / self.scale, x)

    def quantile(self, u: ArrayLike) -> Array:
        """The x with P(noise <= x) = u, for u in [0, 1]."""
        u = np.asarray(u, dtype=np.float64)
        if not np.all((u >= 0) & (u <= 1)):
            raise Refusal(f"{self}.quantile: u must lie in [0, 1], not {u[~((u >= 0) & (u <= 1))].flat[0]}")
        with np.errstate(divide="ignore"):  # the ends of the support are infinite
            return self.scale * self._quantile(u)

    def _at(self, f: Callable[[Array], Array], x: ArrayLike) -> Array:
        # Far out exp overflows to inf and log(0) is -inf: both are the nearest float64 to the right answer.
        with np.errstate(over="ignore", divide="ignore", under="ignore"):
            values: Array = f(np.asarray(x, dtype=np.float64) / self.scale)[()]
        return values

    # ------------------------------------------------------------------ what a law gives, at scale one

    @abstractmethod
    def _logpdf(self, z: Array) -> Array: ...

    @abstractmethod
    def _cdf(self, z: Array) -> Array: ...

    @abstractmethod
    def _logcdf(self, z: Array) -> Array: ...

    @abstractmethod
    def _score(self, z: Array) -> Array: ...

    @abstractmethod
    def _quantile(self, u: Array) -> Array: ...

    @abstractmethod
    def _draw(self, rng: np.random.Generator, size: Size) -> Array: ...

    def _sf(self, z: Array) -> Array:
        return self._cdf(-z)

    def _logsf(self, z: Array) -> Array:
        return self._logcdf(-z)


@dataclass(frozen=True)
class Gaussian(Density):
    """p(x) = exp(-x²/2σ²) / √(2πσ²). Output perturbation of [Hannun21], section 4.

    >>> Gaussian(2.0).fisher_information
    0.25
    >>> round(float(Gaussian(1.0).logcdf(-40.0)), 4)
    -804.6084
    """

    sigma: float

    log_concave = True
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

    >>> Laplace(2.0).fisher_information, Laplace(2.0).variance
    (0.25, 8.0)
    """

    b: float

    log_concave = True
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
        return -np.maximum(z, -_MOST) - np.exp(-z)  # the maximum avoids inf - inf at z = -inf

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

    >>> round(LogisticNoise(2.0).fisher_information, 6), float(LogisticNoise(1.0).logcdf(-800.0))
    (0.083333, -800.0)
    """

    s: float

    log_concave = True
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


def as_generator(rng: Any) -> np.random.Generator:
    """The generator itself, or a refusal: randomness is an argument."""
    if not isinstance(rng, np.random.Generator):
        raise Refusal(f"rng must be a numpy Generator such as numpy.random.default_rng(1), not {rng!r}")
    return rng


def as_jacobian(J: ArrayLike) -> Array:
    """J as float64, every derivative finite."""
    J = np.asarray(J, dtype=np.float64)
    if not np.isfinite(J).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(J))[0])
        raise Refusal(f"the Jacobian has {J[place]} at {place}; every derivative must be finite")
    return J
