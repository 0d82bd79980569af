"""How well a model does on a table that is read in blocks: scores as ratios of two sums over rows.

    accuracy    Σ P(correct side of the threshold) / n
    R², D²      1 - Σ E d(y, m) / Σ d(y, mean)          d: squared error, or the deviance of the loss

The expectation is over Gaussian noise of some variance on each margin, as in `cross_validation`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr, xlogy

from dosimeter.core.arrays import FloatArray
from dosimeter.glm.losses.count_losses import NegativeBinomial
from dosimeter.glm.losses.loss import Poisson
from dosimeter.glm.losses.margin_losses import RobustRegression
from dosimeter.glm.losses.positive_losses import PowerVariance
from dosimeter.glm.losses.scalar_loss import TwoClassLoss


def score_terms(loss: Any, m: FloatArray, y: FloatArray, mean: float, variance: FloatArray | None = None) -> FloatArray:
    """(2,) numerator and denominator of what the score of margins m (n,) needs; mean: of all targets.

    variance: (n,) of Gaussian noise on the margins, None for none. nan if the score of this loss is not such a ratio.
    """
    moved = np.zeros_like(m) if variance is None else variance
    if isinstance(loss, TwoClassLoss):
        return np.array([_correct(loss, m, y, variance), float(len(y))])
    if loss.quadratic or isinstance(loss, RobustRegression):
        return np.array([float(np.sum((y - m) ** 2 + moved)), float(np.sum((y - mean) ** 2))])
    if isinstance(loss, Poisson):
        with np.errstate(over="ignore"):
            deviance = float(np.sum(xlogy(y, y) - y * m - y + np.exp(m + moved / 2)))
        return np.array([deviance, float(np.sum(xlogy(y, y / mean)))])
    if isinstance(loss, PowerVariance) and loss.lowest_margin == -np.inf:
        with np.errstate(over="ignore"):
            return np.array([loss.deviance(y, m, moved), loss.null_deviance(y, mean)])
    if isinstance(loss, NegativeBinomial) and variance is None:
        return np.array([loss.deviance(y, m), loss.deviance(y, np.full_like(y, np.log(mean)))])
    return np.full(2, np.nan)


def _correct(loss: TwoClassLoss, m: FloatArray, y: FloatArray, variance: FloatArray | None) -> float:
    """Rows on the correct side of the threshold, or their expected number."""
    if variance is None:
        return float(np.sum((m > loss.threshold) == (y > 0.5)))
    side = np.where(y > 0.5, m - loss.threshold, loss.threshold - m)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.sum(np.where(variance > 0, ndtr(side / np.sqrt(variance)), side > 0)))


def score_of(loss: Any, terms: FloatArray) -> float | None:
    """The score from the summed terms; None if it does not stream, -inf if an overflow made it so."""
    part, whole = terms
    if np.isnan(part) or not whole > 0:
        return None
    return float(part / whole) if isinstance(loss, TwoClassLoss) else float(1.0 - part / whole)
