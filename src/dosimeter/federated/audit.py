"""The audit: canary clients try to be seen in a whole training, and the rounds are compared with what they promise.

Canary j owns coordinate j: it sends a huge multiple of e_j, so that after clipping it moves that coordinate by C, the
most a client may. As many coordinates have no owner. All of them carry independent noise, so one training tests
hundreds of memberships at once. Somebody who sees every released model scores each coordinate by the likelihood ratio
of "its owner was enrolled", which is the best there is, and the scores bound ε from below (docs/federated.md, Audit).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import chdtri, ndtri

from dosimeter.attacks.result import AttackResult
from dosimeter.attacks.roc import Interval, proportion
from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.checks import number, whole
from dosimeter.core.errors import Refusal
from dosimeter.federated.accountant import as_delta
from dosimeter.federated.client_messages import UpdateBatch
from dosimeter.federated.client_sampling import PoissonSampling
from dosimeter.federated.curator import Curator, Generator
from dosimeter.federated.state import State

_FREE = 16
"""Coordinates in which the other clients work."""
_LOUD = 1e6
"""A canary sends so many times C."""
_CHUNK = 64
_EPSILONS = tuple(float(e) for e in np.linspace(0.0, 8.0, 33))
"""Where the accountant's curve is compared."""
_ERROR = 1e-6
"""Each test of the noise and the clip is wrong in so many sound trainings."""


@dataclass(frozen=True, eq=False, repr=False)
class CanaryAudit(AttackResult):
    """ε from below, beside the ε that was accounted; and everything in the public rounds that is not as promised.

    Tests are chosen on every second score and counted on the others, so that what is read is one test fixed beforehand.
    Both error rates get half of the error probability (Clopper–Pearson).
    """

    members: FloatArray
    """(k,) log likelihood ratios of the canaries who were enrolled."""
    strangers: FloatArray
    """(k,) and of coordinates without an owner."""
    allowed: FloatArray
    """(2, g) the accountant's curve: values of ε, and δ at each."""
    accounted: float
    """ε at `delta` by the accountant."""
    delta: float
    noise_ratio: float = 1.0
    """Deviation of the noise that was heard over the one the accountant was told."""
    findings: tuple[str, ...] = ()
    """What the rounds do not keep of their promise, in words; empty where all is well."""
    level: float = 0.95
    attack: str = "canaries"
    how: str = "likelihood ratio over all rounds, one coordinate per canary"

    measure: ClassVar[str] = "ε"

    @property
    def figure(self) -> float:
        """The ε that the rates themselves would need at δ; never negative."""
        true, false, k = self._counts(*_best(self._half(0), self._bound))
        return _epsilon(true / k, max(false, 0.5) / k, self.delta)

    @property
    def interval(self) -> Interval:
        """[ε that is needed at δ with this confidence, infinity): an attack says nothing from above."""
        low, high = self._rates(*_best(self._half(0), self._bound))
        return Interval(_epsilon(low, high, self.delta), math.inf, self.level)

    @property
    def excess(self) -> float:
        """How far a test lies above the accounted curve: TPR - e^ε FPR - δ(ε) where that shows most; > 0 is a breach.

        Far stronger than the ε at one small δ: hundreds of canaries say little about events of probability 1e-5, and
        much about the middle of the curve.
        """
        test = _best(self._half(0), self._over)
        tuned = _rates_of(self._half(0), *test, self.level)
        at = int(np.argmax(_above(*tuned, self.allowed)))
        return float(_above(*self._rates(*test), self.allowed)[at])

    @property
    def control_figure(self) -> float:
        """ε of somebody who never sees a model: 0."""
        return 0.0

    @property
    def sound(self) -> bool:
        """Whether nothing was found: the attack stays below what was accounted, the rounds keep their promises."""
        return self.interval.low <= self.accounted and self.excess <= 0 and not self.findings

    def _half(self, which: int) -> tuple[FloatArray, FloatArray]:
        return self.members[which::2], self.strangers[which::2]

    def _counts(self, sign: int, cut: float) -> tuple[int, int, int]:
        return _counts_of(self._half(1), sign, cut)

    def _rates(self, sign: int, cut: float) -> tuple[float, float]:
        return _rates_of(self._half(1), sign, cut, self.level)

    def _bound(self, low: float, high: float) -> float:
        return _epsilon(low, high, self.delta)

    def _over(self, low: float, high: float) -> float:
        return float(_above(low, high, self.allowed).max())


