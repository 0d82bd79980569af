"""R² on the other columns, against scikit-learn's regression; the guess, against refits without the row."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from dosimeter.glm.attacks.column_prediction import explain_columns, predict_from_other_columns


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 5)) @ rng.normal(size=(5, 5)) * [1, 10, 1e3, 1e-6, 1] + [0, 5, -2e3, 1, 1e6]
    return Z


def alone(q):
    return [[j] for j in range(q)]


def adjusted(r2, n, predictors):
    """R² corrected for the number of predictors, a constant besides."""
    return max(0.0, 1.0 - (1.0 - r2) * (n - 1) / (n - predictors - 1))


def test_r2_is_the_adjusted_one_of_a_regression_on_all_other_columns():
    Z = table()
    predictions = explain_columns(Z, alone(5), alone(5))
    for j in range(5):
        others = np.delete(Z, j, axis=1)
        scaled = (others - others.mean(axis=0)) / others.std(axis=0)
        by_regression = LinearRegression().fit(scaled, Z[:, j]).score(scaled, Z[:, j])
        assert predictions[j].r2 == pytest.approx(adjusted(by_regression, len(Z), 4), abs=1e-9)


def test_what_is_left_is_the_noise_that_the_column_was_made_with():
    rng = np.random.default_rng(1)
    a, b, noise = rng.normal(size=(3, 20_000))
    column = 3 * a - 2 * b + 0.5 * noise
    (prediction,) = explain_columns(np.column_stack([a, b, column]), [[2]], [[2]])
    assert prediction.residual_share * column.std() == pytest.approx(0.5, rel=0.02)


def test_r2_and_the_residual_are_corrected_for_the_number_of_predictors():
    """Pure noise on 60 columns and 100 rows: R² in the sample is large, but the residual is the whole spread."""
    rng = np.random.default_rng(2)
    squared_shares = []
    for _ in range(40):
        Z = rng.normal(size=(100, 61))
        assert LinearRegression().fit(Z[:, 1:], Z[:, 0]).score(Z[:, 1:], Z[:, 0]) > 0.3
        (prediction,) = explain_columns(Z, [[0]], [[0]])
        assert prediction.r2 == pytest.approx(1.0 - prediction.residual_share**2, abs=1e-12)
        squared_shares.append(prediction.residual_share**2)
    assert np.mean(squared_shares) == pytest.approx(1.0, abs=0.06)  # at most 1 each, so slightly below


def test_a_sum_of_others_is_found_at_any_scale_and_beside_repeated_columns():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 300))
    Z = np.column_stack([1e30 * a, 1e-30 * b, a, b, a + b + 1e-6 * rng.normal(size=300), rng.normal(size=300)])
    predictions = explain_columns(Z, alone(6), alone(6))
    assert [round(prediction.r2, 6) for prediction in predictions[:5]] == [1.0] * 5
    assert predictions[4].residual_share == pytest.approx(1e-6 / 2**0.5, rel=0.2)
    assert predictions[5].r2 < 0.1


def test_a_block_is_not_explained_by_itself_and_a_constant_by_nothing():
    rng = np.random.default_rng(4)
    a, c = rng.normal(size=(2, 300))
    Z = np.column_stack([a, a**2, c, np.ones(300)])
    square_known, constant = explain_columns(Z, [[0, 1], [3]], [[0], [3]])
    assert square_known.r2 < 0.05
    assert (constant.r2, constant.residual_share) == (0.0, 1.0)


def test_too_few_rows_give_no_prediction():
    assert explain_columns(np.random.default_rng(5).normal(size=(12, 5)), alone(5), alone(5)) == [None] * 5


def test_each_guess_is_that_of_a_regression_without_the_row():
    rng = np.random.default_rng(6)
    Z = rng.normal(size=(40, 3))
    wanted = np.column_stack([Z @ [1.0, 2.0, -1.0] + rng.normal(size=40), rng.normal(size=40)])
    Z = np.column_stack([Z, Z[:, 0] + Z[:, 1]])  # a column that repeats others must not matter
    guesses = predict_from_other_columns(Z, wanted)
    for i in range(40):
        keep = np.arange(40) != i
        model = LinearRegression().fit(Z[keep][:, :3], wanted[keep])
        np.testing.assert_allclose(guesses[i], model.predict(Z[[i], :3])[0], rtol=1e-8, atol=1e-10)


def test_a_row_that_has_a_column_to_itself_is_guessed_by_the_others_mean():
    Z = np.zeros((5, 1))
    Z[2] = 1.0
    y = np.array([1.0, 2.0, 9.0, 3.0, 4.0])[:, None]
    assert predict_from_other_columns(Z, y)[2, 0] == pytest.approx(2.5)


def test_a_category_of_one_row_for_each_level_is_explained_as_by_a_regression():
    """Its indicators add to a constant: the covariance of what is left of them is singular, and was inverted."""
    rng = np.random.default_rng(7)
    n = 80
    indicators, y = np.eye(n)[:, 1:], rng.integers(0, 7, n).astype(float)
    block = list(range(n - 1))
    (prediction,) = explain_columns(np.column_stack([indicators, y]), [block], [block])
    by_regression = [LinearRegression().fit(y[:, None], z).score(y[:, None], z) for z in indicators.T]
    assert prediction.r2 == pytest.approx(adjusted(max(by_regression), n, 1), abs=1e-6)
