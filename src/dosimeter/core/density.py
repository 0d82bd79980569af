"""What every noise has, and what a law on the line has besides.

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

from dosimeter.core.errors import CannotMeasure, Refusal

Array = NDArray[np.float64]
Size = int | tuple[int, ...]

# Between these the scale, its square and the inverse of its square are all ordinary float64 numbers.
LEAST, MOST = 1e-150, 1e150


@runtime_checkable
class Noise(Protocol):
    """What every noise has, on the line or not: its laws, and `whiten`, the seam of Fisher information loss.

    >>> from dosimeter.core.noise import Gaussian, no_noise
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
        """Noise for simulation only; releases are drawn by `noise_addition/`."""


@dataclass(frozen=True)
class Density(ABC):
    """A law on the line with a scale: p(x) = f(x/scale)/scale, where f is the law at scale one.

    A law gives the methods below the line, in z = x/scale; those above it follow. `_sf` and `_logsf` are
    given for symmetric laws, any other must bring its own.

    >>> from dosimeter.core.noise import Laplace
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
        if not LEAST <= scale <= MOST:
            raise Refusal(f"{name}: the scale must lie in [{LEAST}, {MOST}]; release in another unit")
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
        if not self.regular:
            raise CannotMeasure(
                f"{self}: eq. 6 fails, its score has not mean zero, so it has no Fisher information loss"
            )
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
        """Independent noise of shape `size`, for simulation only; releases are drawn by `noise_addition/`."""
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


def as_generator(rng: Any) -> np.random.Generator:
    """The generator itself, or a refusal: randomness is an argument."""
    if not isinstance(rng, np.random.Generator):
        raise Refusal(f"rng must be a numpy Generator and is an argument, never a seed or a global state; got {rng!r}")
    return rng


def as_jacobian(J: ArrayLike) -> Array:
    """J as float64, every derivative finite."""
    J = np.asarray(J, dtype=np.float64)
    if not np.isfinite(J).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(J))[0])
        raise Refusal(f"the Jacobian has {J[place]} at {place}; every derivative must be finite")
    return J
