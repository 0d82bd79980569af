"""The noisy argmax of the ideal real noise, without a grid and therefore without ties.

Only the order of vⱼ + Nⱼ is released, so the noise is not rounded. 64 bits confine each Nⱼ to an interval. If the
intervals of a query leave more than one possible winner (rare, see docs/explanation/pate.md), more bits of the same
draws are fetched until one is left. A grid instead would tie about once in 2^16 queries, and any fixed rule for
breaking ties would change the distribution of eq. 12 of [Saeidian21].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.density import Density
from dosimeter.noise_addition.bits import Bits, RandomWords
from dosimeter.noise_addition.inverse_cdf import ERROR, LEAST_TAIL, InverseCdf, inverse_cdf_of, tail_probability
from dosimeter.noise_addition.multiprecision import Draw

# The arrays of a block fit into the second-level cache, as in `noise_addition.exact`.
_BLOCK = 16_384
# Small draws are padded to this size against timing attacks: see `noise_addition.mechanism`.
_PADDED_SIZE = 512
# The rounding of the quotient and of the sum, 2^-53 of each, doubled.
_ROUNDING = 2.0**-51
_FIRST_PRECISION = 64


def noisy_argmax(counts: FloatArray, noise: Density, bits: Bits) -> Index:
    """argmaxⱼ vⱼ + Nⱼ of the ideal real noise for each row.

    Parameters
    ----------
    counts : ndarray of shape (q, m)
        v, whole numbers.
    noise : Density
        The law of each Nⱼ, independent.
    bits : callable
        The source of random words: `fresh_bits()`, or a seeded one for a simulation.

    Returns
    -------
    ndarray of int, shape (q,)
        The winner of each row.

    Raises
    ------
    Refusal
        If the noise cannot be drawn.

    Examples
    --------
    >>> from dosimeter.core.noise import Laplace
    >>> from dosimeter.noise_addition.bits import fresh_bits
    >>> noisy_argmax(np.array([[900.0, 0.0], [0.0, 900.0]]), Laplace(1.0), fresh_bits())    # wrong once in e^900
    array([0, 1])
    """
    q, m = counts.shape
    out = np.empty(q, dtype=np.intp)
    inverse_cdf, size = inverse_cdf_of(noise), max(1, _BLOCK // m)
    for start in range(0, q, size):
        lead = counts[start : start + size]
        lead = lead - lead.max(axis=1, keepdims=True)  # exact for whole numbers
        random_words, value, error, rare = _draw_near(lead, noise.scale, inverse_cdf, bits)
        low = np.where(rare, -np.inf, value - error)
        running = np.where(rare, np.inf, value + error) >= low.max(axis=1, keepdims=True)
        winner = running.argmax(axis=1)
        for i in np.flatnonzero(running.sum(axis=1) > 1):
            contenders = np.flatnonzero(running[i])
            draws = [Draw(inverse_cdf, int(word), bits) for word in random_words[i, contenders]]
            winner[i] = contenders[_largest(lead[i, contenders].tolist(), noise.scale, draws)]
        out[start : start + size] = winner
    return out


def noisy_at_least(margin: FloatArray, noise: Density, bits: Bits) -> Mask:
    """Whether margin + N >= 0 for the ideal real noise; the margins are taken as exact.

    Parameters
    ----------
    margin : ndarray of shape (q,)
        What the noise is added to.
    noise : Density
        The law of N, drawn anew for each margin.
    bits : callable
        The source of random words: `fresh_bits()`, or a seeded one for a simulation.

    Returns
    -------
    ndarray of bool, shape (q,)
        One answer for each margin.

    Raises
    ------
    Refusal
        If the noise cannot be drawn.

    Examples
    --------
    >>> from dosimeter.core.noise import Laplace
    >>> from dosimeter.noise_addition.bits import fresh_bits
    >>> noisy_at_least(np.array([-900.0, 900.0]), Laplace(1.0), fresh_bits())    # wrong once in e^900
    array([False,  True])
    """
    out = np.empty(len(margin), dtype=np.bool_)
    inverse_cdf = inverse_cdf_of(noise)
    for start in range(0, len(margin), _BLOCK):
        block = margin[start : start + _BLOCK]
        random_words, value, error, rare = _draw_near(block, noise.scale, inverse_cdf, bits)
        above = value >= 0
        for i in np.flatnonzero(rare | (np.abs(value) <= error)):
            above[i] = _positive(float(block[i]), noise.scale, Draw(inverse_cdf, int(random_words[i]), bits))
        out[start : start + _BLOCK] = above
    return out


def _draw_near(
    lead: FloatArray, scale: float, inverse_cdf: InverseCdf, bits: Bits
) -> tuple[RandomWords, FloatArray, FloatArray, Mask]:
    """(random words, lead/scale + x, a bound on its error, where no bound holds), each in the shape of lead."""
    n = lead.size
    random_words = bits(max(n, _PADDED_SIZE))
    T = tail_probability(random_words)
    with np.errstate(divide="ignore", invalid="ignore"):  # T = 0 gives an infinite x; T < LEAST_TAIL is rare
        x = inverse_cdf.quantile(T, random_words)
    start = lead / scale
    value = start + x[:n].reshape(lead.shape)
    rare = (T[:n] < LEAST_TAIL).reshape(lead.shape)
    return random_words[:n].reshape(lead.shape), value, ERROR + _ROUNDING * np.abs(start), rare


def _largest(lead: list[float], scale: float, draws: list[Draw]) -> int:
    """The j of the largest leadⱼ + scale·xⱼ, with more bits until it is certain; a tie has probability 0."""
    running, q = list(range(len(draws))), _FIRST_PRECISION
    while True:
        balls = [_ball(lead[j], scale, draws[j], q) for j in running]
        floor = max(low for low, _ in balls)
        running = [j for j, (_, high) in zip(running, balls, strict=True) if high >= floor]
        if len(running) == 1:
            return running[0]
        q *= 2


def _positive(lead: float, scale: float, draw: Draw) -> bool:
    """Whether lead + scale·x > 0, with certainty."""
    q = _FIRST_PRECISION
    while True:
        low, high = _ball(lead, scale, draw, q)
        if low > 0 or high < 0:
            return bool(low > 0)
        q *= 2


def _ball(lead: float, scale: float, draw: Draw, q: int) -> tuple[Any, Any]:
    """(low, high) of lead + scale·x in multiple precision."""
    x, radius = draw.ball(q)
    mp = x.context
    with mp.workprec(2 * q + 128):
        middle = mp.mpf(lead) + mp.mpf(scale) * x
        # The sum is rounded to 2^-(2q + 128) of its value; 2^-q of each term bounds that.
        reach = mp.mpf(scale) * (radius + mp.ldexp(1 + abs(x), -q)) + mp.ldexp(abs(mp.mpf(lead)), -q)
        return middle - reach, middle + reach
