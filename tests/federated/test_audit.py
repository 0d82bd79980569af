"""Canaries: below the accounted ε in sound trainings; above it, or found, for each planted bug.

The attack's level is 0.999 and either of its two bounds may fail: one of the 22 sound trainings would be called unsound
at most once in 23 sets of fresh seeds. The seeds are fixed and were not selected.
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
from dosimeter.federated import curator as curator_module

LEVEL = 0.999
RECIPE: dict[str, Any] = {
    "cohort": PoissonSampling(2000),
    "schedule": Constant(1000, 3.0),
    "budget": PrivacyBudget(30.0, 1e-5),
    "clip": QuantileClip(1.0),
}


def run_audit(curator: Curator, seed: int, rounds: int = 12, **options: Any) -> CanaryAudit:
    return audit(curator, rounds, canaries=1000, rng=np.random.default_rng(seed), level=LEVEL, **options)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("seed", range(10))
def test_sound_trainings_stay_below_the_accounted_epsilon(seed: int, momentum: float) -> None:
    result = run_audit(Curator(**RECIPE, momentum=momentum, step=0.5), seed)
    assert result.findings == ()
    assert result.interval.low <= result.accounted_epsilon
    assert result.excess <= 0
    assert result.sound
    assert result.standing is Standing.LOWER_BOUND


def test_the_bound_is_informative_and_grows_with_the_leakage() -> None:
    """Without sampling and with little noise the canaries are detected: the bounds are positive and ordered."""
    lows = []
    for z in (6.0, 2.0, 1.0):
        curator = Curator(PoissonSampling(1000), Constant(1000, z), PrivacyBudget(200.0, 1e-5), FixedClip(1.0))
        lows.append(run_audit(curator, 1, rounds=5).interval.low)
    assert lows[0] < lows[1] < lows[2]
    # 500 scores of each kind are counted: at μ = 2.2 about two in five are detected at one false alarm in a hundred.
    assert lows[2] > 2.0


@pytest.mark.parametrize("drop_out", [0.5, 1.0])
def test_drop_outs_keep_a_sound_training_sound(drop_out: float) -> None:
    assert run_audit(Curator(**RECIPE), 3, drop_out=drop_out).sound


def test_half_of_the_noise_is_found_and_the_attack_alone_proves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    add_noise = curator_module.add_gaussian_noise
    monkeypatch.setattr(
        curator_module, "add_gaussian_noise", lambda values, sigma, rng: add_noise(values, sigma / 2, rng)
    )
    results = [run_audit(Curator(**RECIPE), seed) for seed in range(3)]
    assert all("the noise is" in result.findings[0] for result in results)
    assert [result.noise_ratio for result in results] == pytest.approx([0.5] * 3, rel=0.05)
    assert all(result.excess > 0 for result in results)


def test_five_per_cent_too_little_noise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    add_noise = curator_module.add_gaussian_noise
    monkeypatch.setattr(
        curator_module, "add_gaussian_noise", lambda values, sigma, rng: add_noise(values, sigma * 0.95, rng)
    )
    result = run_audit(Curator(**RECIPE), 1)
    assert "the noise is" in result.findings[0]
    assert result.noise_ratio == pytest.approx(0.95, rel=0.04)


def test_an_update_that_is_not_clipped_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def unclipped(state: State, clients: int, messages: Iterable[UpdateBatch], *_: Any) -> tuple[np.ndarray, float]:
        return sum((m.updates.sum(axis=0) for m in messages), np.zeros(state.model.size)), 0.0

    monkeypatch.setattr(curator_module, "sum_updates", unclipped)
    result = run_audit(Curator(**RECIPE), 1)
    assert any("times the clip" in line for line in result.findings)
    assert result.excess > 0


def test_a_clip_that_enlarges_small_updates_and_passes_large_ones_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule in the authors' program: divide by min(1, ‖Δ‖/S)."""

    def inverted(state: State, clients: int, messages: Iterable[UpdateBatch], *_: Any) -> tuple[np.ndarray, float]:
        total = np.zeros(state.model.size)
        for m in messages:
            total += (m.updates / np.minimum(1, np.linalg.norm(m.updates, axis=1, keepdims=True) / state.clip)).sum(
                axis=0
            )
        return total, 0.0

    monkeypatch.setattr(curator_module, "sum_updates", inverted)
    assert not run_audit(Curator(**RECIPE), 1).sound


@dataclass(frozen=True)
class NoiseByAnswers(Curator):
    """Noise and divisor follow the number of answers instead of m."""

    def close_round(self, state: State, messages: Any, rng: Any = None, observe: Any = None) -> State:
        answers = list(messages)
        share = sum(len(m.clients) for m in answers) / self.schedule.parameters(state.round).per_round
        add_noise = curator_module.add_gaussian_noise
        try:
            curator_module.add_gaussian_noise = lambda values, sigma, rng: add_noise(values, sigma * share, rng)
            return super().close_round(state, answers, rng, observe)
        finally:
            curator_module.add_gaussian_noise = add_noise


def test_noise_by_arrivals_is_found_once_clients_drop_out() -> None:
    result = run_audit(NoiseByAnswers(**RECIPE), 2, drop_out=1.0)
    assert "the noise is" in result.findings[0]
    assert result.excess > 0


