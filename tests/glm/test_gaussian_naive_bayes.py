"""Gaussian naive Bayes against refits by scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import dosimeter as dm
from dosimeter import glm

from .refits import assert_nested, cell_slope, class_step, close, label_slope

ONE = dm.Gaussian(1.0)


def table(K, seed=5, n=36):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(K), rng.integers(0, K, n - K)]).astype(float)
    return rng.standard_normal((n, 3)) * [1.0, 2.0, 0.5] + y[:, None] * [0.5, -0.3, 0.2], y


def refit(settings, counts=False, weight=None):
    def values(X, y):
        model = GaussianNB(**settings).fit(X, y, sample_weight=weight)
        if counts:
            return np.concatenate([model.class_count_, model.theta_.ravel(), model.var_.ravel()])
        shares = [] if "priors" in settings else model.class_prior_
        return np.concatenate([model.theta_.ravel(), model.var_.ravel(), shares])

    return values


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize(
    "settings",
    [{}, {"var_smoothing": 0.4}, {"var_smoothing": 0.1, "priors": True}, {"var_smoothing": 0.0}],
    ids=["default", "smooth", "priors", "rough"],
)
def test_means_variances_and_shares_move_as_a_refit_shows(settings, K):
    X, y = table(K)
    settings = {**settings, "priors": np.full(K, 1 / K)} if "priors" in settings else settings
    values = refit(settings)
    solution = glm.GaussianNaiveBayes(X, y, K, **settings).solve()
    np.testing.assert_allclose(solution.released, values(X, y), rtol=1e-12, atol=1e-14)
    J = glm.measure_solution(solution, ONE).jacobian.dense(slice(None))
    for row, column in [(0, 0), (5, 1), (9, 2)]:
        close(J[row, :, column], cell_slope(lambda Z: values(Z, y), X, row, column, 1e-3))
    other = (y[4] + 1) % K
    close(J[4, :, 3:] @ class_step(y, 4, other, K), label_slope(values, X, y, 4, other))


def test_weighted_moments_and_counts_move_as_a_refit_shows():
    X, y = table(3)
    weight = np.random.default_rng(1).uniform(0.3, 3.0, len(y))
    equations = glm.GaussianNaiveBayes(X, y, 3, 0.2, sample_weight=weight)
    solution, values = equations.solve(), refit({"var_smoothing": 0.2}, counts=True, weight=weight)
    R = equations.moments_map
    np.testing.assert_allclose(R.value(solution.theta), values(X, y), rtol=1e-12)
    leak = glm.measure_solution(solution, ONE, released=R)
    J = leak.jacobian.dense(slice(None))
    for row, column in [(0, 0), (5, 1)]:
        close(J[row, :, column], cell_slope(lambda Z: values(Z, y), X, row, column, 1e-3))
    assert_nested(leak)


def test_a_weighted_label_moves_the_moments_as_a_refit_of_two_weighted_rows_shows():
    """Without smoothing, which counts rows: row 4 is split into two rows whose weights shift between two classes."""
    X, y = table(3)
    weight = np.random.default_rng(1).uniform(0.3, 3.0, len(y))
    other = (y[4] + 1) % 3

    def at(share):
        labels, weights = np.append(y, other), np.append(weight, share * weight[4])
        weights[4] *= 1.0 - share
        return refit({"var_smoothing": 0.0}, counts=True, weight=weights)(np.vstack([X, X[4]]), labels)

    equations = glm.GaussianNaiveBayes(X, y, 3, 0.0, sample_weight=weight)
    J = glm.measure_solution(equations.solve(), ONE, released=equations.moments_map).jacobian.dense(slice(None))
    slope = (-25 * at(0.0) + 48 * at(0.01) - 36 * at(0.02) + 16 * at(0.03) - 3 * at(0.04)) / 0.12
    close(J[4, :, 3:] @ class_step(y, 4, other, 3), slope)


def test_two_columns_of_equal_variance_are_a_kink_and_refused():
    X, y = table(2)
    twins = np.column_stack([X, X[:, 1]])
    with pytest.raises(dm.CannotMeasure, match="largest variance"):
        glm.GaussianNaiveBayes(twins, y, 2, var_smoothing=1e-3).solve()
    assert glm.GaussianNaiveBayes(twins, y, 2, var_smoothing=0.0).solve().kinks == ()
    first, second = np.sort(X.var(axis=0))[::-1][:2]
    kinks = glm.GaussianNaiveBayes(X, y, 2, var_smoothing=1e-3).solve().kinks
    assert kinks[0].distance == pytest.approx(1 - second / first)


def test_the_choice_of_the_column_and_further_attributes_are_named():
    X, y = table(2)
    notes = glm.GaussianNaiveBayes(X, y, 2).solve().not_covered
    assert any("smooths" in note for note in notes)
    assert any("epsilon_" in note for note in notes)


def test_more_unknowns_never_lower_the_figure():
    X, y = table(3)
    assert_nested(glm.measure_solution(glm.GaussianNaiveBayes(X, y, 3).solve(), ONE, target_unit=np.sqrt(2)))
