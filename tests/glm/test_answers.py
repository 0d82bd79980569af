"""Answers to queries against refits, enumerated channels, and the Monte Carlo mean of the score."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy.special import expit, ndtr, softmax

from dosimeter import Exponential, Gaussian, Gumbel, Laplace, LogisticNoise, glm, no_noise
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.notion import Standing

SIGMA, H = 0.3, 1e-5


@pytest.fixture(scope="module")
def raw():
    """A table in raw units, and public queries in the same units."""
    rng = np.random.default_rng(3)
    table = rng.normal(size=(30, 3)) * [3.0, 0.2, 1.0] + [10.0, -4.0, 0.0]
    return table, rng.normal(size=(5, 3)) * [3.0, 0.2, 1.0] + [10.0, -4.0, 0.0]


def standardise(table, rows):
    """The first two columns by the table's own mean and deviation."""
    mean, deviation = table[:, :2].mean(axis=0), table[:, :2].std(axis=0)
    return np.column_stack([(rows[:, :2] - mean) / deviation, rows[:, 2]])


def targets(loss, n=30):
    rng = np.random.default_rng(4)
    if isinstance(loss, glm.Softmax):
        return rng.integers(0, loss.n_classes, n).astype(float)
    if loss.target.classes:
        return (rng.random(n) < 0.5).astype(float)
    return rng.gamma(2.0, size=n) + 0.5


def answer_of(loss, kind, table, y, queries):
    """(k,) or (k·K,) the exact answers of a model fitted anew, scaler included."""
    fit = glm.fit(standardise(table, table), y, loss, 0.05, intercept=True)
    rows = np.column_stack([standardise(table, queries), np.ones(len(queries))])
    margins = rows @ fit.w
    if isinstance(loss, glm.Softmax):
        logits = margins @ loss.contrast.T
        return (logits if kind == "margins" else softmax(logits, axis=1)).ravel()
    inverse = {"logistic": expit, "probit": ndtr, "poisson": np.exp, "gamma": np.exp, "squared": lambda m: m,
               "cloglog": lambda m: 1 - np.exp(-np.exp(m)), "negative-binomial": np.exp}[loss.name]  # fmt: skip
    return margins if kind == "margins" else inverse(margins)


def numerical(loss, kind, table, y, queries, row):
    """(answers, 3) central differences of refits by the row's cells."""
    columns = []
    for j in range(3):
        moved = [table.copy(), table.copy()]
        step = H * (1 + abs(table[row, j]))
        moved[0][row, j] += step
        moved[1][row, j] -= step
        up, down = (answer_of(loss, kind, m, y, queries) for m in moved)
        columns.append((up - down) / (2 * step))
    return np.column_stack(columns)


def leakage(loss, table, y, queries, noise, **options):
    X = standardise(table, table)
    fit = glm.fit(X, y, loss, 0.05, intercept=True)
    P = np.diag([1 / table[:, 0].std(), 1 / table[:, 1].std(), 1.0])
    scaled = np.array([True, True, False])
    return glm.measure_answers(
        fit, X, y, standardise(table, queries), noise, input_map=P, scaled=scaled, include_target=False, **options
    )


@pytest.mark.parametrize("kind", ["margins", "predictions"])
@pytest.mark.parametrize(
    "loss",
    [glm.Squared(), glm.Logistic(), glm.Poisson(), glm.Probit(), glm.Gamma(), glm.ComplementaryLogLog(),
     glm.NegativeBinomial(0.5), glm.Softmax(3, "mean"), glm.Softmax(3, 0)],
    ids=lambda loss: getattr(loss, "description", "") + str(getattr(loss, "reference", "")),
)  # fmt: skip
def test_answers_leak_what_refits_move(raw, loss, kind):
    """Through the scaler of the table, which has no floor: the noise is on the answers."""
    table, queries = raw
    y = targets(loss)
    leak = leakage(loss, table, y, queries, Gaussian(SIGMA), answer=kind)
    for row in (0, 7):
        J = numerical(loss, kind, table, y, queries, row) / SIGMA
        assert leak.examples[row] == pytest.approx(np.linalg.norm(J, 2), rel=2e-6)
        assert leak.cells[row] == pytest.approx(np.linalg.norm(J, axis=0), rel=2e-6)


def test_a_label_leaks_what_its_coin_tells():
    """E of the squared score of one Bernoulli answer, by enumeration of both labels."""
    X, y = np.array([[1.0], [2.0], [3.0], [-1.0]]), np.array([1.0, 0.0, 1.0, 0.0])
    fit = glm.fit(X, y, glm.Logistic(), 0.1)
    for noise in (Gaussian(0.4), Laplace(0.4), LogisticNoise(0.4), Gumbel(0.4)):
        information = glm.AnswerInformation.of(fit, [[2.0]], noise, "labels")

        def chance(w, noise=noise):
            return float(noise.sf(-2.0 * w))

        p, slope = chance(fit.w[0]), (chance(fit.w[0] + 1e-6) - chance(fit.w[0] - 1e-6)) / 2e-6
        assert float(information.root[0, 0] ** 2) == pytest.approx(slope**2 / (p * (1 - p)), rel=1e-6)


