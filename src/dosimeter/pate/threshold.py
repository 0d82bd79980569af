"""A noisy threshold before the noisy vote: answer only if maxⱼ vⱼ + N₀ >= T, and what that leaks.

The outcome "refused" is a letter of the output alphabet, so eq. 2 of [Saeidian21] reads

    L = log Σ_{y = refused, 1..m} max_a P(y | v⁻ + a),

a over the ways in which the unknown teacher, or a person with c votes, can vote (docs/explanation/pate.md, The
mechanism).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dosimeter.core.arrays import FloatArray
from dosimeter.core.by_law import ByLaw
from dosimeter.core.density import Density
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Gaussian, Laplace
from dosimeter.pate.bounds import data_independent_bound
from dosimeter.pate.histograms import Counts, as_shift
from dosimeter.pate.leakage import win_probabilities
from dosimeter.pate.vote_noise import as_law
from dosimeter.pate.votes import as_classes, check_histograms

ON_THRESHOLD = "on the threshold is not accounted here"


@dataclass(frozen=True)
class ThresholdNoise:
    """Properties of a law on the threshold."""

    worst: Callable[[float, float, int], float]
    """(scale, log B, c) -> the t >= -∞ at which B·P(N₀ >= t - c) + P(N₀ < t) is largest."""
    pure: bool
    """Whether a move by c is c/scale-DP."""


def _worst_laplace(scale: float, log_B: float, c: int) -> float:
    return -math.inf if log_B * scale >= c else (c - log_B * scale) / 2


def _worst_gaussian(scale: float, log_B: float, c: int) -> float:
    return c / 2 - scale**2 * log_B / c


THRESHOLD_NOISES: ByLaw[ThresholdNoise] = ByLaw(
    ON_THRESHOLD,
    {Laplace: ThresholdNoise(_worst_laplace, pure=True), Gaussian: ThresholdNoise(_worst_gaussian, pure=False)},
)
# T is a multiple of 2^-20 and below 2^31, so that max v - T is exact in float64.
_STEP = 2.0**-20
_MOST = 2.0**31
# Numbers in one temporary array: 8 MB.
_CELLS = 1 << 20


@dataclass(frozen=True)
class Threshold:
    """Answer a query only if maxⱼ vⱼ + N₀ >= T, with N₀ drawn for each query.

    Parameters
    ----------
    T : float
        Votes, rounded to 2^-20. Public and fixed in advance.
    noise : Density
        Noise N₀: Laplace or Gaussian.

    Raises
    ------
    Refusal
        If T is not a number, or the noise is another law.

    Examples
    --------
    >>> Threshold(150, Laplace(20.0))
    Threshold(T=150.0, noise=Laplace(b=20.0))
    """

    T: float
    """In votes, to the nearest 2^-20."""
    noise: Density
    """Of N₀: Laplace or Gaussian."""

    def __post_init__(self) -> None:
        votes: Any = self.T
        if isinstance(votes, bool) or not isinstance(votes, Real) or not abs(float(votes)) < _MOST:
            raise Refusal(f"threshold T={votes!r}: must be a number of votes, public and fixed in advance")
        if self.noise not in THRESHOLD_NOISES:
            raise Refusal(
                f"threshold noise must be Laplace or Gaussian, not {self.noise!r}: without noise a refusal "
                "reveals one vote at its boundary, log 2 nats"
            )
        object.__setattr__(self, "T", round(float(self.T) / _STEP) * _STEP)


def threshold_leakage(others: ArrayLike, noise: Density, threshold: Threshold, shift: int = 1) -> FloatArray:
    """Exact leakage of one answer or refusal.

    Parameters
    ----------
    others : array_like of shape (q, m)
        v⁻, the votes of the other teachers.
    noise : Density
        The noise of the vote.
    threshold : Threshold
        The noisy threshold before it.
    shift : int, default 1
        c, the votes that one person controls.

    Returns
    -------
    ndarray of shape (q,)
        Nats per query. Internal.

    Raises
    ------
    Refusal
        If an argument is out of range.
    CannotMeasure
        If the noise cannot be integrated.

    Notes
    -----
    Eq. 2 of [Saeidian21] with "refused" as an output. The sum f - 1 has only terms >= 0: relative to all votes on the
    leading class, the gain of a refusal plus the gain of each other class. Nothing cancels, so 1e-60 keeps its digits.

    Examples
    --------
    >>> threshold = Threshold(60, Laplace(20.0))
    >>> threshold_leakage([[59, 40, 0, 0]], Laplace(20.0), threshold).round(4)
    array([0.0272])
    """
    v, law, c = check_histograms(others), as_law(noise), as_shift(shift)
    unique, back = np.unique(-np.sort(-v, axis=1), axis=0, return_inverse=True)
    size = max(1, _CELLS // (c * v.shape[1] ** 2))
    blocks = [unique[i : i + size] for i in range(0, len(unique), size)]
    excess = np.concatenate([_excess(block, law, threshold, c) for block in blocks])
    return np.asarray(np.log1p(excess)[back.ravel()])


def threshold_bound(n_classes: int, noise: Density, threshold: Threshold, shift: int = 1) -> float:
    """Upper bound of the leakage of one answer or refusal, for any votes and any T.

    Parameters
    ----------
    n_classes : int
        m.
    noise : Density
        The noise of the vote.
    threshold : Threshold
        The noisy threshold before it.
    shift : int, default 1
        c, the votes that one person controls.

    Returns
    -------
    float
        Nats per query.

    Raises
    ------
    CannotMeasure
        If the threshold's noise is neither Laplace nor Gaussian.

    Notes
    -----
    log max_t B·P(N₀ >= t - c) + P(N₀ < t), B the bound of the vote alone: every y has max_a P(y|a) <= max_a
    P(answered|a) · max_a P(y|a, answered), and max v moves by at most c. With Laplace noise the maximum is log(1 + B -
    √B e^(-c/2b)) if log B <= c/b, and log B otherwise: refusals then cost nothing beyond the vote's bound.

    Examples
    --------
    >>> round(threshold_bound(10, Laplace(20.0), Threshold(60, Laplace(20.0))), 6)
    0.049937
    >>> round(threshold_bound(10, Laplace(20.0), Threshold(60, Laplace(10.0))), 6)
    0.073152
    """
    c, law = as_shift(shift), threshold.noise
    worst = THRESHOLD_NOISES[law].worst
    log_B = float(data_independent_bound(as_classes(n_classes), noise, shift=c))
    t = worst(law.scale, log_B, c)
    if t == -math.inf:
        return log_B
    answered = float(law.sf(t - c))
    return math.log1p(math.expm1(log_B) * answered + float(_mass(law, t - c, t)))


def free_threshold(T: float, noise: Density, n_classes: int, shift: int = 1) -> Threshold:
    """The threshold with the least Laplace noise that does not raise the data-independent bound.

    Parameters
    ----------
    T : float
        Votes.
    noise : Density
        The noise of the vote.
    n_classes : int
        m.
    shift : int, default 1
        c, the votes that one person controls.

    Returns
    -------
    Threshold

    Raises
    ------
    Refusal
        If an argument is out of range.

    Notes
    -----
    Scale c / log B, see `threshold_bound`.

    Examples
    --------
    >>> threshold = free_threshold(150, Laplace(20.0), n_classes=10)
    >>> round(threshold.noise.scale, 3)
    20.048
    >>> threshold_bound(10, Laplace(20.0), threshold) == data_independent_bound(10, Laplace(20.0))
    True
    """
    bound = float(data_independent_bound(as_classes(n_classes), noise, shift=shift))
    return Threshold(T, Laplace(as_shift(shift) / bound * (1 + 1e-12)))


def _excess(v: Counts, noise: Density, threshold: Threshold, c: int) -> FloatArray:
    """(u,) f - 1 for histograms sorted in falling order, (u, m)."""
    T, law = threshold.T, threshold.noise
    top = v[:, 0]
    gained = _mass(law, T - top - c, T - _least_top(v, c))
    reference = v.copy()
    reference[:, 0] += c
    # Classes with equal counts gain the same: compute one of each run and multiply by the run's length.
    first = np.ones(v.shape, dtype=np.bool_)
    first[:, 1:] = v[:, 1:] != v[:, :-1]
    first[:, 0], first[:, 1] = False, True
    row, y = np.nonzero(first)
    last = np.append(np.where(row[1:] == row[:-1], y[1:], v.shape[1]), v.shape[1])
    at_reference = win_probabilities(reference, noise)[row, y]
    best = np.zeros(len(row))
    for s in range(c):  # c - s votes on y, s on the leading class; s = c is the reference
        shifted = v[row]
        shifted[:, 0] += s
        shifted[np.arange(len(y)), y] += c - s
        answered = np.exp(law.logsf(T - shifted.max(axis=1)) - law.logsf(T - top[row] - c))
        best = np.maximum(best, answered * win_probabilities(shifted, noise)[np.arange(len(y)), y])
    terms = (last - y) * np.maximum(best - at_reference, 0.0)
    return np.asarray(gained + law.sf(T - top - c) * np.bincount(row, terms, minlength=len(v)))


def _least_top(v: Counts, c: int) -> Counts:
    """(u,) the lowest leading count after c more votes, spread over the classes."""
    level = -((-v.sum(axis=1) - c) // v.shape[1])
    return np.asarray(np.maximum(v[:, 0], level))


def _mass(law: Density, low: Any, high: Any) -> FloatArray:
    """P(low <= N < high) with full precision, in both tails and for short intervals."""
    a, b = np.minimum(low, 0.0), np.minimum(high, 0.0)
    left = law.cdf(b) * -np.expm1(law.logcdf(a) - law.logcdf(b))
    a, b = np.maximum(low, 0.0), np.maximum(high, 0.0)
    return np.asarray(left + law.sf(a) * -np.expm1(law.logsf(b) - law.logsf(a)))
