"""Noised weights in the units of the table: linear maps of w + b, each rounded once, to a public number of bits.

A map made from the data (a scaler folded into the weights) must not meet a rounded value: y/s of a y on a grid is on a
grid of its own, and that grid tells s. So nothing is rounded before the map. The draws of b stay intervals, as in
`noise_addition.multiprecision`, the map is taken of the intervals, and more bits are drawn until the whole interval of
each number rounds alike. What comes out is round(A(w + b)) of the ideal real b, exactly: docs/sampling.md, section 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.density import Array
from dosimeter.core.errors import Refusal
from dosimeter.noise_addition.bits import Bits, fresh
from dosimeter.noise_addition.grid import as_values, least_scale
from dosimeter.noise_addition.inverse_cdf import GAUSSIAN, law_of
from dosimeter.noise_addition.multiprecision import Draw, context

Row = Mapping[int, Fraction]
"""One released number as a sum over weights: position of a weight -> its factor, exact."""

SIGNIFICANT = 40
"""Bits of every released number: public, the same for all. Twelve digits; the last 13 bits of a float64 are zero."""
_FIRST = 64
_GUARD = 64


def folded(weights: ArrayLike, noise: object, rows: Sequence[Row], *, bits: Bits | None = None) -> Array:
    """Σⱼ rowⱼ (wⱼ + bⱼ) for each row, b the ideal real noise, rounded once to 40 significant bits; (rows,).

    weights: (p,). The noise is independent, or one draw of `CorrelatedGaussian`. The rows may be made from the data:
    the rounding is the same function of the ideal real number whatever they are. The bits come from the operating
    system; other bits make a simulation.

    >>> from dosimeter.core.noise import Gaussian
    >>> y = folded([0.5, -1.0], Gaussian(0.1), [{0: Fraction(1, 3)}, {1: Fraction(1), 0: Fraction(-7, 3)}])
    >>> y.shape, bool(significant(y).max() <= 40)
    ((2,), True)
    """
    w = as_values(weights)
    _check(w, noise, rows)
    noised = _Noised(w, noise, fresh() if bits is None else bits)
    return np.array([_settled(row, noised) for row in rows], dtype=np.float64)


def unchanged(p: int) -> list[Row]:
    """The rows that leave p weights in the units they are in."""
    return [{j: Fraction(1)} for j in range(p)]


def significant(values: ArrayLike) -> Any:
    """Significant bits of each number, from its first one to its last one; 0 for 0.

    >>> significant([0.0, 1.0, 0.75, 0.1]).tolist()
    [0, 1, 2, 52]
    """
    whole = np.ldexp(np.frexp(np.abs(np.asarray(values, dtype=np.float64)))[0], 53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1]
    return np.where(whole == 0, 0, 54 - lowest)


class _Noised:
    """The noised weights as balls, at any precision; bits already drawn are kept."""

    def __init__(self, w: Array, noise: object, bits: Bits) -> None:
        shaped = isinstance(noise, CorrelatedGaussian)
        law = GAUSSIAN if shaped else law_of(noise)
        self._w = w.tolist()
        self._factor = noise.cholesky if isinstance(noise, CorrelatedGaussian) else None
        self._scale = 1.0 if shaped else least_scale(noise)
        self._draws = [Draw(law, int(word), bits) for word in bits(len(w))]
        self._balls: dict[int, list[tuple[Any, Any]]] = {}

    def balls(self, q: int) -> list[tuple[Any, Any]]:
        """(middle, radius) of each wⱼ + bⱼ, the radius about 2^-q of the noise's scale or of wⱼ."""
        if q not in self._balls:
            mp = context()
            with mp.workprec(2 * q + _GUARD):
                # 2^-q of each term for the rounding of products and sums, which is 2^-(2q + 64) of them.
                drawn = [(x, r + mp.ldexp(1 + abs(x), -q)) for x, r in (draw.ball(q) for draw in self._draws)]
                self._balls[q] = [self._ball(mp, j, drawn, q) for j in range(len(drawn))]
        return self._balls[q]

    def _ball(self, mp: Any, j: int, drawn: list[tuple[Any, Any]], q: int) -> tuple[Any, Any]:
        w = mp.mpf(self._w[j])
        if self._factor is None:
            terms = [(mp.mpf(self._scale), drawn[j])]
        else:
            terms = [(mp.mpf(a), drawn[k]) for k, a in enumerate(self._factor[j].tolist()) if a]
        middle = w + mp.fdot((a, x) for a, (x, _) in terms)
        return middle, mp.fdot((abs(a), r) for a, (_, r) in terms) + mp.ldexp(abs(w), -q)


def _settled(row: Row, noised: _Noised) -> float:
    """The row's number, rounded with certainty; a tie has probability 0."""
    mp, q = context(), _FIRST
    while True:
        balls = noised.balls(q)
        with mp.workprec(2 * q + _GUARD):
            terms = [(mp.mpf(a.numerator) / a.denominator, balls[j]) for j, a in row.items()]
            middle = mp.fdot((a, v) for a, (v, _) in terms)
            radius = mp.fdot((abs(a), r + mp.ldexp(abs(v), -q)) for a, (v, r) in terms)
            low, high = middle - radius, middle + radius
        with mp.workprec(SIGNIFICANT):
            below, above = +low, +high
        if below == above:
            return float(below)
        q *= 2


def _check(w: Array, noise: object, rows: Sequence[Row]) -> None:
    if w.ndim != 1 or not w.size:
        raise Refusal(f"the weights to fold must be one row of numbers, not {w.shape}")
    if isinstance(noise, CorrelatedGaussian) and noise.dimension != len(w):
        raise Refusal(f"{noise}: there are {len(w)} weights to fold, not {noise.dimension}")
    for i, row in enumerate(rows):
        if not row or not all(0 <= j < len(w) for j in row):
            raise Refusal(f"rows[{i}] must name weights 0 to {len(w) - 1}, at least one, not {sorted(row)}")
        if not all(isinstance(a, Fraction) and a for a in row.values()):
            raise Refusal(f"rows[{i}]: every factor must be a Fraction and not 0")