@pytest.mark.parametrize("law", [Gaussian, Laplace, Gumbel, LogisticNoise])
def test_a_label_far_from_the_threshold_has_a_figure_whatever_the_law(law):
    """f²/(F(1 - F)) in multiple precision; a thousand scales away it is 0, where log f and log F both overflowed."""
    X, y = np.array([[-2.0], [-1.0], [0.5], [1.0], [2.0]]), np.array([0.0, 1.0, 0.0, 1.0, 1.0])
    fit = glm.fit(X, y, glm.Logistic(), 0.1)
    with mp.workdps(60):
        density = {
            Gaussian: lambda z: (mp.npdf(z), mp.ncdf(z)),
            Laplace: lambda z: (mp.exp(-abs(z)) / 2, mp.exp(z) / 2 if z < 0 else 1 - mp.exp(-z) / 2),
            Gumbel: lambda z: (mp.exp(-z - mp.exp(-z)), mp.exp(-mp.exp(-z))),
            LogisticNoise: lambda z: (mp.exp(-z) / (1 + mp.exp(-z)) ** 2, 1 / (1 + mp.exp(-z))),
        }[law]
        for margin in (-5.0, -3.0, 2.0, 4.0):
            f, F = density(mp.mpf(-margin))
            exact = float(mp.sqrt(f**2 / (F * (1 - F))) * abs(margin / fit.w[0]))
            root = glm.AnswerInformation.of(fit, [[margin / fit.w[0]]], law(1.0), "labels").root
            assert np.abs(root).max() == pytest.approx(exact, rel=1e-9)
    for margin in (-1e6, -1000.0, 1000.0, 1e6):
        root = glm.AnswerInformation.of(fit, [[margin / fit.w[0]]], law(1.0), "labels").root
        assert np.abs(root).max() < 1e-100


def test_the_threshold_of_a_loss_is_that_of_its_labels():
    """cloglog predicts class 1 above P = 1/2, which is not margin 0."""
    X, y = np.array([[1.0], [2.0], [3.0], [-1.0]]), np.array([1.0, 0.0, 1.0, 0.0])
    fit = glm.fit(X, y, glm.ComplementaryLogLog(), 0.1)
    query = fit.loss.threshold / fit.w[0]
    root = glm.AnswerInformation.of(fit, [[query]], Gaussian(1.0), "labels").root
    assert abs(root[0, 0]) == pytest.approx(abs(query) * np.sqrt(2 / np.pi))  # φ(0)/½


def test_the_largest_of_gumbel_noised_margins_is_measured_exactly():
    """By enumeration of the classes, and against the Monte Carlo mean of the squared score."""
    rng = np.random.default_rng(5)
    X, y, query = rng.normal(size=(40, 2)), rng.integers(0, 3, 40).astype(float), np.array([[0.7, -1.1]])
    fit = glm.fit(X, y, glm.Softmax(3), 0.1)
    information = glm.AnswerInformation.of(fit, query, Gumbel(0.5), "labels")
    assert information.standing is Standing.EXACT

    def log_chances(flat):
        logits = (query @ flat.reshape(3, 2).T / 0.5).ravel()
        return logits - np.log(np.exp(logits).sum())

    w = fit.w.T.ravel()
    scores = np.column_stack(
        [(log_chances(w + 1e-6 * e) - log_chances(w - 1e-6 * e)) / 2e-6 for e in np.eye(6)]
    )  # (class, parameter)
    expected = scores.T @ (np.exp(log_chances(w))[:, None] * scores)
    assert information.root.T @ information.root == pytest.approx(expected, abs=1e-7)

    logits = (query @ fit.w).ravel()
    draws = np.argmax(logits + Gumbel(0.5).draw(rng, (200_000, 3)), axis=1)
    simulated = scores[draws].T @ scores[draws] / len(draws)
    assert simulated == pytest.approx(expected, abs=0.02)
    other = glm.AnswerInformation.of(fit, query, Gumbel(0.55), "labels").root  # a slightly wrong scale is seen
    assert not np.allclose(simulated, other.T @ other, atol=0.02)


def test_noised_answers_are_what_an_efficient_guess_makes_of_them():
    """The score of the noised answers about one cell has the variance that is claimed."""
    rng = np.random.default_rng(6)
    X, y, queries = rng.normal(size=(12, 2)), rng.normal(size=12), rng.normal(size=(4, 2))
    fit = glm.fit(X, y, glm.Squared(), 0.1)
    eta = glm.measure_answers(fit, X, y, queries, Laplace(0.2)).labels[3]
    moved = y.copy()
    moved[3] += 1e-6
    slope = queries @ (glm.fit(X, moved, glm.Squared(), 0.1).w - fit.w) / 1e-6
    noise = Laplace(0.2).draw(rng, (200_000, 4))
    scores = -(Laplace(0.2).score(noise) @ slope)
    assert np.var(scores) == pytest.approx(eta**2, rel=0.02)
    assert np.var(scores) != pytest.approx((1.05 * eta) ** 2, rel=0.02)


