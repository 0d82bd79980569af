"""The likelihood ratio against scipy's densities and leave-one-out sums, and that it wins where theory says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dosimeter import pca
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.pca.likelihood import log_likelihood_ratio


def case(seed, n, d):
    rng = np.random.default_rng(seed)
    L = rng.standard_normal((d, d)) + 2 * np.eye(d)
    m = rng.standard_normal(d)
    X = rng.standard_normal((n, d)) @ L.T + m
    Z = rng.standard_normal((6, d)) @ L.T + m
    return X, np.vstack([X[:4], Z]), pca.Population(m, L @ L.T)


@pytest.mark.parametrize("d", [1, 3])
def test_the_ratio_is_that_of_the_densities_of_mean_and_scatter(d):
    """p(mean, S) with and without z as one of the rows, each a Gaussian times a Wishart density of scipy."""
    n = 9
    X, Z, people = case(d, n, d)
    directions = pca.components_of(X)
    centre, S = X.mean(axis=0), n * np.cov(X.T, bias=True).reshape(d, d)

    def log_density(mean, scatter, rows):
        gauss = stats.multivariate_normal(people.mean, people.covariance / rows).logpdf(mean)
        return gauss + stats.wishart(rows - 1, people.covariance).logpdf(scatter)

    plain = log_density(centre, S, n)
    known = []
    for z in Z:
        others = (n * centre - z) / (n - 1)
        left = S - n / (n - 1) * np.outer(z - centre, z - centre)
        possible = np.linalg.eigvalsh(left).min() > 0
        known.append(log_density(others, left, n - 1) - plain if possible else -np.inf)
    known, ours = np.array(known), log_likelihood_ratio(Z, directions, n, people)
    inside = np.isfinite(known)
    np.testing.assert_array_equal(inside, np.isfinite(ours))
    assert inside[:4].all()
    np.testing.assert_allclose(np.diff(ours[inside]), np.diff(known[inside]), rtol=1e-8, atol=1e-9)


def test_the_ratio_about_a_fixed_point_is_that_of_two_wishart_densities():
    n, d = 10, 2
    X, Z, _ = case(5, n, d)
    people = pca.Population(np.zeros(d), np.array([[2.0, 0.3], [0.3, 1.0]]))
    directions = pca.components_of(X, centred=False)
    S = X.T @ X
    fits = [z for z in Z if np.linalg.eigvalsh(S - np.outer(z, z)).min() > 0]
    without = [stats.wishart(n - 1, people.covariance).logpdf(S - np.outer(z, z)) for z in fits]
    ours = log_likelihood_ratio(fits, directions, n, people)
    np.testing.assert_allclose(np.diff(ours), np.diff(without), rtol=1e-8, atol=1e-9)


def test_leverage_is_what_the_determinant_loses_without_the_row():
    X, _, _ = case(6, 12, 3)
    h = pca.leverage(X, pca.components_of(X), 12)
    scatter = np.linalg.det(12 * np.cov(X.T, bias=True))
    known = [1 - np.linalg.det(11 * np.cov(np.delete(X, i, axis=0).T, bias=True)) / scatter for i in range(12)]
    np.testing.assert_allclose(h, known, rtol=1e-10)


def test_a_row_that_alone_holds_a_direction_is_a_member_and_one_beyond_it_is_not():
    rng = np.random.default_rng(7)
    X = np.column_stack([rng.standard_normal((30, 2)), np.zeros(30)])
    X[4, 2] = 1.0
    directions = pca.components_of(X)
    people = pca.Population(np.zeros(3), np.eye(3))
    outside = np.vstack([X[4], X[5] + np.array([0, 0, 2.0]), X[5]])
    ratio = log_likelihood_ratio(outside, directions, 30, people)
    assert ratio[0] == np.inf
    assert ratio[1] == -np.inf
    assert np.isfinite(ratio[2])


def test_a_row_outside_the_span_cannot_be_a_member():
    X = np.column_stack([np.random.default_rng(8).standard_normal((30, 2)), np.zeros(30)])
    directions = pca.components_of(X)
    people = pca.Population(np.zeros(3), np.eye(3))
    ratio = log_likelihood_ratio([[0.1, 0.2, 1e-3], [0.1, 0.2, 0.0]], directions, 30, people)
    assert ratio[0] == -np.inf
    assert np.isfinite(ratio[1])


def games(d, n, rounds, seed=0):
    """Members and strangers of Gaussian tables, attacked in four ways; one AUC per round."""
    rng = np.random.default_rng(seed)
    scale = 0.7 ** np.arange(d)
    people = pca.Population(np.zeros(d), np.diag(scale**2))
    out = {"ratio": [], "leverage": [], "residual": [], "whitened": []}
    for _ in range(rounds):
        members, strangers = rng.standard_normal((2, n, d)) * scale
        directions = pca.components_of(members)
        out["ratio"].append(pca.likelihood_ratio(directions, members, strangers, n, people).figure)
        out["leverage"].append(pca.leverage_scores(directions, members, strangers, n).figure)
        out["residual"].append(pca.auc_by_components(directions, members, strangers)[:-1])
        out["whitened"].append(pca.auc_by_components(directions, members, strangers, whiten=True)[:-1])
    return {name: np.array(v) for name, v in out.items()}


@pytest.fixture(scope="module")
def played():
    return games(14, 400, 60)


def test_the_ratio_beats_the_residual_at_its_best_k(played):
    """Best fixed k on average over rounds; the margin is many standard errors of the paired difference."""
    for other in ("residual", "whitened"):
        best = played[other][:, played[other].mean(axis=0).argmax()]
        gain = played["ratio"] - best
        assert gain.mean() > 5 * gain.std(ddof=1) / np.sqrt(len(gain))
    gain = played["ratio"] - played["leverage"]
    assert gain.mean() > 5 * gain.std(ddof=1) / np.sqrt(len(gain))


def test_the_ratio_gains_what_the_number_of_parameters_says(played):
    """μ² = (d(d + 1)/2 + d)/n to first order: AUC Φ(μ/√2); the exact one lies within a tenth of the excess."""
    mu = np.sqrt((14 * 15 / 2 + 14) / 400)
    foretold = stats.norm.cdf(mu / np.sqrt(2))
    error = played["ratio"].std(ddof=1) / np.sqrt(60)
    assert abs(played["ratio"].mean() - foretold) < 0.1 * (foretold - 0.5) + 5 * error
    assert abs(played["residual"].mean(axis=0).max() - foretold) > 0.1 * (foretold - 0.5) + 5 * error


def test_no_statistic_beats_the_ratio_on_average(played):
    """Neyman and Pearson: among those tried, at no k."""
    assert played["ratio"].mean() > max(played[v].mean(axis=0).max() for v in ("residual", "whitened"))


@pytest.mark.parametrize("centred", [True, False])
def test_reference_rows_and_release_are_pooled_as_rows_would_be(centred):
    rng = np.random.default_rng(11)
    X, reference = rng.standard_normal((40, 4)) + 1, rng.standard_normal((25, 4))
    people = pca.Population.of(reference).pooled(pca.components_of(X, centred=centred), 40)
    assert people.rows == 65
    if centred:
        np.testing.assert_allclose(people.covariance, np.cov(np.vstack([X, reference]).T, bias=True), rtol=1e-10)
        np.testing.assert_allclose(people.mean, np.vstack([X, reference]).mean(axis=0), rtol=1e-10)
    else:  # the members' mean is unknown: their second moment replaces their covariance
        np.testing.assert_allclose(people.mean, reference.mean(axis=0))


def test_pooling_helps_where_reference_rows_are_few():
    rng, gain = np.random.default_rng(12), []
    for _ in range(25):
        members, strangers, reference = rng.standard_normal((3, 200, 25))
        directions, people = pca.components_of(members), pca.Population.of(reference)
        pooled, alone = (
            np.mean(np.sign(np.subtract.outer(a, b)) + 1) / 2
            for a, b in (
                (ratio(members, directions, people), ratio(strangers, directions, people)),
                (unpooled(members, directions, people), unpooled(strangers, directions, people)),
            )
        )
        gain.append(pooled - alone)
    assert np.mean(gain) > 5 * np.std(gain, ddof=1) / np.sqrt(25)


def ratio(rows, directions, people):
    return log_likelihood_ratio(rows, directions, 200, people)


def unpooled(rows, directions, people):
    return log_likelihood_ratio(rows, directions, 200, replace(people, rows=np.inf))


def test_too_few_rows_and_wrong_populations_are_refused():
    X = np.random.default_rng(9).standard_normal((5, 4))
    directions = pca.components_of(X)
    with pytest.raises(CannotMeasure, match="auc_by_components"):
        pca.leverage(X, directions, 5)
    Y = np.random.default_rng(10).standard_normal((50, 4))
    directions = pca.components_of(Y)
    with pytest.raises(Refusal, match="4 columns"):
        pca.likelihood_ratio(directions, Y, Y, 50, pca.Population(np.zeros(3), np.eye(3)))
    with pytest.raises(CannotMeasure, match="does not vary"):
        pca.likelihood_ratio(directions, Y, Y, 50, pca.Population(np.zeros(4), np.diag([1.0, 1, 1, 0])))
    for seed in range(20):  # in whichever direction it rounds
        turned = pca.components_of(np.random.default_rng(seed).standard_normal((50, 4)))
        with pytest.raises(CannotMeasure, match="does not vary"):
            pca.likelihood_ratio(turned, Y, Y, 50, pca.Population(np.zeros(4), np.diag([1.0, 1, 1, 0])))
    with pytest.raises(CannotMeasure, match="eigenvalues"):
        pca.leverage(Y, pca.as_components(directions.vectors), 50)


@pytest.mark.parametrize("d", [3, 20, 60])
def test_a_population_without_a_direction_is_refused_for_every_seed_and_one_with_all_of_them_for_none(d):
    """Cholesky pivots let 11 to 40 of 100 singular populations pass: S_jj of a weak direction is only rounding."""
    still = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        scale = 10.0 ** rng.uniform(-2, 2, d)
        directions = pca.components_of(rng.standard_normal((3 * d, d)) * scale[::-1])
        rows = rng.standard_normal((2, d))
        full, thin = (rng.standard_normal((d, m)) * scale[:, None] for m in (2 * d, d - 1))
        assert np.linalg.matrix_rank(thin) == d - 1
        pca.likelihood_ratio(directions, rows, rows, 3 * d, pca.Population(np.zeros(d), full @ full.T))
        with pytest.raises(CannotMeasure, match="does not vary"):
            pca.likelihood_ratio(directions, rows, rows, 3 * d, pca.Population(np.zeros(d), thin @ thin.T))
        still += 1
    assert still == 100


def test_without_members_the_ratio_is_no_better_than_a_coin(played):
    rng, figures = np.random.default_rng(13), []
    for _ in range(60):
        others, first, second, reference = rng.standard_normal((4, 400, 14))
        people = pca.Population.of(reference)
        figures.append(pca.likelihood_ratio(pca.components_of(others), first, second, 400, people).figure)
    reach = 4.9 * np.std(figures, ddof=1) / np.sqrt(60)
    assert abs(np.mean(figures) - 0.5) < reach
    assert abs(played["ratio"].mean() - 0.5) > 5 * reach


def test_a_member_that_holds_a_direction_about_a_public_centre_is_not_denied() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(5.0, 0.01, size=(6, 3))
    X[0, 0] = 50.0
    centre = np.full(3, 5.0)
    directions = pca.components(pca.second_moment(X, centre), centre)
    assert pca.leverage(X, directions, 6).max() > 1.1, "as if the centre were the rows' own mean"
    h = pca.leverage(X, directions, 6, fixed_centre=True)
    shifted = pca.leverage(X - centre, pca.components(pca.second_moment(X - centre)), 6)
    assert h.max() <= 1 + 1e-9
    np.testing.assert_allclose(h, shifted, rtol=1e-9)
    np.testing.assert_allclose(h.sum(), 3.0, rtol=1e-9)  # the leverages of all members add up to the rank
