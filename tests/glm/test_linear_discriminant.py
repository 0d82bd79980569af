"""Linear discriminants against refits by scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import dosimeter as dm
from dosimeter import glm

from .refits import assert_nested, cell_slope, class_step, close, label_slope

ONE = dm.Gaussian(1.0)
SETTINGS = {
    "svd": {"solver": "svd"},
    "svd, given priors": {"solver": "svd", "priors": True},
    "lsqr": {"solver": "lsqr"},
    "lsqr, shrunk": {"solver": "lsqr", "shrinkage": 0.3},
    "lsqr, given priors": {"solver": "lsqr", "priors": True},
    "eigen, shrunk, given priors": {"solver": "eigen", "shrinkage": 0.2, "priors": True},
}


def table(K, seed=3, n=40):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(K), rng.integers(0, K, n - K)]).astype(float)
    X = rng.standard_normal((n, 3)) * [1.0, 2.0, 0.5] + y[:, None] * [0.5, -0.3, 0.2]
    return X + np.outer(y == 1, [0.3, 0.6, -0.1]), y


def settings_of(name, K):
    settings = dict(SETTINGS[name])
    if settings.get("priors"):
        settings["priors"] = np.arange(1, K + 1) / (K * (K + 1) / 2)
    return settings


BY_FREEDOM = LinearDiscriminantAnalysis().fit([[0.0], [2.0], [4.0], [6.0]], [0, 0, 1, 1]).coef_[0, 0] < 3
"""Whether this scikit-learn divides the covariance of "svd" by n - K: 4/2, and not 4/1."""


def as_installed(X, y, K, settings):
    """The equations of the installed version."""
    return glm.LinearDiscriminant(X, y, K, **settings, unbiased=BY_FREEDOM and settings["solver"] == "svd")


def coefficients(X, y, settings):
    model = LinearDiscriminantAnalysis(**settings).fit(X, y)
    return np.column_stack([model.coef_, model.intercept_]).ravel()


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("name", SETTINGS)
def test_the_discriminants_move_as_a_refit_shows(name, K):
    X, y = table(K)
    settings = settings_of(name, K)
    solution = as_installed(X, y, K, settings).solve()
    np.testing.assert_allclose(solution.released, coefficients(X, y, settings), rtol=1e-10, atol=1e-12)
    J = glm.measure_solution(solution, ONE).jacobian.dense(slice(None))
    for row, column in [(0, 0), (5, 1), (9, 2)]:
        close(J[row, :, column], cell_slope(lambda Z: coefficients(Z, y, settings), X, row, column, 1e-3))
    if BY_FREEDOM and settings["solver"] == "svd":
        return  # a share of a label is moved by copies of the table, of which each would lose K degrees of freedom
    row = 4
    other = (y[row] + 1) % K
    slope = label_slope(lambda Z, labels: coefficients(Z, labels, settings), X, y, row, other)
    close(J[row, :, 3:] @ class_step(y, row, other, K), slope)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("name", [k for k in SETTINGS if k != "svd, given priors"])
def test_means_and_covariance_move_as_a_refit_shows(name, K):
    X, y = table(K)
    settings = settings_of(name, K)
    lower = np.tril_indices(3)

    def moments(X, labels):
        stored = {**settings, "store_covariance": True} if settings["solver"] == "svd" else settings
        model = LinearDiscriminantAnalysis(**stored).fit(X, labels)
        shares = [] if "priors" in settings else model.priors_
        return np.concatenate([shares, model.means_.ravel(), model.covariance_[lower]])

    equations = glm.LinearDiscriminant(X, y, K, **settings)
    solution, R = equations.solve(), equations.moments_map
    np.testing.assert_allclose(R.value(solution.theta), moments(X, y), rtol=1e-10, atol=1e-12)
    leak = glm.measure_solution(solution, ONE, released=R)
    J = leak.jacobian.dense(slice(None))
    close(J[7, :, 1], cell_slope(lambda Z: moments(Z, y), X, 7, 1, 1e-3))
    other = (y[6] + 1) % K
    close(J[6, :, 3:] @ class_step(y, 6, other, K), label_slope(moments, X, y, 6, other))
    assert_nested(leak)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_closed_form_is_the_differential_of_the_map_of_the_moments(name):
    X, y = table(3)
    equations = glm.LinearDiscriminant(X, y, 3, **settings_of(name, 3))
    solution, rows = equations.solve(), np.arange(len(X))
    composed = equations.released.push(solution.theta, -equations.row_derivative(solution.theta, rows))
    close(equations.moves(solution, equations.released, rows), composed, 1e-12)


@pytest.mark.parametrize("K", [2, 3])
def test_a_covariance_divided_by_its_degrees_of_freedom_moves_as_one_divided_by_n_at_another_scale(K):
    """Whatever version is installed: β is smaller by (n - K)/n, and the model of either version is measured."""
    X, y = table(K)
    n, by_n = len(X), glm.LinearDiscriminant(X, y, K)
    by_freedom = glm.LinearDiscriminant(X, y, K, unbiased=True)
    outputs = 1 if K == 2 else K
    weights = [each.solve().released.reshape(outputs, 4)[:, :3] for each in (by_n, by_freedom)]
    np.testing.assert_allclose(weights[1], weights[0] * (n - K) / n, rtol=1e-12)
    J = glm.measure_solution(by_freedom.solve(), ONE).jacobian.dense(slice(None))

    def refit(Z):
        return glm.LinearDiscriminant(Z, y, K, unbiased=True).solve().released

    close(J[5, :, 1], cell_slope(refit, X, 5, 1, 1e-3))
    for equations in (by_n, by_freedom):
        model, moved = LinearDiscriminantAnalysis().fit(X, y), equations.solve().released.reshape(outputs, 4)
        model.coef_, model.intercept_ = moved[:, :3], moved[:, 3]
        leak = dm.measure(model, X, y.astype(int), noise=ONE)
        alone = glm.measure_solution(equations.solve(), ONE, target_unit=1.0 if K == 2 else np.sqrt(2))
        np.testing.assert_allclose(leak.examples, alone.examples, rtol=1e-9)


def test_more_unknowns_never_lower_the_figure():
    X, y = table(3)
    assert_nested(glm.measure_solution(glm.LinearDiscriminant(X, y, 3).solve(), ONE, target_unit=np.sqrt(2)))


def test_the_attributes_of_the_file_are_named_as_further_releases():
    X, y = table(3)
    assert any("covariance_" in note for note in glm.LinearDiscriminant(X, y, 3).solve().not_covered)


def test_what_has_no_derivative_is_refused():
    X, y = table(3)
    with pytest.raises(dm.CannotMeasure, match="auto"):
        glm.LinearDiscriminant(X, y, 3, "lsqr", "auto")
    with pytest.raises(dm.Refusal, match="no shrinkage"):
        glm.LinearDiscriminant(X, y, 3, "svd", 0.1)
    with pytest.raises(dm.Refusal, match="unbiased is for"):
        glm.LinearDiscriminant(X, y, 3, "lsqr", unbiased=True)
    with pytest.raises(dm.Refusal, match="solver"):
        glm.LinearDiscriminant(X, y, 3, "newton")
    with pytest.raises(dm.CannotMeasure, match="drops a direction"):
        glm.LinearDiscriminant(np.column_stack([X, X[:, 0] + X[:, 1]]), y, 3)
    with pytest.raises(dm.CannotMeasure, match="constant within"):
        glm.LinearDiscriminant(np.column_stack([X, y]), y, 3)
    with pytest.raises(dm.CannotMeasure, match="not the covariance of the discriminants"):
        _ = glm.LinearDiscriminant(X, y, 3, priors=[0.2, 0.3, 0.5]).moments_map
    with pytest.raises(dm.Refusal, match="priors"):
        glm.LinearDiscriminant(X, y, 3, priors=[0.2, 0.3, 0.6])
    with pytest.raises(dm.Refusal, match="no row has class 3"):
        glm.LinearDiscriminant(X, y, 4)
    with pytest.raises(dm.Refusal, match="condition number"):
        glm.LinearDiscriminant(np.column_stack([X, X[:, 0] + X[:, 1]]), y, 3, "lsqr")


def test_means_on_one_line_make_svd_drop_a_direction_and_are_refused():
    rng = np.random.default_rng(0)
    y = np.repeat([0.0, 1.0, 2.0], 20)
    X = rng.standard_normal((60, 3))
    for k in range(3):
        X[y == k] -= X[y == k].mean(axis=0)
    with pytest.raises(dm.CannotMeasure, match="means of the classes"):
        glm.LinearDiscriminant(X + y[:, None] * [1.0, 0.5, 0.0], y, 3)
