"""The accountant against independent computations: closed forms, Monte Carlo, another accountant, round by round."""

from __future__ import annotations

import itertools
import logging
from functools import partial

import mpmath
import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.federated import FixedSizeSampling, PoissonSampling, Ramp, Spend, accountant
from dosimeter.federated.accountant import add_rounds, delta, delta_by_renyi, epsilon, epsilon_by_renyi


def gaussian_delta(mu: float, eps: float) -> float:
    """δ(ε) of N(μ, 1) against N(0, 1) [BalleWang18], in multiple precision."""
    with mpmath.workdps(40):
        phi = lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2  # noqa: E731
        m = mpmath.mpf(mu)
        return float(phi(m / 2 - eps / m) - mpmath.exp(eps) * phi(-m / 2 - eps / m))


@pytest.mark.parametrize("z", [0.8, 2.0, 7.0])
@pytest.mark.parametrize("rounds", [1, 13, 200])
def test_without_sampling_it_is_the_analytic_gaussian(z: float, rounds: int) -> None:
    mu = np.sqrt(rounds) / z
    for eps in (0.5 * mu, mu * mu / 2 + mu, mu * mu / 2 + 3 * mu):
        truth = gaussian_delta(mu, eps)
        accounted = delta([Spend(50, z, rounds)], PoissonSampling(50), eps)
        assert truth * (1 - 1e-9) <= accounted <= truth * 1.001


def hockey_stick_by_draws(q: float, z: float, rounds: int, eps: float, n: int, seed: int) -> tuple[float, float]:
    """(estimate, standard error) of δ(ε) from simulated releases; the worse of both directions.

    δ = E_P[(1 - e^(ε - L))₊], L the privacy loss of the whole training, P with the client and then without.
    """
    rng = np.random.default_rng(seed)
    estimates = []
    for present in (True, False):
        loss = np.zeros(n)
        for _ in range(rounds):
            x = z * rng.normal(size=n) + (rng.random(n) < q) * present
            ratio = np.logaddexp(np.log1p(-q), np.log(q) + (2 * x - 1) / (2 * z * z))
            loss += ratio if present else -ratio
        gain = np.maximum(0.0, -np.expm1(eps - loss))
        estimates.append((float(gain.mean()), float(gain.std() / np.sqrt(n))))
    return max(estimates)


@pytest.mark.parametrize(
    ("q", "z", "rounds", "eps"), [(0.22, 1.251, 12, 1.0), (0.5, 0.984, 11, 3.0), (0.05, 0.8, 40, 1.0)]
)
def test_sampled_rounds_agree_with_draws_and_five_per_cent_less_noise_does_not(
    q: float, z: float, rounds: int, eps: float
) -> None:
    """Five standard errors: wrong once in two million; the seeds are fixed in advance."""
    estimate, error = hockey_stick_by_draws(q, z, rounds, eps, 400_000, seed=11)
    right, less, more = (delta([Spend(1000 * q, f * z, rounds)], PoissonSampling(1000), eps) for f in (1, 0.95, 1.05))
    assert estimate - 5 * error <= right <= estimate + 5 * error
    assert less > estimate + 5 * error
    assert more < estimate - 5 * error


@pytest.mark.parametrize(("m", "z", "rounds"), [(30, 1.0, 20), (100, 1.5, 100), (5, 0.7, 300)])
def test_the_other_accountant_is_never_below(m: float, z: float, rounds: int) -> None:
    spent, cohort = [Spend(m, z, rounds)], PoissonSampling(1000)
    tight, loose = epsilon(spent, cohort, 1e-5), epsilon_by_renyi(spent, cohort, 1e-5)
    assert tight <= loose <= 1.6 * tight
    assert delta(spent, cohort, 3.0) <= delta_by_renyi(spent, cohort, 3.0)


@pytest.mark.parametrize("cohort", [PoissonSampling(200), FixedSizeSampling(200)], ids=repr)
@pytest.mark.parametrize("delta_of", [partial(delta, grid=1e-3), delta_by_renyi], ids=["pld", "renyi"])
def test_more_rounds_more_clients_and_less_noise_never_cost_less(
    cohort: PoissonSampling | FixedSizeSampling, delta_of: object
) -> None:
    cost = lambda m, z, n: delta_of([Spend(m, z, n)], cohort, 1.0)  # type: ignore[operator]  # noqa: E731
    for path in (
        [cost(20, 2.0, n) for n in (1, 2, 5, 20, 80)],
        [cost(m, 2.0, 5) for m in (1, 10, 40, 100, 200)],
        [cost(20, z, 5) for z in (3.0, 2.5, 2.0, 1.0, 0.7)],  # at z = 4 the cost is below 1e-15, the grid's own error
    ):
        assert all(a <= b for a, b in itertools.pairwise(path))
        assert path[0] < path[-1]


