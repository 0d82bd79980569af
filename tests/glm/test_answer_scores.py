"""Answers of every kind against the mean square of their score: likelihoods of scipy, weights of refits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, softmax

from dosimeter import Gaussian, Gumbel, Laplace, LogisticNoise, glm
from dosimeter.core.errors import CannotMeasure
from dosimeter.glm.losses.scalar_loss import ScalarLoss
from tests.glm.test_answers import targets

ROW, DRAWS, H, L2 = 4, 40_000, 1e-4, 0.05
RNG = np.random.default_rng(11)
X = RNG.normal(size=(25, 2))
QUERIES = RNG.normal(size=(4, 2))
LISTS = {
    "different": QUERIES,
    "repeated": np.repeat(QUERIES[:1], 3, axis=0),
    "colinear": QUERIES[:1] * np.array([[1.0], [2.0], [-3.0]]),
    "one": QUERIES[:1],
}
LAWS = {
    "gaussian": (Gaussian(0.7), stats.norm(scale=0.7)),
    "laplace": (Laplace(0.7), stats.laplace(scale=0.7)),
    "logistic": (LogisticNoise(0.7), stats.logistic(scale=0.7)),
    "gumbel": (Gumbel(0.7), stats.gumbel_r(scale=0.7)),
}


def refit(loss, y, cells):
    moved = X.copy()
    moved[ROW] = cells
    return glm.fit(moved, y, loss, L2, intercept=True).w


def margins(loss, w, rows):
    m = np.column_stack([rows, np.ones(len(rows))]) @ w
    return m @ loss.contrast.T if isinstance(loss, glm.Softmax) else m[:, None]


def expected(loss, kind, w, rows):
    m = margins(loss, w, rows)
    if kind == "margins" or loss.name == "squared":
        return m
    return softmax(m, axis=1) if isinstance(loss, glm.Softmax) else expit(m)


def drawn(loss, kind, law, w, rows):
    """(draws, k, K) numbers, or (draws, k) classes."""
    rng = np.random.default_rng(5)
    if kind != "labels":
        mean = expected(loss, kind, w, rows)
        return mean + law.rvs(size=(DRAWS, *mean.shape), random_state=rng)
    m = margins(loss, w, rows)
    noised = m + law.rvs(size=(DRAWS, *m.shape), random_state=rng)
    return noised.argmax(axis=2) if isinstance(loss, glm.Softmax) else (noised[..., 0] > 0).astype(int)


def log_likelihood(loss, kind, law, w, rows, answers):
    """(draws,) of independent answers."""
    if kind != "labels":
        return law.logpdf(answers - expected(loss, kind, w, rows)).sum(axis=(1, 2))
    m = margins(loss, w, rows)
    if isinstance(loss, glm.Softmax):  # Gumbel: the largest is class k with probability softmax(margins/scale)
        chances = np.log(softmax(m / 0.7, axis=1))
        return chances[np.arange(len(rows)), answers].sum(axis=1)
    one, zero = law.logsf(-m[:, 0]), law.logcdf(-m[:, 0])
    return np.where(answers == 1, one, zero).sum(axis=1)


def mean_square_score(loss, kind, law, rows, y):
    """(2, 2) of the cells of one row: scores by differences of refits."""
    w = refit(loss, y, X[ROW])
    answers = drawn(loss, kind, law, w, rows)
    scores = []
    for j in range(2):
        up, down = (refit(loss, y, X[ROW] + sign * H * np.eye(2)[j]) for sign in (1, -1))
        difference = log_likelihood(loss, kind, law, up, rows, answers) - log_likelihood(
            loss, kind, law, down, rows, answers
        )
        scores.append(difference / (2 * H))
    scores = np.array(scores)
    return scores @ scores.T / DRAWS, scores


CASES = [
    (loss, kind, law)
    for loss in (glm.Squared(), glm.Logistic(), glm.Softmax(3, "mean"))
    for kind in ("margins", "predictions", "labels")
    for law in LAWS
    if (kind, loss.name) != ("labels", "squared")
    and (kind != "labels" or not isinstance(loss, glm.Softmax) or law == "gumbel")
]


@pytest.mark.parametrize("rows", LISTS)
@pytest.mark.parametrize(("loss", "kind", "law"), CASES, ids=lambda case: getattr(case, "name", str(case)))
def test_the_figure_is_the_mean_square_of_the_score(loss, kind, law, rows):
    y = targets(loss, 25)
    noise, density = LAWS[law]
    square, scores = mean_square_score(loss, kind, density, LISTS[rows], y)
    fit = glm.fit(X, y, loss, L2, intercept=True)
    leak = glm.measure_answers(fit, X, y, LISTS[rows], noise, answer=kind, include_target=False)
    eta = leak.examples[ROW]
    direction = np.linalg.eigh(square)[1][:, -1]
    error = np.std((direction @ scores) ** 2) / math.sqrt(DRAWS)
    assert abs(eta**2 - np.linalg.eigvalsh(square)[-1]) < 6 * error + 1e-3 * eta**2
    assert error < 0.04 * eta**2  # it tells a factor of 1.3 apart


@pytest.mark.parametrize(("loss", "kind", "law"), CASES, ids=lambda case: getattr(case, "name", str(case)))
def test_batches_add_as_one_list_and_at_most_covers_each(loss, kind, law):
    y, noise = targets(loss, 25), LAWS[law][0]
    fit = glm.fit(X, y, loss, L2, intercept=True)
    whole = glm.AnswerInformation.of(fit, QUERIES, noise, kind)
    parts = glm.AnswerInformation.of(fit, QUERIES[:1], noise, kind) + glm.AnswerInformation.of(
        fit, QUERIES[1:], noise, kind
    )
    np.testing.assert_allclose(parts.root.T @ parts.root, whole.root.T @ whole.root, rtol=1e-9, atol=1e-12)
    most = glm.AnswerInformation.at_most(fit, QUERIES, noise, kind)
    gap = np.linalg.eigvalsh(most.root.T @ most.root - whole.root.T @ whole.root)
    assert gap[0] >= -1e-9 * most.strength


@pytest.mark.parametrize(
    "loss", [loss() for loss in glm.LOSSES.values() if issubclass(loss, ScalarLoss)], ids=lambda loss: loss.name
)
def test_the_steepest_prediction_is_the_steepest(loss):
    """Reached at some margin, and passed at none."""
    m = np.linspace(-20, 20, 400_001)
    try:
        slope = np.abs(loss.prediction(m)[1])
    except CannotMeasure:
        assert loss.steepest_prediction == math.inf
        return
    if loss.steepest_prediction == math.inf:
        assert np.nanmax(slope) > 1e3 or not np.isfinite(slope).all()
    else:
        assert slope.max() == pytest.approx(loss.steepest_prediction, rel=1e-8)


def test_no_probabilities_of_several_classes_are_steeper_than_a_half():
    logits = np.random.default_rng(0).normal(size=(20_000, 4)) * np.array([[3.0, 3.0, 30.0, 0.1]])
    logits[:1000, 2:] = -50.0
    s = softmax(logits, axis=1)
    norms = np.linalg.norm(s[:, :, None] * (np.eye(4) - s[:, None, :]), 2, axis=(1, 2))
    assert 0.499 < norms.max() <= 0.5 + 1e-12


# The unit of a gateway -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", LISTS)
@pytest.mark.parametrize("loss", [glm.Squared(), glm.Softmax(3, "mean")], ids=lambda loss: loss.name)
def test_an_amount_bounds_every_dose_and_one_direction_reaches_it(loss, rows):
    y = targets(loss, 25)
    fit = glm.fit(X, y, loss, L2, intercept=True)
    reference = glm.ReferenceQueries.of(fit, RNG.normal(size=(7, 2)))
    information = glm.AnswerInformation.of(fit, LISTS[rows], Gaussian(0.7))
    unit = glm.measure(fit, X, y, Gaussian(1.0))
    doses = glm.leakage_of_answers(unit, information).examples ** 2
    units = glm.leakage_of_answers(unit, reference.information).examples ** 2
    amount = reference.amount(information)
    assert np.all(doses <= amount * units * (1 + 1e-9))
    # As a ratio of quadratic forms: it is reached, and random directions stay below.
    A, B = information.root.T @ information.root, reference.root.T @ reference.root
    directions = np.random.default_rng(1).normal(size=(5000, len(A)))
    ratios = np.einsum("ki,ij,kj->k", directions, A, directions) / np.einsum("ki,ij,kj->k", directions, B, directions)
    assert ratios.max() <= amount * (1 + 1e-9)
    assert np.linalg.eigvals(np.linalg.solve(B, A)).real.max() == pytest.approx(amount, rel=1e-8)


def test_an_amount_is_the_same_in_any_coordinates():
    """So it does not depend on the mean and deviation by which a table standardises the queries."""
    y, fits = targets(glm.Squared(), 25), []
    lists = RNG.normal(size=(7, 2)), RNG.normal(size=(3, 2))
    for mean, deviation in ((0.0, 1.0), ([50.0, -3.0], [12.0, 0.01])):
        fit = glm.fit(X, y, glm.Squared(), L2, intercept=True)
        moved = [(rows - mean) / deviation for rows in lists]
        answers = glm.AnswerInformation.of(fit, moved[1], Gaussian(0.7))
        fits.append(glm.ReferenceQueries.of(fit, moved[0]).amount(answers))
    assert fits[0] == pytest.approx(fits[1], rel=1e-6)


def test_a_query_outside_the_span_of_the_list_has_no_amount():
    y = targets(glm.Squared(), 25)
    fit = glm.fit(X, y, glm.Squared(), L2, intercept=True)
    reference = glm.ReferenceQueries.of(fit, [[1.0, 0.0], [3.0, 0.0]])
    inside, outside = (glm.AnswerInformation.of(fit, [row], Gaussian(1.0)) for row in ([7.0, 0.0], [7.0, 1e-3]))
    assert math.isfinite(reference.amount(inside))
    assert reference.amount(outside) == math.inf
    assert reference.amount(inside + outside) == math.inf
    huge = glm.AnswerInformation(np.array([[1e300, 0.0, 1e300]]), 1)
    assert reference.amount(huge) == math.inf


def test_columns_that_depend_on_each_other_leave_the_list_its_own_amount():
    """A constant column beside the intercept, as polynomials have: triangular roots then hold rounding errors."""
    y = targets(glm.Squared(), 25)
    wide = np.column_stack([X, np.ones(25), X[:, 0] - X[:, 1]])
    fit = glm.fit(wide, y, glm.Squared(), L2, intercept=True)
    rows = np.column_stack([QUERIES, np.ones(4), QUERIES[:, 0] - QUERIES[:, 1]])
    rows = np.vstack([rows, 3 * rows - 2 * rows[:1]])
    reference = glm.ReferenceQueries.of(fit, rows)
    answers = glm.AnswerInformation.of(fit, rows, Gaussian(1.0))
    assert reference.amount(answers) == pytest.approx(8.0, rel=1e-6)
    assert reference.amount(answers + answers + answers) == pytest.approx(24.0, rel=1e-6)
