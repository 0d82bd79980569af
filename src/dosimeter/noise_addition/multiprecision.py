"""Refining: more bits and more digits for the few entries that 64 bits leave between two steps of the grid.

Every statement made here is about the ideal draw: T is a real number of which more bits are fetched when they are
needed, x lies in a ball that the tail certifies, and an entry ends only when its whole ball rounds to one integer.
mpmath's own functions are taken to be right to 2^-(prec - 40) of their value; with `prec` 64 bits above the
precision asked for, that is 24 bits to spare (checked against twice the precision in tests).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from dosimeter.noise_addition.bits import Bits
from dosimeter.noise_addition.inverse_cdf import SLOPE, Law

_FIRST = 64
_GUARD = 64


_OWN = threading.local()


def context() -> Any:
    """A multiple-precision context of this thread's own: nobody else's digits are used or changed."""
    if not hasattr(_OWN, "mp"):
        import mpmath  # type: ignore[import-untyped]  # late: 60 ms, needed once in a million entries

        _OWN.mp = mpmath.MPContext()
    return _OWN.mp


class Draw:
    """One draw of a law: T in [m, m + 1]/2^n and a side, with more bits of T on demand.

    >>> import numpy as np
    >>> from dosimeter.noise_addition.inverse_cdf import LAPLACE
    >>> draw = Draw(LAPLACE, word=1 << 62, bits=lambda n: np.zeros(n, np.uint64))  # T = 1/2, lower side
    >>> x, radius = draw.ball(64)
    >>> round(float(x), 6), bool(radius < 1e-17)
    (-0.693147, True)
    """

    def __init__(self, law: Law, word: int, bits: Bits) -> None:
        self.law, self.upper, self._bits = law, bool(word >> 63), bits
        self._m, self._n = word & ((1 << 63) - 1), 63
        self._balls: dict[int, tuple[Any, Any]] = {}

    def ball(self, q: int) -> tuple[Any, Any]:
        """(x, radius): the ideal draw at scale one is within the radius, about 2^(2-q), of x."""
        if q not in self._balls:
            self._balls[q] = self._certified(q)
        return self._balls[q]

    def _certified(self, q: int) -> tuple[Any, Any]:
        while self._m >> q == 0:  # so that log T is known to 1/m <= 2^-q; zeros in front only cost more words
            self._m, self._n = self._m << 64 | int(self._bits(1)[0]), self._n + 64
        mp = context()
        with mp.workprec(max(q, self._m.bit_length()) + _GUARD):
            T = mp.ldexp(mp.mpf(self._m), -self._n)
            x = self.law.inverse(mp, T, self.upper)
            off = abs(mp.log(self.law.tail(mp, x, self.upper) / T))
            return x, SLOPE * (off + mp.ldexp(1, 1 - q))  # 2^-q for the bits to come, 2^-q for mpmath


def settle(part: float, factors: Sequence[float], draws: Sequence[Draw]) -> int:
    """The integer nearest to part + Σ factorⱼ xⱼ, with certainty; a tie has probability 0."""
    mp, q = context(), _FIRST
    while True:
        with mp.workprec(2 * q + _GUARD):
            balls = [draw.ball(q) for draw in draws]
            total = mp.fsum([mp.mpf(part), *(mp.mpf(a) * x for a, (x, _) in zip(factors, balls, strict=True))])
            # 2^-q of each product again for the rounding of the sum, which is 2^-(2q + 64) of it.
            radius = mp.fsum(
                abs(mp.mpf(a)) * (r + mp.ldexp(1 + abs(x), -q)) for a, (x, r) in zip(factors, balls, strict=True)
            )
            low, high = mp.floor(total - radius + 0.5), mp.floor(total + radius + 0.5)
            if low == high:
                return int(low)
        q *= 2
