"""A noisy threshold before the noisy vote: answer only where maxⱼ vⱼ + N₀ >= T, and what that leaks.

The outcome "refused" is a letter of the output alphabet, so eq. 2 of [Saeidian21] reads

    L = log Σ_{y = refused, 1..m} max_a P(y | v⁻ + a),

a over the ways in which the unknown teacher, or a person with c votes, can vote (docs/pate.md, The mechanism).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dosimeter.core.arrays import FloatArray
from dosimeter.core.density import Density
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Gaussian, Laplace
from dosimeter.pate.bounds import data_independent_bound
from dosimeter.pate.histograms import Counts, as_law, as_shift
from dosimeter.pate.leakage import win_probabilities
from dosimeter.pate.votes import as_classes, check_histograms

# T is kept in steps of 2^-20 and below 2^31, so that max v - T is exact in float64.
_STEP = 2.0**-20
_MOST = 2.0**31
# Numbers in one temporary array: 8 MB.
_CELLS = 1 << 20


@dataclass(frozen=True)
class Threshold:
    """Answer where maxⱼ vⱼ + N₀ >= T; N₀ is drawn for each query. T is public and fixed beforehand.

    >>> Threshold(150, Laplace(20.0))
    Threshold(T=150.0, noise=Laplace(b=20.0))
    """

    T: float
    """In votes, to the nearest 2^-20."""
    noise: Density
    """Of N₀: Laplace or Gaussian."""

    def __post_init__(self) -> None:
        given: Any = self.T
        if isinstance(given, bool) or not isinstance(given, Real) or not abs(float(given)) < _MOST:
            raise Refusal(f"threshold T={given!r}: must be a number of votes, public and fixed beforehand")
        if type(self.noise) not in (Laplace, Gaussian):  # a law derived from one of them may have another density
            raise Refusal(
                f"threshold noise must be Laplace or Gaussian, not {self.noise!r}: without noise a refusal "
                "tells one vote at its boundary, log 2 nats"
            )
        object.__setattr__(self, "T", round(float(self.T) / _STEP) * _STEP)


def threshold_leakage(others: ArrayLike, noise: Density, threshold: Threshold, shift: int = 1) -> FloatArray:
    """Exact leakage of one answer-or-refusal about `shift` votes; (q, m) v⁻ -> (q,) nats. Internal.

    As a sum of terms >= 0: with all votes on the leading class for reference, f - 1 is what a refusal gains plus what
    each other class gains, so that nothing cancels and 1e-60 keeps its digits.

    >>> at = Threshold(60, Laplace(20.0))
    >>> threshold_leakage([[59, 40, 0, 0]], Laplace(20.0), at).round(4)
    array([0.0272])
    """
    v, law, c = check_histograms(others), as_law(noise), as_shift(shift)
    unique, back = np.unique(-np.sort(-v, axis=1), axis=0, return_inverse=True)
    size = max(1, _CELLS // (c * v.shape[1] ** 2))
    blocks = [unique[i : i + size] for i in range(0, len(unique), size)]
    excess = np.concatenate([_excess(block, law, threshold, c) for block in blocks])
    return np.asarray(np.log1p(excess)[back.ravel()])


def threshold_bound(n_classes: int, noise: Density, threshold: Threshold, shift: int = 1) -> float:
    """sup over all v⁻ and T, nats, an upper bound: log max_t B·P(N₀ >= t - c) + P(N₀ < t), B that of the vote alone.

    Every y has max_a P(y|a) <= max_a P(answered|a) · max_a P(y|a, answered), and max v moves by c at most. Under
    Laplace noise the maximum is log(1 + B - √B e^(-c/2b)) where log B <= c/b, and log B otherwise: the refusals then
    cost nothing beyond the vote's own bound.

    >>> round(threshold_bound(10, Laplace(20.0), Threshold(60, Laplace(20.0))), 6)
    0.049937
    >>> round(threshold_bound(10, Laplace(20.0), Threshold(60, Laplace(10.0))), 6)
    0.073152
    """
    c, law = as_shift(shift), threshold.noise
    if type(law) not in (Laplace, Gaussian):
        raise CannotMeasure(f"{law} on the threshold has no bound here: use Laplace or Gaussian")
    log_B = float(data_independent_bound(as_classes(n_classes), noise, shift=c))
    if isinstance(law, Laplace):
        if log_B * law.b >= c:
            return log_B
        t = (c - log_B * law.b) / 2
    else:
        t = c / 2 - law.scale**2 * log_B / c
    answered = float(law.sf(t - c))
    return math.log1p(math.expm1(log_B) * answered + float(_mass(law, t - c, t)))


def free_threshold(T: float, noise: Density, n_classes: int, shift: int = 1) -> Threshold:
    """The threshold with the least Laplace noise that does not raise the data-independent bound.

    >>> at = free_threshold(150, Laplace(20.0), n_classes=10)
    >>> round(at.noise.scale, 3), threshold_bound(10, Laplace(20.0), at) == data_independent_bound(10, Laplace(20.0))
    (20.048, True)
    """
    bound = float(data_independent_bound(as_classes(n_classes), noise, shift=shift))
    return Threshold(T, Laplace(as_shift(shift) / bound * (1 + 1e-12)))


def _excess(v: Counts, noise: Density, threshold: Threshold, c: int) -> FloatArray:
    """(u,) f - 1 for histograms sorted downwards, (u, m)."""
    T, law = threshold.T, threshold.noise
    top = v[:, 0]
    gained = _mass(law, T - top - c, T - _least_top(v, c))
    reference = v.copy()
    reference[:, 0] += c
    # Classes with equal counts gain alike: one of each run is computed and counted as often as the run is long.
    first = np.ones(v.shape, dtype=np.bool_)
    first[:, 1:] = v[:, 1:] != v[:, :-1]
    first[:, 0], first[:, 1] = False, True
    row, y = np.nonzero(first)
    last = np.append(np.where(row[1:] == row[:-1], y[1:], v.shape[1]), v.shape[1])
    alone = win_probabilities(reference, noise)[row, y]
    most = np.zeros(len(row))
    for s in range(c):  # c - s votes on y, s on the leading class; s = c is the reference
        moved = v[row]
        moved[:, 0] += s
        moved[np.arange(len(y)), y] += c - s
        answered = np.exp(law.logsf(T - moved.max(axis=1)) - law.logsf(T - top[row] - c))
        most = np.maximum(most, answered * win_probabilities(moved, noise)[np.arange(len(y)), y])
    terms = (last - y) * np.maximum(most - alone, 0.0)
    return np.asarray(gained + law.sf(T - top - c) * np.bincount(row, terms, minlength=len(v)))


def _least_top(v: Counts, c: int) -> Counts:
    """(u,) the lowest leading count that c more votes can leave, spread over the classes."""
    level = -((-v.sum(axis=1) - c) // v.shape[1])
    return np.asarray(np.maximum(v[:, 0], level))


def _mass(law: Density, low: Any, high: Any) -> FloatArray:
    """P(low <= N < high) with all its digits, in both tails and for short intervals."""
    a, b = np.minimum(low, 0.0), np.minimum(high, 0.0)
    left = law.cdf(b) * -np.expm1(law.logcdf(a) - law.logcdf(b))
    a, b = np.maximum(low, 0.0), np.maximum(high, 0.0)
    return np.asarray(left + law.sf(a) * -np.expm1(law.logsf(b) - law.logsf(a)))
