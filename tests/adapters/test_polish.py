"""Default solvers are measured at the exact minimum; weights of another table, penalty or weighting are refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dosimeter as dm

NOISE = dm.Gaussian(0.1)
SIZES = [(60, 3), (400, 12), (3000, 25)]


def table(seed: int, n: int, d: int, loss: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ np.diag(rng.uniform(0.5, 3.0, d)) + rng.normal(size=d)
    margin = (X - X.mean(axis=0)) @ rng.normal(size=d) / np.sqrt(d)
    if loss == "logistic":
        return X, (rng.random(n) < 1 / (1 + np.exp(-margin))).astype(int)
    return X, rng.poisson(np.exp(0.4 * margin)).astype(float)


EXACT = {"solver": "newton-cholesky", "tol": 1e-13, "max_iter": 1000}
DEFAULTS = {"logistic": LogisticRegression, "poisson": PoissonRegressor}


@pytest.mark.parametrize(("n", "d"), SIZES)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("loss", DEFAULTS)
def test_default_settings_on_a_scaled_table_have_the_figures_of_the_minimum(
    loss: str, seed: int, n: int, d: int
) -> None:
    X, y = table(seed, n, d, loss)
    model, exact = (make_pipeline(StandardScaler(), DEFAULTS[loss](**settings)).fit(X, y) for settings in ({}, EXACT))
    leak, oracle = (dm.measure(m, X, y, noise=NOISE) for m in (model, exact))
    np.testing.assert_allclose(leak.examples, oracle.examples, rtol=1e-6)
    distance = np.abs(oracle.fit.coef - model[-1].coef_.ravel()).max() / np.abs(oracle.fit.coef).max()
    assert distance < 1e-2 or any("minimum" in note for note in leak.notes)


def test_weights_that_stopped_visibly_early_are_an_estimate_that_says_by_how_much() -> None:
    X, y = table(0, 400, 12, "logistic")
    model = LogisticRegression(**EXACT).fit(X, y).set_params(solver="saga")  # a solver whose rule says nothing of it
    model.coef_ = model.coef_ + 0.02 * np.random.default_rng(1).standard_normal(model.coef_.shape)
    leak = dm.measure(model, X, y, noise=NOISE)
    assert leak.standing.value == "estimate"
    assert "%" in leak.approximations[0]
    assert "estimate" in repr(leak)
    assert leak.dose().standing.value == "estimate"


@pytest.mark.parametrize("solver", ["lbfgs", "newton-cg", "newton-cholesky"])
def test_a_table_that_lacks_a_tenth_of_the_rows_is_not_one_on_which_the_solver_stopped_early(solver: str) -> None:
    """These solvers end at a gradient below tol: the weights were an estimate on a table that cannot be theirs."""
    X, y = table(3, 300, 4, "logistic")
    model = LogisticRegression(solver=solver).fit(X, y)
    dm.measure(model, X, y, noise=NOISE)
    with pytest.raises(dm.CannotMeasure, match=r"its solver ends at a mean gradient of 0\.0001, where this table has"):
        dm.measure(model, X[30:], y[30:], noise=NOISE)


def test_unlike_scales_are_named_where_they_ended_a_solver_far_from_the_minimum() -> None:
    """The table is that of the fit, and "the table or its weights are probably not" was no help."""
    Z, rng = np.random.default_rng(0).normal(size=(200, 3)), np.random.default_rng(1)
    y = rng.poisson(np.exp(0.8 * Z[:, 0])).astype(float)
    scaled, scales = PoissonRegressor(alpha=1e-3, **EXACT).fit(Z, y), np.array([1.0, 1e4, 1e-2])
    model = PoissonRegressor(alpha=1e-3).fit(Z, y)
    # Where a line search on the columns as they are ended, whatever the BLAS does here: the first weight halfway.
    model.coef_, model.intercept_ = scaled.coef_ * [0.5, 1.0, 1.0] / scales, scaled.intercept_
    X = Z * scales
    with pytest.raises(dm.CannotMeasure, match="columns that differ in scale by"):
        dm.measure(model, X, y, noise=NOISE)


def test_results_of_statsmodels_say_which_row_is_not_theirs() -> None:
    X, y = table(4, 120, 3, "logistic")
    results = sm.Logit(y, sm.add_constant(X)).fit(disp=0)
    dm.measure(results, X, y, noise=NOISE)
    moved, flipped = X.copy(), np.array(y)
    moved[7, 1] += 0.01
    flipped[9] = 1 - flipped[9]
    for rows, target, why in (
        (X[1:], y[1:], "fitted on 120 rows and the frame has 119"),
        (moved, y, r"column x2, row 7 \(from 0\) is not what the model was fitted on"),
        (X, flipped, r"the target of row 9 \(from 0\) is not the one that the model was fitted on"),
    ):
        with pytest.raises(dm.Refusal, match=why):
            dm.measure(results, rows, target, noise=NOISE)


def test_weights_under_constraints_are_not_blamed_on_the_table() -> None:
    """The results hold the table, and it is the one that was passed."""
    X, y = table(5, 90, 2, "poisson")
    model = sm.GLM(y, sm.add_constant(X), family=sm.families.Poisson())
    with pytest.raises(dm.CannotMeasure, match="though the table is that of the fit") as refused:
        dm.measure(model.fit_constrained("x1 = -x2"), X, y, noise=NOISE)
    assert "probably not" not in str(refused.value)


def test_a_formula_that_reads_its_target_as_a_category_says_so() -> None:
    X, y = table(6, 60, 1, "logistic")
    people = pd.DataFrame({"x": X[:, 0], "ill": y == 1})
    results = smf.glm("ill ~ x", people, family=sm.families.Binomial()).fit()
    with pytest.raises(dm.Refusal, match="the formula reads ill as a category"):
        dm.measure(results, people, noise=NOISE)


def _permuted(X: Any, y: Any) -> tuple[Any, Any, Any]:
    return X[:, ::-1].copy(), y, None


OTHERS = {
    "rows reversed": lambda X, y: (X[::-1].copy(), y, None),
    "labels swapped": lambda X, y: (X, 1 - y, None),
    "columns in another order": _permuted,
    "half of the rows": lambda X, y: (X[: len(X) // 2], y[: len(X) // 2], None),
    "other weights": lambda X, y: (X, y, 1.0 + 3.0 * y),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("seed", range(3))
def test_another_table_is_refused_although_the_solver_is_iterative(other: str, seed: int) -> None:
    X, y = table(seed, 400, 6, "logistic")
    model = LogisticRegression().fit(X, y)
    X, y, weight = OTHERS[other](X, y)
    with pytest.raises(dm.CannotMeasure, match=r"not the minimum.*probably"):
        dm.measure(model, X, y, noise=NOISE, sample_weight=weight)


@pytest.mark.parametrize("seed", range(3))
def test_another_penalty_is_named(seed: int) -> None:
    X, y = table(seed, 200, 6, "logistic")
    model = LogisticRegression(C=0.05, **EXACT).fit(X, y)
    model.C = 0.5
    with pytest.raises(dm.CannotMeasure, match=r"penalty nλ of 20 instead of 2 .*penalty is probably another"):
        dm.measure(model, X, y, noise=NOISE)


def test_a_solver_that_gave_up_far_away_is_refused_with_its_iterations() -> None:
    X, y = table(0, 400, 6, "logistic")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(max_iter=3).fit(X * 10.0 ** np.arange(6), y)
    with pytest.raises(dm.CannotMeasure, match="max_iter=3 iterations without converging"):
        dm.measure(model, X * 10.0 ** np.arange(6), y, noise=NOISE)


def test_a_model_of_other_people_of_the_same_population_is_not_mistaken_for_a_tolerance() -> None:
    refused = 0
    for seed in range(20):
        X, y = table(seed, 600, 8, "logistic")
        model = LogisticRegression().fit(X[:300], y[:300])
        try:
            dm.measure(model, X[300:], y[300:], noise=NOISE)
        except dm.CannotMeasure:
            refused += 1
    assert refused == 20
