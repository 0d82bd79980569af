"""Largest eigenvalues of many matrices diag(D) + W Σ Wᵀ with a small Σ of either sign, by counting.

With Σ = diag(±1) the block matrix [[μ − D, W], [Wᵀ, Σ]] has two Schur complements, so by Sylvester's law of inertia

    eigenvalues above μ = #{D > μ} + neg(Σ − Wᵀ(μ − D)⁻¹W) − neg(Σ),

which needs matrices of the size of Σ only. Halving an interval with it costs O(p t²) a step, and it does not matter
whether the largest eigenvalue lies above the largest entry of D or, pushed down by a negative part, below it.
"""

from __future__ import annotations

import numpy as np

from dosimeter.core.arrays import FloatArray

HALVINGS = 56
"""Of an interval that is at most a few thousand times as long as the eigenvalue: more digits than float64 has."""


def largest_by_counting(D: FloatArray, W: FloatArray, core: FloatArray) -> FloatArray:
    """(k,) the largest eigenvalue of each diag(D) + W core Wᵀ; D (k, p), W (k, p, t), core (k, t, t) symmetric.

    The matrices must not be indefinite: the smallest answer is zero.

    >>> D, W = np.array([[2.0, 1.0]]), np.array([[[0.0], [2.0]]])
    >>> largest_by_counting(D, W, np.array([[[1.0]]])).round(9).tolist()
    [5.0]
    """
    values, vectors = np.linalg.eigh(core)
    signs = np.where(values < 0.0, -1.0, 1.0)
    W = (W @ vectors) * np.sqrt(np.abs(values))[:, None, :]
    sizes = np.einsum("kpt,kpt->kt", W, W)
    high = D.max(axis=1) + np.sum(np.where(signs > 0, sizes, 0.0), axis=1)
    low = np.zeros(len(D))
    negative = np.sum(signs < 0, axis=1)
    small = np.eye(core.shape[1]) * signs[:, None, :]
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        gap = middle[:, None] - D
        # A middle that meets an entry of D exactly is moved by a rounding unit.
        gap = np.where(gap == 0.0, np.finfo(float).eps * (high[:, None] + np.finfo(float).tiny), gap)
        reduced = small - (W / gap[:, :, None]).transpose(0, 2, 1) @ W
        above = np.sum(gap < 0, axis=1) + np.sum(np.linalg.eigvalsh(reduced) < 0, axis=1) - negative
        low, high = np.where(above > 0, middle, low), np.where(above > 0, high, middle)
        if (high - low <= 4e-16 * high).all():
            break
    return np.asarray(0.5 * (low + high))
