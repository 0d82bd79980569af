"""Scores and the choice of noise for several classes: against quadrature, simulated releases and refits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm

from dosimeter import glm
from dosimeter.core.errors import CannotMeasure
from dosimeter.glm.releases.cross_validation import cross_validate, fold_of
from dosimeter.glm.releases.noise_choice import CHOSEN, ISOTROPIC, choose, expected_loss_increase

RNG = np.random.default_rng(8)
N, D, L2 = 120, 3, 0.01
X = RNG.normal(size=(N, D))
Y = np.digitize(X @ [1.0, -0.8, 0.4] + 0.6 * RNG.normal(size=N), [-0.6, 0.7]).astype(float)
LOSS = glm.Softmax(3, "mean")


@pytest.mark.parametrize("K", [2, 3, 10, 50])
@pytest.mark.parametrize("spread", [0.1, 1.0, 8.0])
def test_the_expected_accuracy_is_the_integral_over_the_noise(K, spread):
    """P(class 0 wins) with independent noise on every logit, by adaptive quadrature."""
    rng = np.random.default_rng(K)
    loss, logits, s = glm.Softmax(K, "mean"), rng.normal(0, spread, (4, K)), rng.uniform(0.5, 2.0, 4)
    margins = logits @ loss.contrast
    for i in range(4):
        away = (logits[i, 0] - logits[i, 1:]) / s[i]
        ends = np.clip(np.sort(-away), -9, 9)
        wanted = quad(lambda z, d=away: norm.pdf(z) * ndtr(z + d).prod(), -10, 10, points=ends, limit=500)[0]
        ours = loss.expected_score(margins[i : i + 1], np.zeros(1), s[i : i + 1] ** 2)
        assert ours == pytest.approx(wanted, abs=1e-8)


def test_two_classes_are_a_logistic_regression():
    m, variance = RNG.normal(size=50), RNG.uniform(0.1, 2.0, 50)
    y = (RNG.random(50) < 0.5).astype(float)
    contrast = glm.Softmax(2, "mean").contrast[:, 0]
    margin = m[:, None] / (contrast[1] - contrast[0])
    ours = glm.Softmax(2, "mean").expected_score(margin, y, variance / 2)
    assert ours == pytest.approx(glm.Logistic().expected_score(m, y, variance), abs=1e-12)
    curve = glm.Softmax(2, "mean").score_curve(margin, y, variance, 0.5)
    assert curve(1.0) == pytest.approx(ours, abs=1e-14)


def test_rows_without_noise_count_as_they_are_and_a_reference_is_simulated():
    margin, y = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([0.0, 0.0])
    assert glm.Softmax(3, "mean").expected_score(margin, y, np.zeros(2)) == LOSS.score(margin, y)
    some = LOSS.expected_score(margin, y, np.array([0.0, 1e-12]))
    assert some == pytest.approx(LOSS.score(margin, y))
    with pytest.raises(CannotMeasure, match="simulate"):
        glm.Softmax(3, 0).expected_score(margin, y, np.ones(2))
    assert LOSS.base_score(np.array([0.0, 1.0, 1.0, 2.0])) == 0.5


@pytest.mark.parametrize("loss", [LOSS, glm.Softmax(3, 0)], ids=["mean", "reference"])
def test_the_held_out_score_is_that_of_simulated_releases(loss):
    expected = cross_validate(X, Y, loss, lambda n: L2, kind=ISOTROPIC)
    fold, scale, rng = fold_of(N, None), 0.4, np.random.default_rng(1)
    correct = np.zeros((3000, N))
    for k in range(5):
        out, into = fold == k, fold != k
        w = glm.fit(X[into], Y[into], loss, L2, intercept=True).w
        releases = w + scale * rng.normal(size=(3000, *w.shape))
        logits = (np.column_stack([X[out], np.ones(out.sum())]) @ releases) @ loss.contrast.T
        correct[:, out] = logits.argmax(axis=2) == Y[out]
    accuracy = correct.mean(axis=1)
    error = 4 * accuracy.std() / np.sqrt(3000)
    # With a reference class 32 releases are simulated, which have their own error.
    tolerance = error if loss.has_expected_score else 4 * accuracy.std() / np.sqrt(32)
    assert abs(expected.score(scale) - accuracy.mean()) < tolerance
    assert expected.score(0.0) > expected.base
    assert expected.base == np.bincount(Y.astype(int)).max() / N
    assert expected.score(1e6) == pytest.approx(1 / 3, abs=0.02 if loss.has_expected_score else 0.2)


def test_the_expected_loss_is_the_mean_of_simulated_releases():
    best = glm.fit(X, Y, LOSS, L2, intercept=True)
    planned = glm.plan(X, Y, LOSS, L2, scale=0.02, intercept=True)
    rows, rng = np.column_stack([X, np.ones(N)]), np.random.default_rng(0)

    def objective(w):
        return float(np.sum(LOSS.value(rows @ w, Y)) + N * L2 / 2 * np.sum(w[:-1] ** 2))

    draws = 0.02 * rng.normal(size=(4000, *best.w.shape))
    values = np.array([(objective(best.w + b) + objective(best.w - b)) / 2 for b in draws]) - objective(best.w)
    error = values.std() / np.sqrt(len(values))
    assert abs(expected_loss_increase(planned, best, X) * N - values.mean()) <= 4 * error + 2e-3 * values.mean()


@pytest.mark.parametrize(("loss", "y"), [(LOSS, Y), (glm.Gamma(), np.exp(X[:, 0]))], ids=["softmax", "gamma"])
def test_a_loss_with_isotropic_noise_alone_has_no_choice_to_name(loss, y):
    choice = choose(X, y, loss, L2, 2.0, intercept=True)
    assert choice.kind == ISOTROPIC
    assert choice.plan.highest <= 2.0
    assert set(choice.not_tried) == {"shaped", "equalised"}
    assert CHOSEN not in choice.plan.not_covered
