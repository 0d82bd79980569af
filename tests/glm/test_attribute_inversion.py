"""Refits against refits from scratch; guesses against their bounds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import dosimeter as dm
from dosimeter import glm
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.glm.attacks.attribute_inversion import moves, white_box
from dosimeter.glm.attacks.inversion_problem import Candidates
from dosimeter.glm.attacks.prediction_inversion import black_box

from .problems import Problem, ordinary, table, targets


def with_nominal(problem, seed=0):
    """The problem with a category of three levels in two more columns, 3 and 4."""
    level = np.random.default_rng(seed).integers(0, 3, len(problem.X))
    X = np.column_stack([problem.X, level == 0, level == 1]).astype(float)
    return Problem(problem.name, X, problem.y, problem.loss, problem.l2, problem.sample_weight, problem.intercept)


EVERY = [with_nominal(p) for p in ordinary(n=80)]


def weights_of(fit):
    """(q,) the contrasts of softmax one after another."""
    return fit.w.T.ravel()


@pytest.mark.parametrize("problem", EVERY, ids=lambda p: p.name)
def test_the_moves_are_those_of_refits_from_scratch(problem):
    fit = problem.fit()
    rows = [0, 5, 33]
    ours = moves(fit, problem.X, problem.y, [3, 4], rows, exact=True)
    quick = moves(fit, problem.X, problem.y, [3, 4], rows)
    for i, row in enumerate(rows):
        for c, value in enumerate([(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)]):
            X = problem.X.copy()
            X[row, 3:] = value
            truth = weights_of(problem.fit(X)) - weights_of(fit)
            size = np.linalg.norm(truth)
            if np.array_equal(X, problem.X):
                assert not ours[i, c].any()
                continue
            assert np.linalg.norm(ours[i, c] - truth) <= 1e-8 * size
            # One Newton step: exact for a quadratic, a few per cent off on eighty rows of anything else.
            assert np.linalg.norm(quick[i, c] - truth) <= (1e-9 if fit.loss.name == "squared" else 0.15) * size


def test_nothing_cancels_as_a_value_nears_the_true_one():
    """Differences from refits lose ten digits here; half the change must move the weights half as far."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((50, 3))
    y = targets(glm.Squared(), X.sum(axis=1), rng)
    fit = glm.fit(X, y, glm.Squared(), 0.01)
    values = X[4, 1] + np.array([2.0**-30, 2.0**-31])
    slopes = moves(fit, X, y, Candidates.grid(1, values), [4])[0] / (values - X[4, 1])[:, None]
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=0, atol=1e-8 * np.abs(slopes).max())


@pytest.mark.parametrize("name", ["logistic", "softmax about the mean"])
def test_a_row_on_which_chord_steps_fail_is_refitted_by_itself(name, monkeypatch):
    from importlib import import_module

    changed_refits = import_module("dosimeter.glm.attacks.changed_refits")

    problem = next(p for p in EVERY if p.name.startswith(name))
    fit = problem.fit()
    settled = moves(fit, problem.X, problem.y, [3, 4], [7], exact=True)
    monkeypatch.setattr(changed_refits, "CHORDS", 0)
    alone = moves(fit, problem.X, problem.y, [3, 4], [7], exact=True)
    np.testing.assert_allclose(settled, alone, rtol=1e-7, atol=1e-12)


@pytest.fixture(scope="module")
def small():
    problem = EVERY[0]
    return problem.fit(), problem.X, problem.y


def test_without_noise_every_row_is_guessed(small):
    fit, X, y = small
    result = white_box(fit, X, y, [3, 4], np.zeros((1, 5)))
    assert result.figure == 1.0
    assert "nearest model, exact refits" in result.method