def test_labels_say_no_more_than_margins_and_margins_no_more_than_weights():
    rng = np.random.default_rng(7)
    X, queries = rng.normal(size=(30, 3)), rng.normal(size=(6, 3))
    y = (rng.random(30) < 0.5).astype(float)
    fit = glm.fit(X, y, glm.Logistic(), 0.1, intercept=True)
    labels, margins = (
        glm.measure_answers(fit, X, y, queries, Gaussian(0.5), answer=kind).examples for kind in ("labels", "margins")
    )
    strength = glm.AnswerInformation.of(fit, queries, Gaussian(0.5)).strength
    weights = glm.measure(fit, X, y, Gaussian(1 / np.sqrt(strength))).examples
    assert np.all(labels < margins)
    assert np.all(margins <= weights * (1 + 1e-12))
    three = glm.fit(X, rng.integers(0, 3, 30).astype(float), glm.Softmax(3, "mean"), 0.1)
    assert glm.AnswerInformation.of(three, queries, Gaussian(0.5), "labels").standing is Standing.UPPER_BOUND


def test_batches_add():
    rng = np.random.default_rng(8)
    X, y, queries = rng.normal(size=(20, 2)), rng.normal(size=20), rng.normal(size=(9, 2))
    fit = glm.fit(X, y, glm.Squared(), 0.1)
    whole = glm.AnswerInformation.of(fit, queries, Gaussian(0.5))
    parts = glm.AnswerInformation.of(fit, queries[:4], Gaussian(0.5)) + glm.AnswerInformation.of(
        fit, queries[4:], Gaussian(0.5)
    )
    assert parts.answers == whole.answers == 9
    unit = glm.measure(fit, X, y, Gaussian(1.0))
    joint, together = (glm.leakage_of_answers(unit, each).examples for each in (whole, parts))
    assert together == pytest.approx(joint, rel=1e-12)
    separate = [glm.measure_answers(fit, X, y, part, Gaussian(0.5)).examples for part in (queries[:4], queries[4:])]
    assert np.all(joint <= np.sqrt(separate[0] ** 2 + separate[1] ** 2) * (1 + 1e-12))  # what a ledger books


def test_exact_answers_determine_a_model_after_as_many_independent_queries_as_it_has_parameters():
    rng = np.random.default_rng(9)
    X, y = rng.normal(size=(20, 3)) * [1.0, 1e6, 1e-6], rng.normal(size=20)
    fit = glm.fit(X, y, glm.Squared(), 0.0, intercept=True)
    first = glm.AnswerInformation.of(fit, X[:2], no_noise)
    assert (first.independent, first.left) == (2, 2)
    again = first + glm.AnswerInformation.of(fit, X[:1] * 0.3 + X[1:2] * 0.7, no_noise)
    assert again.left == 2  # an average of two queries is no new one
    assert (again + glm.AnswerInformation.of(fit, X[2:5], no_noise)).left == 0
    assert np.all(np.isinf(glm.measure_answers(fit, X, y, X[:1], no_noise).labels))


def test_what_has_no_figure_is_refused():
    X, y = np.array([[1.0], [2.0], [3.0], [-1.0]]), np.array([1.0, 0.0, 1.0, 0.0])
    fit = glm.fit(X, y, glm.Logistic(), 0.1)
    for error, noise, answer, queries in (
        (CannotMeasure, no_noise, "labels", [[1.0]]),
        (CannotMeasure, Exponential(1.0), "margins", [[1.0]]),
        (Refusal, Gaussian(1.0), "scores", [[1.0]]),
        (Refusal, Gaussian(1.0), "margins", [[1.0, 2.0]]),
        (Refusal, Gaussian(1.0), "margins", [[np.nan]]),
        (Refusal, Gaussian(1.0), "margins", np.empty((0, 1))),
    ):
        with pytest.raises(error):
            glm.AnswerInformation.of(fit, queries, noise, answer)
    hinge = glm.fit(X, y, glm.SquaredHinge(), 0.1)
    with pytest.raises(CannotMeasure, match="release margins or labels"):
        glm.AnswerInformation.of(hinge, [[1.0]], Gaussian(1.0), "predictions")
    squared = glm.fit(X, y, glm.Squared(), 0.1)
    with pytest.raises(CannotMeasure, match="predicts no class"):
        glm.AnswerInformation.of(squared, [[1.0]], Gaussian(1.0), "labels")
    with pytest.raises(Refusal, match="do not add"):
        glm.AnswerInformation.of(fit, [[1.0]], no_noise) + glm.AnswerInformation.of(fit, [[1.0]], Gaussian(1.0))