def audit(
    curator: Curator,
    rounds: int,
    *,
    canaries: int = 1000,
    drop_out: float = 0.0,
    delta: float | None = None,
    rng: Generator | None = None,
    level: float = 0.95,
) -> CanaryAudit:
    """One training of `rounds` rounds in which the first `canaries` clients are canaries, attacked.

    drop_out: share of the other clients who are asked and never answer. The other clients send updates of log-normal
    norm around 1 in coordinates of their own.
    """
    if not isinstance(curator.cohort, PoissonSampling):
        raise Refusal(
            "canaries are scored for Poisson sampling: with a fixed number of clients their draws depend on each other"
        )
    k = whole("canaries", canaries, 20, curator.cohort.clients)
    number("drop_out", drop_out, 0, 1, strictly=False)
    noise = rng if rng is not None else np.random.default_rng(np.random.SeedSequence().entropy)
    states = [curator.start(np.zeros(2 * k + _FREE))]
    for _ in range(whole("rounds", rounds, 1, 1 << 16)):
        opened = curator.open_round(states[-1], rng)
        sent = _messages(opened, k, drop_out, noise)
        states.append(curator.close_round(opened, sent, rng))
    heard = _heard(curator, states)
    scores = _scores(curator, states, heard)
    at = curator.budget.delta if delta is None else as_delta(delta)
    dose = curator.dose(states[-1])
    allowed = np.array([_EPSILONS, [dose.delta(e) for e in _EPSILONS]])
    ratio = _noise_ratio(curator, states, quiet := heard[:, k : 2 * k])
    found = (
        *_noise_finding(ratio, quiet.size),
        *_clip_finding(curator, states, heard[:, :k]),
        *_rule_finding(curator, states),
    )
    return CanaryAudit(scores[:k], scores[k : 2 * k], allowed, dose.epsilon(at), at, ratio, found, level)


def _messages(state: State, k: int, drop_out: float, rng: Generator) -> Iterator[UpdateBatch]:
    """Canaries shout in their own coordinate; the others send something ordinary, or nothing."""
    asked: Index = state.participants
    silent = (rng.random(len(asked)) < drop_out) & (asked >= k)
    asked = asked[~silent]
    for start in range(0, len(asked), _CHUNK):
        clients = asked[start : start + _CHUNK]
        block = np.zeros((len(clients), state.model.size))
        direction = rng.normal(size=(len(clients), _FREE))
        length = np.exp(0.5 * rng.normal(size=(len(clients), 1))) / np.linalg.norm(direction, axis=1, keepdims=True)
        block[:, 2 * k :] = direction * length
        loud = np.flatnonzero(clients < k)
        block[loud] = 0.0
        block[loud, clients[loud]] = _LOUD * state.clip
        yield UpdateBatch(clients, block)


def _heard(curator: Curator, states: list[State]) -> FloatArray:
    """(rounds, d) what anybody can compute from the released models: the noisy sum of each round over C.

    The server's momentum is undone: Δ̄_t = v_t - βv_{t-1}, v_t = (w_t - w_{t-1})/step.
    """
    models = np.array([s.model for s in states])
    velocity = np.diff(models, axis=0) / curator.step
    mean = velocity - curator.momentum * np.vstack([np.zeros_like(velocity[:1]), velocity[:-1]])
    scale = np.array([entry.per_round / entry.clip for entry in states[-1].history])
    return np.asarray(mean * scale[:, None])


