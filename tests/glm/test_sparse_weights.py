"""Weights under an L1 penalty against refits by scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression

import dosimeter as dm
from dosimeter import glm
from dosimeter.glm.equations.estimating_jacobian import EstimatingJacobian

from .refits import assert_nested, cell_slope, close

ONE = dm.Gaussian(1.0)
RNG = np.random.default_rng(21)
N, D = 50, 6
X = RNG.standard_normal((N, D)) * [1.0, 2.0, 0.5, 1.0, 1.5, 0.8]
Y = X @ [1.0, 0.0, -2.0, 0.6, 0.0, 0.0] + 0.5 + RNG.standard_normal(N)
TWO = (Y + RNG.standard_normal(N) > 0).astype(float)
WEIGHT = RNG.uniform(0.3, 3.0, N)
TIGHT = {"tol": 1e-15, "max_iter": 1_000_000}


def weights(model):
    return (
        np.append(np.ravel(model.coef_), np.ravel(model.intercept_)) if model.fit_intercept else np.ravel(model.coef_)
    )


def net(alpha, ratio, intercept=True, weight=None):
    """Refit, and our problem at its weights."""

    def fit(X, y):
        kind = Lasso(alpha=alpha) if ratio == 1 else ElasticNet(alpha=alpha, l1_ratio=ratio)
        kind.set_params(fit_intercept=intercept, **TIGHT)
        return weights(kind.fit(X, y, sample_weight=weight))

    total = alpha * (N if weight is None else weight.sum())
    w = fit(X, Y)
    ours = glm.SparseWeights(X, Y, glm.Squared(), w, total * ratio, total * (1 - ratio), weight, intercept)
    return fit, ours


NETS = {
    "lasso": (0.3, 1, True, None),
    "lasso, no intercept, weighted": (0.3, 1, False, WEIGHT),
    "elastic net": (0.4, 0.6, True, None),
    "elastic net, weighted": (0.4, 0.6, True, WEIGHT),
}


@pytest.mark.parametrize("name", NETS)
def test_a_lasso_moves_as_its_refit_shows(name):
    fit, ours = net(*NETS[name])
    solution = ours.solve()
    assert 0 < len(ours.active) < D
    np.testing.assert_allclose(solution.released, fit(X, Y), rtol=0, atol=1e-8)
    J = glm.measure_solution(solution, ONE, released=_all_rows(ours)).jacobian.dense(slice(None))
    for row, column in [(0, 0), (7, 2), (23, 3)]:
        slope = cell_slope(lambda Z: fit(Z, Y), X, row, column, 1e-3)
        close(J[row, :, column], slope)
    close(J[9, :, D], cell_slope(lambda y: fit(X, y[:, 0]), Y[:, None], 9, 0, 1e-3))


def _all_rows(ours):
    """The same map as a new object: the dense path, with a row for every weight."""
    return glm.ReleasedMap(ours.released.of, ours.released.names, ours.released.value, ours.released.push)


def logistic(C, ratio, weight=None):
    mixed = {"l1_ratio": ratio}
    if LogisticRegression().get_params().get("penalty", "deprecated") == "l2":  # before scikit-learn 1.8
        mixed["penalty"] = "elasticnet"

    def fit(X, y):
        model = LogisticRegression(C=C, solver="saga", random_state=0, tol=1e-13, max_iter=200_000, **mixed)
        return weights(model.fit(X, y, sample_weight=weight))

    w = fit(X, TWO)
    return fit, glm.SparseWeights(X, TWO, glm.Logistic(), w, ratio / C, (1 - ratio) / C, weight, True)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("ratio", [1.0, 0.5])
def test_a_sparse_logistic_regression_moves_as_its_refit_shows(ratio, weight):
    fit, ours = logistic(0.15, ratio, weight)
    solution = ours.solve()
    assert 0 < len(ours.active) < D
    np.testing.assert_allclose(solution.released, fit(X, TWO), rtol=0, atol=1e-8)
    J = glm.measure_solution(solution, ONE, released=_all_rows(ours)).jacobian.dense(slice(None))
    for row, column in [(0, ours.active[0]), (7, ours.active[-1])]:
        close(J[row, :, column], cell_slope(lambda Z: fit(Z, TWO), X, row, column, 5e-3))


@pytest.mark.parametrize("name", NETS)
def test_the_factored_jacobian_on_the_active_set_is_the_implicit_one(name):
    _, ours = net(*NETS[name])
    solution = ours.solve()
    P = np.random.default_rng(1).standard_normal((D, 4))
    fast = glm.measure_solution(solution, dm.Gaussian(0.3), input_map=P, target_unit=2.0)
    implicit = EstimatingJacobian(solution, ours.released, dm.Gaussian(0.3), P, np.array([2.0]), 4)
    dense = glm.Leakage(implicit, ONE)
    for reading in ("examples", "labels", "cells", "attributes", "dataset"):
        np.testing.assert_allclose(getattr(fast, reading), getattr(dense, reading), rtol=1e-9)
    assert_nested(fast)
    root = np.random.default_rng(2).standard_normal((len(ours.released.names),) * 2)
    noise = dm.CorrelatedGaussian(root @ root.T + np.eye(len(root)))
    correlated = EstimatingJacobian(solution, ours.released, noise, P, np.ones(1), 4)
    np.testing.assert_allclose(
        glm.measure_solution(solution, noise, input_map=P).examples,
        glm.Leakage(correlated, noise).examples,
        rtol=1e-9,
    )


def test_without_zeros_it_is_the_smooth_model_with_the_same_ridge():
    """The L1 part is constant on the active set: the Jacobian is that of the ridge problem at other weights."""
    _, ours = net(0.001, 0.5)
    solution = ours.solve()
    assert len(ours.active) == D
    smooth = glm.fit_at(X, Y, glm.Squared(), solution.theta, ours.l2 / N, intercept=True)
    ridge = glm.measure(smooth, X, Y, ONE)
    np.testing.assert_allclose(glm.measure_solution(solution, ONE).examples, ridge.examples, rtol=1e-10)


def test_cells_of_excluded_columns_do_not_move_the_weights_until_the_threshold():
    """η = 0 of an excluded cell is local: a refit agrees for a small move and not beyond the threshold."""
    fit, ours = net(0.3, 1)
    solution = ours.solve()
    excluded = np.setdiff1d(np.arange(D), ours.active)
    leak = glm.measure_solution(solution, ONE)
    assert not leak.cells[:, excluded].any()
    assert (leak.cells[:, ours.active] > 0).all()
    margins = ours.margins(solution.theta)
    j = int(margins.argmin())
    assert j in excluded
    assert solution.kinks[0].distance == margins[j] > 0
    residual = X @ solution.released[:-1] + solution.released[-1] - Y
    row = int(np.abs(residual).argmax())
    to_threshold = ours.l1 * margins[j] / abs(residual[row])
    direction = np.sign(residual[row]) * np.sign(residual @ X[:, j])
    for share, moves in ((0.9, False), (1.3, True)):
        Z = X.copy()
        Z[row, j] += direction * share * to_threshold
        assert bool(np.abs(fit(Z, Y) - solution.released).max() > 1e-6) is moves
    assert any("zero" in note for note in solution.not_covered)


def test_a_column_at_its_threshold_is_refused():
    _, ours = net(0.3, 1)
    theta = ours.solve().theta
    residual = X @ ours.solve().released[:-1] + ours.solve().released[-1] - Y
    j = int(np.setdiff1d(np.arange(D), ours.active)[0])
    Z = X.copy()
    Z[:, j] *= ours.l1 / abs(residual @ X[:, j])  # the weights on the active set stay the same
    with pytest.raises(dm.CannotMeasure, match=f"column {j} without a weight is at its threshold"):
        glm.SparseWeights(Z, Y, glm.Squared(), ours.weights, ours.l1, intercept=True).solve()
    Z[:, j] *= 0.999
    near = glm.SparseWeights(Z, Y, glm.Squared(), ours.weights, ours.l1, intercept=True).solve()
    np.testing.assert_allclose(near.theta, theta, rtol=1e-9)
    assert near.kinks[0].distance == pytest.approx(0.001, rel=1e-6)


def test_weights_that_are_not_the_minimum_are_refused():
    _, ours = net(0.3, 1)
    dropped, turned = ours.weights.copy(), ours.weights.copy()
    dropped[ours.active[0]] = 0.0
    turned[ours.active[0]] *= -1.0
    with pytest.raises(dm.CannotMeasure, match="has the weight zero, but"):
        glm.SparseWeights(X, Y, glm.Squared(), dropped, ours.l1, intercept=True).solve()
    with pytest.raises(dm.CannotMeasure, match="changes its sign"):
        glm.SparseWeights(X, Y, glm.Squared(), turned, ours.l1, intercept=True).solve()


def test_an_intercept_alone_and_no_weight_at_all():
    _, ours = net(50.0, 1)
    assert not len(ours.active)
    leak = glm.measure_solution(ours.solve(), ONE)
    np.testing.assert_allclose(leak.labels, 1 / N, rtol=1e-12)  # the intercept is the mean of the targets
    assert not leak.cells.any()
    with pytest.raises(dm.Refusal, match="every weight is zero"):
        net(50.0, 1, intercept=False)


def test_wrong_options_are_refused():
    with pytest.raises(dm.Refusal, match="l1"):
        glm.SparseWeights(X, Y, glm.Squared(), np.ones(D), 0.0)
    with pytest.raises(dm.Refusal, match="weights must be"):
        glm.SparseWeights(X, Y, glm.Squared(), np.ones(D), 1.0, intercept=True)
