"""Bounds from Fisher information, compared with simulated guesses and with independent matrix algebra."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dosimeter import Refusal
from dosimeter.core.cramer_rao import biased_error, dfil, known_rest_variance, unbiased_variance


def random_jacobian(seed, q, k):
    return np.random.default_rng(seed).standard_normal((q, k))


@given(seed=st.integers(0, 10_000), k=st.integers(1, 5))
def test_the_bound_is_the_inverse_information(seed, k):
    J = random_jacobian(seed, k + 2, k)
    inverse = np.linalg.inv(J.T @ J)
    for j in range(k):
        assert unbiased_variance(J, np.eye(k)[j]) == pytest.approx(inverse[j, j], rel=1e-6)


@given(seed=st.integers(0, 10_000), k=st.integers(1, 5), q=st.integers(1, 6))
def test_not_knowing_the_rest_only_helps_the_person(seed, k, q):
    """Eq. 12, also for a singular matrix, where the left side is infinite and not a pseudo-inverse."""
    J = random_jacobian(seed, q, k)
    for j in range(k):
        assert unbiased_variance(J, np.eye(k)[j]) >= known_rest_variance(J, j) * (1 - 1e-9)


def test_a_pseudo_inverse_would_break_equation_12():
    J = np.array([[1.0, 1.0]])
    claimed = np.linalg.pinv(J.T @ J)[0, 0]
    assert claimed < known_rest_variance(J, 0)  # the pseudo-inverse claims less than full knowledge allows
    assert unbiased_variance(J, np.array([1.0, 0.0])) == np.inf


def test_least_squares_reaches_the_bound():
    rng = np.random.default_rng(0)
    J, z = random_jacobian(1, 6, 3), np.array([1.0, -2.0, 0.5])
    observed = z @ J.T + rng.standard_normal((200_000, 6))
    guesses = observed @ np.linalg.pinv(J).T
    for j in range(3):
        # Standard error of a variance from 2e5 draws is 0.3 %: 2 % is six of them.
        assert guesses[:, j].var() == pytest.approx(unbiased_variance(J, np.eye(3)[j]), rel=0.02)
        assert guesses[:, j].mean() == pytest.approx(z[j], abs=0.02)


@pytest.mark.parametrize("shrink", [0.0, 0.3, 0.9, 1.0])
def test_a_shrunken_guess_obeys_the_biased_form_with_equality(shrink):
    """Eq. 7 to 9: ψ(z) = shrink·z has J_ψ = shrink·I and bias (shrink - 1) z; linear Gaussian guesses attain it."""
    rng = np.random.default_rng(2)
    J, z = random_jacobian(3, 5, 3), np.array([1.0, 0.0, -1.0])
    guesses = shrink * (z @ J.T + rng.standard_normal((200_000, 5))) @ np.linalg.pinv(J).T
    error = np.mean(np.sum((guesses - z) ** 2, axis=1))
    assert biased_error(J, shrink * np.eye(3), (shrink - 1) * z) == pytest.approx(error, rel=0.02)


def test_james_stein_beats_every_unbiased_guess_in_total_error():
    """Why η alone does not bound the mean squared error of several unknowns (sharp edges)."""
    rng = np.random.default_rng(4)
    k, z = 10, np.full(10, 0.3)
    observed = z + rng.standard_normal((100_000, k))
    shrunk = (1 - (k - 2) / np.sum(observed**2, axis=1, keepdims=True)) * observed
    unbiased = biased_error(np.eye(k), np.eye(k), np.zeros(k))
    assert unbiased == pytest.approx(k)
    assert np.mean(np.sum((shrunk - z) ** 2, axis=1)) < 0.5 * unbiased


def test_dfil_is_the_mean_eigenvalue():
    J = random_jacobian(5, 4, 3)
    assert dfil(J) ** 2 == pytest.approx(np.linalg.eigvalsh(J.T @ J).mean())


def test_a_zero_direction_is_refused_and_no_information_is_infinite():
    with pytest.raises(Refusal):
        unbiased_variance(np.eye(2), np.zeros(2))
    assert unbiased_variance(np.zeros((2, 2)), np.array([1.0, 0.0])) == np.inf
    assert known_rest_variance(np.zeros((2, 2)), 0) == np.inf
