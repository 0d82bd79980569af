"""Enclosures of largest eigenvalues: never wrong, whatever the rest of the matrix hides."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.glm.linalg import certified_eigenvalue as certified
from dosimeter.glm.linalg.certified_eigenvalue import (
    TOLERANCE,
    enclosed_eigenvalues,
    is_bound,
    largest_eigenvalue,
    norm_estimate,
    upper_bound,
)


def matrices(rng, count, s, k, rest):
    """M (count, s + k, s + k) >= 0 whose lower right block has norm `rest` times that of the whole, about."""
    out = []
    for _ in range(count):
        L = rng.standard_normal((s + k, s + k)) / np.sqrt(s + k)
        L[s:] *= np.sqrt(rest)
        out.append(L @ L.T)
    return np.array(out)


def split(M, s):
    beta = np.linalg.eigvalsh(M[:, s:, s:])[:, -1] * (1 + 1e-12)
    return M[:, :s, :s], M[:, :s, s:], beta, lambda index, x: np.einsum("gkl,gl->gk", M[index][:, s:, s:], x)


@pytest.mark.parametrize("rest", [0.0, 1e-6, 1e-2, 0.1, 0.5])
def test_an_enclosure_holds_the_largest_eigenvalue(rest):
    rng = np.random.default_rng(0)
    M = matrices(rng, 30, 4, 40, rest)
    truth = np.linalg.eigvalsh(M)[:, -1]
    values, solved = enclosed_eigenvalues(*split(M, 4), steps=40)
    assert solved.all() or rest == 0.5
    np.testing.assert_allclose(values[solved], truth[solved], rtol=2 * TOLERANCE)
    assert (values[solved] >= truth[solved] * (1 - 1e-14)).all()


def test_an_enclosure_that_stopped_early_is_above_and_says_so():
    M = matrices(np.random.default_rng(1), 30, 4, 40, 0.2)
    truth = np.linalg.eigvalsh(M)[:, -1]
    values, solved = enclosed_eigenvalues(*split(M, 4), steps=1)
    assert not solved.all()
    judged = values > 0
    assert (values[judged] >= truth[judged] * (1 - 1e-14)).all()


def test_an_eigenvalue_that_no_vector_of_the_first_space_touches_is_not_missed():
    M = np.diag([1.0, 0.5, 3.0, 0.1])[None]
    _, solved = enclosed_eigenvalues(*split(M, 2), steps=10)
    assert not solved.any()
    # If the bound says that nothing is there, the first space decides.
    (value,), (solved,) = enclosed_eigenvalues(*split(np.diag([1.0, 0.5, 0.3, 0.1])[None], 2), steps=0)
    assert solved
    assert value == pytest.approx(1.0)


def test_a_second_eigenvalue_close_to_the_first_is_told_apart():
    rng = np.random.default_rng(2)
    M = matrices(rng, 20, 3, 30, 0.05)
    M[:, 0, 0] = M[:, 1, 1] = 2.0  # two nearly equal directions, each coupled to the rest in its own way
    values, solved = enclosed_eigenvalues(*split(M, 3), steps=30)
    assert solved.all()
    np.testing.assert_allclose(values, np.linalg.eigvalsh(M)[:, -1], rtol=2 * TOLERANCE)


def test_zeros_are_solved():
    values, solved = enclosed_eigenvalues(np.zeros((2, 3, 3)), np.zeros((2, 3, 5)), np.zeros(2), None, 0)
    assert solved.all()
    assert not values.any()


@pytest.mark.parametrize("spectrum", ["apart", "clustered", "equal"])
def test_one_large_matrix(spectrum, monkeypatch):
    rng = np.random.default_rng(3)
    values = {
        "apart": np.geomspace(1e-3, 1.0, 150),
        "clustered": np.r_[np.linspace(0.1, 0.5, 100), 1 - 1e-9 * np.arange(50)],
        "equal": np.ones(150),
    }[spectrum]
    Q = np.linalg.qr(rng.standard_normal((150, 150)))[0]
    M = (Q * values) @ Q.T
    M = (M + M.T) / 2
    monkeypatch.setattr(certified, "DIRECT", 10)
    assert largest_eigenvalue(M) == pytest.approx(values.max(), rel=2 * TOLERANCE)
    assert values.max() <= upper_bound(M) <= 1.1 * values.max()
    assert norm_estimate(lambda x: M @ x, 150) == pytest.approx(values.max(), rel=0.05)
    assert is_bound(M, values.max() * (1 + 1e-12))
    assert not is_bound(M, values.max() * (1 - 1e-6))
    before = M.copy()
    largest_eigenvalue(M)
    np.testing.assert_array_equal(M, before)
