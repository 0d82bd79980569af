"""Products X T whose entries cancel: slices of few bits, multiplied exactly, added from the smallest.

At condition number κ the rows of X T have norm about 1 while |X||T| is about κ, so a plain product has relative error
ε κ: 1e-4 at κ = 1e12. Here each factor is cut into slices of a few bits below the largest entry of its row (column). A
product of two slices and its sum over the inner index fit into the 53 bits of a float64, so BLAS computes them without
rounding (the error-free transformation of Ozaki, Ogita, Oishi and Rump, 2012).
"""

from __future__ import annotations

import numpy as np

from dosimeter.core.arrays import FloatArray

SLICES = 4


def _slices(x: FloatArray, axis: int, bits: int) -> list[FloatArray]:
    """Slices of x, each on a grid `bits` below the largest entry along `axis`; they add up to x to SLICES·bits bits."""
    out = []
    rest = x
    largest = np.abs(x).max(axis=axis, keepdims=True)
    _, exponent = np.frexp(np.where(largest > 0, largest, 1.0))
    for k in range(SLICES):
        # Adding and subtracting 1.5·2^e rounds to the grid 2^(e-52) by the rules of IEEE arithmetic.
        anchor = np.ldexp(1.5, exponent - (k + 1) * bits + 52)
        head = (rest + anchor) - anchor
        out.append(head)
        rest = rest - head
    return out


def exact_product(X: FloatArray, T: FloatArray) -> FloatArray:
    """X T, (n, p) by (p, k), with error about p 2^(-SLICES·bits) of the largest term |xⱼ tⱼ| of an entry."""
    # Columns of different size: move powers of two from T to X, without rounding, so that slices follow the terms.
    _, exponent = np.frexp(np.abs(T).max(axis=1))
    X, T = np.ldexp(X, exponent), np.ldexp(T, -exponent[:, None])
    bits = (52 - int(np.ceil(np.log2(max(2, X.shape[1]))))) // 2
    left, right = _slices(X, 1, bits), _slices(T, 0, bits)
    total = np.zeros((X.shape[0], T.shape[1]))
    carry = np.zeros_like(total)
    for order in range(2 * SLICES - 2, -1, -1):
        for i in range(max(0, order - SLICES + 1), min(order, SLICES - 1) + 1):
            term = left[i] @ right[order - i]
            # TwoSum (Knuth): the rounding error of every addition is kept and added at the end.
            new = total + term
            shadow = new - total
            carry += (total - (new - shadow)) + (term - shadow)
            total = new
    return total + carry
