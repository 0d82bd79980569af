"""Receiver operating characteristics: of observed scores, and of two Gaussians (docs/explanation/attacks.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from dosimeter.core.arrays import FloatArray, Mask
from dosimeter.core.errors import Refusal


class Interval(NamedTuple):
    """A confidence interval.

    Attributes
    ----------
    low, high : float
        Its ends.
    level : float
        The share of repetitions in which it contains the true value.

    Examples
    --------
    >>> Interval(0.4, 0.7, 0.95).contains(0.5)
    True
    """

    low: float
    high: float
    level: float

    def contains(self, value: float) -> bool:
        """Whether the value lies within the interval, ends included."""
        return self.low <= value <= self.high


def proportion(hits: float, trials: float, level: float = 0.95) -> Interval:
    """Clopper-Pearson interval of a probability, from `hits` in `trials`, which need not be whole numbers.

    >>> round((1 - proportion(0, 10).high) ** 10, 9)      # no hits in ten trials
    0.025
    """
    if not (0 <= hits <= trials and trials > 0):
        raise Refusal(f"hits must lie between 0 and the number of trials, not {hits} of {trials}")
    tail = _tail(level)
    low = float(special.betaincinv(hits, trials - hits + 1, tail)) if hits > 0 else 0.0
    high = float(special.betainccinv(hits + 1, trials - hits, tail)) if hits < trials else 1.0
    return Interval(low, high, level)


def curve(members: FloatArray, strangers: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(t,) false and (t,) true positive rates as the threshold falls, from (0, 0) to (1, 1); one point for tied scores.

    >>> fpr, tpr = curve(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    >>> fpr.tolist(), tpr.tolist()
    ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0])
    """
    scores = np.concatenate([members, strangers])
    order = np.argsort(-scores, kind="stable")
    ranked, member = scores[order], (order < len(members)).astype(float)
    last = np.append(ranked[1:] != ranked[:-1], True)
    true, false = np.cumsum(member)[last], np.cumsum(1 - member)[last]
    return np.append(0.0, false / len(strangers)), np.append(0.0, true / len(members))


def auc(members: FloatArray, strangers: FloatArray, level: float = 0.95) -> tuple[float, Interval]:
    """P(member > stranger) + ½ P(equal), with DeLong's interval on the logit scale.

    If the scores separate all pairs or none, DeLong's variance is 0. The interval is then that of min(k, l) disjoint,
    hence independent, pairs.
    """
    above_strangers, above_members = _beats(members, strangers), _beats(strangers, members)
    figure = float(above_strangers.mean())
    k, l = len(members), len(strangers)
    if k < 2 or l < 2:
        raise Refusal(f"an interval needs at least two members and two strangers, not {k} and {l}")
    variance = float(above_strangers.var(ddof=1) / k + above_members.var(ddof=1) / l)
    if variance == 0 or figure in (0.0, 1.0):
        pairs = min(k, l)
        return figure, proportion(figure * pairs, pairs, level)
    reach = float(special.ndtri(1 - _tail(level))) * np.sqrt(variance) / (figure * (1 - figure))
    low, high = special.expit(special.logit(figure) + np.array([-reach, reach]))
    return figure, Interval(float(low), float(high), level)


def tpr_at(members: FloatArray, strangers: FloatArray, fpr: float, level: float = 0.95) -> tuple[float, Interval]:
    """True positive rate at the threshold that at most a share `fpr` of the strangers exceeds.

    The threshold is itself estimated. Half of the error rate is used for the order statistics that bracket the
    strangers' true quantile, half for the members above them (Clopper-Pearson), so the interval covers both.
    """
    s = len(strangers)
    if not 0 < fpr < 1 or fpr * s < 1:
        raise Refusal(f"a false positive rate of {fpr:g} needs at least {_strangers_needed(fpr)} strangers, not {s}")
    from scipy.stats import binom

    descending = np.sort(strangers)[::-1]
    figure = float(np.mean(members > descending[int(np.floor(fpr * s * (1 + 1e-12)))]))
    quarter = _tail(level) / 2
    few, many = int(binom.ppf(quarter, s, fpr)), int(binom.ppf(1 - quarter, s, fpr))
    strict = members > descending[few - 1] if few > 0 else np.zeros(len(members), dtype=bool)
    loose = members >= descending[many] if many < s else np.ones(len(members), dtype=bool)
    inner = 1 - 2 * quarter
    low = proportion(float(strict.sum()), len(members), inner).low
    return figure, Interval(low, proportion(float(loose.sum()), len(members), inner).high, level)