def test_the_nearest_model_is_the_one_that_refits_say(small):
    fit, X, y = small
    draws = 0.02 * np.random.default_rng(0).standard_normal((6, 5))
    result = white_box(fit, X, y, [3, 4], draws, rows=[2, 11])
    for i, row in enumerate((2, 11)):
        refits = []
        for value in [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)]:
            X2 = X.copy()
            X2[row, 3:] = value
            refits.append(glm.fit(X2, y, fit.loss, fit.l2).w)
        for t, b in enumerate(draws):
            assert result.guesses[t, i] == np.argmin([np.linalg.norm(fit.w + b - r) for r in refits])


def test_at_large_noise_the_map_attack_falls_back_on_the_prior_and_the_nearest_model_does_not(small):
    fit, X, y = small
    noise = dm.Gaussian(50.0)
    draws = noise.draw(np.random.default_rng(1), (200, 5))
    prior = white_box(fit, X, y, [3, 4], draws, noise=noise, prior=[0.7, 0.2, 0.1])
    assert (prior.guesses == 0).all()
    assert prior.figure == pytest.approx(prior.control_figure) == np.mean(X[:, 3])
    nearest = white_box(fit, X, y, [3, 4], draws)
    assert nearest.figure < 0.5


@pytest.mark.parametrize("law", ["correlated", "laplace"])
def test_the_map_attack_uses_the_density_of_its_noise(small, law):
    """Against the posterior computed from refits, release by release."""
    fit, X, y = small
    rng = np.random.default_rng(4)
    R = rng.standard_normal((5, 5))
    covariance = 1e-3 * (R @ R.T + np.eye(5))
    noise = CorrelatedGaussian(covariance) if law == "correlated" else dm.Laplace(0.02)
    draws = noise.draw(rng, 30) if law == "correlated" else noise.draw(rng, (30, 5))
    result = white_box(fit, X, y, [3, 4], draws, noise=noise, rows=[9])
    counts = [X[:, 3].sum(), X[:, 4].sum(), (1 - X[:, 3] - X[:, 4]).sum()]
    refits = []
    for value in [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)]:
        X2 = X.copy()
        X2[9, 3:] = value
        refits.append(glm.fit(X2, y, fit.loss, fit.l2).w)
    for t, b in enumerate(draws):
        away = np.array([fit.w + b - r for r in refits])
        if law == "correlated":
            log_p = stats.multivariate_normal(np.zeros(5), covariance).logpdf(away)
        else:
            log_p = stats.laplace(scale=0.02).logpdf(away).sum(axis=1)
        assert result.guesses[t, 0] == np.argmax(np.log(counts) + log_p)


def bayes_accuracy(centres, prior, sigma, rng, draws=40_000):
    """E max_c P(c | release): the mixture sampled, the posterior computed; and its standard error."""
    c = rng.choice(len(prior), size=draws, p=prior)
    release = centres[c] + sigma * rng.standard_normal((draws, centres.shape[1]))
    log_p = np.log(prior) - np.sum((release[:, None] - centres) ** 2, axis=2) / (2 * sigma**2)
    top = np.exp(log_p.max(axis=1) - np.logaddexp.reduce(log_p, axis=1))
    return top.mean(), top.std() / np.sqrt(draws)


def test_the_map_attack_attains_the_bayes_accuracy_and_nothing_exceeds_it():
    """Fifteen random problems: every candidate in turn is the truth, weighted by the prior."""
    rng = np.random.default_rng(5)
    gaps, rounds = [], 4000
    for trial in range(15):
        X = np.column_stack([rng.standard_normal((30, 2)), rng.integers(0, 2, 30)])
        loss = (glm.Squared(), glm.Logistic(), glm.Softmax(3, "mean"), glm.Gamma(), glm.SquaredHinge())[trial % 5]
        y = targets(loss, X.sum(axis=1), rng)
        row, prior = int(rng.integers(30)), np.array([0.7, 0.3]) if trial % 3 else np.array([0.5, 0.5])
        fits = []
        for value in (1.0, 0.0):
            X2 = X.copy()
            X2[row, 2] = value
            fits.append((X2, glm.fit(X2, y, loss, 0.02)))
        centres = np.array([weights_of(f) for _, f in fits])
        sigma = float(np.linalg.norm(centres[0] - centres[1])) * rng.uniform(0.2, 1.0)
        best, error = bayes_accuracy(centres, prior, sigma, rng)
        accuracy = np.zeros(2)
        for p, (X2, fit) in zip(prior, fits, strict=True):
            draws = sigma * rng.standard_normal((rounds, fit.w.size))
            for k, options in enumerate(({"noise": dm.Gaussian(sigma), "prior": prior}, {})):
                accuracy[k] += p * white_box(fit, X2, y, [2], draws, rows=[row], exact=True, **options).figure
        spread = np.hypot(error, 0.5 / np.sqrt(rounds))
        assert abs(accuracy[0] - best) < 4 * spread
        assert accuracy[1] < best + 4 * spread
        gaps.append((best - accuracy[1]) / spread)
    assert max(gaps) > 4  # with an uneven prior the nearest model is visibly worse