def _scores(curator: Curator, states: list[State], heard: FloatArray) -> FloatArray:
    """(d,) Σ_t log(1 - q + q exp((2x - 1)/2z²)): the likelihood ratio of an enrolled canary against none."""
    total = np.zeros(heard.shape[1])
    for x, entry in zip(heard, states[-1].history, strict=True):
        q = curator.cohort.rate(entry.per_round)
        z = curator.clip.noise_on_sum(entry.noise, entry.per_round)
        stay = math.log1p(-q) if q < 1 else -math.inf
        total += np.logaddexp(stay, math.log(q) + (2 * x - 1) / (2 * z * z))
    return total


def _noise_ratio(curator: Curator, states: list[State], quiet: FloatArray) -> float:
    """Coordinates without an owner hold nothing but noise."""
    z = [curator.clip.noise_on_sum(e.noise, e.per_round) for e in states[-1].history]
    return math.sqrt(float(np.square(quiet / np.array(z)[:, None]).mean()))


def _noise_finding(ratio: float, n: int) -> Iterator[str]:
    """Chi-square of n entries, two-sided."""
    if not chdtri(n, 1 - _ERROR / 2) <= ratio * ratio * n <= chdtri(n, _ERROR / 2):
        yield f"the noise is {ratio:.3g} times what the accountant was told"


def _clip_finding(curator: Curator, states: list[State], owned: FloatArray) -> Iterator[str]:
    """Nobody moves the sum by more than C: beyond C and what the noise reaches there is nothing."""
    z = max(curator.clip.noise_on_sum(e.noise, e.per_round) for e in states[-1].history)
    far, reach = float(np.abs(owned).max()), 1 - z * float(ndtri(_ERROR / (2 * owned.size)))
    if far > reach:
        yield f"a client moved the sum by {far:.3g} times the clip, where noise and clip reach {reach:.3g}"


def _rule_finding(curator: Curator, states: list[State]) -> Iterator[str]:
    """The next C follows from the noisy share that the round released, in the right direction."""
    for before, after in itertools.pairwise(states):
        entry: Any = after.history[-1]
        wanted = curator.clip.moved(before.clip, entry.share)
        away = (after.clip - before.clip) * (entry.share - getattr(curator.clip, "quantile", entry.share))
        if away > 0:
            yield f"round {before.round}: the clip moved away from its quantile"
            return
        if not math.isclose(after.clip, wanted, rel_tol=1e-12):
            yield f"round {before.round}: the clip is {after.clip:.6g} where its rule gives {wanted:.6g}"
            return


def _epsilon(true: float, false: float, delta: float) -> float:
    """The least ε >= 0 with true <= e^ε false + δ."""
    return max(0.0, math.log((true - delta) / false)) if true > delta else 0.0


def _above(true: float, false: float, allowed: FloatArray) -> FloatArray:
    """(g,) TPR - e^ε FPR - δ(ε) along the accountant's curve."""
    return np.asarray(true - np.exp(allowed[0]) * false - allowed[1])


def _counts_of(scores: tuple[FloatArray, FloatArray], sign: int, cut: float) -> tuple[int, int, int]:
    """True and false positives, of k scores of each kind. With sign -1 it is absence that is looked for."""
    hits = [int((sign * s > cut).sum()) for s in (scores if sign > 0 else scores[::-1])]
    return hits[0], hits[1], len(scores[0])


def _rates_of(scores: tuple[FloatArray, FloatArray], sign: int, cut: float, level: float) -> tuple[float, float]:
    """The true positive rate from below and the false positive rate from above, each at half of the error."""
    true, false, k = _counts_of(scores, sign, cut)
    return proportion(true, k, level).low, proportion(false, k, level).high


def _best(scores: tuple[FloatArray, FloatArray], value: Callable[[float, float], float]) -> tuple[int, float]:
    """(sign, cut) of the test whose rates have the highest value, among 64 cuts in either direction."""
    members, strangers = scores
    tests = [
        (sign, float(cut))
        for sign, out in ((1, strangers), (-1, members))
        for cut in np.quantile(sign * out, np.linspace(0.02, 1.0, 64))
    ]
    return max(tests, key=lambda test: value(*_rates_of(scores, test[0], test[1], 0.95)))
