"""The clip that tracks a quantile: its direction, its noise, its share of the cost."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.special import chdtri

from dosimeter.core.errors import Refusal
from dosimeter.federated import (
    Constant,
    Curator,
    FixedClip,
    PoissonSampling,
    PrivacyBudget,
    QuantileClip,
    State,
    UpdateBatch,
)
from dosimeter.federated.adaptive_clipping import split_noise

K, M = 2000, 400


class Inverted(QuantileClip):
    """The rule with the wrong sign, a bug of another implementation."""

    def next_bound(self, bound: float, share: float) -> float:
        return bound * math.exp(self.rate * (share - self.quantile))


def clips(rule: QuantileClip, rounds: int, norms: np.ndarray, rng: np.random.Generator) -> list[float]:
    """C_t over a training in which client k sends an update of norm `norms[k]`."""
    curator = Curator(PoissonSampling(K), Constant(M, 1.0), PrivacyBudget(1e3, 1e-5), rule)
    state = curator.start(np.zeros(1))
    for _ in range(rounds):
        state = curator.open_round(state, rng)
        sampled = state.participants
        state = curator.close_round(state, [UpdateBatch(sampled, norms[sampled, None])], rng)
    return [e.clip for e in state.history] + [state.clip]


@pytest.mark.parametrize("quantile", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("start", [0.05, 1.0, 30.0])
def test_the_clip_converges_to_the_quantile_from_either_side(start: float, quantile: float) -> None:
    rng = np.random.default_rng(5)
    norms = rng.uniform(0.5, 1.5, K)
    bounds = clips(QuantileClip(start, quantile), 160, norms, rng)
    # From 30, log C falls by 0.2·(1 - quantile) a round: 80 rounds at quantile 0.8. Then C fluctuates, by the share's
    # noise of 0.05 times the rate.
    assert abs(np.mean(bounds[-25:]) - np.quantile(norms, quantile)) < 0.06


@pytest.mark.parametrize(("start", "runs_to"), [(0.6, 0.0), (1.4, np.inf)])
def test_the_inverted_sign_runs_away_from_the_quantile(start: float, runs_to: float) -> None:
    rng = np.random.default_rng(6)
    bound = clips(Inverted(start, 0.5), 60, rng.uniform(0.5, 1.5, K), rng)[-1]
    assert bound < 0.1 if runs_to == 0 else bound > 10


@pytest.mark.parametrize("z", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("sigma", [1.3, 5.0, 80.0])
def test_sum_and_bits_together_are_one_gaussian_of_multiplier_z(z: float, sigma: float) -> None:
    """Multiple precision: the Rényi divergence of order 2 of the pair is that of one Gaussian moved by 1/z."""
    z_d = split_noise(z, sigma)
    with mpmath.workdps(30):

        def divergence(move: float, deviation: float) -> mpmath.mpf:
            s = mpmath.mpf(deviation)
            density = lambda x, a: mpmath.exp(-((x - a) ** 2) / (2 * s * s)) / (s * mpmath.sqrt(2 * mpmath.pi))  # noqa: E731
            ratio = lambda x: density(x, move) ** 2 / density(x, 0)  # noqa: E731
            return mpmath.log(mpmath.quad(ratio, [move - 12 * s, 2 * move, 2 * move + 12 * s]))

        pair_divergence = divergence(1.0, z_d) + divergence(0.5, sigma)
        assert abs(pair_divergence - divergence(1.0, z)) < 1e-9


def test_an_uncentred_bit_would_not_fit_into_the_same_cost() -> None:
    """A bit of 0 or 1 moves the sum by 1: at K = 100, m = 50 the multiplier falls from 0.984 to 0.931."""
    z_d = split_noise(0.984, 50 / 20)
    assert round((z_d**-2 + (1 / 2.5) ** 2) ** -0.5, 3) == 0.931


def test_bits_that_cost_more_than_the_round_are_refused() -> None:
    with pytest.raises(Refusal, match="above z/2"):
        split_noise(1.0, 0.5)


def test_with_few_clients_the_bits_take_a_quarter_of_the_cost_at_most() -> None:
    rule = QuantileClip()
    assert rule.noise_on_bits(3.0, 5) == 3.0
    assert rule.noise_on_sum(3.0, 5) == pytest.approx(3.0 / math.sqrt(0.75), rel=1e-12)
    assert rule.noise_on_bits(3.0, 1000) == 50.0


def test_a_round_without_answers_leaves_a_clip_and_a_model() -> None:
    curator = Curator(PoissonSampling(1000), Constant(20, 1.0), PrivacyBudget(8, 1e-4), QuantileClip(2.0))
    state = curator.close_round(curator.open_round(curator.start(np.zeros(3))), [])
    assert np.isfinite(state.model).all()
    assert 0.5 < state.clip / 2.0 < 2
    assert state.history[0].accepted == 0


def test_the_share_of_an_absent_cohort_is_one_half_on_average() -> None:
    rng = np.random.default_rng(1)
    curator = Curator(PoissonSampling(1000), Constant(100, 1.0), PrivacyBudget(1e4, 1e-4), QuantileClip())
    state = curator.start(np.zeros(1))
    for _ in range(200):
        state = curator.close_round(curator.open_round(state, rng), [], rng)
    shares = np.array([e.share for e in state.history])
    # Standard deviation 0.05/√200 = 0.0035: six of them.
    assert abs(shares.mean() - 0.5) < 0.0212


@pytest.mark.parametrize("rng", [None, np.random.default_rng(3)], ids=["operating system", "simulation"])
def test_the_bits_have_their_noise_and_ten_per_cent_less_is_noticed(rng: np.random.Generator | None) -> None:
    """4,000 rounds: a right scale is called wrong once in a million, one off by 10 % passes once in 1e4."""
    rule, state = QuantileClip(rate=1e-9), State.of(np.zeros(1), 1.0, PoissonSampling(1000))
    curator = Curator(PoissonSampling(1000), Constant(100, 1.0), PrivacyBudget(1e4, 1e-4), rule)
    shares = []
    for _ in range(4000):
        opened = state.with_open_round(np.zeros(0, dtype=int), 100, 1.0, simulation=True)
        shares.append(curator.close_round(opened, [], rng).history[0].share)
    squares = np.square((np.array(shares) - 0.5) * 100).sum()
    right, short = squares / 5.0**2, squares / 5.5**2
    low, high = chdtri(4000, 1 - 5e-7), chdtri(4000, 5e-7)
    assert low <= right <= high
    assert short < low


@pytest.mark.parametrize("share", [-1e9, -1e4, 1e4, 1e9])
def test_an_absurd_share_moves_the_clip_to_a_limit_and_no_further(share: float) -> None:
    """One expected client and a tiny budget: the noise of the share is in the thousands, and C is still a number."""
    bound = QuantileClip().next_bound(1.0, share)
    assert bound == (1e-60 if share > 0 else 1e60)
    curator = Curator(PoissonSampling(2), Constant(0.01, 900.0), PrivacyBudget(8, 1e-4), QuantileClip())
    state = curator.close_round(curator.open_round(curator.start(np.zeros(3))), [])
    assert 1e-60 <= state.clip <= 1e60


def test_a_fixed_clip_collects_no_bits_and_stays() -> None:
    rule = FixedClip(0.3)
    assert (rule.noise_on_bits(1.5, 10), rule.noise_on_sum(1.5, 10), rule.next_bound(0.3, 0.9)) == (0.0, 1.5, 0.3)


@pytest.mark.parametrize(
    "wrong", [{"quantile": 0}, {"quantile": 1.2}, {"rate": -0.2}, {"bit_noise_share": 0}, {"start": 0}]
)
def test_invalid_rules_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(Refusal):
        QuantileClip(**wrong)
