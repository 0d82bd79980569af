"""Noise scales: eq. 2 solved against 50 digits, and the cost of Laplace noise against quadrature and Monte Carlo."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import dosimeter as dm
from dosimeter.pca.calibration import (
    DELTAS,
    EPSILONS,
    crossover,
    eps_prime,
    gaussian_deviation,
    laplace_epsilon,
    laplace_share,
)


@pytest.mark.parametrize("alpha", [1, 6, 105, 307_720])
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 1e3, 1e8])
@pytest.mark.parametrize("delta", [0.5, 1e-3, 1e-12])
def test_eps_prime_solves_equation_two_in_fifty_digits(alpha, epsilon, delta):
    entry_epsilon = eps_prime(epsilon, delta, alpha)
    with mpmath.workdps(50):
        e = mpmath.mpf(entry_epsilon)
        left = mpmath.sqrt(2 * alpha * mpmath.log(1 / mpmath.mpf(delta))) * e + alpha * e * mpmath.expm1(e)
        # An error of one ulp in ε' is 2 + ε' ulp of the left side at most.
        assert abs(left / epsilon - 1) < 1e-15 * (2 + e) * 4


@pytest.mark.parametrize(("alpha", "delta"), [(91, 1 / 500), (105, 1e-3), (2080, 1e-6)])
def test_at_the_crossover_both_compositions_give_the_same_share(alpha, delta):
    star = crossover(alpha, delta)
    assert eps_prime(star, delta, alpha) == pytest.approx(star / alpha, rel=1e-12)
    assert eps_prime(0.9 * star, delta, alpha) > 0.9 * star / alpha
    assert eps_prime(1.1 * star, delta, alpha) < 1.1 * star / alpha


def test_with_few_entries_naive_composition_is_always_better():
    assert crossover(6, 1e-3) == 0.0
    assert all(eps_prime(e, 1e-3, 6) < e / 6 for e in (1e-9, 1e-3, 1.0, 1e3))


def gaussian_delta(epsilon, sigma):
    """δ of Gaussian noise at sensitivity 1, in 60 digits: Φ(1/2σ - εσ) - e^ε Φ(-1/2σ - εσ) [Balle and Wang 2018]."""
    epsilon, sigma = mpmath.mpf(epsilon), mpmath.mpf(sigma)

    def below(x):
        return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

    a, b = 1 / (2 * sigma), epsilon * sigma
    return below(a - b) - mpmath.exp(epsilon) * below(-a - b)


def budgets():
    """The ends of the range, powers of ten between them, and 200 at random."""
    rng = np.random.default_rng(0)
    ends = [
        (e, d) for e in (EPSILONS[0], 1e-3, 1.0, 1e3, EPSILONS[1]) for d in (DELTAS[0], 1e-20, 1e-6, 0.1, DELTAS[1])
    ]
    logs = [np.log10(EPSILONS), np.log10(DELTAS)]
    return ends + [tuple(float(10 ** rng.uniform(*some)) for some in logs) for _ in range(200)]


def test_gaussian_noise_is_enough_in_sixty_digits_wherever_it_is_not_refused():
    with mpmath.workdps(60):
        for epsilon, delta in budgets():
            sigma = gaussian_deviation(epsilon, delta)
            assert gaussian_delta(epsilon, sigma) <= delta
            assert gaussian_delta(epsilon, sigma * (1 - 2e-9 - 2e-13 / epsilon)) > delta  # and no more than needed


def test_the_cost_of_gaussian_noise_is_never_below_the_truth_and_keeps_its_budget():
    from dosimeter.pca.accounting import cost
    from dosimeter.pca.bounds import Bounds
    from dosimeter.pca.mechanism import true_sensitivity
    from dosimeter.pca.mechanisms import AnalyticGaussian

    box = Bounds(row_norm=1.0).over(2)
    for epsilon, delta in budgets():
        mechanism = AnalyticGaussian(epsilon, delta)
        moves, scales = true_sensitivity(mechanism, box, 50), mechanism.scales(box, 50)
        epsilon_cost = cost(mechanism, scales, moves, 50, delta)
        assert epsilon_cost <= epsilon * (1 + 1e-9)
        with mpmath.workdps(60):
            assert gaussian_delta(epsilon_cost, float(scales[0, 0]) * 50 / moves.l2) <= delta


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1e9, 1e-16), (1e-10, 1e-300), (1e-10, 1e-12), (1.0, 1e-41), (1.0, 0.99)]
)
def test_gaussian_budgets_that_were_not_checked_are_refused(epsilon, delta):
    with pytest.raises(dm.Refusal, match="Gaussian noise was checked"):
        gaussian_deviation(epsilon, delta)


@pytest.mark.parametrize(("r", "delta"), [(0.5, 1e-3), (2.0, 1e-2), (0.05, 1e-4)])
def test_one_entry_costs_what_the_hockey_stick_says(r, delta):
    epsilon = laplace_epsilon({r: 1}, delta)
    with mpmath.workdps(30):

        def gap(x):  # p(x) - e^ε p(x - 1) for Laplace noise of scale 1/r
            return max(r / 2 * (mpmath.exp(-r * abs(x)) - mpmath.exp(epsilon - r * abs(x - 1))), 0)

        # It is positive left of one point, where the loss r(|x - 1| - |x|) passes ε.
        end = (1 - mpmath.mpf(epsilon) / r) / 2
        true_delta = mpmath.quad(gap, [-mpmath.inf, -1, 0, end]) if end > 0 else mpmath.quad(gap, [-mpmath.inf, end])
    assert true_delta <= delta * (1 + 1e-9)  # never below the truth
    assert true_delta == pytest.approx(delta, rel=0.05)  # and hardly above it


def losses(entries, draws, rng):
    """Privacy losses of independent Laplace entries that all move by their sensitivity."""
    total = np.zeros(draws)
    for r, k in entries.items():
        for _ in range(k):
            x = rng.laplace(size=draws) / r
            total += r * (np.abs(x - 1) - np.abs(x))
    return total


@pytest.mark.parametrize("entries", [{0.4: 6}, {0.1: 40}, {0.3: 3, 0.05: 30}], ids=str)
def test_many_entries_cost_what_simulated_losses_say(entries):
    delta, draws = 1e-2, 1_000_000
    bound = laplace_epsilon(entries, delta)
    L = losses(entries, draws, np.random.default_rng(0))

    def delta_at(epsilon):
        terms = np.maximum(-np.expm1(epsilon - L), 0.0)
        return terms.mean(), terms.std() / math.sqrt(draws)

    true_delta, error = delta_at(bound)
    assert true_delta <= delta + 5 * error  # wrong once in 3 million runs if δ holds
    short, error = delta_at(0.97 * bound)
    assert short > delta + 5 * error  # a cost that is 3 % too low is caught


def test_the_share_by_accounting_is_the_one_known_for_fourteen_columns():
    assert laplace_share(1.0, 1e-3, 105) == pytest.approx(0.03831, abs=5e-6)
    assert laplace_epsilon({eps_prime(1.0, 1e-3, 307_720): 307_720}, 1e-3) == pytest.approx(0.5975, abs=2e-3)


@pytest.mark.parametrize("alpha", [1, 6, 105, 2080])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 30.0])
def test_the_share_by_accounting_is_never_below_either_theorem_and_keeps_the_budget(alpha, epsilon):
    share = laplace_share(epsilon, 1e-5, alpha)
    assert share >= max(epsilon / alpha, eps_prime(epsilon, 1e-5, alpha)) * (1 - 1e-12)
    assert laplace_epsilon({share: alpha}, 1e-5) <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("split", [(0.5, 0.5), (0.9, 0.1), (0.25,) * 4, (0.7, 0.2, 0.1)], ids=str)
@pytest.mark.parametrize("r", [0.1, 1.0, 5.0])
def test_one_joint_query_is_never_cheaper_than_its_parts_as_separate_queries(split, r):
    """The accounting of a joint query assumes this: however the change is spread over the entries, it costs no more."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    step = r / 2000
    whole = pld.from_laplace_mechanism(1 / r, value_discretization_interval=step)
    parts = pld.identity(step)
    for share in split:
        parts = parts.compose(pld.from_laplace_mechanism(1 / (share * r), value_discretization_interval=step))
    for delta in (1e-6, 1e-3, 0.05, 0.3):
        assert parts.get_epsilon_for_delta(delta) <= whole.get_epsilon_for_delta(delta) + 1e-9


def test_without_delta_the_cost_is_the_sum():
    assert laplace_epsilon({0.25: 3, 1.0: 1}, 0.0) == 1.75
    assert laplace_share(2.0, 0.0, 8) == 0.25


@pytest.mark.parametrize(
    "call",
    [
        lambda: eps_prime(0.0, 1e-3, 5),
        lambda: eps_prime(float("inf"), 1e-3, 5),
        lambda: eps_prime(1.0, 0.0, 5),
        lambda: eps_prime(1.0, 1e-3, 0),
        lambda: eps_prime(1.0, 1.0, 5),
        lambda: crossover(5, 0.0),
        lambda: laplace_epsilon({1.0: 1}, -0.1),
        lambda: laplace_epsilon({1.0: 1}, float("nan")),
    ],
)
def test_invalid_budgets_are_refused(call):
    with pytest.raises(dm.Refusal):
        call()