@dataclass(frozen=True, eq=False)
class TwoGaussians:
    """The exact ROC of the best test of N(0, 1), the strangers, against N(d, λ), the member; one test per row.

    Parameters
    ----------
    shift : array (n,)
        d >= 0, infinite if no noise protects the row.
    ratio : array (n,)
        λ > 0, the member's variance divided by the strangers'.

    Raises
    ------
    Refusal
        If the shapes differ, a shift is negative or a ratio is not positive and finite.

    Notes
    -----
    λ = 1 is the trade-off curve of d-GDP: AUC = Φ(d/√2), TPR = Φ(d + Φ⁻¹(FPR)). Otherwise the likelihood ratio is a
    parabola in the observation, and no single μ describes the curve (docs/explanation/attacks.md, 5).

    Examples
    --------
    >>> TwoGaussians(np.array([0.0, 1.0]), np.array([1.0, 1.0])).auc.round(4)
    array([0.5   , 0.7602])
    """

    shift: FloatArray
    ratio: FloatArray

    def __post_init__(self) -> None:
        d, lam = (np.array(v, dtype=np.float64) for v in (self.shift, self.ratio))
        if d.shape != lam.shape or not ((d >= 0) & (lam > 0) & np.isfinite(lam)).all():
            raise Refusal("each row needs a shift >= 0 and a finite ratio > 0")
        for name, value in (("shift", d), ("ratio", lam)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    @property
    def equal_variances(self) -> bool:
        """Whether the two variances are equal in every row, so that the shift is the μ of μ-GDP."""
        return bool((self.ratio == 1).all())

    @property
    def auc(self) -> FloatArray:
        """(n,) 1 - 2 T(d/√(1+λ), 2√λ/|1-λ|) with Owen's T; Φ(d/√2) at λ = 1."""
        d, lam = self.shift, self.ratio
        with np.errstate(divide="ignore"):
            slope = 2 * np.sqrt(lam) / np.abs(1 - lam)
        far = np.isinf(d)
        T = special.owens_t(np.where(far, 0.0, d) / np.sqrt(1 + lam), slope)
        return np.asarray(np.where(far, 1.0, 1 - 2 * T))

    def tpr(self, fpr: float) -> FloatArray:
        """(n,) true positive rate of the best test with this false positive rate."""
        if not 0 < fpr < 1:
            raise Refusal(f"a false positive rate must lie between 0 and 1, not {fpr}")
        d, lam = self.shift, self.ratio
        far = np.isinf(d)
        d = np.where(far, 0.0, d)
        one_sided = special.ndtr(d + special.ndtri(fpr))
        if self.equal_variances:
            return np.asarray(np.where(far, 1.0, one_sided))
        unequal = lam != 1
        centre = d / np.where(unequal, 1 - lam, 1.0)
        inside = lam < 1
        near = _solve(lambda s: _region(s, 2 * centre - s, inside), fpr, centre, inside)
        scale = np.sqrt(lam)
        two_sided = _region((near - d) / scale, (2 * centre - near - d) / scale, inside)
        return np.asarray(np.where(far, 1.0, np.where(unequal, two_sided, one_sided)))


def _region(near: FloatArray, other: FloatArray, inside: Mask) -> FloatArray:
    """P(near < t < other) of a standard Gaussian where `inside`, else P(t > near or t < other)."""
    upper = special.ndtr(-near)
    return np.asarray(np.where(inside, upper - special.ndtr(-other), upper + special.ndtr(other)))


def _solve(rate: Any, fpr: float, centre: FloatArray, inside: Mask) -> FloatArray:
    """(n,) where a decreasing rate equals `fpr`, by bisection between points beyond any float64 probability."""
    low = np.where(inside, -40.0, np.maximum(centre, -40.0))
    high = np.where(inside, np.minimum(centre, 40.0), 40.0)
    for _ in range(80):
        middle = (low + high) / 2
        above = rate(middle) > fpr
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.asarray((low + high) / 2)


def _beats(scores: FloatArray, others: FloatArray) -> FloatArray:
    """(k,) share of the others below each score, ties counted half."""
    ranked = np.sort(others)
    below = np.searchsorted(ranked, scores, "left") + np.searchsorted(ranked, scores, "right")
    return np.asarray(below / (2 * len(others)))


def _tail(level: float) -> float:
    if not 0 < level < 1:
        raise Refusal(f"a confidence level must lie between 0 and 1, not {level}")
    return (1 - level) / 2


def _strangers_needed(fpr: float) -> str:
    return f"{int(np.ceil(1 / fpr))}" if 0 < fpr < 1 else "1/rate (with a rate between 0 and 1)"
