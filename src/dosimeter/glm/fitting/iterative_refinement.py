"""Residuals of a least-squares fit to full relative precision, where plain ones cancel.

A table that is fitted almost perfectly, or a target that is large relative to its noise, has residuals of the size of
rounding, and H⁻¹ (up to cond(X)² large) multiplies them in the Jacobian. So w is kept as a sum of two float64 numbers
and Xw - y is computed by slices: iterative refinement with the residual in doubled precision (Björck 1967), in which
the correction is -A (Zᵀ diag(ω) r + AᵀΛw).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.engine import Engine, RowBlock
from dosimeter.glm.linalg.exact_product import exact_product
from dosimeter.glm.linalg.inverse_hessian import Factor, times

ROUNDS = 4
"""Each gains about as many digits as the factor has correct: two are enough, four cost little."""


def cancels(residual: FloatArray, reach: float) -> bool:
    """Whether plain residuals, of error about ε·reach, have lost more than four of their sixteen digits."""
    return reach > 1e4 * float(np.sqrt(np.mean(residual**2)))


def refine(
    w: FloatArray, blocks: Sequence[RowBlock], penalty: FloatArray, factor: Factor, engine: Engine
) -> tuple[FloatArray, FloatArray]:
    """w (p,) rounded once, and the residuals Xw - y (n,), of the squared loss; blocks hold (X, y, weight[, offset])."""
    high, low = w, np.zeros_like(w)
    for _ in range(ROUNDS):
        weights = high, low
        (g,) = engine.sum_over(blocks, lambda b, w=weights: (factor.rows(b[0]).T @ (b[2] * residual(b, *w)),))  # type: ignore[misc]
        g = g + factor.columns(np.diag(penalty)) @ (high + low)
        high, low = two_sum(high, low - factor.matrix @ g)
    return high, np.concatenate(engine.map_over(blocks, lambda b: residual(b, high, low)))


def residual(block: RowBlock, high: FloatArray, low: FloatArray) -> FloatArray:
    """X(high + low) - y (n,), plus the offset if the block has one, with the cancellation exact."""
    X, y, offset = block[0], block[1], block[3:]
    ones = [np.ones(len(X))] if len(high) > X.shape[1] else []
    with_target = np.column_stack([X, *ones, y, *offset])
    main = exact_product(with_target, np.concatenate([high, [-1.0], [1.0] * len(offset)])[:, None])[:, 0]
    return np.asarray(main + times(X, low[:, None])[:, 0])


def two_sum(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """a + b as a rounded sum and its rounding error (Knuth)."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)
