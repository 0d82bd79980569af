"""Attacks on answers against brute force: every possibility refitted, the likelihood of every answer by scipy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from dosimeter import CannotMeasure, Gaussian, Gumbel, Laplace, LogisticNoise, Refusal, glm
from dosimeter.glm.answers.answer_attacks import ranking_of

L2 = 0.05


def problem(loss, n=25, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 2, n), rng.normal(size=(n, 2))]).astype(float)
    score = X @ [1.0, 0.5, -0.5] + rng.normal(size=n)
    y = score
    if isinstance(loss, glm.Softmax):
        y = np.digitize(score, [-0.5, 0.8]).astype(float)
    elif loss.target.classes:
        y = (score > 0.3).astype(float)
    return X, y, glm.fit(X, y, loss, L2, intercept=True), rng.normal(size=(6, 3))


def exact_answers(loss, X, y, queries, kind):
    fit = glm.fit(X, y, loss, L2, intercept=True)
    margins = np.column_stack([queries, np.ones(len(queries))]) @ fit.w
    if isinstance(loss, glm.Softmax):
        margins = margins @ loss.contrast.T
        if kind is glm.Answer.PREDICTIONS:
            e = np.exp(margins)
            margins = e / e.sum(axis=1, keepdims=True)
        return margins.ravel()
    return 1 / (1 + np.exp(-margins)) if kind is glm.Answer.PREDICTIONS and loss.target.classes else margins


LAWS = {
    Gaussian(0.05): stats.norm(scale=0.05),
    Laplace(0.05): stats.laplace(scale=0.05),
    LogisticNoise(0.05): stats.logistic(scale=0.05),
}


@pytest.mark.parametrize("noise", LAWS, ids=str)
@pytest.mark.parametrize("kind", [glm.Answer.MARGINS, glm.Answer.PREDICTIONS])
@pytest.mark.parametrize("loss", [glm.Squared(), glm.Logistic(), glm.Softmax(3, "mean")], ids=lambda v: v.name)
def test_the_guess_is_the_candidate_whose_refit_makes_the_answers_most_likely(loss, kind, noise):
    X, y, fit, queries = problem(loss)
    channel = glm.AnswerChannel.of(fit, queries, noise, kind)
    trials, rows = 4, [0, 7, 19]
    guesses = glm.answers_inversion(
        channel, X, y, glm.Candidates((0,), [[0.0], [1.0]]), np.random.default_rng(3), trials, rows=rows, exact=True,
        prior=[0.5, 0.5],
    )  # fmt: skip
    answers = channel.draw(channel.weights, np.random.default_rng(3), trials)
    for place, row in enumerate(rows):
        likelihood = []
        for value in (0.0, 1.0):
            changed = X.copy()
            changed[row, 0] = value
            mean = exact_answers(loss, changed, y, queries, kind)
            likelihood.append(LAWS[noise].logpdf(answers - mean).sum(axis=1))
        assert guesses.guesses[:, place].tolist() == np.argmax(likelihood, axis=0).tolist()


def test_answers_that_are_the_weights_are_attacked_as_the_weights_are():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    fit = glm.fit(X, y, glm.Squared(), L2)
    channel = glm.AnswerChannel.of(fit, np.eye(3), Gaussian(0.01), glm.Answer.MARGINS)
    candidates = glm.Candidates.grid(0, [-1.0, 0.0, 1.0])
    answers = glm.answers_inversion(channel, X, y, candidates, np.random.default_rng(1), 50)
    draws = Gaussian(0.01).draw(np.random.default_rng(1), (50, 3))
    weights = glm.white_box(fit, X, y, candidates, draws, noise=Gaussian(0.01))
    assert np.array_equal(answers.guesses, weights.guesses)


@pytest.mark.parametrize("kind", [glm.Answer.MARGINS, glm.Answer.PREDICTIONS])
def test_membership_is_the_distance_to_the_answers_of_a_refit_without_the_row(kind):
    X, y, fit, queries = problem(glm.Logistic())
    mu = glm.answers_membership(glm.AnswerChannel.of(fit, queries, Gaussian(0.1), kind), X, y)
    here = exact_answers(glm.Logistic(), X, y, queries, kind)
    for row in (0, 8, 20):
        weight = np.ones(len(X))
        weight[row] = 0.0
        without = glm.fit(np.delete(X, row, 0), np.delete(y, row), glm.Logistic(), L2 * 25 / 24, intercept=True)
        margins = np.column_stack([queries, np.ones(6)]) @ without.w
        there = 1 / (1 + np.exp(-margins)) if kind is glm.Answer.PREDICTIONS else margins
        assert mu[row] == pytest.approx(np.linalg.norm(there - here) / 0.1, rel=1e-6)


def test_the_simulated_attack_reaches_the_auc_of_mu_and_no_more():
    X, y, fit, queries = problem(glm.Logistic())
    channel = glm.AnswerChannel.of(fit, queries, Gaussian(0.1), glm.Answer.PREDICTIONS)
    mu = glm.answers_membership(channel, X, y)
    row = int(np.argmax(mu))
    from dosimeter.glm.attacks.membership import removal

    played = glm.answers_presence(channel, removal(fit, X, y, [row])[0], np.random.default_rng(2), 4000)
    low, high, _ = played.interval
    slack = 0.5 * (high - low)
    assert low - slack <= stats.norm.cdf(mu[row] / np.sqrt(2)) <= high + slack


@pytest.mark.parametrize("noise", [LogisticNoise(0.4), Gaussian(0.4), Laplace(0.4)], ids=str)
def test_labels_of_two_classes_have_the_likelihood_of_their_coins(noise):
    _, _, fit, queries = problem(glm.Logistic())
    channel = glm.AnswerChannel.of(fit, queries[:3], noise, glm.Answer.LABELS)
    margins = np.column_stack([queries[:3], np.ones(3)]) @ fit.w
    drawn = noise.draw(np.random.default_rng(0), (200_000, 3)) + margins > 0
    every = np.array(list(product([0.0, 1.0], repeat=3)))
    chances = np.exp(channel.log_likelihood(channel.weights[None], every)[0])
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    for labels, chance in zip(every, chances, strict=True):
        assert np.mean((drawn == labels).all(axis=1)) == pytest.approx(chance, abs=6 * 0.5 / np.sqrt(200_000))


def test_labels_of_several_classes_under_gumbel_noise_have_the_likelihood_of_softmax():
    X, y, fit, queries = problem(glm.Softmax(3, "mean"))
    channel = glm.AnswerChannel.of(fit, queries[:2], Gumbel(0.7), glm.Answer.LABELS)
    every = np.array(list(product([0.0, 1.0, 2.0], repeat=2)))
    chances = np.exp(channel.log_likelihood(channel.weights[None], every)[0])
    drawn = channel.draw(channel.weights, np.random.default_rng(0), 100_000)
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    for labels, chance in zip(every, chances, strict=True):
        assert np.mean((drawn == labels).all(axis=1)) == pytest.approx(chance, abs=6 * 0.5 / np.sqrt(100_000))
    order = ranking_of(channel, X, y)
    assert order.shape == (25,)
    assert np.all(order > 0)
    with pytest.raises(CannotMeasure, match="Gumbel"):
        glm.AnswerChannel.of(fit, queries, Gaussian(1.0), glm.Answer.LABELS)


def test_the_divergence_of_labels_is_the_enumerated_one():
    _, _, fit, queries = problem(glm.Logistic())
    channel = glm.AnswerChannel.of(fit, queries[:3], Gaussian(0.5), glm.Answer.LABELS)
    other = channel.weights + 0.1
    every = np.array(list(product([0.0, 1.0], repeat=3)))
    p, q = np.exp(channel.log_likelihood(np.stack([channel.weights, other]), every))
    assert channel.label_divergence(other[None])[0] == pytest.approx(np.sum((p - q) * np.log(p / q)), rel=1e-10)


def test_moves_and_trials_that_do_not_fit_are_refused():
    X, y, fit, queries = problem(glm.Squared())
    channel = glm.AnswerChannel.of(fit, queries, Gaussian(1.0), glm.Answer.MARGINS)
    for move, trials in ((np.ones(2), 10), (np.full(4, np.inf), 10), (np.ones(4), 1)):
        with pytest.raises(Refusal):
            glm.answers_presence(channel, move, np.random.default_rng(0), trials)
    labels = glm.AnswerChannel.of(problem(glm.Logistic())[2], queries, Gaussian(1.0), glm.Answer.LABELS)
    with pytest.raises(CannotMeasure, match="labels"):
        glm.answers_membership(labels, X, y)
