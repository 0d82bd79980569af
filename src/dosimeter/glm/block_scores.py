"""How well a model does on a table that is read in blocks: scores as ratios of two sums over rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import xlogy

from dosimeter.core.arrays import FloatArray
from dosimeter.glm.loss import Poisson, Squared
from dosimeter.glm.scalar_loss import TwoClassLoss


def score_terms(loss: Any, m: FloatArray, y: FloatArray, mean: float) -> FloatArray:
    """(2,) numerator and denominator of what the score of margins m (n,) needs; mean: of all targets.

    nan if the score of this loss is not such a ratio.
    """
    if isinstance(loss, TwoClassLoss):
        return np.array([float(np.sum((m > loss.threshold) == (y > 0.5))), float(len(y))])
    if isinstance(loss, Squared):
        return np.array([float(np.sum((y - m) ** 2)), float(np.sum((y - mean) ** 2))])
    if isinstance(loss, Poisson):
        with np.errstate(over="ignore"):
            deviance = float(np.sum(xlogy(y, y) - y * m - y + np.exp(m)))
        return np.array([deviance, float(np.sum(xlogy(y, y / mean)))])
    return np.full(2, np.nan)


def score_of(loss: Any, terms: FloatArray) -> float | None:
    """The score from the summed terms; None if it does not stream."""
    part, whole = terms
    if not np.isfinite(part) or not whole > 0:
        return None
    return float(part / whole) if isinstance(loss, TwoClassLoss) else float(1.0 - part / whole)
