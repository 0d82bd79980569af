"""The white box behind a fitted scaler: candidates against refits of the whole pipeline, guesses against their laws."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dosimeter as dm
from dosimeter import glm
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.errors import Refusal
from dosimeter.glm.attacks.attribute_inversion import moves, white_box
from dosimeter.glm.attacks.inversion_problem import Candidates
from dosimeter.glm.attacks.membership import likelihood_ratio
from dosimeter.glm.attacks.refitted_scaler import removal_through_scaler

from .problems import targets
from .whole_pipeline import fold, released

LOSSES = {"squared": glm.Squared(), "logistic": glm.Logistic(), "poisson": glm.Poisson()}
N, ROW, COLUMN, L2 = 40, 3, 1, 0.05
ALL = np.ones(3, dtype=bool)


def raw_table(loss, n=N, seed=0):
    rng = np.random.default_rng(seed)
    U = rng.standard_normal((n, 3)) * [2.0, 5.0, 0.3] + [40.0, -7.0, 1.0]
    U[ROW, COLUMN] = -7.0 + 5.0 * 2.0
    z = (U - U.mean(axis=0)) / U.std(axis=0)
    return U, targets(LOSSES[loss], 0.7 * z @ [1.0, -0.5, 0.25], rng)


def standardised(U, loss, y, l2=L2):
    X = (U - U.mean(axis=0)) / U.std(axis=0)
    return X, glm.fit(X, y, LOSSES[loss], l2, intercept=True)


def with_cell(U, value):
    other = U.copy()
    other[ROW, COLUMN] = value
    return other


def grid(U, values):
    return Candidates.grid(COLUMN, (np.asarray(values) - U[:, COLUMN].mean()) / U[:, COLUMN].std())


VALUES = [-20.0, -7.5, 2.5, 11.0, 60.0]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("l2", [0.0, L2])
def test_candidates_are_the_raw_weights_of_the_refitted_pipeline(loss, l2):
    U, y = raw_table(loss)
    X, fit = standardised(U, loss, y, l2)
    A = fold(U.mean(axis=0), U.std(axis=0))
    ours = moves(fit, X, y, grid(U, VALUES), [ROW], exact=True, scaled=ALL)[0]
    held = moves(fit, X, y, grid(U, VALUES), [ROW], exact=True)[0]
    for delta, frozen, value in zip(ours, held, VALUES, strict=True):
        there = released(with_cell(U, value), y, loss, l2, 1.0)[0]
        here = released(U, y, loss, l2, 1.0)[0]
        np.testing.assert_allclose(A @ delta, there - here, rtol=0, atol=1e-8 * np.linalg.norm(there - here))
        if l2:
            assert np.linalg.norm(A @ frozen - (there - here)) > 1e-4 * np.linalg.norm(there - here)


@pytest.mark.parametrize("loss", [glm.Gamma(), glm.Huber(), glm.SquaredHinge(), glm.Probit()], ids=lambda v: v.name)
def test_candidates_of_other_losses_are_whole_refits(loss):
    U, _ = raw_table("squared")
    X = (U - U.mean(axis=0)) / U.std(axis=0)
    y = targets(loss, 0.7 * X @ [1.0, -0.5, 0.25], np.random.default_rng(4))
    fit = glm.fit(X, y, loss, L2, intercept=True)
    A = fold(U.mean(axis=0), U.std(axis=0))
    ours = moves(fit, X, y, grid(U, VALUES), [ROW], exact=True, scaled=ALL)[0]
    for delta, value in zip(ours, VALUES, strict=True):
        changed = with_cell(U, value)
        m, s = changed.mean(axis=0), changed.std(axis=0)
        there = fold(m, s) @ glm.fit((changed - m) / s, y, loss, L2, intercept=True).w
        move = there - A @ fit.w
        np.testing.assert_allclose(A @ delta, move, rtol=0, atol=1e-7 * np.linalg.norm(move))


def test_candidates_are_those_of_scikit_learn():
    U, y = raw_table("squared")
    X, fit = standardised(U, "squared", y)
    A = fold(U.mean(axis=0), U.std(axis=0))
    ours = moves(fit, X, y, grid(U, VALUES), [ROW], scaled=ALL)[0]
    for delta, value in zip(ours, VALUES, strict=True):
        pipeline = make_pipeline(StandardScaler(), Ridge(alpha=N * L2)).fit(with_cell(U, value), y)
        raw = pipeline[1].coef_ / pipeline[0].scale_
        expected = np.append(raw, pipeline[1].intercept_ - raw @ pipeline[0].mean_)
        np.testing.assert_allclose(A @ (fit.w + delta), expected, rtol=1e-10)


def test_logistic_candidates_are_those_of_scikit_learn():
    U, y = raw_table("logistic")
    X, fit = standardised(U, "logistic", y)
    A = fold(U.mean(axis=0), U.std(axis=0))
    ours = moves(fit, X, y, grid(U, VALUES), [ROW], exact=True, scaled=ALL)[0]
    for delta, value in zip(ours, VALUES, strict=True):
        model = LogisticRegression(C=1 / (N * L2), tol=1e-10, max_iter=10_000)
        pipeline = make_pipeline(StandardScaler(), model).fit(with_cell(U, value), y)
        raw = pipeline[1].coef_[0] / pipeline[0].scale_
        expected = np.append(raw, pipeline[1].intercept_[0] - raw @ pipeline[0].mean_)
        np.testing.assert_allclose(A @ (fit.w + delta), expected, rtol=1e-5, atol=1e-6)


def test_a_candidate_on_which_chord_steps_fail_is_refitted_with_its_own_scaler(monkeypatch):
    U, y = raw_table("logistic")
    X, fit = standardised(U, "logistic", y)
    settled = moves(fit, X, y, grid(U, VALUES), [ROW], exact=True, scaled=ALL)
    monkeypatch.setattr(import_module("dosimeter.glm.attacks.changed_refits"), "CHORDS", 0)
    alone = moves(fit, X, y, grid(U, VALUES), [ROW], exact=True, scaled=ALL)
    np.testing.assert_allclose(settled, alone, rtol=1e-7, atol=1e-11)


def test_one_newton_step_is_near_the_refit_and_the_method_says_how_near():
    U, y = raw_table("logistic", n=400)
    X, fit = standardised(U, "logistic", y)
    candidates = grid(U, [-12.0, -2.0, 4.0])
    quick, true = (moves(fit, X, y, candidates, scaled=ALL, exact=e) for e in (False, True))
    assert np.linalg.norm(quick - true) < 0.05 * np.linalg.norm(true)
    played = white_box(fit, X, y, candidates, np.zeros((2, 4)), noise=dm.Gaussian(0.1), scaled=ALL)
    assert "through the fitted scaler, refits by one Newton step, off by at most" in played.method


def log_densities(law, R, U, y, values):
    """(t, k) log density of raw releases R (t, p) under each candidate, from whole refits; constants left out."""
    out = []
    for value in values:
        other = with_cell(U, value)
        mean, root = released(other, y, "squared", L2, 1.0)
        noise = np.linalg.solve(root, (R - mean).T).T
        out.append(law(noise) - np.linalg.slogdet(root)[1])
    return np.array(out).T


LAWS = {
    "gaussian": (dm.Gaussian(0.2), lambda e: stats.norm(scale=0.2).logpdf(e).sum(axis=1)),
    "laplace": (dm.Laplace(0.2), lambda e: stats.laplace(scale=0.2).logpdf(e).sum(axis=1)),
    "gumbel": (dm.Gumbel(0.2), lambda e: stats.gumbel_r(scale=0.2).logpdf(e).sum(axis=1)),
}


@pytest.mark.parametrize("law", [*LAWS, "correlated"])
def test_the_guess_is_the_most_probable_candidate_by_whole_refits(law):
    U, y = raw_table("squared")
    X, fit = standardised(U, "squared", y)
    rng = np.random.default_rng(2)
    if law == "correlated":
        R = rng.standard_normal((4, 4))
        noise = CorrelatedGaussian(0.05 * (R @ R.T + np.eye(4)))
        density, draws = stats.multivariate_normal(np.zeros(4), noise.covariance).logpdf, noise.draw(rng, 400)
    else:
        noise, density = LAWS[law]
        draws = noise.draw(rng, (400, 4))
    prior = np.array([0.1, 0.3, 0.2, 0.3, 0.1])
    result = white_box(fit, X, y, grid(U, VALUES), draws, noise=noise, prior=prior, rows=[ROW], scaled=ALL)
    A = fold(U.mean(axis=0), U.std(axis=0))
    scores = np.log(prior) + log_densities(density, (fit.w + draws) @ A.T, U, y, VALUES)
    best = np.sort(scores, axis=1)
    clear = best[:, -1] - best[:, -2] > 1e-8
    assert clear.mean() > 0.99
    np.testing.assert_array_equal(result.guesses[clear, 0], np.argmax(scores, axis=1)[clear])
    assert len(set(result.guesses[:, 0].tolist())) > 2


def success(U, y, values, sigma, trials, rng, **options):
    """How often the attack names the right one of two values that are equally likely, each in turn the truth."""
    right = 0.0
    for k, value in enumerate(values):
        table = with_cell(U, value)
        X, fit = standardised(table, "squared", y)
        noise = dm.Gaussian(sigma)
        draws = noise.draw(rng, (trials, len(fit.w)))
        played = white_box(fit, X, y, grid(table, values), draws, noise=noise, prior=[1, 1], rows=[ROW], **options)
        right += np.mean(played.guesses[:, 0] == k) / 2
    return right


def bayes(U, y, values, sigma, trials, rng):
    """The best success of any attack: the exact laws of the two releases, sampled."""
    laws = [released(with_cell(U, value), y, "squared", L2, sigma) for value in values]
    densities = [stats.multivariate_normal(mean, root @ root.T, allow_singular=True) for mean, root in laws]
    right = 0.0
    for k, (mean, root) in enumerate(laws):
        R = mean + rng.standard_normal((trials, len(mean))) @ root.T
        right += np.mean(densities[k].logpdf(R) >= densities[1 - k].logpdf(R)) / 2
    return right


def test_the_attack_stays_below_the_exact_figure_and_above_what_a_held_scaler_allows():
    """At a noise that hides the weights, mean and deviation still tell: only the figure through them bounds it."""
    U, y = raw_table("squared", n=16, seed=5)
    mean, deviation = U[:, COLUMN].mean(), U[:, COLUMN].std()
    z = (U[ROW, COLUMN] - mean) / deviation
    h, sigma, trials = 0.5, 50.0, 400_000
    values = [U[ROW, COLUMN] - h * deviation / 2, U[ROW, COLUMN] + h * deviation / 2]
    X, fit = standardised(U, "squared", y)
    total, held = (
        float(glm.measure(fit, X, y, noise=dm.Gaussian(sigma), scaled=s).cells[ROW, COLUMN]) for s in (ALL, None)
    )
    assert total > np.sqrt(2 * z**2 + 1) / 16 * 0.999 > 10 * held
    error = 0.5 / np.sqrt(2 * trials)
    rng = np.random.default_rng(1)
    found = success(U, y, values, sigma, trials, rng, scaled=ALL)
    best = bayes(U, y, values, sigma, trials, rng)
    assert found == pytest.approx(best, abs=5 * error)
    # Two values a step h apart: no guess is right more often than Φ(ηh/2), up to the curvature over the step.
    assert found <= stats.norm.cdf(total * h / 2) + 5 * error
    assert found > stats.norm.cdf(held * h / 2) + 10 * error
    unaware = success(U, y, values, sigma, trials, rng)
    assert unaware < found - 10 * error


def test_with_little_noise_both_agree_with_the_exact_figure():
    U, y = raw_table("squared", n=30, seed=6)
    deviation = U[:, COLUMN].std()
    X, fit = standardised(U, "squared", y)
    sigma, h, trials = 0.02, 0.02, 100_000
    values = [U[ROW, COLUMN] - h * deviation / 2, U[ROW, COLUMN] + h * deviation / 2]
    eta = float(glm.measure(fit, X, y, noise=dm.Gaussian(sigma), scaled=ALL).cells[ROW, COLUMN])
    found = success(U, y, values, sigma, trials, np.random.default_rng(3), scaled=ALL)
    assert found == pytest.approx(stats.norm.cdf(eta * h / 2), abs=5 * 0.5 / np.sqrt(2 * trials))


def test_a_column_that_the_table_does_not_standardise_is_attacked_as_before():
    U, y = raw_table("squared")
    X, fit = standardised(U, "squared", y)
    draws = 0.1 * np.random.default_rng(0).standard_normal((30, 4))
    scaled = np.array([True, False, True])
    one, other = (
        white_box(fit, X, y, grid(U, VALUES), draws, noise=dm.Gaussian(0.1), scaled=s) for s in (None, scaled)
    )
    np.testing.assert_array_equal(one.guesses, other.guesses)
    assert "through the fitted scaler" not in other.method


def test_softmax_holds_the_scaler_and_the_method_says_so():
    U, _ = raw_table("squared")
    X = (U - U.mean(axis=0)) / U.std(axis=0)
    y = np.random.default_rng(1).integers(0, 3, N).astype(float)
    fit = glm.fit(X, y, glm.Softmax(3, "mean"), L2, intercept=True)
    draws = 0.1 * np.random.default_rng(0).standard_normal((30, fit.w.size))
    held, scaled = (white_box(fit, X, y, grid(U, VALUES), draws, noise=dm.Gaussian(0.1), scaled=s) for s in (None, ALL))
    np.testing.assert_array_equal(held.guesses, scaled.guesses)
    assert "with the fitted scaler held" in scaled.method
    assert "scaler" not in held.method


def test_what_does_not_fit_is_refused():
    U, y = raw_table("squared")
    X, fit = standardised(U, "squared", y)
    with pytest.raises(Refusal, match="several columns"):
        moves(fit, X, y, Candidates((0, 1), np.eye(2), nearest=True), scaled=ALL)
    with pytest.raises(Refusal, match="marked as standardised"):
        white_box(glm.fit(U, y, glm.Squared(), 1.0), U, y, Candidates.grid(0, [1.0]), np.zeros((1, 3)), scaled=ALL)
    bare = glm.fit(X, y, glm.Squared(), 1.0)
    with pytest.raises(Refusal, match="fit an intercept"):
        moves(bare, X, y, Candidates.grid(0, [1.0]), scaled=ALL)
    pair = np.array([[1.0], [-1.0]])
    with pytest.raises(Refusal, match="one value only"):
        moves(
            glm.fit(pair, np.array([0.0, 1.0]), glm.Squared(), 1.0, intercept=True), pair, np.array([0.0, 1.0]),
            Candidates.grid(0, [-1.0]), [0], scaled=[True],
        )  # fmt: skip


@pytest.mark.parametrize("loss", LOSSES)
def test_a_release_without_a_row_has_the_law_of_the_refitted_pipeline(loss):
    """nλ and n stay: the refit of the other rows has the penalty nλ."""
    U, y = raw_table(loss)
    X, fit = standardised(U, loss, y)
    move, noise = removal_through_scaler(fit, X, ROW, ALL, dm.Gaussian(0.3))
    A = fold(U.mean(axis=0), U.std(axis=0))
    mean, root = released(np.delete(U, ROW, axis=0), np.delete(y, ROW), loss, L2 * N / (N - 1), 0.3)
    np.testing.assert_allclose(A @ (fit.w + move), mean, rtol=1e-8)
    np.testing.assert_allclose(A @ noise.covariance @ A.T, root @ root.T, rtol=1e-10)


def test_membership_through_the_scaler_is_the_likelihood_ratio_of_whole_refits():
    U, y = raw_table("squared", n=16, seed=5)
    sigma, trials = 2.0, 40_000
    X, fit = standardised(U, "squared", y)
    move, without = removal_through_scaler(fit, X, ROW, ALL, dm.Gaussian(sigma))
    played = likelihood_ratio(move, dm.Gaussian(sigma), np.random.default_rng(0), trials, noise_without=without)
    rng = np.random.default_rng(1)
    laws = [
        released(U, y, "squared", L2, sigma),
        released(np.delete(U, ROW, axis=0), np.delete(y, ROW), "squared", L2 * 16 / 15, sigma),
    ]
    density = [stats.multivariate_normal(mean, root @ root.T, allow_singular=True) for mean, root in laws]
    R = [mean + rng.standard_normal((trials, len(mean))) @ root.T for mean, root in laws]
    inside, outside = (density[0].logpdf(r) - density[1].logpdf(r) for r in R)
    auc = stats.mannwhitneyu(inside, outside).statistic / trials**2
    assert played.figure == pytest.approx(auc, abs=5 * 0.6 / np.sqrt(2 * trials))
    held = glm.membership(fit, X, y, dm.Gaussian(sigma)).auc[ROW]
    assert played.figure > held + 0.02


def test_a_column_that_only_one_row_varies_cannot_be_standardised_without_it():
    U = np.column_stack([np.arange(8.0), np.eye(8)[2]])
    X = (U - U.mean(axis=0)) / U.std(axis=0)
    fit = glm.fit(X, np.arange(8.0), glm.Squared(), 0.1, intercept=True)
    with pytest.raises(Refusal, match="without row 2 column 1 holds one value only"):
        removal_through_scaler(fit, X, 2, np.ones(2, dtype=bool), dm.Gaussian(1.0))
