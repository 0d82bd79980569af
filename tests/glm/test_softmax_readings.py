"""Softmax figures against Jacobians written out, and long fits against the careful method."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import dosimeter as dm
from dosimeter import glm

NOISES = [dm.Gaussian(0.3), dm.Laplace(0.2)]


def digits(n=220, intercept=True, weighted=False):
    X, y = load_digits(return_X_y=True)
    X, y = X[:n] / 16.0, y[:n].astype(float)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, n) if weighted else None
    fit = glm.fit(X, y, glm.Softmax(10, "mean"), 0.01, intercept=intercept, sample_weight=weight)
    return fit, X, y


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_every_reading_is_that_of_the_jacobians_written_out(noise, weighted):
    fit, X, y = digits(weighted=weighted)
    leak = glm.measure(fit, X, y, noise, target_unit=np.sqrt(2.0))
    rows = np.array([0, 3, 57, 140, 219])
    J = leak.jacobian.dense(rows)
    exact = [np.linalg.norm(k, 2) for k in J]
    np.testing.assert_allclose(leak.examples[rows], exact, rtol=1e-8)
    np.testing.assert_allclose(
        leak.without_target().examples[rows], [np.linalg.norm(k[:, :64], 2) for k in J], rtol=1e-8
    )
    np.testing.assert_allclose(leak.labels[rows], [np.linalg.norm(k[:, 64:], 2) for k in J], rtol=1e-8)
    np.testing.assert_allclose(leak.cells[rows], np.linalg.norm(J[:, :, :64], axis=1), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(
        leak.attribute([3, 9, 20])[rows], [np.linalg.norm(k[:, [3, 9, 20]], 2) for k in J], rtol=1e-8
    )
    steps = [max(np.linalg.norm(k[:, 64 + a] - k[:, 64 + b]) for a in range(10) for b in range(a)) for k in J]
    np.testing.assert_allclose(leak.category(leak.target_positions, np.eye(10))[rows], steps, rtol=1e-8)
    pairs = np.arange(220) // 2
    together = np.linalg.norm(np.concatenate(list(leak.jacobian.dense(np.array([0, 1]))), axis=1), 2)
    assert next(iter(leak.group(pairs).values())) == pytest.approx(together, rel=1e-8)


def test_the_whole_table_and_its_columns_are_those_of_all_jacobians():
    fit, X, y = digits(n=60)
    leak = glm.measure(fit, X, y, dm.Gaussian(0.3))
    J = leak.jacobian.dense(slice(None))
    assert leak.dataset == pytest.approx(np.linalg.norm(np.concatenate(list(J), axis=1), 2), rel=1e-8)
    expected = [np.linalg.norm(J[:, :, j].T, 2) for j in range(64)]
    np.testing.assert_allclose(leak.attributes, expected, rtol=1e-7, atol=1e-10)


def test_a_cell_moves_the_weights_as_a_refit_by_scikit_learn_shows():
    fit, X, y = digits(n=150)
    leak = glm.measure(fit, X, y, dm.Gaussian(1.0))

    def refit(X):
        model = LogisticRegression(C=1 / (150 * 0.01), solver="newton-cholesky", tol=1e-13, max_iter=500).fit(X, y)
        return np.column_stack([model.coef_, model.intercept_])

    step = np.zeros_like(X)
    step[5, 20] = 1e-3
    slope = (refit(X + step) - refit(X - step)) / 2e-3
    assert leak.cells[5, 20] == pytest.approx(np.linalg.norm(slope), rel=1e-5)


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
@pytest.mark.parametrize("l2", [0.0, 1e-3])
def test_a_long_fit_ends_where_scikit_learn_and_a_fit_in_parts_end(loss, l2):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40_000, 6))
    margin = X @ [0.5, -0.4, 0.3, 0.0, 0.2, -0.1]
    y = (
        (rng.random(len(X)) < 1 / (1 + np.exp(-margin))).astype(float)
        if loss == "logistic"
        else rng.poisson(np.exp(margin)).astype(float)
    )
    kind = glm.LOSSES[loss]()
    quick = glm.fit(X, y, kind, l2, intercept=True)
    careful = glm.fit(X, y, kind, l2, intercept=True, offset=np.zeros(len(X)))  # an offset takes the careful way
    np.testing.assert_allclose(quick.w, careful.w, rtol=1e-9, atol=1e-11)
    ours, theirs = (glm.measure(f, X, y, dm.Gaussian(0.1)).examples for f in (quick, careful))
    np.testing.assert_allclose(ours, theirs, rtol=1e-8)
