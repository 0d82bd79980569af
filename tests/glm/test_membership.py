"""Removal against refits without the row; the ROC against the simulated attack."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import dosimeter as dm
from dosimeter import glm
from dosimeter.attacks.roc import TwoGaussians
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.notion import MEMBERSHIP, Standing
from dosimeter.glm.attacks.membership import likelihood_ratio, membership, removal, shaped_membership, two_gaussians

from .problems import ordinary, targets

EVERY = list(ordinary())


def without(problem, row):
    """Weights of the table without the row, with the penalty n λ of the whole one."""
    keep = np.arange(len(problem.X)) != row
    n = len(problem.X)
    weight = None if problem.sample_weight is None else problem.sample_weight[keep]
    l2 = problem.l2 * n / (n - 1)
    return glm.fit(
        problem.X[keep], problem.y[keep], problem.loss, l2, sample_weight=weight, intercept=problem.intercept
    ).w.T.ravel()


@pytest.mark.parametrize("problem", EVERY, ids=lambda p: p.name)
def test_removal_is_a_refit_without_the_row(problem):
    fit = problem.fit()
    ours = removal(fit, problem.X, problem.y)
    for row in range(0, fit.n, 3):
        truth = without(problem, row) - fit.w.T.ravel()
        assert np.linalg.norm(ours[row] - truth) <= 1e-7 * np.linalg.norm(truth) + 1e-13


def test_rows_can_be_chosen_and_come_in_their_order():
    problem = EVERY[5]
    fit = problem.fit()
    every = removal(fit, problem.X, problem.y)
    np.testing.assert_allclose(removal(fit, problem.X, problem.y, [9, 2]), every[[9, 2]], rtol=1e-8)


def test_a_row_that_alone_determines_a_direction_is_certain_to_be_detected():
    """No other row has its level: without it there is no fit to release."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal(20), np.arange(20) == 4])
    y = rng.standard_normal(20)
    result = membership(glm.fit(X, y, glm.Squared()), X, y, dm.Gaussian(1.0))
    assert np.isinf(result.mu[4])
    assert result.auc[4] == 1.0
    assert np.isfinite(np.delete(result.mu, 4)).all()
    penalised = membership(glm.fit(X, y, glm.Squared(), 0.1), X, y, dm.Gaussian(1.0))
    assert np.isfinite(penalised.mu).all()


def test_a_row_that_keeps_the_classes_from_separating_is_certain_to_be_detected():
    X = np.column_stack([np.ones(9), [-3.0, -2, -1, -0.5, 1.5, 1, 2, 3, 0.7]])
    y = np.array([0.0, 0, 0, 0, 0, 1, 1, 1, 1])
    for loss in (glm.Logistic(), glm.Softmax(2, "mean")):
        result = membership(glm.fit(X, y, loss), X, y, dm.Gaussian(1.0))
        assert np.isinf(result.mu[4])


def test_the_only_row_of_a_class_is_certain_to_be_detected():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((20, 2)), np.append(np.arange(19) % 2, 2.0)
    free = glm.fit(X, y, glm.Softmax(3, "mean"), 0.1, intercept=True)
    result = membership(free, X, y, dm.Gaussian(1.0))
    assert np.isinf(result.mu[-1])
    assert np.isfinite(result.mu[:-1]).all()
    every_weight_penalised = glm.fit(X, y, glm.Softmax(3, "mean"), 0.1)
    assert np.isfinite(membership(every_weight_penalised, X, y, dm.Gaussian(1.0)).mu).all()


