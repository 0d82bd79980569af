"""Largest eigenvalue of a diagonal with a part of low rank, diag(D) + F Fᵀ − q qᵀ, above a known floor.

For μ above D₀ put E = (μ − D)⁻¹. μ bounds the matrix if and only if the largest eigenvalue of
Fᵀ(E − E q qᵀE / (1 + qᵀE q))F, which falls with μ, is at most one. 1 over it is nearly linear in μ, so few steps find
the root; each costs O(p t²) for F (p, t) instead of the O(p³) of a decomposition.
"""

from __future__ import annotations

import numpy as np

from dosimeter.core.arrays import FloatArray

TOUCHING = 1e-13
"""Relative distance from the largest entry of D at which the method starts."""


def largest_eigenvalue(D: FloatArray, F: FloatArray, q: FloatArray, floor: float) -> float:
    """max(floor, λ₁) of diag(D) + F Fᵀ − q qᵀ, which must not be indefinite; D (p,) descending, F (p, t), q (p,).

    >>> largest_eigenvalue(np.array([2.0, 1.0]), np.array([[0.0], [2.0]]), np.zeros(2), 0.0)
    5.0
    """
    if not F.shape[1]:
        return max(floor, float(D[0]) if not q.any() else _dense(D, F, q))
    start = max(floor, float(D[0]))
    rise = float(np.linalg.eigvalsh(F.T @ F)[-1])
    if rise <= 0.0:
        return start if not q.any() or floor >= D[0] else max(floor, _dense(D, F, q))
    gap, low = start - D, TOUCHING * (start + rise)

    def excess(delta: float) -> float:
        """1/λ₁ − 1 of the small matrix at μ = start + δ."""
        E = 1.0 / (gap + delta)
        scaled = E[:, None] * F
        reduced = F.T @ scaled
        along = scaled.T @ q
        reduced -= np.outer(along, along) / (1.0 + float(q @ (E * q)))
        top = float(np.linalg.eigvalsh(reduced)[-1])
        return 1.0 / top - 1.0 if top > 0 else np.inf

    if excess(low) >= 0.0:  # nothing above the start; the eigenvalue may be below D₀ if q is there
        return start if floor >= D[0] or not q.any() else max(floor, _dense(D, F, q))
    high = max(rise * (1.0 + 1e-12), 2 * low)
    if excess(high) <= 0.0:
        return start + high
    from scipy.optimize import brentq

    return start + float(brentq(excess, low, high, xtol=1e-14 * (start + rise), rtol=1e-14))


def _dense(D: FloatArray, F: FloatArray, q: FloatArray) -> float:
    return float(np.linalg.eigvalsh(np.diag(D) + F @ F.T - np.outer(q, q))[-1])
