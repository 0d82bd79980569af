"""Multiple precision for the few entries that 64 bits cannot round: more bits and more digits.

Everything here is about the ideal draw. T is a real number whose further bits are fetched when needed, x lies in a ball
that the tail function certifies, and an entry is settled only when its whole ball rounds to one integer. mpmath's
functions are assumed correct to 2^-(prec - 40) of their value; `prec` is 64 bits above the required precision, which
leaves 24 bits of margin (tests compare with twice the precision).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from dosimeter.noise_addition.bits import Bits
from dosimeter.noise_addition.inverse_cdf import SLOPE, InverseCdf

_FIRST_PRECISION = 64
_GUARD_BITS = 64
_PER_THREAD = threading.local()


def context() -> Any:
    """The multiple-precision context of this thread; the precision of other users of mpmath is not touched."""
    if not hasattr(_PER_THREAD, "mp"):
        import mpmath  # type: ignore[import-untyped]  # late: 60 ms, needed once in a million entries

        _PER_THREAD.mp = mpmath.MPContext()
    return _PER_THREAD.mp


class Draw:
    """One draw: T in [m, m + 1]/2^n and a side, with more bits of T on demand.

    >>> import numpy as np
    >>> from dosimeter.noise_addition.inverse_cdf import LAPLACE
    >>> draw = Draw(LAPLACE, word=1 << 62, bits=lambda n: np.zeros(n, np.uint64))  # T = 1/2, lower side
    >>> x, radius = draw.ball(64)
    >>> round(float(x), 6), bool(radius < 1e-17)
    (-0.693147, True)
    """

    def __init__(self, inverse_cdf: InverseCdf, word: int, bits: Bits) -> None:
        self.inverse_cdf, self.upper, self._bits = inverse_cdf, bool(word >> 63), bits
        self._m, self._n = word & ((1 << 63) - 1), 63
        self._balls: dict[int, tuple[Any, Any]] = {}

    def ball(self, q: int) -> tuple[Any, Any]:
        """(x, radius): the ideal draw at scale one is within the radius, about 2^(2-q), of x."""
        if q not in self._balls:
            self._balls[q] = self._certify(q)
        return self._balls[q]

    def _certify(self, q: int) -> tuple[Any, Any]:
        while self._m >> q == 0:  # until log T is known to 1/m <= 2^-q; leading zeros only cost more words
            self._m, self._n = self._m << 64 | int(self._bits(1)[0]), self._n + 64
        mp = context()
        with mp.workprec(max(q, self._m.bit_length()) + _GUARD_BITS):
            T = mp.ldexp(mp.mpf(self._m), -self._n)
            x = self.inverse_cdf.inverse_tail(mp, T, self.upper)
            error = abs(mp.log(self.inverse_cdf.tail(mp, x, self.upper) / T))
            return x, SLOPE * (error + mp.ldexp(1, 1 - q))  # 2^-q for the bits not drawn, 2^-q for mpmath


def round_exactly(fraction: float, factors: Sequence[float], draws: Sequence[Draw]) -> int:
    """The integer nearest to fraction + Σ factorⱼ xⱼ, exactly; a tie has probability 0."""
    mp, q = context(), _FIRST_PRECISION
    while True:
        with mp.workprec(2 * q + _GUARD_BITS):
            balls = [draw.ball(q) for draw in draws]
            total = mp.fsum([mp.mpf(fraction), *(mp.mpf(a) * x for a, (x, _) in zip(factors, balls, strict=True))])
            # The sum is rounded to 2^-(2q + 64) of its value; another 2^-q of each product bounds that.
            radius = mp.fsum(
                abs(mp.mpf(a)) * (r + mp.ldexp(1 + abs(x), -q)) for a, (x, r) in zip(factors, balls, strict=True)
            )
            low, high = mp.floor(total - radius + 0.5), mp.floor(total + radius + 0.5)
            if low == high:
                return int(low)
        q *= 2