def test_softmax_of_two_classes_is_logistic_regression():
    """One contrast of the weights, w/√2: its moves and its noise are smaller by √2, and μ is the same."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, 3))
    y = targets(glm.Logistic(), X.sum(axis=1), rng)
    one, two = glm.fit(X, y, glm.Logistic(), 0.02), glm.fit(X, y, glm.Softmax(2, "mean"), 0.04)
    mu = membership(two, X, y, dm.Gaussian(0.1 / np.sqrt(2))).mu
    np.testing.assert_allclose(mu, membership(one, X, y, dm.Gaussian(0.1)).mu, rtol=1e-7)
    leak = glm.measure(two, X, y, dm.Gaussian(0.1 / np.sqrt(2)))
    np.testing.assert_allclose(leak.membership, mu, rtol=1e-12)


def test_a_row_of_weight_zero_is_not_there():
    problem = EVERY[2]
    weight = problem.sample_weight.copy()
    weight[3] = 0.0
    fit = glm.fit(problem.X, problem.y, problem.loss, 0.01, sample_weight=weight)
    assert membership(fit, problem.X, problem.y, dm.Gaussian(1e-3)).mu[3] == 0.0


def test_an_exact_release_hides_no_row():
    problem = EVERY[0]
    result = membership(problem.fit(), problem.X, problem.y, dm.no_noise)
    assert np.isinf(result.mu).all()
    assert (result.auc == 1).all()


@pytest.mark.parametrize("law", ["iid", "correlated"])
def test_the_simulated_attack_confirms_the_curve_and_rejects_one_ten_per_cent_off(law):
    """Eight random problems at 99.9 %: the true AUC and TPR lie within, a μ ten per cent off does not."""
    rng = np.random.default_rng(7)
    for trial in range(8):
        loss = (glm.Squared(), glm.Logistic(), glm.Softmax(3, "mean"), glm.Gamma())[trial % 4]
        X = rng.standard_normal((30, 3))
        y = targets(loss, X.sum(axis=1), rng)
        fit = glm.fit(X, y, loss, 0.05)
        q = fit.w.size
        delta = removal(fit, X, y)
        row = int(np.argmax(np.linalg.norm(delta, axis=1)))
        size = float(np.linalg.norm(delta[row]))
        if law == "iid":
            noise = dm.Gaussian(size / rng.uniform(0.9, 1.8))
        else:
            R = rng.standard_normal((q, q))
            shape = R @ R.T + np.eye(q)
            noise = CorrelatedGaussian(shape * float(delta[row] @ np.linalg.solve(shape, delta[row])) / 1.3**2)
        result = membership(fit, X, y, noise)
        mu = result.mu[row]
        played = replace(likelihood_ratio(delta[row], noise, rng, 40_000), level=0.999)
        assert played.interval.contains(result.auc[row])
        for off in (0.9 * mu, 1.1 * mu):
            assert not played.interval.contains(stats.norm.cdf(off / np.sqrt(2)))
        for rate in (0.1, 0.01, 0.001):
            assert played.tpr(rate)[1].contains(result.tpr(rate)[row])


def test_no_other_attack_beats_the_curve():
    """Projections of the release on random directions and on one weight: all below the exact AUC."""
    rng = np.random.default_rng(8)
    for trial in range(10):
        loss = (glm.Squared(), glm.Softmax(3, 0))[trial % 2]
        X = rng.standard_normal((25, 3))
        y = targets(loss, X.sum(axis=1), rng)
        fit = glm.fit(X, y, loss, 0.05)
        q = fit.w.size
        delta = removal(fit, X, y)[0]
        noise = dm.Gaussian(float(np.linalg.norm(delta)))
        best = membership(fit, X, y, noise).auc[0]
        inside, outside = noise.draw(rng, (20_000, q)), delta + noise.draw(rng, (20_000, q))
        for direction in (*rng.standard_normal((3, q)), np.eye(q)[0]):
            area = stats.mannwhitneyu(inside @ direction, outside @ direction).statistic / 20_000**2
            assert max(area, 1 - area) < best + 4 * 0.29 / np.sqrt(20_000)


def test_shaped_noise_has_the_curve_of_two_covariances():
    """Against the simulation with the covariance of each table; μ-GDP of the shape as if public is wrong both ways."""
    rng = np.random.default_rng(9)
    X = rng.standard_normal((12, 3))
    X[0] *= 3
    y = targets(glm.Squared(), X.sum(axis=1), rng)
    fit = glm.fit(X, y, glm.Squared(), 0.02)
    penalty = 12 * 0.02 * np.eye(3)
    scale = 0.5
    exact = shaped_membership(fit, X, y, scale)
    naive = membership(fit, X, y, CorrelatedGaussian(scale * np.linalg.inv(X.T @ X + penalty)))
    assert (exact.auc > naive.auc + 0.01).any()
    assert (exact.auc < naive.auc - 0.01).any()
    for row in (0, 5):
        rest = np.delete(X, row, axis=0)
        with_, less = (scale * np.linalg.inv(T.T @ T + penalty) for T in (X, rest))
        move = np.linalg.solve(rest.T @ rest + penalty, rest.T @ np.delete(y, row)) - fit.w
        played = likelihood_ratio(move, CorrelatedGaussian(with_), rng, 40_000, noise_without=CorrelatedGaussian(less))
        assert abs(played.figure - exact.auc[row]) < played.interval.high - played.interval.low  # four errors
        assert played.tpr(0.05)[1].contains(exact.tpr(0.05)[row])
        again = two_gaussians(-move, less, with_)
        np.testing.assert_allclose([again.auc[0], again.tpr(0.1)[0]], [exact.auc[row], exact.tpr(0.1)[row]], rtol=1e-8)
    assert played.figure > 0.5
    with pytest.raises(CannotMeasure, match="covariances differ"):
        exact.mu  # noqa: B018


def test_the_shape_alone_leaks_if_the_residual_is_zero():
    X = np.array([[1.0], [2.0], [3.0]])
    fit = glm.fit(X, X[:, 0], glm.Squared())
    result = shaped_membership(fit, X, X[:, 0], 1.0)
    assert (result.auc > 0.5).all()


def test_several_directions_are_refused_in_closed_form_and_simulated_instead():
    rng = np.random.default_rng(10)
    without_, with_ = np.eye(3), np.diag([0.5, 0.7, 1.0])
    with pytest.raises(CannotMeasure, match="2 directions"):
        two_gaussians(np.ones(3), without_, with_)
    with pytest.raises(CannotMeasure, match="leaves them"):
        two_gaussians(np.ones(3), without_, np.diag([0.5, 1.0, 1.0]))
    played = likelihood_ratio(
        np.ones(3), CorrelatedGaussian(with_), rng, 20_000, noise_without=CorrelatedGaussian(without_)
    )
    # By brute force on one coordinate at a time no test can be better than all three together.
    alone = TwoGaussians(np.ones(3), np.array([0.5, 0.7, 1.0])).auc
    assert played.interval.low > alone.max()


def test_equal_covariances_are_the_plain_test():
    S = np.array([[2.0, 0.3], [0.3, 1.0]])
    move = np.array([0.4, -0.7])
    test = two_gaussians(move, S, S)
    assert test.shift[0] == pytest.approx(stats.norm.ppf(test.auc[0]) * np.sqrt(2))
    assert test.shift[0] ** 2 == pytest.approx(move @ np.linalg.inv(S) @ move)


def test_laplace_noise_has_no_mu_but_can_be_attacked():
    problem = EVERY[0]
    fit = problem.fit()
    with pytest.raises(CannotMeasure, match="likelihood_ratio"):
        membership(fit, problem.X, problem.y, dm.Laplace(0.1))
    rng = np.random.default_rng(11)
    # One weight: the exact AUC of two Laplaces at distance a in units of b is 1 - (2 + a) e^-a / 4.
    played = likelihood_ratio(np.array([0.2]), dm.Laplace(0.1), rng, 40_000)
    assert abs(played.figure - (1 - (2 + 2) * np.exp(-2) / 4)) < 0.01


def test_one_sided_noise_gives_certainty_and_no_nan():
    played = likelihood_ratio(np.array([3.0]), dm.Exponential(1.0), np.random.default_rng(12), 5_000)
    assert played.figure > 0.9


def test_the_dose_is_mu_squared_and_adds_over_releases():
    problem = EVERY[0]
    result = membership(problem.fit(), problem.X, problem.y, dm.Gaussian(0.1))
    dose = result.dose()
    assert dose.notion is MEMBERSHIP
    assert dose.standing is Standing.EXACT
    np.testing.assert_allclose((dose + dose).figures, np.sqrt(2) * result.mu)
    assert (dose + dose).standing is Standing.EXACT


def test_two_releases_leak_as_much_as_their_summed_dose():
    """Both releases together, simulated: AUC of √2 μ."""
    rng = np.random.default_rng(13)
    delta = np.array([0.6, -0.2])
    both = likelihood_ratio(np.tile(delta, 2), dm.Gaussian(0.7), rng, 40_000)
    mu = np.linalg.norm(delta) / 0.7
    assert abs(both.figure - stats.norm.cdf(mu)) < 0.008  # Φ(√2 μ / √2)


def test_bad_questions_are_refused():
    problem = EVERY[0]
    fit = problem.fit()
    with pytest.raises(Refusal, match="at least 2"):
        likelihood_ratio(np.ones(2), dm.Gaussian(1.0), np.random.default_rng(0), 1)
    with pytest.raises(Refusal, match="finite vector"):
        likelihood_ratio(np.array([np.inf]), dm.Gaussian(1.0), np.random.default_rng(0), 9)
    with pytest.raises(Refusal, match="scale"):
        shaped_membership(fit, problem.X, problem.y, 0.0)
    with pytest.raises(Refusal, match="not the row"):
        removal(fit, problem.X[::-1], problem.y)
