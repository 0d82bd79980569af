"""Gumbel noise: the noisy vote is a softmax, the exponential mechanism, with everything in closed form."""

from __future__ import annotations

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.density import Density
from dosimeter.pate.histograms import Counts


def excess(gaps: Counts, weights: Counts | None, law: Density, c: int) -> FloatArray:
    """(u,) (e^c - 1) Σ p(1 - p)/(1 + p(e^c - 1)), p the softmax of v⁻/s and c in scales; nothing cancels."""
    multiplicity = np.concatenate(
        [np.ones_like(gaps[:, :1]), np.ones_like(gaps) if weights is None else weights], axis=1
    )
    d = np.concatenate([np.zeros_like(gaps[:, :1]), gaps], axis=1) / law.scale
    e, lift = np.exp(-d), c / law.scale
    whole = np.sum(multiplicity * e, axis=1, keepdims=True)
    after = np.sum(multiplicity[:, 1:] * e[:, 1:], axis=1, keepdims=True)
    others = np.concatenate([after, whole - e[:, 1:]], axis=1)  # 1 - p of the first would cancel
    with np.errstate(over="ignore"):
        terms = -np.expm1(-lift) * others / whole / (whole * np.exp(d - lift) - np.expm1(-lift))
    return np.asarray(np.sum(multiplicity * terms, axis=1))


def wins(gaps: Counts, weights: Counts | None, law: Density) -> FloatArray:
    """(u, k) the softmax of one class of each count."""
    e = np.exp(-gaps / law.scale)
    return np.asarray(e / np.sum(e if weights is None else weights * e, axis=1, keepdims=True))
