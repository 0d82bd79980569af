"""The declared sensitivity against refits of neighbouring tables; (ε, δ) against the closed form of the Gaussian."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import dosimeter as dm
from dosimeter import glm
from dosimeter.core.notion import Standing
from dosimeter.glm.releases.sensitivity import differential_privacy, lipschitz, sensitivity

LOSSES = {
    "logistic": (glm.Logistic(), {"row_norm": 2.0}),
    "softmax": (glm.Softmax(3), {"row_norm": 2.0}),
    "softmax with a reference": (glm.Softmax(3, 1), {"row_norm": 2.0}),
    "softmax about the mean": (glm.Softmax(3, "mean"), {"row_norm": 2.0}),
    "squared": (glm.Squared(), {"row_norm": 2.0, "target_bound": 3.0}),
}


def rows(rng, n, d, R, loss, Y=1.0):
    """Rows within the bounds, many of them on it."""
    X = rng.standard_normal((n, d))
    X *= (R * rng.choice([1.0, 1.0, 0.3], n) / np.linalg.norm(X, axis=1))[:, None]
    if isinstance(loss, glm.Squared):
        return X, rng.choice([-Y, Y], n)
    classes = loss.n_classes if isinstance(loss, glm.Softmax) else 2
    return X, rng.integers(0, classes, n).astype(float)


@pytest.mark.parametrize("name", LOSSES)
def test_no_replaced_row_moves_the_weights_further_than_declared(name):
    loss, bounds = LOSSES[name]
    rng = np.random.default_rng(11)
    for trial in range(20):
        n, d, l2 = int(rng.integers(3, 25)), int(rng.integers(1, 5)), float(10 ** rng.uniform(-3, 1))
        X, y = rows(rng, n, d, bounds["row_norm"], loss, bounds.get("target_bound", 1.0))
        fit = glm.fit(X, y, loss, l2)
        declared = sensitivity(fit, X, y, **bounds)
        for _ in range(3):
            X2, y2, i = X.copy(), y.copy(), int(rng.integers(n))
            X2[[i]], y2[[i]] = rows(rng, 1, d, bounds["row_norm"], loss, bounds.get("target_bound", 1.0))
            assert np.linalg.norm(glm.fit(X2, y2, loss, l2).w - fit.w) <= declared, trial


def test_an_adversarial_pair_comes_close_to_the_declared_logistic_sensitivity():
    """Many rows push w along e until they are certain; one row of the wrong class swings from side to side."""
    n, l2, cosine = 3000, 1e-3, 0.45
    w = []
    for side in (1.0, -1.0):
        X = np.vstack([np.tile([1.0, 0.0], (n - 1, 1)), [cosine, side * np.sqrt(1 - cosine**2)]])
        y = np.append(np.ones(n - 1), 0.0)
        w.append(glm.fit(X, y, glm.Logistic(), l2))
    share = np.linalg.norm(w[0].w - w[1].w) / sensitivity(w[1], X, y, row_norm=1.0)
    assert 0.75 < share <= 1


def test_an_adversarial_pair_comes_close_to_the_declared_ridge_sensitivity():
    """A single row under a strong penalty: w is the gradient, and the target flips its sign."""
    X = np.array([[1.0]])
    w = [glm.fit(X, np.array([y]), glm.Squared(), 50.0) for y in (1.0, -1.0)]
    declared = sensitivity(w[0], X, np.array([1.0]), row_norm=1.0, target_bound=1.0)
    assert 0.95 < abs(w[0].w - w[1].w)[0] / declared <= 1


def test_no_minimiser_of_bounded_rows_is_longer_than_the_ridge_bound_allows():
    """The claim of `lipschitz` for the squared loss, on tables from one row to five."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        R, Y, l2 = 10 ** rng.uniform([-1, -1, -3], 1)
        n = int(rng.integers(1, 6))
        X, y = rows(rng, n, 2, R, glm.Squared(), Y)
        w = glm.fit(X, y, glm.Squared(), l2).w
        x = R * w / np.linalg.norm(w) if w.any() else X[0]
        worst = (abs(w @ x) + Y) * R
        assert worst <= lipschitz(glm.Squared(), l2, R, Y) * (1 + 1e-9)


def simple(loss=None, **options):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (50, 3))
    y = (rng.random(50) < 0.5).astype(float)
    return glm.fit(X, y, loss or glm.Logistic(), options.pop("l2", 0.01), **options), X, y


