"""Exactly m of K: the privacy cost under replacement, against quadrature, draws and a pair that attains it."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.federated import FixedSizeSampling, PoissonSampling, PrivacyBudget, Spend, fixed_size_accounting
from dosimeter.federated.accountant import delta, delta_by_renyi
from dosimeter.federated.budget import rounds_allowed
from dosimeter.federated.fixed_size_accounting import hockey_stick


@pytest.mark.parametrize(("q", "z"), [(0.5, 2.0), (0.22, 2.6), (0.03, 1.0), (1.0, 3.0)])
@pytest.mark.parametrize("eps", [-1.5, -0.2, 0.0, 0.3, 2.0])
def test_the_curve_is_the_integral_it_represents(q: float, z: float, eps: float) -> None:
    """∫ (p - e^ε r)₊ by quadrature, p the mixture with a client moved by 2C; for ε < 0 the pair exchanged."""
    fp = mpmath.fp
    normal = lambda x, a: fp.exp(-((x - a) ** 2) / (2 * z * z)) / (z * fp.sqrt(2 * fp.pi))  # noqa: E731
    mixed = lambda x: (1 - q) * normal(x, 0) + q * normal(x, 2)  # noqa: E731
    plain = lambda x: normal(x, 0)  # noqa: E731
    p, r = (mixed, plain) if eps >= 0 else (plain, mixed)
    gain = lambda x: max(p(x) - fp.exp(eps) * r(x), 0.0)  # noqa: E731
    truth = fp.quad(gain, np.linspace(-12 * z, 12 * z + 2, 60).tolist())
    assert float(hockey_stick(np.array([eps]), q, z)[0]) == pytest.approx(truth, abs=2e-6)


@pytest.mark.parametrize(("m", "K", "z", "rounds"), [(50, 100, 2.0, 11), (22, 100, 2.6, 30), (5, 100, 1.5, 20)])
def test_it_lies_between_the_pair_that_attains_one_round_and_the_renyi_orders(
    m: int, K: int, z: float, rounds: int
) -> None:
    """All others send -C, the client +C: over many rounds that is Poisson sampling at half the multiplier."""
    for eps in (0.5, 2.0, 6.0):
        ours = delta([Spend(m, z, rounds)], FixedSizeSampling(K), eps, grid=1e-3)
        attained = delta([Spend(m, z / 2, rounds)], PoissonSampling(K), eps, grid=1e-3)
        assert attained <= ours * (1 + 1e-6)
        assert ours <= delta_by_renyi([Spend(m, z, rounds)], FixedSizeSampling(K), eps)


def test_one_round_is_attained_exactly() -> None:
    for eps in (0.1, 0.7, 2.0):
        ours = delta([Spend(22, 2.6, 1)], FixedSizeSampling(100), eps)
        assert ours == pytest.approx(delta([Spend(22, 1.3, 1)], PoissonSampling(100), eps), rel=1e-4)


def test_draws_of_the_mechanism_itself_stay_below_and_show_a_halved_sensitivity() -> None:
    """Simulated: m of K clients drawn without replacement in each round, the client's sum against its replacement's.

    Five standard errors. The curve without the factor two lies below what the draws show: it would be false.
    """
    rng, K, m, z, rounds, eps, n = np.random.default_rng(3), 10, 5, 2.5, 4, 1.0, 400_000
    loss, q = np.zeros(n), m / K
    for _ in range(rounds):
        is_client_0 = rng.random((n, K)).argsort(axis=1)[:, :m] == 0  # is client 0 among the m?
        x = 2.0 * is_client_0.any(axis=1) + z * rng.normal(size=n)
        loss += np.logaddexp(np.log1p(-q), np.log(q) + (4 * x - 4) / (2 * z * z))
    gain = np.maximum(0.0, -np.expm1(eps - loss))
    estimate, error = gain.mean(), gain.std() / np.sqrt(n)
    assert delta([Spend(m, z, rounds)], FixedSizeSampling(K), eps) >= estimate - 5 * error
    assert delta([Spend(m, 2 * z, rounds)], FixedSizeSampling(K), eps) < estimate - 5 * error


def test_renyi_divergences_cover_the_whole_move() -> None:
    """At q = 1 the Rényi divergence is known: α(2/z)²/2, by quadrature. The library gives a quarter of it."""
    from dp_accounting import GaussianDpEvent, NeighboringRelation, SampledWithoutReplacementDpEvent
    from dp_accounting.rdp import RdpAccountant

    z, order = 1.7, 3.0
    with mpmath.workdps(30):
        density = lambda x, a: mpmath.exp(-((x - a) ** 2) / (2 * z * z)) / (z * mpmath.sqrt(2 * mpmath.pi))  # noqa: E731
        ratio = lambda x: density(x, 2) ** order / density(x, 0) ** (order - 1)  # noqa: E731
        truth = float(mpmath.log(mpmath.quad(ratio, np.linspace(-20, 30, 40).tolist())) / (order - 1))

    def reported(event: object) -> float:
        return float(RdpAccountant([order], NeighboringRelation.REPLACE_ONE).compose(event).rdp[0])

    assert reported(fixed_size_accounting.renyi_event(40, 40, z)) == pytest.approx(truth, rel=1e-9)
    uncorrected = reported(SampledWithoutReplacementDpEvent(40, 40, GaussianDpEvent(z)))
    assert uncorrected == pytest.approx(truth / 4, rel=1e-9), "dp-accounting has changed: see multiplier_factor"
    assert fixed_size_accounting.multiplier_factor() == 0.5


def test_a_fixed_library_would_not_be_corrected_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    from dp_accounting.rdp import rdp_privacy_accountant as library

    plain = library._compute_rdp_sample_wor_gaussian
    fixed_size_accounting.multiplier_factor.cache_clear()
    monkeypatch.setattr(
        library,
        "_compute_rdp_sample_wor_gaussian",
        lambda q, noise_multiplier, orders: plain(q, noise_multiplier / 2, orders),
    )
    try:
        assert fixed_size_accounting.multiplier_factor() == 1.0
    finally:
        fixed_size_accounting.multiplier_factor.cache_clear()


def test_the_library_alone_promises_less_than_the_attaining_pair_costs() -> None:
    from dp_accounting import (
        GaussianDpEvent,
        NeighboringRelation,
        SampledWithoutReplacementDpEvent,
        SelfComposedDpEvent,
    )
    from dp_accounting.rdp import RdpAccountant

    z, event = 1.75, SampledWithoutReplacementDpEvent(100, 50, GaussianDpEvent(1.75))
    promised = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE).compose(
        SelfComposedDpEvent(event, 11)
    )
    assert promised.get_delta(8.0) <= 1e-3
    assert delta([Spend(50, z / 2, 11)], PoissonSampling(100), 8.0) > 1e-3
    assert delta([Spend(50, z, 11)], FixedSizeSampling(100), 8.0) > 1e-3
    assert delta_by_renyi([Spend(50, z, 11)], FixedSizeSampling(100), 8.0) > 1e-3


def test_replacement_costs_more_than_addition() -> None:
    budget = PrivacyBudget(8.0, 1e-5)
    assert rounds_allowed(FixedSizeSampling(1000), 100, 2.0, budget) < rounds_allowed(
        PoissonSampling(1000), 100, 2.0, budget
    )


@pytest.mark.parametrize("m", [0, 2.5, 11, True, "3"])
def test_a_fixed_number_is_whole_and_within_the_clients(m: object) -> None:
    with pytest.raises(Refusal, match="clients per round"):
        FixedSizeSampling(10).rate(m)  # type: ignore[arg-type]
