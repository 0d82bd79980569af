"""The ideal noisy argmax, with certainty: no grid, hence no ties and no rule for breaking them.

Only the order of vⱼ + Nⱼ is released, so the noise need not be rounded to anything. 64 bits leave each Nⱼ in an
interval; where the intervals of a query leave one winner it has won, and where they do not (docs/pate.md says how
seldom) the contenders get more bits of the same draws until one is left. The losing alternative is a grid: it ties
about once in 2^16 queries, and any fixed rule for ties moves the law away from eq. 12 of [Saeidian21].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.density import Density
from dosimeter.noise_addition.bits import Bits, Words
from dosimeter.noise_addition.inverse_cdf import ERROR, LEAST_TAIL, Law, law_of, split
from dosimeter.noise_addition.multiprecision import Draw

# A block's arrays stay in the second-level cache, as in `noise_addition.exact`.
_BLOCK = 16_384
# Small draws are made in company, for the sake of their time: `noise_addition.mechanism` has the measurement.
_COMPANY = 512
# The rounding of the quotient and of the sum, 2^-53 of each, doubled.
_ROUNDING = 2.0**-51
_FIRST = 64


def noisy_argmax(counts: FloatArray, noise: Density, bits: Bits) -> Index:
    """argmaxⱼ vⱼ + Nⱼ of the ideal real noise; (q, m) -> (q,).

    >>> from dosimeter.core.noise import Laplace
    >>> from dosimeter.noise_addition.bits import fresh
    >>> noisy_argmax(np.array([[900.0, 0.0], [0.0, 900.0]]), Laplace(1.0), fresh())    # wrong once in e^900
    array([0, 1])
    """
    q, m = counts.shape
    out = np.empty(q, dtype=np.intp)
    law, size = law_of(noise), max(1, _BLOCK // m)
    for start in range(0, q, size):
        lead = counts[start : start + size]
        lead = lead - lead.max(axis=1, keepdims=True)  # exact: whole numbers
        words, value, error, rare = _drawn(lead, noise.scale, law, bits)
        low = np.where(rare, -np.inf, value - error)
        running = np.where(rare, np.inf, value + error) >= low.max(axis=1, keepdims=True)
        winner = running.argmax(axis=1)
        for i in np.flatnonzero(running.sum(axis=1) > 1):
            among = np.flatnonzero(running[i])
            draws = [Draw(law, int(word), bits) for word in words[i, among]]
            winner[i] = among[_largest(lead[i, among].tolist(), noise.scale, draws)]
        out[start : start + size] = winner
    return out


def noisy_at_least(margin: FloatArray, noise: Density, bits: Bits) -> Mask:
    """Whether margin + N >= 0 for the ideal real noise; margins exact in float64, (q,) -> (q,)."""
    out = np.empty(len(margin), dtype=np.bool_)
    law = law_of(noise)
    for start in range(0, len(margin), _BLOCK):
        block = margin[start : start + _BLOCK]
        words, value, error, rare = _drawn(block, noise.scale, law, bits)
        above = value >= 0
        for i in np.flatnonzero(rare | (np.abs(value) <= error)):
            above[i] = _positive(float(block[i]), noise.scale, Draw(law, int(words[i]), bits))
        out[start : start + _BLOCK] = above
    return out


def _drawn(lead: FloatArray, scale: float, law: Law, bits: Bits) -> tuple[Words, FloatArray, FloatArray, Mask]:
    """(words, lead/scale + x, its error, where the error is not known), each in the shape of lead."""
    n = lead.size
    words = bits(max(n, _COMPANY))
    T = split(words)
    with np.errstate(divide="ignore", invalid="ignore"):  # T = 0 gives an infinite x; T < LEAST_TAIL is rare
        x = law.quantile(T, words)
    start = lead / scale
    value = start + x[:n].reshape(lead.shape)
    rare = (T[:n] < LEAST_TAIL).reshape(lead.shape)
    return words[:n].reshape(lead.shape), value, ERROR + _ROUNDING * np.abs(start), rare


def _largest(lead: list[float], scale: float, draws: list[Draw]) -> int:
    """Which of leadⱼ + scale·xⱼ is the largest; more bits until one is, and a tie has probability 0."""
    running, q = list(range(len(draws))), _FIRST
    while True:
        balls = [_ball(lead[j], scale, draws[j], q) for j in running]
        floor = max(low for low, _ in balls)
        running = [j for j, (_, high) in zip(running, balls, strict=True) if high >= floor]
        if len(running) == 1:
            return running[0]
        q *= 2


def _positive(lead: float, scale: float, draw: Draw) -> bool:
    """Whether lead + scale·x > 0, with certainty."""
    q = _FIRST
    while True:
        low, high = _ball(lead, scale, draw, q)
        if low > 0 or high < 0:
            return bool(low > 0)
        q *= 2


def _ball(lead: float, scale: float, draw: Draw, q: int) -> tuple[Any, Any]:
    """(low, high) of lead + scale·x, in multiple precision."""
    x, radius = draw.ball(q)
    mp = x.context
    with mp.workprec(2 * q + 128):
        middle = mp.mpf(lead) + mp.mpf(scale) * x
        # 2^-q of each term for the rounding of the sum, which is 2^-(2q + 128) of it.
        reach = mp.mpf(scale) * (radius + mp.ldexp(1 + abs(x), -q)) + mp.ldexp(abs(mp.mpf(lead)), -q)
        return middle - reach, middle + reach
