"""The laws of Fisher information loss, over losses and noises: composition, post-processing, subsets, scale."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.core.noise import NOISES as LAWS

LOSSES = [glm.Squared(), glm.Logistic(), glm.Poisson(), glm.Softmax(3, "mean")]
NOISES = [law(0.3) for law in LAWS.values() if law.regular]


def release(loss, noise=None, l2=0.05, seed=0, **options):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((25, 3))
    y = rng.integers(0, 3, 25) if isinstance(loss, glm.Softmax) else rng.integers(0, 2, 25)
    return glm.measure(glm.fit(X, y, loss, l2), X, y.astype(float), noise or dm.Gaussian(1.0), **options)


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda k: k.name)
def test_any_regular_noise_enters_by_its_location_information_alone(loss, noise):
    factor = np.sqrt(noise.fisher_information)
    np.testing.assert_allclose(release(loss, noise).examples, release(loss).examples * factor, rtol=1e-12)
    np.testing.assert_allclose(release(loss, noise).dataset, release(loss).dataset * factor, rtol=1e-12)


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_the_information_is_that_of_the_simulated_score(noise):
    """Monte Carlo of E[(d/dx log p(w'))²] for one cell: the oracle uses only the density and the refit."""
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((20, 2)), rng.standard_normal(20)
    leak = glm.measure(glm.fit(X, y, glm.Squared(), 0.1), X, y, noise)
    h, moved = 1e-5, [X.copy(), X.copy()]
    moved[0][3, 1] += h
    moved[1][3, 1] -= h
    up, down = (glm.fit(Z, y, glm.Squared(), 0.1).w for Z in moved)
    slope = (up - down) / (2 * h)
    b = noise.draw(rng, (400_000, 2))
    score = -(noise.score(b) @ slope)
    # Five standard errors of the mean of the squared score.
    allowed = 5 * (score**2).std() / np.sqrt(len(score))
    assert abs(np.mean(score**2) - leak.cells[3, 1] ** 2) < allowed
    assert abs(np.mean(score**2) - (1.03 * leak.cells[3, 1]) ** 2) > allowed  # a figure 3 % off would be detected


def test_the_one_sided_exponential_is_refused():
    with pytest.raises(dm.CannotMeasure, match=r"eq\. 6"):
        release(glm.Squared(), dm.Exponential(1.0))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda k: k.name)
def test_releases_compose_exactly_and_the_scalar_law_bounds_them(loss):
    parts = [release(loss, l2=l2) for l2 in (0.02, 0.1, 0.5)]
    exact = glm.compose(parts)
    scalar = np.sqrt(sum(p.examples**2 for p in parts))
    assert (exact.examples <= scalar * (1 + 1e-12)).all()
    assert (exact.examples >= np.max([p.examples for p in parts], axis=0) * (1 - 1e-12)).all()
    np.testing.assert_allclose(exact.cells, np.sqrt(sum(p.cells**2 for p in parts)), rtol=1e-10)
    total = sum(p.matrix(4) for p in parts)
    np.testing.assert_allclose(exact.examples[4], np.sqrt(np.linalg.eigvalsh(total)[-1]), rtol=1e-10)
    k_equal = glm.compose([parts[0]] * 4)
    np.testing.assert_allclose(k_equal.examples, 2 * parts[0].examples, rtol=1e-10)


def test_the_doses_of_two_releases_add_to_a_bound_of_the_exact_one():
    parts = [release(glm.Logistic(), l2=l2) for l2 in (0.02, 0.1)]
    total = parts[0].dose() + parts[1].dose()
    assert (glm.compose(parts).examples <= total.figures * (1 + 1e-12)).all()
    assert total.standing == "upper bound"


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_post_processing_never_adds_information(seed, rows):
    rng = np.random.default_rng(seed)
    L = rng.standard_normal((3, 3))
    noise = dm.CorrelatedGaussian(L @ L.T + 0.1 * np.eye(3)) if seed % 2 else dm.Gaussian(0.7)
    leak = release(glm.Logistic(), noise)
    A = rng.standard_normal((rows, 3))
    after = leak.of_linear_map(A)
    assert (after.examples <= leak.examples * (1 + 1e-9)).all()
    for row in (0, 5):
        gap = leak.matrix(row) - after.matrix(row)
        assert np.linalg.eigvalsh(gap)[0] > -1e-9 * np.linalg.eigvalsh(leak.matrix(row))[-1]
    if rows >= 3:  # an invertible image loses nothing
        np.testing.assert_allclose(after.examples, leak.examples, rtol=1e-8)


def test_one_prediction_leaks_what_its_own_gaussian_says():
    """A = xᵀ: the released number is N(w·x, σ²||x||²), whose information about a cell is (xᵀ dw)²/(σ²||x||²)."""
    leak = release(glm.Squared(), dm.Gaussian(0.5))
    x = np.array([1.0, -2.0, 0.5])
    J = leak.jacobian.dense(np.array([2]))[0] * 0.5
    expected = np.abs(x @ J[:, 1]) / (0.5 * np.linalg.norm(x))
    assert leak.of_linear_map(x).cells[2, 1] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda k: k.name)
def test_more_unknowns_never_lower_the_figure(loss):
    leak = release(loss)
    assert (leak.cells.max(axis=1) <= leak.examples * (1 + 1e-12)).all()
    assert (leak.attribute([0, 1]) >= leak.cells[:, :2].max(axis=1) * (1 - 1e-12)).all()
    assert (leak.without_target().examples <= leak.examples * (1 + 1e-12)).all()
    assert (leak.labels <= leak.examples * (1 + 1e-12)).all()
    groups = leak.group(np.arange(25) % 3)
    assert max(groups.values()) <= leak.dataset * (1 + 1e-12)
    assert leak.dataset >= leak.examples.max() * (1 - 1e-12)
    assert leak.subset([1, 2, 3]) <= leak.subset([1, 2, 3, 4]) * (1 + 1e-12)


@pytest.mark.parametrize("loss", LOSSES[:3], ids=lambda k: k.name)
def test_an_unknown_rest_of_the_row_only_helps_the_person(loss):
    leak = release(loss)
    for row in range(5):
        for column in range(3):
            known = leak.deviation(row, column)
            assert known == pytest.approx(1 / leak.cells[row, column], rel=1e-9)
            assert leak.deviation(row, column, knows_rest_of_row=False) >= known * (1 - 1e-9)
    # d + 1 unknowns seen through d weights: no unbiased guess of a single cell exists.
    assert leak.deviation(0, 0, knows_rest_of_row=False) == np.inf
    assert np.linalg.matrix_rank(leak.matrix(0), tol=1e-12) <= 3


def test_an_exact_release_is_unbounded_and_still_ranks():
    exact, noised = release(glm.Logistic(), dm.no_noise), release(glm.Logistic())
    assert np.isinf(exact.examples).all()
    assert np.isinf(exact.cells).all()
    assert exact.dataset == np.inf
    np.testing.assert_array_equal(np.argsort(exact.unscaled_examples), np.argsort(noised.examples))
    assert exact.deviation(0, 0) == 0.0
    for target in (0.01, 0.1, 1.0):
        again = release(glm.Logistic(), dm.Gaussian(exact.scale_for(target)))
        assert again.examples.max() == pytest.approx(target, rel=1e-12)


def test_a_scale_for_a_target_meets_it():
    leak = release(glm.Poisson(), dm.Laplace(2.0))
    scale = leak.scale_for(0.05, leak.cells[:, 1])
    assert release(glm.Poisson(), dm.Laplace(scale)).cells[:, 1].max() == pytest.approx(0.05, rel=1e-12)


def test_a_covariance_of_scale_times_identity_is_the_scale():
    correlated = release(glm.Squared(), dm.CorrelatedGaussian(0.49 * np.eye(3)))
    np.testing.assert_allclose(correlated.examples, release(glm.Squared(), dm.Gaussian(0.7)).examples, rtol=1e-12)


def test_another_table_is_refused():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((25, 3)), rng.standard_normal(25)
    fit = glm.fit(X, y, glm.Squared())
    for wrong in (X[::-1], X[:, ::-1], X + 0.1):
        with pytest.raises(dm.Refusal, match="row"):
            glm.measure(fit, wrong, y, dm.Gaussian(1.0))
    with pytest.raises(dm.Refusal, match="shape"):
        glm.measure(fit, X[:10], y[:10], dm.Gaussian(1.0))


BAD = {
    "no columns": lambda k: k.attribute([]),
    "a column twice": lambda k: k.attribute([0, 0]),
    "column out of range": lambda k: k.attribute(3),
    "a row out of range": lambda k: k.matrix(25),
    "no rows": lambda k: k.subset([]),
    "a mask of the wrong shape": lambda k: k.mask(np.ones((3, 3))),
    "too few groups": lambda k: k.group([1, 2]),
    "target zero": lambda k: k.scale_for(0.0),
    "nan target": lambda k: k.scale_for(float("nan")),
    "a projection of the wrong width": lambda k: k.of_linear_map(np.ones((2, 5))),
    "nothing to compose": lambda k: glm.compose([]),
    "with and without label composed": lambda k: glm.compose([k, k.without_target()]),
    "unlike tables composed": lambda k: glm.compose([k, release(glm.Squared(), seed=1)]),
    "unlike units composed": lambda k: glm.compose([k, release(glm.Squared(), input_map=2 * np.eye(3))]),
    "a projection to nothing": lambda k: k.of_linear_map(np.zeros((2, 3))),
    "the matrix of an exact release": lambda k: release(glm.Squared(), dm.no_noise).matrix(0),
    "a scale from infinite figures": lambda k: k.scale_for(0.1, release(glm.Squared(), dm.no_noise).cells),
}


@pytest.mark.parametrize("call", list(BAD.values()), ids=list(BAD))
def test_bad_arguments_are_refused_in_one_line(call):
    with pytest.raises(dm.Refusal) as caught:
        call(release(glm.Squared()))
    assert "\n" not in str(caught.value)