def test_unbiased_numeric_guesses_obey_cramer_rao_and_the_nearest_value_attains_it():
    """Eighteen random problems at small noise; the variance over 3,000 releases has a chi-square interval."""
    rng = np.random.default_rng(6)
    rounds = 3000
    low, high = stats.chi2(rounds - 1).ppf([1e-5, 1 - 1e-5]) / (rounds - 1)
    losses = (glm.Squared(), glm.Logistic(), glm.Poisson(), glm.Softmax(3, "mean"), glm.Tweedie(), glm.Huber())
    for trial in range(18):
        loss = losses[trial % 6]
        X = rng.standard_normal((40, 3))
        y = targets(loss, X.sum(axis=1), rng)
        fit = glm.fit(X, y, loss, 0.02, intercept=trial % 2 == 0)
        row, column = int(rng.integers(40)), int(rng.integers(3))
        eta = glm.measure(fit, X, y, dm.Gaussian(1.0)).cells[row, column]
        sigma = 2e-4 * eta  # the guess's deviation is then 2e-4: the refit is linear over it
        bound = (sigma / eta) ** 2
        step = np.sqrt(bound) / 8
        values = X[row, column] + step * np.arange(-48, 49)
        draws = sigma * rng.standard_normal((rounds, fit.w.size))
        result = white_box(fit, X, y, Candidates.grid(column, values), draws, rows=[row], exact=True)
        guess = values[result.guesses[:, 0]]
        assert abs(guess.mean() - X[row, column]) < 5 * np.sqrt(bound / rounds)
        # A grid of step s adds s²/12 to the variance.
        assert low <= guess.var(ddof=1) / (bound + step**2 / 12) <= high
        # A guess from one coordinate of the release alone is unbiased too, and worse.
        X2 = X.copy()
        X2[row, column] += 1e-4
        slope = (weights_of(glm.fit(X2, y, loss, 0.02, intercept=fit.intercept)) - weights_of(fit)) / 1e-4
        k = int(np.argmax(np.abs(slope)))
        assert np.var(draws[:, k] / slope[k], ddof=1) >= low * bound


def test_the_black_box_of_a_regression_is_eq_31_written_out(small):
    fit, X, y = small
    draws = 0.1 * np.random.default_rng(2).standard_normal((3, 5))
    result = black_box(fit, X, y, [3, 4], draws)
    counts = [X[:, 3].sum(), X[:, 4].sum(), (1 - X[:, 3] - X[:, 4]).sum()]
    for t, b in enumerate(draws):
        w = fit.w + b
        s = np.sqrt(np.sum((X @ w - y) ** 2) / (len(y) - 5))
        for i in (0, 13, 79):
            scores = []
            for count, value in zip(counts, [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)], strict=True):
                x = np.append(X[i, :3], value)
                scores.append(np.log(count) + stats.norm.logpdf(y[i], x @ w, s))
            assert result.guesses[t, i] == np.argmax(scores)


