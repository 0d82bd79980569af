"""Explained variance and its controls: against random subspaces, and against subspaces known by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ortho_group

import dosimeter as dm
from dosimeter.pca.bounds import Bounds
from dosimeter.pca.components import components, second_moment
from dosimeter.pca.mechanisms import AnalyticGaussian
from dosimeter.pca.published_mechanisms import LaplaceScalar
from dosimeter.pca.release import release
from dosimeter.pca.utility import explained_variance, noise_alone, random_subspace, rank_for_variance, utility

A = np.diag([5.0, 3.0, 1.0, 0.5, 0.0])


@pytest.mark.parametrize("k", [1, 2, 4, 5])
def test_a_random_subspace_explains_the_stated_share_on_average(k):
    rotations = ortho_group.rvs(5, size=20_000, random_state=np.random.default_rng(0))
    q = np.array([explained_variance(A, R, k) for R in rotations[:4000]])
    error = q.std() / np.sqrt(len(q)) + 1e-12
    assert abs(q.mean() - random_subspace(A, k)) < 5 * error


def test_the_exact_components_capture_everything_and_the_worst_the_least():
    V = components(A).vectors
    assert explained_variance(A, V, 3) == pytest.approx(1.0, rel=1e-14)
    assert explained_variance(A, V[:, ::-1], 2) == pytest.approx(0.5 / 8.0)
    assert explained_variance(A, V[:, ::-1], 5) == pytest.approx(1.0)


def test_the_noise_alone_is_a_random_subspace_where_all_columns_are_alike():
    private_pca = release(np.zeros((10, 5)), AnalyticGaussian(1.0, 1e-3), bounds=Bounds(-1.0, 1.0))
    mean, error = noise_alone(A, private_pca, 2, np.random.default_rng(0), draws=3000)
    # The noise has one scale on and off the diagonal, so it is not rotation invariant. But columns are exchangeable:
    # each direction's mean square is 1/d in every column, and A is diagonal.
    assert abs(mean - random_subspace(A, 2)) < 5 * error


def test_the_noise_alone_follows_the_columns_that_get_most_of_it():
    wide = Bounds([-10.0, -1.0, -1.0, -1.0, -1.0], [10.0, 1.0, 1.0, 1.0, 1.0])
    private_pca = release(np.zeros((10, 5)), LaplaceScalar(1.0), bounds=wide)
    mean, error = noise_alone(A, private_pca, 1, np.random.default_rng(0), draws=300)
    assert mean > random_subspace(A, 1) + 10 * error  # the noisiest column happens to be the one with the variance


def test_q_at_ninety_percent_comes_with_its_controls():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2000, 14)) * np.geomspace(1.0, 0.7, 14)
    box = Bounds(-5.0, 5.0)
    exact = second_moment(box.over(14).clip(rows).rows)
    loud = utility(exact, release(rows, AnalyticGaussian(0.01, 1e-5), bounds=box, rng=rng), rng)
    quiet = utility(exact, release(rows, AnalyticGaussian(1e6, 1e-5), bounds=box, rng=rng), rng)
    assert loud.k == quiet.k >= 11
    assert quiet.explained == pytest.approx(1.0, abs=1e-3)
    assert quiet.gain > 0.9
    # Here q alone looks good, and so does a random subspace: the gain shows that nothing was found.
    assert loud.explained > 0.75
    assert loud.random > 0.75
    assert abs(loud.noise - loud.random) < 5 * loud.noise_error
    assert abs(loud.gain) < 0.6


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99, 1.0])
def test_the_least_number_that_holds_the_share(share):
    values = np.array([5.0, 3.0, 1.0, 0.5, 0.25, 0.25])
    k = rank_for_variance(values, share)
    assert values[:k].sum() >= share * 10 * (1 - 1e-12)
    assert values[: k - 1].sum() < share * 10


@pytest.mark.parametrize(
    "call",
    [
        lambda: rank_for_variance([0.0, 0.0]),
        lambda: rank_for_variance([1.0], 0.0),
        lambda: rank_for_variance([1.0], 1.1),
        lambda: explained_variance(A, np.eye(5), 0),
        lambda: explained_variance(A, np.eye(5), 6),
        lambda: explained_variance(0 * A, np.eye(5), 1),
        lambda: random_subspace(0 * A, 1),
    ],
)
def test_questions_without_an_answer_are_refused(call):
    with pytest.raises(dm.Refusal):
        call()