class Inverted(QuantileClip):
    def next_bound(self, bound: float, share: float) -> float:
        return bound * math.exp(self.rate * (share - self.quantile))


def test_the_inverted_sign_of_the_quantile_is_found() -> None:
    """It breaks no promise about noise, so no attack detects it; the public rounds show it."""
    result = run_audit(Curator(**{**RECIPE, "clip": Inverted(1.0)}), 1)
    assert "away from its quantile" in result.findings[0]


@dataclass(frozen=True)
class NewNorm(Curator):
    """Clipped at C_t, noise for C_{t+1}: a second bug of another implementation."""

    def close_round(self, state: State, messages: Any, rng: Any = None, observe: Any = None) -> State:
        answers = list(messages)
        clip_ratio = super().close_round(state, answers, deepcopy(rng)).clip / state.clip
        add_noise = curator_module.add_gaussian_noise
        try:
            curator_module.add_gaussian_noise = lambda values, sigma, rng: add_noise(
                values, sigma * (clip_ratio if values.size > 1 else 1.0), rng
            )
            return super().close_round(state, answers, rng, observe)
        finally:
            curator_module.add_gaussian_noise = add_noise


def test_noise_for_another_clip_than_the_one_used_is_found() -> None:
    """Far above its quantile C falls by e^-0.15 a round: the noise is too small by that factor, every time."""
    result = run_audit(NewNorm(**{**RECIPE, "clip": QuantileClip(30.0, quantile=0.2, rate=0.5)}), 1)
    assert "the noise is" in result.findings[0]
    assert result.noise_ratio < 0.96


@dataclass(frozen=True)
class AlwaysThere(Curator):
    """Canaries are sampled in every round: the sampling does not match the accounting."""

    def open_round(self, state: State, rng: Any = None) -> State:
        opened = super().open_round(state, rng)
        sampled = np.union1d(opened.participants, np.arange(1000))
        return state.with_open_round(sampled, *self.schedule.parameters(state.round), simulation=True)


def test_clients_sampled_more_often_than_accounted_are_detected_by_the_attack_alone() -> None:
    recipe = {**RECIPE, "cohort": PoissonSampling(5000), "schedule": Constant(250, 2.0)}
    result = run_audit(AlwaysThere(**recipe), 1, rounds=12)
    assert result.findings == ()
    assert result.excess > 0
    assert not result.sound


def test_repeated_audits_cover_at_the_stated_rate() -> None:
    """At level 0.9 each of two bounds exceeds the true ε of a known pair of Gaussians in at most 10 % of trials."""
    mu, delta, trials, wrong = 1.5, 1e-2, 300, 0
    grid = np.linspace(0.0, 8.0, 33)
    from scipy.special import ndtr

    curve = ndtr(mu / 2 - grid / mu) - np.exp(grid) * ndtr(-mu / 2 - grid / mu)
    fine = np.linspace(0, 8, 8001)
    true_epsilon = float(fine[np.argmax(ndtr(mu / 2 - fine / mu) - np.exp(fine) * ndtr(-mu / 2 - fine / mu) <= delta)])
    rng = np.random.default_rng(8)
    for _ in range(trials):
        scores = CanaryAudit(
            rng.normal(mu, 1, 400), rng.normal(0, 1, 400), np.array([grid, curve]), true_epsilon, delta, level=0.9
        )
        wrong += (scores.interval.low > true_epsilon) or (scores.excess > 0)
    # Two bounds of 10 % each, and four standard deviations.
    assert wrong <= trials * 0.2 + 4 * math.sqrt(trials * 0.16)


def test_scores_used_to_choose_a_test_are_not_counted() -> None:
    """Members stand out only in the half that chooses the test: nothing may be claimed. In both halves: all of it."""
    noise = np.random.default_rng(9).normal(size=(2, 200)).repeat(2, axis=1)
    first_half_only = np.tile([10.0, 0.0], 200)
    perfect = np.array([[0.0], [0.0]])
    tuning_half = CanaryAudit(noise[0] + first_half_only, noise[1], perfect, 0.0, 1e-5, level=0.99)
    assert (tuning_half.interval.low, tuning_half.sound) == (0.0, True)
    both_halves = CanaryAudit(noise[0] + 10.0, noise[1], perfect, 0.0, 1e-5, level=0.99)
    # 200 of 200 against 0 of 200: by Clopper-Pearson at 99 %, rates of at least 0.974 and at most 0.026.
    assert both_halves.interval.low == pytest.approx(math.log(0.974 / 0.0261), abs=0.02)
    assert not both_halves.sound


def test_what_cannot_be_audited_is_refused() -> None:
    fixed = Curator(FixedSizeSampling(100), Constant(10, 3.0), PrivacyBudget(30.0, 1e-4), FixedClip(1.0))
    with pytest.raises(Refusal, match="Poisson"):
        audit(fixed, 2, canaries=20)
    with pytest.raises(Refusal, match="canaries"):
        audit(Curator(PoissonSampling(10), Constant(5, 3.0), PrivacyBudget(30.0, 1e-4), FixedClip(1.0)), 2, canaries=20)
