"""`Noise`, the interface of every noise, and `Density`, the base class of noise on the real line.

Each notion of leakage is a functional of one density: Fisher information loss needs the location information
E[(log p)'²], maximal leakage needs pdf and cdf, differential privacy the divergence of shifted copies.
The arrays `x` and `u` below have any shape, and the result has the same.
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

# Between these the scale, its square and the inverse of its square are all normal float64 numbers.
LEAST, MOST = 1e-150, 1e150


@runtime_checkable
class Noise(Protocol):
    """The interface of every noise: its properties, and `whiten`, which Fisher information loss needs.

    >>> from dosimeter.core.noise import Gaussian, no_noise
    >>> all(isinstance(noise, Noise) for noise in (Gaussian(1.0), no_noise))
    True
    """

    @property
    def regular(self) -> bool:
        """Whether the score has mean zero, eq. 6 of [Hannun21], so that a Fisher information exists."""

    @property
    def log_concave(self) -> bool:
        """Whether log p is concave, which the shortcuts of PATE need."""

    def whiten(self, J: ArrayLike) -> Array:
        """W with WᵀW the Fisher information matrix, (k, k), of a release through the Jacobian J, (p, k)."""

    def draw(self, rng: np.random.Generator, size: Size = ()) -> Array:
        """Noise for simulation only; releases are drawn by `noise_addition/`."""


@dataclass(frozen=True)
class Density(ABC):
    """A distribution on the real line with a scale: p(x) = f(x/scale)/scale, f the density at scale one.

    A subclass implements the private methods at the end, as functions of z = x/scale; the public ones follow from
    them. `_sf` and `_logsf` are written for symmetric distributions; any other subclass must override them.

    >>> from dosimeter.core.noise import Laplace
    >>> float(Laplace(2.0).pdf(0.0)), Laplace(2.0).with_scale(0.5)
    (0.25, Laplace(b=0.5))
    """

    regular: ClassVar[bool] = True
    log_concave: ClassVar[bool]
    symmetric: ClassVar[bool] = False
    """Whether p(-x) = p(x), so that the noise has mean zero."""
    _parameter: ClassVar[str]
    _unit_variance: ClassVar[float]
    _unit_information: ClassVar[float]

    def __post_init__(self) -> None:
        object.__setattr__(self, self._parameter, self._check_scale(getattr(self, self._parameter)))

    def _check_scale(self, value: Any) -> float:
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
        """The only parameter, in the unit of the released value."""
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
                f"{self}: eq. 6 fails, the mean of its score is not zero, so it has no Fisher information loss"
            )
        return self._unit_information / self.scale**2

    def with_scale(self, scale: float) -> Self:
        """The same distribution at another scale."""
        return replace(self, **{self._parameter: scale})

    def whiten(self, J: ArrayLike) -> Array:
        """J √E[(log p)'²]: W with WᵀW = E[(log p)'²] JᵀJ, the Fisher information matrix under iid noise.

        J is (..., p, k), the derivatives of the p released values by the k unknowns; W has the same shape.
        """
        return as_jacobian(J) * math.sqrt(self.fisher_information)

    def draw(self, rng: np.random.Generator, size: Size = ()) -> Array:
        """Independent noise of shape `size`, for simulation only; releases are drawn by `noise_addition/`."""
        return self.scale * self._draw(as_generator(rng), size)

    def pdf(self, x: ArrayLike) -> Array:
        """Density p(x)."""
        return self._evaluate(lambda z: np.exp(self._logpdf(z)) / self.scale, x)

    def logpdf(self, x: ArrayLike) -> Array:
        """log p(x)."""
        return self._evaluate(lambda z: self._logpdf(z) - math.log(self.scale), x)

    def cdf(self, x: ArrayLike) -> Array:
        """P(noise <= x)."""
        return self._evaluate(self._cdf, x)

    def logcdf(self, x: ArrayLike) -> Array:
        """log P(noise <= x), accurate in both tails."""
        return self._evaluate(self._logcdf, x)

    def sf(self, x: ArrayLike) -> Array:
        """P(noise > x)."""
        return self._evaluate(self._sf, x)

    def logsf(self, x: ArrayLike) -> Array:
        """log P(noise > x), accurate in both tails."""
        return self._evaluate(self._logsf, x)

    def score(self, x: ArrayLike) -> Array:
        """d/dx log p(x); 0 at a kink and where there is no density."""
        return self._evaluate(lambda z: self._score(z) / self.scale, x)

    def quantile(self, u: ArrayLike) -> Array:
        """The x with P(noise <= x) = u, for u in [0, 1]."""
        u = np.asarray(u, dtype=np.float64)
        if not np.all((u >= 0) & (u <= 1)):
            raise Refusal(f"{self}.quantile: u must lie in [0, 1], not {u[~((u >= 0) & (u <= 1))].flat[0]}")
        with np.errstate(divide="ignore"):  # the ends of the support are infinite
            return self.scale * self._quantile(u)

    def _evaluate(self, f: Callable[[Array], Array], x: ArrayLike) -> Array:
        # Far out exp overflows to inf and log(0) is -inf: both are the float64 nearest to the exact value.
        with np.errstate(over="ignore", divide="ignore", under="ignore"):
            values: Array = f(np.asarray(x, dtype=np.float64) / self.scale)[()]
        return values

    # ------------------------------------------------------------------ for subclasses, at scale one

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
    """The generator itself; anything else is refused."""
    if not isinstance(rng, np.random.Generator):
        raise Refusal(f"rng must be a numpy Generator, not a seed or a global state; got {rng!r}")
    return rng


def as_jacobian(J: ArrayLike) -> Array:
    """J as float64; refused if a derivative is not finite."""
    J = np.asarray(J, dtype=np.float64)
    if not np.isfinite(J).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(J))[0])
        raise Refusal(f"the Jacobian has {J[place]} at {place}; every derivative must be finite")
    return J
