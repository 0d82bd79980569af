"""What canaries prove about ε, beside what the accountant says (docs/explanation/federated.md, Audit)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dosimeter.attacks.result import AttackResult
from dosimeter.attacks.roc import Interval, proportion
from dosimeter.core.arrays import FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class CanaryAudit(AttackResult):
    """A lower bound on ε from canaries, beside the accounted ε, and every broken promise found in the public rounds.

    Returned by `audit`.

    Parameters
    ----------
    members : (k,) array
        Log likelihood ratios of the enrolled canaries.
    strangers : (k,) array
        The same for coordinates without an owner.
    allowed : (2, g) array
        The accountant's curve: values of ε, and δ at each.
    accounted_epsilon : float
        ε at `delta` by the accountant.
    delta : float
        δ at which ε is bounded.
    noise_ratio : float
        Observed standard deviation of the noise over the one that was accounted.
    findings : tuple of str
        What the rounds did that they should not, one sentence each; empty if the audit found nothing.
    level : float, default 0.95
        Confidence level of `interval`.

    Notes
    -----
    The test is chosen on every second score and counted on the others, so the reported test is fixed in advance.
    Both error rates get half of the error probability (Clopper-Pearson).

    Examples
    --------
    >>> scores = np.linspace(0.0, 1.0, 40)
    >>> result = CanaryAudit(scores, scores, np.array([[0.0], [0.0]]), accounted_epsilon=1.0, delta=1e-3)
    >>> result.interval.low, result.sound
    (0.0, True)
    """

    members: FloatArray
    strangers: FloatArray
    allowed: FloatArray
    accounted_epsilon: float
    delta: float
    noise_ratio: float = 1.0
    findings: tuple[str, ...] = ()
    level: float = 0.95
    attack: str = "canaries"
    how: str = "likelihood ratio over all rounds, one coordinate per canary"

    measure: ClassVar[str] = "ε"

    @property
    def figure(self) -> float:
        """The least ε at δ that the observed rates allow; never negative."""
        true, false, k = self._counts(*_best(self._half(0), self._bound))
        return _epsilon(true / k, max(false, 0.5) / k, self.delta)

    @property
    def interval(self) -> Interval:
        """[ε that the test proves at δ with this confidence, infinity): an attack gives no upper bound."""
        low, high = self._rates(*_best(self._half(0), self._bound))
        return Interval(_epsilon(low, high, self.delta), math.inf, self.level)

    @property
    def excess(self) -> float:
        """TPR - e^ε FPR - δ(ε), at the ε where the tuning half of the scores has the most; above 0 it proves a breach.

        Much stronger than the ε at one small δ: hundreds of canaries say little about events of probability 1e-5, and
        much about the middle of the curve.
        """
        test = _best(self._half(0), self._over)
        tuning_rates = _rates_of(self._half(0), *test, self.level)
        place = int(np.argmax(_excesses(*tuning_rates, self.allowed)))
        return float(_excesses(*self._rates(*test), self.allowed)[place])

    @property
    def control_figure(self) -> float:
        """ε of an attacker who never sees a model: 0."""
        return 0.0

    @property
    def sound(self) -> bool:
        """True if the attack stays below the accounted ε and the rounds keep their promises."""
        return self.interval.low <= self.accounted_epsilon and self.excess <= 0 and not self.findings

    def _half(self, which: int) -> tuple[FloatArray, FloatArray]:
        return self.members[which::2], self.strangers[which::2]

    def _counts(self, sign: int, cut: float) -> tuple[int, int, int]:
        return _counts_of(self._half(1), sign, cut)

    def _rates(self, sign: int, cut: float) -> tuple[float, float]:
        return _rates_of(self._half(1), sign, cut, self.level)

    def _bound(self, low: float, high: float) -> float:
        return _epsilon(low, high, self.delta)

    def _over(self, low: float, high: float) -> float:
        return float(_excesses(low, high, self.allowed).max())


def _epsilon(true: float, false: float, delta: float) -> float:
    """The least ε >= 0 with true <= e^ε false + δ."""
    return max(0.0, math.log((true - delta) / false)) if true > delta else 0.0


def _excesses(true: float, false: float, allowed: FloatArray) -> FloatArray:
    """(g,) TPR - e^ε FPR - δ(ε) along the accountant's curve."""
    return np.asarray(true - np.exp(allowed[0]) * false - allowed[1])


def _counts_of(scores: tuple[FloatArray, FloatArray], sign: int, cut: float) -> tuple[int, int, int]:
    """True and false positives among k scores of each kind. Sign -1 tests for absence instead."""
    hits = [int((sign * s > cut).sum()) for s in (scores if sign > 0 else scores[::-1])]
    return hits[0], hits[1], len(scores[0])


def _rates_of(scores: tuple[FloatArray, FloatArray], sign: int, cut: float, level: float) -> tuple[float, float]:
    """Lower bound of the true positive rate and upper bound of the false positive rate, each at half of the error."""
    true, false, k = _counts_of(scores, sign, cut)
    return proportion(true, k, level).low, proportion(false, k, level).high


def _best(scores: tuple[FloatArray, FloatArray], value: Callable[[float, float], float]) -> tuple[int, float]:
    """(sign, cut) of the test with the highest value of its rates, among 64 cuts in each direction."""
    members, strangers = scores
    tests = [
        (sign, float(cut))
        for sign, reference in ((1, strangers), (-1, members))
        for cut in np.quantile(sign * reference, np.linspace(0.02, 1.0, 64))
    ]
    return max(tests, key=lambda test: value(*_rates_of(scores, test[0], test[1], 0.95)))