def test_the_black_box_of_a_classifier_counts_its_confusions():
    problem = next(p for p in EVERY if p.loss.name == "logistic" and "no intercept" in p.name)
    fit, X, y = problem.fit(), problem.X, problem.y
    result = black_box(fit, X, y, [3, 4], np.zeros((1, 5)))
    said = X @ fit.w > 0
    counts = [X[:, 3].sum(), X[:, 4].sum(), (1 - X[:, 3] - X[:, 4]).sum()]
    for i in range(len(y)):
        scores = []
        for count, value in zip(counts, [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)], strict=True):
            same = said == (np.append(X[i, :3], value) @ fit.w > 0)
            scores.append(count * np.mean(y[same] == y[i]))
        assert result.guesses[0, i] == np.argmax(scores)


def test_a_quick_refit_says_how_far_off_it_is():
    problem = next(p for p in EVERY if p.loss.name == "logistic")
    p = 5 + problem.intercept
    result = white_box(problem.fit(), problem.X, problem.y, [3, 4], np.zeros((1, p)))
    assert "one Newton step, off by at most 0.0" in result.method


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(candidates=[0]), "none of the 2 candidates"),
        (dict(candidates=[3, 9]), "positions from 0"),
        (dict(candidates=Candidates.grid(0, [1.0]), draws=np.zeros((2, 4))), "one number per weight"),
        (dict(prior=[1.0, 2.0]), "each of the 3 candidates"),
        (dict(rows=[80]), "positions from 0 to 79"),
    ],
)
def test_bad_arguments_are_refused_with_the_reason(small, change, message):
    fit, X, y = small
    arguments = {"candidates": [3, 4], "draws": np.zeros((1, 5)), **change}
    with pytest.raises(Refusal, match=message):
        white_box(fit, X, y, **arguments)


def test_two_equal_candidates_are_refused():
    with pytest.raises(Refusal, match="the same"):
        Candidates.grid(0, [1.0, 1.0])


def test_a_refit_that_does_not_exist_is_refused():
    X = np.column_stack([np.ones(6), [1.0, 0, 0, 0, 0, 0]])
    y = np.arange(6.0)
    with pytest.raises(Refusal, match="candidate 1 in row 0"):
        moves(glm.fit(X, y, glm.Squared()), X, y, [1])


def likelihood(loss, m, y, dispersion):
    """log P(y | margin), by scipy's own laws."""
    mu = np.exp(m)
    if isinstance(loss, glm.Poisson):
        return stats.poisson.logpmf(y, mu)
    if isinstance(loss, glm.NegativeBinomial):
        return stats.nbinom.logpmf(y, 1 / loss.alpha, 1 / (1 + loss.alpha * mu))
    if isinstance(loss, glm.Gamma):
        return stats.gamma.logpdf(y, 1 / dispersion, scale=dispersion * mu)
    return stats.invgauss.logpdf(y, mu * dispersion, scale=1 / dispersion)


POWERS = {"gamma": 2, "inverse-gaussian": 3}


@pytest.mark.parametrize("name", ["poisson", "negative-binomial", *POWERS])
def test_the_black_box_of_counts_and_positive_numbers_uses_their_likelihood(name):
    problem = next(p for p in EVERY if p.loss.name == name)
    fit, X, y = problem.fit(), problem.X, problem.y
    draws = 0.1 * np.random.default_rng(2).standard_normal((3, 5))
    result = black_box(fit, X, y, [3, 4], draws)
    counts = [X[:, 3].sum(), X[:, 4].sum(), (1 - X[:, 3] - X[:, 4]).sum()]
    for t, b in enumerate(draws):
        w = fit.w + b
        mu = np.exp(X @ w)
        dispersion = np.sum((y - mu) ** 2 / mu ** POWERS.get(name, 0)) / (len(y) - 5)
        for i in (0, 13, 79):
            values = [np.append(X[i, :3], value) for value in [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)]]
            scores = [likelihood(fit.loss, x @ w, y[i], dispersion) for x in values]
            assert result.guesses[t, i] == np.argmax(np.log(counts) + scores)


