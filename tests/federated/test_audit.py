"""Canaries: below the accounted ε in sound trainings, above it or found out in each planted bug.

The attack's level is 0.999 and each of its two bounds may pass: of the 22 sound trainings one would be called unsound
once in 23 sets of fresh seeds at most. The seeds are fixed and were not chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.core.notion import Standing
from dosimeter.federated import (
    CanaryAudit,
    Constant,
    Curator,
    FixedClip,
    FixedSizeSampling,
    PoissonSampling,
    PrivacyBudget,
    QuantileClip,
    State,
    UpdateBatch,
    audit,
)
from dosimeter.federated import curator as room

LEVEL = 0.999
RECIPE: dict[str, Any] = {
    "cohort": PoissonSampling(2000),
    "schedule": Constant(1000, 3.0),
    "budget": PrivacyBudget(30.0, 1e-5),
    "clip": QuantileClip(1.0),
}


def audited(curator: Curator, seed: int, rounds: int = 12, **how: Any) -> CanaryAudit:
    return audit(curator, rounds, canaries=1000, rng=np.random.default_rng(seed), level=LEVEL, **how)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("seed", range(10))
def test_sound_trainings_stay_below_what_was_accounted(seed: int, momentum: float) -> None:
    found = audited(Curator(**RECIPE, momentum=momentum, step=0.5), seed)
    assert found.findings == ()
    assert found.interval.low <= found.accounted
    assert found.excess <= 0
    assert found.sound
    assert found.standing is Standing.LOWER_BOUND


def test_the_bound_is_worth_something_and_grows_with_the_leak() -> None:
    """Without sampling and with little noise the canaries are seen: the bound is above zero and in order."""
    lows = []
    for z in (6.0, 2.0, 1.0):
        curator = Curator(PoissonSampling(1000), Constant(1000, z), PrivacyBudget(200.0, 1e-5), FixedClip(1.0))
        lows.append(audited(curator, 1, rounds=5).interval.low)
    assert lows[0] < lows[1] < lows[2]
    # 500 scores of each kind are counted: μ = 2.2 lets about two in five be seen at a false alarm in a hundred.
    assert lows[2] > 2.0


@pytest.mark.parametrize("drop_out", [0.5, 1.0])
def test_drop_outs_leave_a_sound_training_sound(drop_out: float) -> None:
    assert audited(Curator(**RECIPE), 3, drop_out=drop_out).sound


def test_half_of_the_noise_is_found_and_the_attack_alone_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = room.drawn
    monkeypatch.setattr(room, "drawn", lambda values, sigma, rng: drawn(values, sigma / 2, rng))
    found = [audited(Curator(**RECIPE), seed) for seed in range(3)]
    assert all("the noise is" in f.findings[0] for f in found)
    assert [f.noise_ratio for f in found] == pytest.approx([0.5] * 3, rel=0.05)
    assert all(f.excess > 0 for f in found)


def test_five_per_cent_too_little_noise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = room.drawn
    monkeypatch.setattr(room, "drawn", lambda values, sigma, rng: drawn(values, sigma * 0.95, rng))
    found = audited(Curator(**RECIPE), 1)
    assert "the noise is" in found.findings[0]
    assert found.noise_ratio == pytest.approx(0.95, rel=0.04)


def test_an_update_that_is_not_clipped_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def unclipped(state: State, clients: int, messages: Iterable[UpdateBatch], *_: Any) -> tuple[np.ndarray, float]:
        return sum((m.updates.sum(axis=0) for m in messages), np.zeros(state.model.size)), 0.0

    monkeypatch.setattr(room, "gathered", unclipped)
    found = audited(Curator(**RECIPE), 1)
    assert any("times the clip" in line for line in found.findings)
    assert found.excess > 0


def test_a_clip_that_blows_small_updates_up_and_lets_large_ones_pass_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule of the authors' program: divided by min(1, ‖Δ‖/S)."""

    def inverted(state: State, clients: int, messages: Iterable[UpdateBatch], *_: Any) -> tuple[np.ndarray, float]:
        total = np.zeros(state.model.size)
        for m in messages:
            total += (m.updates / np.minimum(1, np.linalg.norm(m.updates, axis=1, keepdims=True) / state.clip)).sum(
                axis=0
            )
        return total, 0.0

    monkeypatch.setattr(room, "gathered", inverted)
    assert not audited(Curator(**RECIPE), 1).sound


@dataclass(frozen=True)
class ByArrivals(Curator):
    """Noise for those who came, and divided by their number, as if that were m."""

    def close_round(self, state: State, messages: Any, rng: Any = None, observe: Any = None) -> State:
        came = list(messages)
        share = sum(len(m.clients) for m in came) / self.schedule.terms(state.round).per_round
        drawn = room.drawn
        try:
            room.drawn = lambda values, sigma, rng: drawn(values, sigma * share, rng)
            return super().close_round(state, came, rng, observe)
        finally:
            room.drawn = drawn


