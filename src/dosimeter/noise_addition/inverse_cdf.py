"""Inverse cdfs: how each density is drawn, in float64 for nearly every entry and in multiple precision for the rest.

A draw is a side, lower or upper, and a number T, uniform on (0, 1): the noise at scale one is the x with
`tail(x, side)` = T, where the tail is twice the probability beyond x on that side. (The exponential has one side, and
its tail is the probability beyond x.) T takes 63 bits and the side one, so a 64-bit word gives an interval for x.

Two facts hold for every density of the table (proofs in docs/explanation/sampling.md, checked in tests):
|dx/d log T| < 4, and |x| < 16 if T >= 2^-21.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from dosimeter.core.by_law import ByLaw
from dosimeter.core.density import Array
from dosimeter.core.noise import Exponential, Gaussian, Gumbel, Laplace, LogisticNoise
from dosimeter.noise_addition.bits import RandomWords

SLOPE = 4.0
"""Bound on |dx/d log T|."""
LEAST_TAIL = 2.0**-21
"""Below this T (one word in two million) 63 bits determine log T too poorly: the entry goes to multiple precision."""
ERROR = 6 * 2.0**-42
"""Bound on the distance from `quantile` at a truncated T to the x of any T with the same 63 bits, T >= LEAST_TAIL.

4 (2^-42 + 2^-52) for the bits not yet drawn and the conversion to float64, 2^-42 for the function: 64 ulp at 16 (the
largest error measured at 270,000 points is 2^-48.9). The rest of the 6 covers one product and one sum.
"""

_UPPER = np.uint64(1 << 63)
_LOG_HALF = float(np.log(0.5))

_ndtri: Callable[[Array], Array] = special.ndtri


@dataclass(frozen=True)
class InverseCdf:
    """The inverse cdf of a density at scale one, in float64 and in multiple precision."""

    quantile: Callable[[Array, RandomWords], Array]
    """x from T and the words that T was taken from, whose highest bit is the side; (n,), float64."""
    tail: Callable[[Any, Any, bool], Any]
    """(mp, x, upper) -> T in multiple precision: the definition of the density."""
    inverse_tail: Callable[[Any, Any, bool], Any]
    """(mp, T, upper) -> x, approximately: `tail` then gives its error."""


def inverse_cdf_of(noise: object) -> InverseCdf:
    """The inverse cdf of a density; refused if there is none."""
    return INVERSE_CDFS[noise]


def tail_probability(random_words: RandomWords) -> Array:
    """T of each word, (n,): its lower 63 bits as a fraction, rounded to float64."""
    T = (random_words & ~_UPPER).view(np.int64).astype(np.float64)
    T *= 2.0**-63
    return T


def is_upper(random_words: RandomWords) -> Any:
    """The side of each word, (n,): its highest bit."""
    return random_words >= _UPPER


def _mirror(x: Array, random_words: RandomWords) -> Array:
    """x of the lower side, with the sign flipped if the word is on the upper side."""
    return (x.view(np.uint64) ^ (random_words & _UPPER)).view(np.float64)


def _gumbel(T: Array, random_words: RandomWords) -> Array:
    upper = is_upper(random_words)
    E = np.where(upper, np.log1p(-0.5 * T), np.log(T) + _LOG_HALF)  # log of the cdf
    return -np.log(-E)


def _normal_inverse(mp: Any, T: Any, upper: bool) -> Any:
    """The root of log erfc(x/√2) = log T by Newton's method, which converges because log erfc is concave.

    It starts at the quantile in float64. If T is too small for that, it starts at √(-2 log T), which is above the root
    because erfc(x/√2) <= exp(-x²/2).
    """
    goal, near = mp.log(T), float(T) / 2
    x = -mp.mpf(float(special.ndtri(near))) if near > 1e-300 else mp.sqrt(-2 * goal)
    for _ in range(200):
        tail = mp.erfc(x / mp.sqrt(2))
        step = (mp.log(tail) - goal) * tail / (mp.sqrt(2 / mp.pi) * mp.exp(-x * x / 2))
        x = max(x + step, mp.mpf(0))
        if abs(step) <= mp.ldexp(1, -mp.prec // 2):  # the next step squares the error, so it is the last
            break
    tail = mp.erfc(x / mp.sqrt(2))
    x += (mp.log(tail) - goal) * tail / (mp.sqrt(2 / mp.pi) * mp.exp(-x * x / 2))
    return x if upper else -x


GAUSSIAN = InverseCdf(
    quantile=lambda T, random_words: _mirror(_ndtri(0.5 * T), random_words),
    tail=lambda mp, x, upper: mp.erfc((x if upper else -x) / mp.sqrt(2)),
    inverse_tail=_normal_inverse,
)

LAPLACE = InverseCdf(
    quantile=lambda T, random_words: _mirror(np.log(T), random_words),
    tail=lambda mp, x, upper: mp.exp(-x if upper else x),
    inverse_tail=lambda mp, T, upper: -mp.log(T) if upper else mp.log(T),
)

GUMBEL = InverseCdf(
    quantile=_gumbel,
    tail=lambda mp, x, upper: -2 * mp.expm1(-mp.exp(-x)) if upper else 2 * mp.exp(-mp.exp(-x)),
    inverse_tail=lambda mp, T, upper: -mp.log(-(mp.log1p(-T / 2) if upper else mp.log(T / 2))),
)

EXPONENTIAL = InverseCdf(
    quantile=lambda T, random_words: -np.log(T),
    tail=lambda mp, x, upper: mp.exp(-x),
    inverse_tail=lambda mp, T, upper: -mp.log(T),
)

LOGISTIC = InverseCdf(
    quantile=lambda T, random_words: _mirror(np.log(T) - np.log(2.0 - T), random_words),
    tail=lambda mp, x, upper: 2 / (1 + mp.exp(x if upper else -x)),
    inverse_tail=lambda mp, T, upper: mp.log((2 - T) / T) if upper else mp.log(T / (2 - T)),
)

INVERSE_CDFS: ByLaw[InverseCdf] = ByLaw(
    "cannot be drawn for a release",
    {Gaussian: GAUSSIAN, Laplace: LAPLACE, Gumbel: GUMBEL, Exponential: EXPONENTIAL, LogisticNoise: LOGISTIC},
)
"""Every law that can be drawn exactly."""
