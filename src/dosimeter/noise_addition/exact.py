"""Exact rounding: round((w + b)/g) of the ideal real noise b, a block of entries at a time.

A value in steps is split into the nearest integer and a part, |part| <= 1/2, both exact: the integer does not take
part in the rounding, so the error filter does not grow with the value.
"""

from __future__ import annotations

import numpy as np

from dosimeter.core.density import Array
from dosimeter.noise_addition.bits import Bits
from dosimeter.noise_addition.inverse_cdf import ERROR, GAUSSIAN, LEAST_TAIL, Law, split
from dosimeter.noise_addition.multiprecision import Draw, settle

# A block's arrays stay in the second-level cache; below 4,096 numpy's fixed cost per call shows.
_BLOCK = 16_384
# Beside ERROR, which is in units of the noise: the rounding of the part's sum, in steps.
_ROUNDING = 2.0**-51


def independent(steps: Array, law: Law, factor: float, bits: Bits) -> Array:
    """round(steps + factor·x), x independent draws of the law at scale one; (n,) -> whole numbers (n,)."""
    out = np.empty_like(steps)
    room = 0.5 - (factor * ERROR + _ROUNDING)
    for start in range(0, len(steps), _BLOCK):
        block = steps[start : start + _BLOCK]
        words = bits(len(block))
        T = split(words)
        whole = np.rint(block)
        part = block - whole
        with np.errstate(divide="ignore", invalid="ignore"):  # T = 0 gives an infinite x, which no filter passes
            f = law.quantile(T, words)
            f *= factor
            f += part
            nearest = np.rint(f)
            f -= nearest
            sure = (np.abs(f) < room) & (T >= LEAST_TAIL)
        for i in np.flatnonzero(~sure):
            nearest[i] = settle(float(part[i]), [factor], [Draw(law, int(words[i]), bits)])
        out[start : start + _BLOCK] = whole + nearest
    return out


def correlated(steps: Array, A: Array, bits: Bits) -> Array:
    """round(steps + A z), z independent standard normal; steps (n, p), A (p, p) -> whole numbers (n, p)."""
    p = len(A)
    out = np.empty_like(steps)
    size = max(1, _BLOCK // p)
    for start in range(0, len(steps), size):
        block = steps[start : start + size]
        words = bits(block.size)
        whole = np.rint(block)
        part = block - whole
        nearest, sure = _filtered(part, words, A)
        for i in np.flatnonzero(~sure.all(axis=1)):
            draws = [Draw(GAUSSIAN, int(word), bits) for word in words[i * p : (i + 1) * p]]  # shared by the rows of A
            for j in np.flatnonzero(~sure[i]):
                used = np.flatnonzero(A[j])
                nearest[i, j] = settle(float(part[i, j]), A[j, used].tolist(), [draws[k] for k in used])
        out[start : start + size] = whole + nearest
    return out


def _filtered(part: Array, words: np.ndarray[tuple[int, ...], np.dtype[np.uint64]], A: Array) -> tuple[Array, Array]:
    """round(part + A z) and where it is certain, both (n, p).

    Over the row sum the error is Σⱼ |Aᵢⱼ| (ERROR + (p + 2) 2^-53 |zⱼ|), whatever the order of summation; doubled for
    the rounding of the bound itself.
    """
    n, p = part.shape
    T = split(words).reshape(n, p)
    rare = T < LEAST_TAIL
    with np.errstate(divide="ignore"):
        z = GAUSSIAN.quantile(T.ravel(), words).reshape(n, p)
    z[rare] = 0.0  # the rows of A that use it are refined
    f = z @ A.T
    f += part
    nearest = np.rint(f)
    bound = (ERROR + (p + 2) * 2.0**-52 * np.abs(z)) @ np.abs(A.T) + _ROUNDING
    sure = np.abs(f - nearest) < 0.5 - bound
    if rare.any():
        sure &= ~(rare.astype(np.float64) @ (A.T != 0)).astype(bool)
    return nearest, sure
