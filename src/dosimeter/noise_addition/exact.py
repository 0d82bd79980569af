"""Exact rounding: round((w + b)/g) of the ideal real noise b, one block of entries at a time.

A value in steps is split exactly into the nearest integer and a fraction, |fraction| <= 1/2. The integer does not take
part in the rounding, so the error bound does not grow with the value.
"""

from __future__ import annotations

import numpy as np

from dosimeter.core.density import Array
from dosimeter.noise_addition.bits import Bits
from dosimeter.noise_addition.inverse_cdf import ERROR, GAUSSIAN, LEAST_TAIL, InverseCdf, tail_probability
from dosimeter.noise_addition.multiprecision import Draw, round_exactly

# The arrays of a block fit into the second-level cache; below 4,096 entries numpy's fixed cost per call shows.
_BLOCK = 16_384
# Rounding of the fraction's sum, in steps; ERROR is in units of the noise.
_ROUNDING = 2.0**-51


def add_independent(steps: Array, inverse_cdf: InverseCdf, factor: float, bits: Bits) -> Array:
    """round(steps + factor·x), x independent draws at scale one; (n,) -> whole numbers (n,)."""
    out = np.empty_like(steps)
    margin = 0.5 - (factor * ERROR + _ROUNDING)
    for start in range(0, len(steps), _BLOCK):
        block = steps[start : start + _BLOCK]
        random_words = bits(len(block))
        T = tail_probability(random_words)
        nearest_whole = np.rint(block)
        fraction = block - nearest_whole
        with np.errstate(divide="ignore", invalid="ignore"):  # T = 0 gives an infinite x, which is never certain
            f = inverse_cdf.quantile(T, random_words)
            f *= factor
            f += fraction
            nearest = np.rint(f)
            f -= nearest
            sure = (np.abs(f) < margin) & (T >= LEAST_TAIL)
        for i in np.flatnonzero(~sure):
            nearest[i] = round_exactly(float(fraction[i]), [factor], [Draw(inverse_cdf, int(random_words[i]), bits)])
        out[start : start + _BLOCK] = nearest_whole + nearest
    return out


def add_correlated(steps: Array, A: Array, bits: Bits) -> Array:
    """round(steps + A z), z independent standard normal; steps (n, p), A (p, p) -> whole numbers (n, p)."""
    p = len(A)
    out = np.empty_like(steps)
    size = max(1, _BLOCK // p)
    for start in range(0, len(steps), size):
        block = steps[start : start + size]
        random_words = bits(block.size)
        nearest_whole = np.rint(block)
        fraction = block - nearest_whole
        nearest, sure = _round_where_certain(fraction, random_words, A)
        for i in np.flatnonzero(~sure.all(axis=1)):
            # One draw per entry of z, shared by the rows of A.
            draws = [Draw(GAUSSIAN, int(word), bits) for word in random_words[i * p : (i + 1) * p]]
            for j in np.flatnonzero(~sure[i]):
                used = np.flatnonzero(A[j])
                nearest[i, j] = round_exactly(float(fraction[i, j]), A[j, used].tolist(), [draws[k] for k in used])
        out[start : start + size] = nearest_whole + nearest
    return out


def _round_where_certain(
    fraction: Array, random_words: np.ndarray[tuple[int, ...], np.dtype[np.uint64]], A: Array
) -> tuple[Array, Array]:
    """round(fraction + A z) and where it is certain, both (n, p).

    The error of a row's sum is Σⱼ |Aᵢⱼ| (ERROR + (p + 2) 2^-53 |zⱼ|) in any order of summation; the second term is
    doubled for the rounding of the bound itself.
    """
    n, p = fraction.shape
    T = tail_probability(random_words).reshape(n, p)
    rare = T < LEAST_TAIL
    with np.errstate(divide="ignore"):
        z = GAUSSIAN.quantile(T.ravel(), random_words).reshape(n, p)
    z[rare] = 0.0  # rows of A that use it are settled in multiple precision
    f = z @ A.T
    f += fraction
    nearest = np.rint(f)
    bound = (ERROR + (p + 2) * 2.0**-52 * np.abs(z)) @ np.abs(A.T) + _ROUNDING
    sure = np.abs(f - nearest) < 0.5 - bound
    if rare.any():
        sure &= ~(rare.astype(np.float64) @ (A.T != 0)).astype(bool)
    return nearest, sure
