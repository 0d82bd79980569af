"""Noised weights in the units of the table: linear maps of w + b, each rounded once to a public number of bits.

A map computed from the data (a scaler folded into the weights) must not be applied to rounded values: y/s of a y on a
grid lies on another grid, which reveals s. So nothing is rounded before the map. The draws of b remain intervals, as in
`noise_addition.multiprecision`; the map is applied to the intervals, and more bits are drawn until every point of each
interval rounds to the same number. The result is exactly round(A(w + b)) of the ideal real b:
docs/explanation/sampling.md, 7.
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
from dosimeter.noise_addition.bits import Bits, fresh_bits
from dosimeter.noise_addition.grid import as_values, least_scale
from dosimeter.noise_addition.inverse_cdf import GAUSSIAN, inverse_cdf_of
from dosimeter.noise_addition.multiprecision import Draw, context

Row = Mapping[int, Fraction]
"""One released number as a sum over weights: position of a weight -> its exact factor."""

SIGNIFICANT = 40
"""Significant bits of every released number, a public constant: twelve digits, and 13 zero bits in a float64."""
_FIRST_PRECISION = 64
_GUARD_BITS = 64


def noisy_linear_map(weights: ArrayLike, noise: object, rows: Sequence[Row], *, bits: Bits | None = None) -> Array:
    """Σⱼ rowⱼ (wⱼ + bⱼ) for each row, b the ideal real noise, rounded once to 40 significant bits; (rows,).

    Parameters
    ----------
    weights : array_like of shape (p,)
        w, exact.
    noise : Noise
        Independent for each weight, or one draw of `CorrelatedGaussian`.
    rows : sequence of mapping of int to Fraction
        Position -> factor. They may depend on the data: the rounding is the same function of the ideal real number for
        any rows.
    bits : callable, optional
        Another source of random words, for a simulation; default: the operating system's.

    Returns
    -------
    ndarray of shape (rows,)
        Numbers of 40 significant bits.

    Raises
    ------
    Refusal
        If the noise cannot be drawn, or a row names a weight that does not exist.

    Examples
    --------
    >>> from dosimeter.core.noise import Gaussian
    >>> y = noisy_linear_map([0.5, -1.0], Gaussian(0.1), [{0: Fraction(1, 3)}, {1: Fraction(1), 0: Fraction(-7, 3)}])
    >>> y.shape, bool(significant_bits(y).max() <= 40)
    ((2,), True)
    """
    w = as_values(weights)
    _check(w, noise, rows)
    noised = _NoisedWeights(w, noise, fresh_bits() if bits is None else bits)
    return np.array([_round_row(row, noised) for row in rows], dtype=np.float64)


def identity_rows(p: int) -> list[Row]:
    """The rows that leave p weights unchanged."""
    return [{j: Fraction(1)} for j in range(p)]


def significant_bits(values: ArrayLike) -> Any:
    """Significant bits of each number, from its first 1 bit to its last; 0 for 0.

    >>> significant_bits([0.0, 1.0, 0.75, 0.1]).tolist()
    [0, 1, 2, 52]
    """
    mantissas = np.ldexp(np.frexp(np.abs(np.asarray(values, dtype=np.float64)))[0], 53).astype(np.int64)
    lowest = np.frexp((mantissas & -mantissas).astype(np.float64))[1]
    return np.where(mantissas == 0, 0, 54 - lowest)


class _NoisedWeights:
    """The noised weights as balls, at any precision; bits already drawn are reused."""

    def __init__(self, w: Array, noise: object, bits: Bits) -> None:
        shaped = isinstance(noise, CorrelatedGaussian)
        inverse_cdf = GAUSSIAN if shaped else inverse_cdf_of(noise)
        self._w = w.tolist()
        self._factor = noise.cholesky if isinstance(noise, CorrelatedGaussian) else None
        self._scale = 1.0 if shaped else least_scale(noise)
        self._draws = [Draw(inverse_cdf, int(word), bits) for word in bits(len(w))]
        self._balls: dict[int, list[tuple[Any, Any]]] = {}

    def balls(self, q: int) -> list[tuple[Any, Any]]:
        """(middle, radius) of each wⱼ + bⱼ, the radius about 2^-q of the larger of noise scale and wⱼ."""
        if q not in self._balls:
            mp = context()
            with mp.workprec(2 * q + _GUARD_BITS):
                # Products and sums are rounded to 2^-(2q + 64) of their value; 2^-q of each term bounds that.
                draw_balls = [(x, r + mp.ldexp(1 + abs(x), -q)) for x, r in (draw.ball(q) for draw in self._draws)]
                self._balls[q] = [self._ball(mp, j, draw_balls, q) for j in range(len(draw_balls))]
        return self._balls[q]

    def _ball(self, mp: Any, j: int, draw_balls: list[tuple[Any, Any]], q: int) -> tuple[Any, Any]:
        w = mp.mpf(self._w[j])
        if self._factor is None:
            terms = [(mp.mpf(self._scale), draw_balls[j])]
        else:
            terms = [(mp.mpf(a), draw_balls[k]) for k, a in enumerate(self._factor[j].tolist()) if a]
        middle = w + mp.fdot((a, x) for a, (x, _) in terms)
        return middle, mp.fdot((abs(a), r) for a, (_, r) in terms) + mp.ldexp(abs(w), -q)


def _round_row(row: Row, noised: _NoisedWeights) -> float:
    """The number of a row, rounded exactly; a tie has probability 0."""
    mp, q = context(), _FIRST_PRECISION
    while True:
        balls = noised.balls(q)
        with mp.workprec(2 * q + _GUARD_BITS):
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
        raise Refusal(f"the weights must be a vector, not of shape {w.shape}")
    if isinstance(noise, CorrelatedGaussian) and noise.dimension != len(w):
        raise Refusal(f"{noise}: there are {len(w)} weights, not {noise.dimension}")
    for i, row in enumerate(rows):
        if not row or not all(0 <= j < len(w) for j in row):
            raise Refusal(f"rows[{i}] must name at least one weight of 0 to {len(w) - 1}, not {sorted(row)}")
        if not all(isinstance(a, Fraction) and a for a in row.values()):
            raise Refusal(f"rows[{i}]: every factor must be a nonzero Fraction")