def test_a_ramp_equals_its_rounds_composed_one_by_one() -> None:
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.pld import PLDAccountant

    schedule, spent, peer = Ramp(50, 220, 1.3, 12), (), PLDAccountant(value_discretization_interval=1e-3)
    for t in range(15):
        m, z = schedule.parameters(t)
        spent = add_rounds(spent, m, z)
        peer.compose(PoissonSampledDpEvent(m / 1000, GaussianDpEvent(z)))
    assert sum(s.rounds for s in spent) == 15
    assert epsilon(spent, PoissonSampling(1000), 1e-5, grid=1e-3) == pytest.approx(peer.get_epsilon(1e-5), rel=1e-4)


def test_the_order_of_the_rounds_does_not_matter() -> None:
    a, b, c = Spend(10, 1.0, 3), Spend(20, 1.2, 2), Spend(30, 2.0, 5)
    ordered, reordered = (epsilon(s, PoissonSampling(100), 1e-4, grid=1e-3) for s in ([a, b, c], [c, a, b]))
    assert ordered == pytest.approx(reordered, rel=1e-9)


def test_the_coarse_grid_errs_upwards_and_by_little() -> None:
    spent = [Spend(220, 1.251, 54)]
    coarse, fine = (epsilon(spent, PoissonSampling(1000), 1e-5, grid=g) for g in (1e-3, 1e-4))
    assert fine <= coarse <= fine * 1.0001


def test_a_further_round_costs_one_composition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty rounds with different parameters: counts compositions, not seconds."""
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    counted = []
    compose = PrivacyLossDistribution.compose
    monkeypatch.setattr(PrivacyLossDistribution, "compose", lambda *a, **k: counted.append(1) or compose(*a, **k))
    accountant._cache.clear()
    accountant._delta.cache_clear()
    spent: tuple[Spend, ...] = ()
    for t in range(60):
        spent = add_rounds(spent, 5, 4.0 + t / 100)
        delta(spent, PoissonSampling(1000), 1.0, grid=1e-2)
    assert len(counted) == 59
    accountant._cache.clear()
    accountant._delta.cache_clear()
    delta(spent, PoissonSampling(1000), 1.0, grid=1e-2)  # from a saved state: each composition once
    assert len(counted) == 2 * 59


def test_equal_rounds_are_kept_as_one_entry_with_a_count() -> None:
    spent: tuple[Spend, ...] = ()
    for t in range(1000):
        spent = add_rounds(spent, 10 + t % 2, 1.0)
    assert sorted(spent) == [Spend(10, 1.0, 500), Spend(11, 1.0, 500)]


def test_nothing_spent_costs_nothing() -> None:
    assert epsilon([], PoissonSampling(10), 1e-5) == 0
    assert delta([], PoissonSampling(10), 0.0) == 0
    assert epsilon_by_renyi([], PoissonSampling(10), 0.1) == 0


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        epsilon_by_renyi([Spend(1, 0.4, 3)], PoissonSampling(100), 1e-5)
        delta_by_renyi([Spend(90, 30.0, 1)], PoissonSampling(100), 4.0)
    assert not caplog.records


@pytest.mark.parametrize("entries", [1, 30, pytest.param(300, marks=pytest.mark.slow)])
def test_the_least_delta_still_has_a_finite_epsilon(entries: int) -> None:
    spent = tuple(Spend(5, 6.0 + t / 1000, 3000 // entries) for t in range(entries))
    assert epsilon(spent, PoissonSampling(1000), accountant.LEAST_DELTA, grid=1e-2) < 20


@pytest.mark.parametrize("bad", [0, 1, -1e-3, 1e-13, np.nan, "1e-5", True])
def test_a_delta_outside_its_range_is_refused(bad: object) -> None:
    with pytest.raises(Refusal, match="delta"):
        epsilon([Spend(1, 1.0, 1)], PoissonSampling(10), bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [-1, np.inf, np.nan, None])
def test_an_epsilon_outside_its_range_is_refused(bad: object) -> None:
    with pytest.raises(Refusal, match="epsilon"):
        delta([Spend(1, 1.0, 1)], PoissonSampling(10), bad)  # type: ignore[arg-type]
