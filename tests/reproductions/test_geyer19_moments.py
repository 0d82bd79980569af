"""The moments accountant against its integrals, and the arithmetic of Table 1 of [Geyer19]."""

from __future__ import annotations

import mpmath
import pytest

from dosimeter.federated import (
    FixedSizeSampling,
    PoissonSampling,
    PrivacyBudget,
    Spend,
    accountant,
    noise_needed,
    rounds_allowed,
)
from dosimeter.reproductions import geyer19_moments as moments
from dosimeter.reproductions.geyer19_moments import log_moment

PRESETS = [(100, 30, 1e-3), (1000, 100, 1e-5), (10_000, 300, 1e-6)]
"""K, m, δ of the released program, whose σ is 1."""
TABLE_1 = [(100, 50, 11, 1e-3), (1000, 220, 54, 1e-5), (10_000, 508.5, 412, 1e-6)]
"""K, m = CC/CR, rounds, δ of Table 1, at ε = 8."""


@pytest.mark.parametrize(("q", "z"), [(0.5, 1.2), (0.22, 1.4), (0.03, 0.9)])
@pytest.mark.parametrize("order", [1, 4, 12])
def test_the_sum_is_the_larger_of_the_two_integrals(q: float, z: float, order: int) -> None:
    """E under ν of (ν/ν₀)^λ and E under ν₀ of (ν₀/ν)^λ, both by quadrature in 25 digits."""
    with mpmath.workdps(25):
        normal = lambda x, a: mpmath.exp(-((x - a) ** 2) / (2 * mpmath.mpf(z) ** 2)) / (z * mpmath.sqrt(2 * mpmath.pi))  # noqa: E731
        mixed = lambda x: (1 - q) * normal(x, 0) + q * normal(x, 1)  # noqa: E731
        span = list(range(-16, order + 18, 4))
        first = mpmath.quad(lambda x: mixed(x) * (mixed(x) / normal(x, 0)) ** order, span)
        second = mpmath.quad(lambda x: normal(x, 0) * (normal(x, 0) / mixed(x)) ** order, span)
        truth = float(mpmath.log(max(first, second)))
        assert first >= second
    assert log_moment(q, z, order) == pytest.approx(truth, rel=1e-10)


@pytest.mark.parametrize(
    ("preset", "by_moments", "by_renyi", "by_losses"),
    list(zip(PRESETS, (14, 70, 926), (21, 102, 1131), (28, 129, 1323), strict=True)),
)
def test_rounds_that_the_authors_presets_allow(
    preset: tuple[int, int, float], by_moments: int, by_renyi: int, by_losses: int
) -> None:
    K, m, delta = preset
    assert moments.rounds_allowed(PoissonSampling(K), m, 1.0, 8.0, delta) == by_moments
    assert rounds_allowed(PoissonSampling(K), m, 1.0, PrivacyBudget(8.0, delta)) == by_losses
    allowed, beyond = (
        accountant.delta_by_renyi([Spend(m, 1.0, n)], PoissonSampling(K), 8.0) for n in (by_renyi, by_renyi + 1)
    )
    assert allowed <= delta < beyond


@pytest.mark.parametrize(("row", "by_moments"), list(zip(TABLE_1, (1.1932, 1.4358, 1.0923), strict=True)))
def test_noise_that_table_1_needs_by_its_own_accountant(row: tuple[int, float, int, float], by_moments: float) -> None:
    K, m, rounds, delta = row
    noise = moments.noise_needed(PoissonSampling(K), m, rounds, 8.0, delta)
    assert noise == pytest.approx(by_moments, abs=1e-4)
    assert moments.delta([Spend(m, noise, rounds)], PoissonSampling(K), 8.0) <= delta
    assert moments.delta([Spend(m, noise - 2e-4, rounds)], PoissonSampling(K), 8.0) > delta


@pytest.mark.parametrize(("row", "by_losses"), list(zip(TABLE_1, (0.984, 1.251, 0.991), strict=True)))
def test_noise_that_table_1_needs_by_privacy_losses(row: tuple[int, float, int, float], by_losses: float) -> None:
    K, m, rounds, delta = row
    assert noise_needed(PoissonSampling(K), m, rounds, PrivacyBudget(8.0, delta), digits=3) == by_losses


@pytest.mark.parametrize(("row", "fixed", "renyi"), list(zip(TABLE_1[:2], (2.008, 2.619), (3.40, 4.45), strict=True)))
def test_noise_that_table_1_needs_with_the_fixed_number_it_samples(
    row: tuple[int, int, int, float], fixed: float, renyi: float
) -> None:
    """Under replacement, by our privacy losses; Rényi orders require two thirds more."""
    K, m, rounds, delta = row
    assert noise_needed(FixedSizeSampling(K), m, rounds, PrivacyBudget(8.0, delta), digits=3) == pytest.approx(
        fixed, abs=1.5e-3
    )
    assert accountant.delta_by_renyi([Spend(m, renyi, rounds)], FixedSizeSampling(K), 8.0) == pytest.approx(
        delta, rel=0.05
    )


def test_epsilon_and_delta_are_consistent() -> None:
    spent = [Spend(30, 1.0, 5), Spend(50, 1.3, 7)]
    eps = moments.epsilon(spent, PoissonSampling(100), 1e-3)
    assert moments.delta(spent, PoissonSampling(100), eps) == pytest.approx(1e-3, rel=1e-9)
    assert eps > accountant.epsilon(spent, PoissonSampling(100), 1e-3)
    assert moments.epsilon([], PoissonSampling(100), 1e-3) == 0.0
    assert moments.delta([Spend(100, 0.1, 1)], PoissonSampling(100), 0.0) == 1.0