@pytest.mark.parametrize("name", ["softmax about the mean", "softmax with a reference", "cloglog", "squared-hinge"])
def test_the_black_box_of_classes_counts_their_confusions(name):
    problem = next(p for p in EVERY if p.name.startswith(name))
    fit, X, y = problem.fit(), problem.X, problem.y
    draw = 0.05 * np.random.default_rng(3).standard_normal((1, fit.w.size))
    w = fit.w + draw.reshape(fit.w.T.shape).T

    def predicted(rows):
        m = rows @ w
        if name == "cloglog":
            return (1 - np.exp(-np.exp(m)) > 0.5) * 1.0
        return (m > 0) * 1.0 if m.ndim == 1 else np.argmax(m @ fit.loss.contrast.T, axis=1)

    result = black_box(fit, X, y, [3, 4], draw)
    counts = [X[:, 3].sum(), X[:, 4].sum(), (1 - X[:, 3] - X[:, 4]).sum()]
    for i in range(len(y)):
        scores = []
        for count, value in zip(counts, [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)], strict=True):
            same = predicted(X) == predicted(np.append(X[i, :3], value)[None])
            scores.append(count * np.mean(y[same] == y[i]))
        assert result.guesses[0, i] == np.argmax(scores)


def test_a_release_far_off_leaves_the_prior():
    problem = next(p for p in EVERY if p.loss.name == "poisson")
    result = black_box(problem.fit(), problem.X, problem.y, [3, 4], np.full((1, 5), 1e4), prior=[0.1, 0.2, 0.7])
    assert (result.guesses[0, (problem.X @ np.full(5, 1e4)) > 3e4] == 2).all()


def test_a_loss_without_a_likelihood_has_no_black_box():
    problem = next(p for p in EVERY if p.loss.name == "huber")
    with pytest.raises(CannotMeasure, match="huber"):
        black_box(problem.fit(), problem.X, problem.y, [3, 4], np.zeros((1, 5)))


def test_a_softmax_of_two_classes_is_attacked_as_a_logistic_regression():
    """About the mean the weights of class 1 are w/√2 of one contrast: the same guesses at σ/√2 of noise."""
    problem = next(p for p in EVERY if p.loss.name == "logistic")
    X, y = problem.X, problem.y
    one = glm.fit(X, y, glm.Logistic(), 0.02)
    two = glm.fit(X, y, glm.Softmax(2, "mean"), 0.01 * 4)
    np.testing.assert_allclose(np.abs(two.w[:, 0]) * np.sqrt(2), np.abs(one.w), rtol=1e-8)
    sign = np.sign(two.w[0, 0] * one.w[0])
    draws = 0.05 * np.random.default_rng(6).standard_normal((40, 5))
    ours = white_box(two, X, y, [3, 4], sign * draws / np.sqrt(2), noise=dm.Gaussian(0.05 / np.sqrt(2)), exact=True)
    theirs = white_box(one, X, y, [3, 4], draws, noise=dm.Gaussian(0.05), exact=True)
    np.testing.assert_array_equal(ours.guesses, theirs.guesses)


@pytest.mark.parametrize("exact", [False, True])
def test_a_value_where_the_loss_does_not_bend_upwards_is_refitted(exact):
    """Far out the Hessian with the candidate is not positive definite at the old weights: only a refit decides."""
    loss = glm.Tweedie(2.5)
    X, y = table(loss, n=12, d=2, seed=2)
    fit = glm.fit(X, y, loss, 0.01)
    X2 = X.copy()
    X2[2, 0] = 6.0
    H = (X2.T * loss.curvature(X2 @ fit.w, y)) @ X2 + 0.12 * np.eye(2)
    assert np.linalg.eigvalsh(H)[0] < 0
    ours = moves(fit, X, y, Candidates.grid(0, [X[2, 0], 6.0]), [2], exact=exact)[0]
    truth = glm.fit(X2, y, loss, 0.01, start=fit.w).w - fit.w
    assert not ours[0].any()
    assert np.linalg.norm(ours[1] - truth) <= 1e-7 * np.linalg.norm(truth)