def test_noise_by_arrivals_is_found_once_clients_drop_out() -> None:
    found = audited(ByArrivals(**RECIPE), 2, drop_out=1.0)
    assert "the noise is" in found.findings[0]
    assert found.excess > 0


class Inverted(QuantileClip):
    def moved(self, bound: float, share: float) -> float:
        return bound * math.exp(self.rate * (share - self.quantile))


def test_the_inverted_sign_of_the_quantile_is_found() -> None:
    """It breaks no promise about noise, so no attack sees it: the public rounds do."""
    found = audited(Curator(**{**RECIPE, "clip": Inverted(1.0)}), 1)
    assert "away from its quantile" in found.findings[0]


@dataclass(frozen=True)
class NewNorm(Curator):
    """Clipped at C_t, noise for C_{t+1}: the second fault seen elsewhere."""

    def close_round(self, state: State, messages: Any, rng: Any = None, observe: Any = None) -> State:
        came = list(messages)
        new = super().close_round(state, came, deepcopy(rng)).clip / state.clip
        drawn = room.drawn
        try:
            room.drawn = lambda values, sigma, rng: drawn(values, sigma * (new if values.size > 1 else 1.0), rng)
            return super().close_round(state, came, rng, observe)
        finally:
            room.drawn = drawn


def test_noise_for_another_clip_than_the_one_used_is_found() -> None:
    """From far above its quantile C falls by e^-0.15 a round: so much too little noise, every time."""
    found = audited(NewNorm(**{**RECIPE, "clip": QuantileClip(30.0, quantile=0.2, rate=0.5)}), 1)
    assert "the noise is" in found.findings[0]
    assert found.noise_ratio < 0.96


@dataclass(frozen=True)
class AlwaysThere(Curator):
    """Canaries are asked in every round: sampling that does not match the accountant."""

    def open_round(self, state: State, rng: Any = None) -> State:
        opened = super().open_round(state, rng)
        everybody = np.union1d(opened.participants, np.arange(1000))
        return state.opened(everybody, *self.schedule.terms(state.round), simulation=True)


def test_clients_asked_more_often_than_accounted_are_seen_by_the_attack_alone() -> None:
    recipe = {**RECIPE, "cohort": PoissonSampling(5000), "schedule": Constant(250, 2.0)}
    found = audited(AlwaysThere(**recipe), 1, rounds=12)
    assert found.findings == ()
    assert found.excess > 0
    assert not found.sound


def test_repeated_audits_cover_at_the_stated_rate() -> None:
    """At level 0.9 each of two bounds passes what a known pair of Gaussians needs in at most 10 % of trials."""
    mu, delta, trials, wrong = 1.5, 1e-2, 300, 0
    grid = np.linspace(0.0, 8.0, 33)
    from scipy.special import ndtr

    curve = ndtr(mu / 2 - grid / mu) - np.exp(grid) * ndtr(-mu / 2 - grid / mu)
    fine = np.linspace(0, 8, 8001)
    need = float(fine[np.argmax(ndtr(mu / 2 - fine / mu) - np.exp(fine) * ndtr(-mu / 2 - fine / mu) <= delta)])
    rng = np.random.default_rng(8)
    for _ in range(trials):
        scores = CanaryAudit(
            rng.normal(mu, 1, 400), rng.normal(0, 1, 400), np.array([grid, curve]), need, delta, level=0.9
        )
        wrong += (scores.interval.low > need) or (scores.excess > 0)
    # Two bounds of 10 % each, and four deviations.
    assert wrong <= trials * 0.2 + 4 * math.sqrt(trials * 0.16)


def test_scores_by_which_a_test_was_chosen_are_not_counted() -> None:
    """Members stand out in the half that chooses and nowhere else: nothing may be claimed. In both: all of it."""
    noise = np.random.default_rng(9).normal(size=(2, 200)).repeat(2, axis=1)
    loud = np.tile([10.0, 0.0], 200)
    perfect = np.array([[0.0], [0.0]])
    chosen = CanaryAudit(noise[0] + loud, noise[1], perfect, 0.0, 1e-5, level=0.99)
    assert (chosen.interval.low, chosen.sound) == (0.0, True)
    both = CanaryAudit(noise[0] + 10.0, noise[1], perfect, 0.0, 1e-5, level=0.99)
    # 200 of 200 against 0 of 200: by Clopper-Pearson at 99 % rates of 0.974 at least and 0.026 at most.
    assert both.interval.low == pytest.approx(math.log(0.974 / 0.0261), abs=0.02)
    assert not both.sound


def test_what_cannot_be_audited_is_refused() -> None:
    fixed = Curator(FixedSizeSampling(100), Constant(10, 3.0), PrivacyBudget(30.0, 1e-4), FixedClip(1.0))
    with pytest.raises(Refusal, match="Poisson"):
        audit(fixed, 2, canaries=20)
    with pytest.raises(Refusal, match="canaries"):
        audit(Curator(PoissonSampling(10), Constant(5, 3.0), PrivacyBudget(30.0, 1e-4), FixedClip(1.0)), 2, canaries=20)
