"""Several outputs released together, against refits by scikit-learn and against the scalar path."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier

import dosimeter as dm
from dosimeter import glm
from dosimeter.core.category import simplex
from dosimeter.glm.equations.estimating_jacobian import EstimatingJacobian

from .refits import assert_nested, cell_slope, class_step, close, forward_slope

ONE = dm.Gaussian(1.0)
RNG = np.random.default_rng(8)
N = 40
X = RNG.standard_normal((N, 3)) * [1.0, 2.0, 0.5] + [0.0, 1.0, -1.0]
Y = X @ RNG.standard_normal((3, 4)) + RNG.standard_normal((N, 4))
CLASSES = np.concatenate([np.arange(3), RNG.integers(0, 3, N - 3)]).astype(float)
TWO = (Y[:, 0] > 0).astype(float)
WEIGHT = RNG.uniform(0.3, 3.0, N)
NEWTON = {"solver": "newton-cholesky", "tol": 1e-13, "max_iter": 1000}


def stacked(model):
    """(K p,) output after output, the intercept last."""
    coef = np.atleast_2d(model.coef_)
    return (np.column_stack([coef, np.ravel(model.intercept_)]) if model.fit_intercept else coef).ravel()


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 2.0, np.array([0.1, 1.0, 3.0, 30.0])], ids=["none", "one", "each"])
def test_ridge_with_several_targets_moves_as_a_refit_shows(alpha, intercept, weight):
    def refit(X, Y):
        model = (
            Ridge(alpha=alpha, fit_intercept=intercept) if np.any(alpha) else LinearRegression(fit_intercept=intercept)
        )
        return stacked(model.fit(X, Y, sample_weight=weight))

    solution = glm.ridge_outputs(X, Y, alpha, sample_weight=weight, intercept=intercept).solve()
    np.testing.assert_allclose(solution.released, refit(X, Y), rtol=1e-9, atol=1e-11)
    J = glm.measure_solution(solution, ONE).jacobian.dense(slice(None))
    for row, column in [(0, 0), (7, 1), (23, 2)]:
        close(J[row, :, column], cell_slope(lambda Z: refit(Z, Y), X, row, column, 1e-3))
    for target in range(4):
        close(J[5, :, 3 + target], cell_slope(lambda Z: refit(X, Z), Y, 5, target, 1e-3))


@pytest.mark.parametrize("labels", [TWO, CLASSES], ids=["two classes", "three classes"])
def test_a_ridge_classifier_moves_as_a_refit_shows(labels):
    K = len(np.unique(labels))

    def refit(X, weight, labels=labels):
        return stacked(RidgeClassifier(alpha=0.7).fit(X, labels, sample_weight=weight))

    solution = glm.ridge_classifier(X, labels, K, 0.7, sample_weight=WEIGHT, intercept=True).solve()
    np.testing.assert_allclose(solution.released, refit(X, WEIGHT), rtol=1e-9, atol=1e-11)
    J = glm.measure_solution(solution, ONE).jacobian.dense(slice(None))
    close(J[7, :, 1], cell_slope(lambda Z: refit(Z, WEIGHT), X, 7, 1, 1e-3))
    assert_label(J, labels, K, lambda Z, weight, y: refit(Z, weight, y))


def assert_label(J, labels, K, refit, row=4, tolerance=1e-6):
    """Row 4 is split into two rows whose weights shift from its class to another."""
    other = (labels[row] + 1) % K

    def at(share):
        weight = np.append(WEIGHT, share * WEIGHT[row])
        weight[row] *= 1 - share
        return refit(np.vstack([X, X[row]]), weight, np.append(labels, other))

    close(J[row, :, 3:] @ class_step(labels, row, other, K), forward_slope(at, 2e-3), tolerance)


@pytest.mark.parametrize("labels", [TWO, CLASSES], ids=["two classes", "three classes"])
def test_one_versus_rest_moves_as_a_refit_shows(labels):
    K = len(np.unique(labels))

    def refit(X, weight, labels=labels):
        indicators = [labels == k for k in ([1] if K == 2 else range(K))]
        return np.concatenate(
            [stacked(LogisticRegression(C=0.4, **NEWTON).fit(X, e, sample_weight=weight)) for e in indicators]
        )

    ours = glm.one_versus_rest(X, labels, K, glm.Logistic(), 1 / 0.4, sample_weight=WEIGHT, intercept=True)
    solution = ours.solve()
    np.testing.assert_allclose(solution.released, refit(X, WEIGHT), rtol=1e-8, atol=1e-10)
    J = glm.measure_solution(solution, ONE).jacobian.dense(slice(None))
    for row, column in [(0, 0), (7, 1), (23, 2)]:
        close(J[row, :, column], cell_slope(lambda Z: refit(Z, WEIGHT), X, row, column, 1e-3))
    assert_label(J, labels, K, lambda Z, weight, y: refit(Z, weight, y))


def test_one_versus_rest_is_scikit_learns():
    model = OneVsRestClassifier(LogisticRegression(C=0.4, **NEWTON)).fit(X, CLASSES)
    theirs = np.concatenate([stacked(k) for k in model.estimators_])
    ours = glm.one_versus_rest(X, CLASSES, 3, glm.Logistic(), 1 / 0.4, intercept=True).solve()
    np.testing.assert_allclose(ours.released, theirs, rtol=1e-8, atol=1e-10)


def test_several_classifiers_move_as_a_refit_shows():
    labels = (Y[:, :2] > 0).astype(float)

    def refit(X):
        model = MultiOutputClassifier(LogisticRegression(C=0.4, **NEWTON)).fit(X, labels)
        return np.concatenate([stacked(k) for k in model.estimators_])

    solution = glm.several_outputs(X, labels, glm.Logistic(), 1 / 0.4, intercept=True).solve()
    J = glm.measure_solution(solution, ONE).jacobian.dense(slice(None))
    close(J[7, :, 1], cell_slope(refit, X, 7, 1, 1e-3))
    # Each label moves its own classifier only.
    assert not J[:, :4, 4].any()
    assert not J[:, 4:, 3].any()


@pytest.mark.parametrize("loss", [glm.Squared(), glm.Logistic(), glm.Poisson()], ids=lambda k: k.name)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_one_output_is_the_scalar_path(loss, intercept, weight):
    y = {"squared": Y[:, 0], "logistic": TWO, "poisson": np.floor(np.abs(Y[:, 0]))}[loss.name]
    problem = glm.several_outputs(X, y, loss, 0.5, sample_weight=weight, intercept=intercept)
    solution = problem.solve()
    scalar = glm.measure(solution.fits[0], X, y, dm.Gaussian(0.3))
    ours = glm.measure_solution(solution, dm.Gaussian(0.3))
    # The same through the implicit function theorem: Newton on the gradient, and the inverse of its derivative.
    equations = glm.EstimatingEquations.solve(problem)
    implicit = EstimatingJacobian(equations, problem.released, dm.Gaussian(0.3), np.eye(3), np.ones(1), 3)
    np.testing.assert_allclose(equations.theta, solution.theta, rtol=1e-10, atol=1e-12)
    for reading in ("examples", "labels", "cells", "attributes", "dataset"):
        expected = getattr(scalar, reading)
        np.testing.assert_allclose(getattr(ours, reading), expected, rtol=1e-10)
        np.testing.assert_allclose(getattr(glm.Leakage(implicit, ONE), reading), expected, rtol=1e-10)


@pytest.mark.parametrize("correlated", [False, True])
def test_the_stack_of_factored_outputs_is_the_implicit_jacobian(correlated):
    problem = glm.one_versus_rest(X, CLASSES, 3, glm.Logistic(), [0.5, 1.0, 2.0], intercept=True)
    solution = problem.solve()
    root = np.random.default_rng(1).standard_normal((12, 12))
    noise = dm.CorrelatedGaussian(root @ root.T + np.eye(12)) if correlated else dm.Laplace(0.7)
    P = np.array([[1.0, 0.0], [0.5, 2.0], [0.0, -1.0]])
    leak = glm.measure_solution(solution, noise, input_map=P, target_unit=np.sqrt(2))
    implicit = EstimatingJacobian(solution, problem.released, noise, P, np.full(3, np.sqrt(2)), 2)
    close(leak.jacobian.dense(slice(None)), implicit.dense(slice(None)), 1e-10)
    dense = glm.Leakage(implicit, noise)
    for reading in ("examples", "labels", "cells", "attributes", "dataset"):
        np.testing.assert_allclose(getattr(leak, reading), getattr(dense, reading), rtol=1e-9)


def test_a_step_between_two_classes_has_length_one_in_the_unit_of_classes():
    """The K centred indicators with the unit √2 are the simplex whose edges have length one."""
    problem = glm.one_versus_rest(X, CLASSES, 3, glm.Logistic(), 1.0)
    unit = problem.target.unit(CLASSES, 1.0)
    leak = glm.measure_solution(problem.solve(), ONE, target_unit=unit)
    V = simplex(3)
    J = np.stack([part.dense(slice(None))[:, :, -1] for part in leak.jacobian.parts], axis=1)  # (n, K, p) by indicator
    by_simplex = np.einsum("nkp,kj->nkpj", J, 2 * V).reshape(N, -1, 2)  # e_c - 1/K = 2 V V_cᵀ
    np.testing.assert_allclose(leak.labels, np.linalg.norm(by_simplex, 2, axis=(1, 2)), rtol=1e-10)
    steps = leak.category(leak.target_positions, np.eye(3) / unit)
    explicit = [
        max(np.linalg.norm(np.concatenate([J[i, b], -J[i, a]])) for a in range(3) for b in range(3) if a != b)
        for i in range(N)
    ]
    np.testing.assert_allclose(steps, explicit, rtol=1e-10)
    assert (steps <= leak.labels * (1 + 1e-12)).all()


def test_outputs_together_leak_more_than_one_and_no_more_than_all_added():
    problem = glm.ridge_outputs(X, Y, 1.0, intercept=True)
    together = glm.measure_solution(problem.solve(), ONE).without_target()
    alone = [
        glm.measure(glm.fit(X, Y[:, k], glm.Squared(), 1.0 / N, intercept=True), X, Y[:, k], ONE).without_target()
        for k in range(4)
    ]
    np.testing.assert_allclose(together.cells**2, sum(k.cells**2 for k in alone), rtol=1e-9)
    assert (together.examples >= np.max([k.examples for k in alone], axis=0) * (1 - 1e-9)).all()
    assert (together.examples <= np.sqrt(sum(k.examples**2 for k in alone)) * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    "problem",
    [
        glm.ridge_outputs(X, Y, 1.0, intercept=True),
        glm.ridge_classifier(X, CLASSES, 3, 1.0),
        glm.one_versus_rest(X, CLASSES, 3, glm.Logistic(), 1.0, sample_weight=RNG.uniform(0.5, 1.5, (N, 3))),
    ],
    ids=["ridge", "ridge classifier", "one versus rest"],
)
def test_more_unknowns_never_lower_the_figure(problem):
    assert_nested(glm.measure_solution(problem.solve(), ONE))


def test_weights_of_each_output_are_those_of_its_own_fit():
    weight = np.random.default_rng(3).uniform(0.2, 2.0, (N, 3))
    leak = glm.measure_solution(
        glm.one_versus_rest(X, CLASSES, 3, glm.Logistic(), [1.0, 2.0, 3.0], sample_weight=weight).solve(), ONE
    )
    alone = []
    for k in range(3):
        e = (k == CLASSES).astype(float)
        alone.append(glm.measure(glm.fit(X, e, glm.Logistic(), (k + 1) / N, sample_weight=weight[:, k]), X, e, ONE))
    np.testing.assert_allclose(leak.cells**2, sum(k.cells**2 for k in alone), rtol=1e-9)


def test_two_classes_are_one_scalar_model():
    leak = glm.measure_solution(glm.one_versus_rest(X, TWO, 2, glm.Logistic(), 1.0, intercept=True).solve(), ONE)
    scalar = glm.measure(glm.fit(X, TWO, glm.Logistic(), 1.0 / N, intercept=True), X, TWO, ONE)
    np.testing.assert_allclose(leak.examples, scalar.examples, rtol=1e-10)
    np.testing.assert_allclose(leak.labels, scalar.labels, rtol=1e-10)
    signs = 2 * TWO - 1
    leak = glm.measure_solution(glm.ridge_classifier(X, TWO, 2, 1.0).solve(), ONE)
    scalar = glm.measure(glm.fit(X, signs, glm.Squared(), 1.0 / N), X, signs, ONE, target_unit=2.0)
    np.testing.assert_allclose(leak.examples, scalar.examples, rtol=1e-10)


def test_outputs_may_have_unlike_losses():
    counts = np.floor(np.abs(Y[:, 1]))
    both = glm.several_outputs(X, np.column_stack([Y[:, 0], counts]), [glm.Squared(), glm.Poisson()], [1.0, 2.0])
    leak = glm.measure_solution(both.solve(), ONE)
    alone = [
        glm.measure(glm.fit(X, y, loss, l2 / N), X, y, ONE)
        for y, loss, l2 in ((Y[:, 0], glm.Squared(), 1.0), (counts, glm.Poisson(), 2.0))
    ]
    np.testing.assert_allclose(leak.cells**2, sum(k.cells**2 for k in alone), rtol=1e-9)
    np.testing.assert_allclose(leak.labels, np.max([k.labels for k in alone], axis=0), rtol=1e-9)


def test_collinear_columns_keep_their_digits():
    """Condition number 1e6: the factored path answers as for one output, where normal equations would have lost it."""
    Z = np.column_stack([X, X[:, 0] + 1e-6 * RNG.standard_normal(N)])
    problem = glm.ridge_outputs(Z, Y[:, :2], 0.0)
    leak = glm.measure_solution(problem.solve(), ONE)
    scalar = [glm.measure(glm.fit(Z, Y[:, k], glm.Squared()), Z, Y[:, k], ONE) for k in range(2)]
    np.testing.assert_allclose(leak.cells**2, sum(k.cells**2 for k in scalar), rtol=1e-9)


def test_given_parameters_state_how_far_they_are_from_the_minimum():
    problem = glm.ridge_outputs(X, Y, 1.0)
    exact = problem.solve()
    assert exact.decrement < 1e-9 < problem.at(exact.theta + 0.01).decrement
    assert exact.iterations > 0 == problem.at(exact.theta).iterations


def test_wrong_shapes_are_refused():
    with pytest.raises(dm.Refusal, match="losses"):
        glm.several_outputs(X, Y, [glm.Squared()])
    with pytest.raises(dm.Refusal, match="penalty"):
        glm.ridge_outputs(X, Y, [1.0, 2.0])
    with pytest.raises(dm.Refusal, match="penalty"):
        glm.ridge_outputs(X, Y, -1.0)
    with pytest.raises(dm.Refusal, match="sample_weight"):
        glm.ridge_outputs(X, Y, 1.0, sample_weight=np.ones((N, 2)))
    with pytest.raises(dm.Refusal, match="between 0 and 1"):
        glm.several_outputs(X, Y, glm.Logistic())
    with pytest.raises(dm.Refusal, match="no row has class 3"):
        glm.one_versus_rest(X, CLASSES, 4, glm.Logistic())
    with pytest.raises(dm.Refusal, match="parameters must be"):
        glm.ridge_outputs(X, Y, 1.0).solve(np.zeros(3))
    with pytest.raises(dm.Refusal, match="separate"):
        glm.one_versus_rest(X, (X[:, 0] > 0).astype(float), 2, glm.Logistic()).solve()
