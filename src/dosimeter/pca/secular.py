"""Largest eigenvalues of many small matrices, diagonal and rank one, O(d) per step and row (docs/explanation/pca.md).

Both equations have the form 1/φ with φ a sum of poles on one side: concave and increasing. Newton's method from the
left of the root therefore never overshoots, and doubles its digits.
"""

from __future__ import annotations

import numpy as np

from dosimeter.core.arrays import FloatArray

_STEPS = 100
_CLOSE = 1e-15


def diagonal_plus_rank_one(D: FloatArray, y: FloatArray) -> FloatArray:
    """(n,) λ₁ of diag(D) + y yᵀ for each row of D and y (n, d).

    λ = max D + s, where s is the root of Σ y²/(s + max D - D) = 1.

    >>> diagonal_plus_rank_one(np.array([[1.0, 1.0]]), np.array([[3.0, 4.0]])).tolist()
    [26.0]
    """
    top = D.max(axis=1)
    gap = top[:, None] - D
    squares = y * y
    size = top + squares.sum(axis=1)
    # λ is at least every diagonal entry. The minimum keeps a row with y = 0 in its largest column off the pole.
    s = np.maximum((D + squares).max(axis=1) - top, _CLOSE * np.abs(size) + np.finfo(np.float64).tiny)
    for _ in range(_STEPS):
        poles = squares / (s[:, None] + gap)
        g = poles.sum(axis=1)
        slope = (poles / (s[:, None] + gap)).sum(axis=1)
        step = np.divide(g * (g - 1), slope, out=np.zeros_like(s), where=(slope > 0) & (g > 1))
        s += step
        if (step <= _CLOSE * (np.abs(top) + s)).all():
            break
    return np.asarray(top + s)


def projected_diagonal_eigenvalue(p: FloatArray) -> FloatArray:
    """(n,) t₁, the largest eigenvalue of P diag(p) P, P = I - √p√pᵀ, for each row of p >= 0 that sums to 1.

    It is the root of Σ p/(p - t) = 0 between the two largest p. `fisher` needs it for rows of fixed length, which can
    move only across their own direction √p.

    >>> projected_diagonal_eigenvalue(np.array([[0.5, 0.5], [1.0, 0.0]])).tolist()
    [0.5, 0.0]
    """
    n, d = p.shape
    if d == 1:
        return np.zeros(n)
    order = np.partition(p, d - 2, axis=1)
    first, second = order[:, -1], order[:, -2]
    rest = order[:, :-1]
    t = 2 * first * second / (first + second)  # the root if there were only these two; left of the true root
    for _ in range(_STEPS):
        gap = t[:, None] - rest
        poles = np.divide(rest, gap, out=np.zeros_like(rest), where=gap > 0)
        phi = poles.sum(axis=1)
        slope = np.divide(poles, gap, out=np.zeros_like(rest), where=gap > 0).sum(axis=1)
        live = (phi > 0) & (t < first) & (t > second)
        inverse = np.divide(1.0, phi, out=np.zeros(n), where=live)
        height = inverse - 1 + t / first
        step = np.where(live & (height < 0), -height / (slope * inverse**2 + 1 / first), 0.0)
        t += step
        if (step <= _CLOSE * t).all():
            break
    return np.asarray(np.minimum(t, first))
