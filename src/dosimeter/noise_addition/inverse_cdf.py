"""Laws: how each density is drawn, in float64 for nearly every entry and in multiple precision for the rest.

A draw is a side, lower or upper, and a number T, uniform on (0, 1): the noise at scale one is the x with
`tail(x, side)` = T, where the tail is twice the probability beyond x on that side. (The exponential has one side and
its whole probability for a tail.) T has 63 bits and the side one, so a word of 64 gives an interval for x.

Two facts hold for every law of the table, docs/sampling.md proves them and tests check them:
|dx/d log T| < 4, and |x| < 16 where T >= 2^-21.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from dosimeter.core.density import Array
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Exponential, Gaussian, Gumbel, Laplace, LogisticNoise
from dosimeter.noise_addition.bits import Words

SLOPE = 4.0
"""Bound on |dx/d log T|."""
LEAST_TAIL = 2.0**-21
"""Below this T (one word in two million) 63 bits say too little about log T, and the entry is refined at once."""
ERROR = 6 * 2.0**-42
"""Bound on the distance from `quantile` at a truncated T to the x of any T with the same 63 bits, T >= LEAST_TAIL.

4 (2^-42 + 2^-52) for the bits not yet drawn and the conversion to float64, 2^-42 for the function: 64 ulp at 16,
where 2^-48.9 is the most that was seen at 270,000 points. What is left of 6 pays for one product and one sum.
"""

_UPPER = np.uint64(1 << 63)
_LOG_HALF = float(np.log(0.5))

_ndtri: Callable[[Array], Array] = special.ndtri


@dataclass(frozen=True)
class Law:
    """A density at scale one, as `exact` and `refine` need it."""

    quantile: Callable[[Array, Words], Array]
    """x from T and from the words it was cut from, whose highest bit is the side; (n,), float64."""
    tail: Callable[[Any, Any, bool], Any]
    """(mp, x, upper) -> T in multiple precision: the definition of the law."""
    inverse: Callable[[Any, Any, bool], Any]
    """(mp, T, upper) -> x; any start will do, `tail` says how far it is off."""


def law_of(noise: object) -> Law:
    """The law of a density, or a refusal."""
    if type(noise) not in LAWS:
        raise Refusal(f"{noise!r} cannot be drawn: there is no law for it in {sorted(c.__name__ for c in LAWS)}")
    return LAWS[type(noise)]


def split(words: Words) -> Array:
    """T of each word, (n,): its lower 63 bits as a fraction, rounded to float64."""
    T = (words & ~_UPPER).view(np.int64).astype(np.float64)
    T *= 2.0**-63
    return T


def is_upper(words: Words) -> Any:
    """The side of each word, (n,): its highest bit."""
    return words >= _UPPER


def _mirrored(x: Array, words: Words) -> Array:
    """x of the lower side, sign flipped where the word says upper."""
    return (x.view(np.uint64) ^ (words & _UPPER)).view(np.float64)


def _gumbel(T: Array, words: Words) -> Array:
    upper = is_upper(words)
    E = np.where(upper, np.log1p(-0.5 * T), np.log(T) + _LOG_HALF)  # log of the cdf
    return -np.log(-E)


def _normal_inverse(mp: Any, T: Any, upper: bool) -> Any:
    """The root of log erfc(x/√2) = log T by Newton's method, sure as log erfc is concave.

    The start is the quantile in float64; where T is below float64, √(-2 log T), which is above the root since
    erfc(x/√2) <= exp(-x²/2).
    """
    goal, near = mp.log(T), float(T) / 2
    x = -mp.mpf(float(special.ndtri(near))) if near > 1e-300 else mp.sqrt(-2 * goal)
    for _ in range(200):
        tail = mp.erfc(x / mp.sqrt(2))
        step = (mp.log(tail) - goal) * tail / (mp.sqrt(2 / mp.pi) * mp.exp(-x * x / 2))
        x = max(x + step, mp.mpf(0))
        if abs(step) <= mp.ldexp(1, -mp.prec // 2):  # the next step squares it: it is the last
            break
    tail = mp.erfc(x / mp.sqrt(2))
    x += (mp.log(tail) - goal) * tail / (mp.sqrt(2 / mp.pi) * mp.exp(-x * x / 2))
    return x if upper else -x


GAUSSIAN = Law(
    quantile=lambda T, words: _mirrored(_ndtri(0.5 * T), words),
    tail=lambda mp, x, upper: mp.erfc((x if upper else -x) / mp.sqrt(2)),
    inverse=_normal_inverse,
)

LAPLACE = Law(
    quantile=lambda T, words: _mirrored(np.log(T), words),
    tail=lambda mp, x, upper: mp.exp(-x if upper else x),
    inverse=lambda mp, T, upper: -mp.log(T) if upper else mp.log(T),
)

GUMBEL = Law(
    quantile=_gumbel,
    tail=lambda mp, x, upper: -2 * mp.expm1(-mp.exp(-x)) if upper else 2 * mp.exp(-mp.exp(-x)),
    inverse=lambda mp, T, upper: -mp.log(-(mp.log1p(-T / 2) if upper else mp.log(T / 2))),
)

EXPONENTIAL = Law(
    quantile=lambda T, words: -np.log(T),
    tail=lambda mp, x, upper: mp.exp(-x),
    inverse=lambda mp, T, upper: -mp.log(T),
)

LOGISTIC = Law(
    quantile=lambda T, words: _mirrored(np.log(T) - np.log(2.0 - T), words),
    tail=lambda mp, x, upper: 2 / (1 + mp.exp(x if upper else -x)),
    inverse=lambda mp, T, upper: mp.log((2 - T) / T) if upper else mp.log(T / (2 - T)),
)

LAWS: dict[type, Law] = {
    Gaussian: GAUSSIAN,
    Laplace: LAPLACE,
    Gumbel: GUMBEL,
    Exponential: EXPONENTIAL,
    LogisticNoise: LOGISTIC,
}