@pytest.mark.parametrize("sigma", [pytest.param(1.0, marks=pytest.mark.slow), 3.0, 20.0])
def test_epsilon_is_the_closed_form_of_the_gaussian_mechanism(sigma):
    fit, X, y = simple()
    dose = differential_privacy(fit, X, y, dm.Gaussian(sigma), row_norm=1.0)
    a = sensitivity(fit, X, y, row_norm=1.0) / sigma

    def delta(epsilon):
        return norm.cdf(a / 2 - epsilon / a) - np.exp(epsilon) * norm.cdf(-a / 2 - epsilon / a)

    for wanted in (1e-3, 1e-6):
        truth = brentq(lambda e, wanted_delta=wanted: delta(e) - wanted_delta, 0.0, 300.0)
        ours = dose.epsilon(wanted)
        assert truth * (1 - 1e-9) <= ours <= truth * 1.002 + 1e-3  # dp-accounting rounds the loss up
    assert (dose.unit, dose.adjacency, dose.standing) == ("example", "replace-one", Standing.UPPER_BOUND)


def test_two_releases_compose_and_a_chosen_scale_is_unaccounted():
    fit, X, y = simple()
    fixed, chosen = (
        differential_privacy(fit, X, y, dm.Gaussian(4.0), row_norm=1.0, standing=standing)
        for standing in (Standing.UPPER_BOUND, Standing.UNACCOUNTED)
    )
    both = fixed + chosen
    assert both.standing is Standing.UNACCOUNTED
    quieter = differential_privacy(fit, X, y, dm.Gaussian(4.0 / np.sqrt(2)), row_norm=1.0)
    assert both.epsilon(1e-5) == pytest.approx(quieter.epsilon(1e-5), rel=2e-3)


def test_a_public_covariance_counts_by_its_quietest_direction():
    fit, X, y = simple()
    noise = dm.CorrelatedGaussian([[4.0, 1.0, 0.0], [1.0, 3.0, 0.0], [0.0, 0.0, 9.0]])
    quietest = np.sqrt(np.linalg.eigvalsh(noise.covariance)[0])
    a, b = (differential_privacy(fit, X, y, k, row_norm=1.0).epsilon(1e-5) for k in (noise, dm.Gaussian(quietest)))
    assert a == pytest.approx(b, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"intercept": True}, "intercept"),
        ({"sample_weight": np.linspace(1, 2, 50)}, "sample weights"),
        ({"loss": glm.Poisson()}, "without bound"),
        ({"loss": glm.Squared()}, "target_bound"),
        ({"l2": 0.0}, "l2"),
    ],
)
def test_where_no_sensitivity_is_proven_none_is_given(options, match):
    fit, X, y = simple(**options)
    with pytest.raises(dm.CannotMeasure, match=match):
        sensitivity(fit, X, y, row_norm=1.0)


def test_a_row_beyond_its_declared_bound_is_refused_and_named():
    fit, X, y = simple()
    row = int(np.argmax(np.linalg.norm(X, axis=1)))
    with pytest.raises(dm.Refusal, match=f"row {row} has a norm"):
        sensitivity(fit, X, y, row_norm=0.3)
    fit, X, y = simple(glm.Squared())
    with pytest.raises(dm.Refusal, match="has a target of 1"):
        sensitivity(fit, X, y, row_norm=1.0, target_bound=0.5)


@pytest.mark.parametrize("bound", [0.0, -1.0, np.inf, np.nan, True])
def test_an_invalid_bound_is_refused(bound):
    fit, X, y = simple()
    with pytest.raises(dm.Refusal, match="row_norm"):
        sensitivity(fit, X, y, row_norm=bound)


def test_a_fit_that_stopped_early_and_another_table_are_refused():
    _, X, y = simple()
    early = glm.fit_at(X, y, glm.Logistic(), np.array([0.1, 0.0, 0.0]), 0.01)
    with pytest.raises(dm.Refusal, match="gradient"):
        sensitivity(early, X, y, row_norm=1.0)
    fit, X, y = simple()
    with pytest.raises(dm.Refusal, match="not the row"):
        sensitivity(fit, X[::-1], y[::-1], row_norm=1.0)


def test_noise_that_is_not_gaussian_has_no_such_event():
    fit, X, y = simple()
    with pytest.raises(dm.CannotMeasure, match="2-norm"):
        differential_privacy(fit, X, y, dm.Laplace(1.0), row_norm=1.0)
