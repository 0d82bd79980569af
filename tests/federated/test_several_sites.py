"""A patient at several sites: the figure of z/s, never below what two ledgers would compose."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dosimeter.federated import PoissonSampling, Spend, epsilon_at_sites
from dosimeter.federated.accountant import epsilon

COHORT = PoissonSampling(100)


def test_all_asked_it_is_the_exact_figure_of_one_gaussian_shift() -> None:
    """T rounds that move by 2 of z are one Gaussian of mean 2√T/z; δ(ε) of that in closed form, Φ by math.erf."""
    rounds, z, delta = 10, 20.0, 1e-5
    shift = 2 * math.sqrt(rounds) / z
    value = epsilon_at_sites((Spend(100, z, rounds),), COHORT, delta, 2)

    def normal(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2))

    exact = normal(shift / 2 - value / shift) - math.exp(value) * normal(-shift / 2 - value / shift)
    assert exact <= delta
    assert exact == pytest.approx(delta, rel=0.01)


def test_booking_the_training_at_each_of_two_sites_counts_too_little() -> None:
    spent = (Spend(100, 20.0, 10),)
    booked_twice = epsilon((Spend(100, 20.0, 20),), COHORT, 1e-5)
    assert booked_twice < 0.75 * epsilon_at_sites(spent, COHORT, 1e-5, 2)


def test_sampled_parts_are_bounded_above_a_simulated_patient_at_two_sites() -> None:
    """Monte Carlo of the privacy loss when both sites draw their part independently: δ at the bound is not exceeded."""
    spent, q, z, delta = (Spend(50, 1.5, 1),), 0.5, 1.5, 1e-2
    bound = epsilon_at_sites(spent, COHORT, delta, 2)
    rng = np.random.default_rng(7)
    x = rng.binomial(2, q, 400_000) + z * rng.normal(size=400_000)
    shifts, weights = np.arange(3), np.array([(1 - q) ** 2, 2 * q * (1 - q), q**2])
    ratio = (weights * np.exp((2 * shifts * x[:, None] - shifts**2) / (2 * z**2))).sum(axis=1)
    measured = np.maximum(0.0, 1 - np.exp(bound) / ratio).mean()
    assert measured <= delta
    assert bound > epsilon(spent, COHORT, delta)


def test_one_site_is_the_figure_itself() -> None:
    spent = (Spend(30, 1.5, 4),)
    assert epsilon_at_sites(spent, COHORT, 1e-4, 1) == epsilon(spent, COHORT, 1e-4)
