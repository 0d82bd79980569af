"""What one client is charged: never more than the figure for all, in full if unknown; never a guarantee."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.notion import Standing
from dosimeter.federated import (
    ClientNorms,
    Constant,
    Curator,
    FixedClip,
    FixedSizeSampling,
    PoissonSampling,
    PrivacyBudget,
    QuantileClip,
    State,
    UpdateBatch,
    charge,
)
from dosimeter.federated.individual_accounting import rounds_of_client


def train(curator: Curator, lengths: np.ndarray, rounds: int = 6) -> tuple[State, ClientNorms]:
    """Client k sends an update of norm lengths[k] in every round in which it is sampled."""
    rng, norms, state = np.random.default_rng(1), ClientNorms(), curator.start(np.zeros(2))
    for _ in range(rounds):
        state = curator.open_round(state, rng)
        sampled = state.participants
        block = np.stack([lengths[sampled], np.zeros(len(sampled))], axis=1)
        state = curator.close_round(state, [UpdateBatch(sampled, block)], rng, norms.observe)
    return state, norms


ALL = Curator(PoissonSampling(4), Constant(4, 2.0), PrivacyBudget(50, 1e-3), FixedClip(1.0))
LENGTHS = np.array([0.25, 0.5, 1.0, 30.0])


def test_without_sampling_a_client_is_charged_as_a_gaussian_of_its_own_norm() -> None:
    """q = 1: μ² adds up as Σ (r/z)², and δ(ε) is the closed form [BalleWang18] at that μ."""
    state, norms = train(ALL, LENGTHS)
    for client, r in enumerate((0.25, 0.5, 1.0, 1.0)):
        eps = charge(ALL, state, norms, client, quick=False).epsilon
        with mpmath.workdps(30):
            mu = mpmath.sqrt(6) * (r + (1 / 32 if r < 1 else 0)) / 2  # rounded up to the next 1/32
            phi = lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2  # noqa: E731
            assert phi(mu / 2 - eps / mu) - mpmath.exp(eps) * phi(-mu / 2 - eps / mu) == pytest.approx(1e-3, rel=0.01)


def test_a_quiet_client_is_charged_less_and_none_more_than_all() -> None:
    curator = Curator(PoissonSampling(40), Constant(20, 1.0), PrivacyBudget(50, 1e-3), QuantileClip(1.0, rate=1e-6))
    state, norms = train(curator, np.linspace(0.01, 3.0, 40))
    charges = [charge(curator, state, norms, k).epsilon for k in range(40)]
    ceiling = curator.figure(state, quick=True).epsilon
    assert max(charges) == ceiling
    assert min(charges) < ceiling
    assert all(0 < c <= ceiling for c in charges)


def test_rounds_without_the_client_and_the_open_one_are_charged_in_full() -> None:
    curator = Curator(PoissonSampling(1000), Constant(1, 1.0), PrivacyBudget(50, 1e-3), FixedClip(1.0))
    state, norms = train(curator, np.full(1000, 0.1))
    absent = next(k for k in range(1000) if not any((k, t) in norms.shares for t in range(6)))
    assert rounds_of_client(curator, state, norms, absent) == state.spent
    opened = ALL.open_round(train(ALL, LENGTHS)[0])
    assert sum(s.rounds for s in rounds_of_client(ALL, opened, ClientNorms(), 0)) == 7


def test_the_bit_is_charged_in_full_even_for_a_client_that_sends_nothing() -> None:
    curator = Curator(PoissonSampling(4), Constant(4, 2.0), PrivacyBudget(50, 1e-3), QuantileClip(1.0))
    state, norms = train(curator, np.zeros(4), rounds=1)
    (spend,) = rounds_of_client(curator, state, norms, 0)
    assert spend.noise == pytest.approx(2 * curator.clip.noise_on_bits(2.0, 4))


def test_it_is_an_estimate_and_says_why() -> None:
    state, norms = train(ALL, LENGTHS)
    figure = charge(ALL, state, norms, 0)
    assert figure.standing is Standing.ESTIMATE
    assert any("no guarantee" in line for line in figure.not_covered)
    assert any("not published" in line for line in figure.not_covered)


def test_unknown_clients_and_fixed_sizes_are_refused() -> None:
    state, norms = train(ALL, LENGTHS)
    with pytest.raises(Refusal, match="numbered"):
        charge(ALL, state, norms, 4)
    fixed = Curator(FixedSizeSampling(4), Constant(4, 2.0), PrivacyBudget(50, 1e-3), FixedClip(1.0))
    with pytest.raises(CannotMeasure, match="Poisson"):
        charge(fixed, state, norms, 0)
