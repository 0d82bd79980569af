"""Frozen preprocessing: what we read of a fitted transformer against the transformer itself and refits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import NMF
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    scale,
)

import dosimeter as dm
from dosimeter import glm
from tests.adapters.steps.refits import QUANTILES

RNG = np.random.default_rng(11)
N = 50
FRAME = pd.DataFrame(
    {
        "age": RNG.normal(50, 12, N),
        "race": RNG.choice(["black", "other", "white"], N),
        "bmi": RNG.normal(27, 4, N),
        "sex": RNG.choice(["f", "m"], N),
        "ward": RNG.choice([3, 7, 9], N),
        "smokes": RNG.choice([False, True], N),
    },
    index=RNG.permutation(N) + 500,
)
Y = FRAME["age"] / 12 + FRAME["bmi"] / 9 + (FRAME["race"] == "white") + RNG.normal(size=N)
ILL = (Y.median() < Y).map({True: "ill", False: "well"})
NUMBERS, LABELS = ["age", "bmi"], ["race", "sex"]

PREPARED: dict[str, Any] = {
    "scaler and encoder": ColumnTransformer([("n", StandardScaler(), NUMBERS), ("c", OneHotEncoder(), LABELS)]),
    "first level dropped": make_column_transformer((StandardScaler(), NUMBERS), (OneHotEncoder(drop="first"), LABELS)),
    "binary level dropped": make_column_transformer(
        (OneHotEncoder(drop="if_binary", sparse_output=False), LABELS), (MinMaxScaler((-1, 2)), NUMBERS)
    ),
    "passed through": make_column_transformer((OneHotEncoder(), ["race"]), ("passthrough", ["smokes", "bmi"])),
    "remainder kept": make_column_transformer(
        (OneHotEncoder(), [*LABELS, "ward"]), remainder="passthrough", verbose_feature_names_out=False
    ),
    "remainder scaled": make_column_transformer((OneHotEncoder(), [1, 3, 4]), remainder=RobustScaler()),
    "nested": ColumnTransformer(
        [
            (
                "n",
                make_pipeline(SimpleImputer(), MaxAbsScaler(), StandardScaler(with_mean=False)),
                slice("bmi", "bmi"),
            ),
            ("c", make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["race"]),
            ("gone", "drop", ["age"]),
            ("same", FunctionTransformer(), [0]),
        ],
        transformer_weights={"n": 3.0},
    ),
    "scaled after encoding": make_pipeline(
        make_column_transformer((OneHotEncoder(), LABELS), ("passthrough", NUMBERS), sparse_threshold=0.0),
        StandardScaler(),
    ),
    "selected by kind": make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="float")),
        (OneHotEncoder(), make_column_selector(pattern="race|sex")),
    ),
    "infrequent levels pooled": make_column_transformer(
        (OneHotEncoder(max_categories=2, handle_unknown="infrequent_if_exist"), ["race", "sex"]),
        ("passthrough", ["age"]),
    ),
    "one column": make_column_transformer((OneHotEncoder(), ["ward"]), (StandardScaler(with_std=False), ["age"])),
    "frames between": make_column_transformer((StandardScaler(), NUMBERS), ("passthrough", ["ward"])).set_output(
        transform="pandas"
    ),
}


def dense(matrix: Any) -> np.ndarray[Any, Any]:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=float)


@pytest.mark.parametrize("name", PREPARED)
def test_the_design_is_what_the_transformer_makes(name: str) -> None:
    model = make_pipeline(clone(PREPARED[name]), Ridge(alpha=1.0)).fit(FRAME, Y)
    leak = dm.measure(model, FRAME, Y, noise=dm.Gaussian(1.0))
    np.testing.assert_allclose(leak.design.X, dense(model[:-1].transform(FRAME)), atol=1e-12)


@pytest.mark.parametrize("name", PREPARED)
def test_a_number_of_the_frame_moves_the_weights_as_a_refit_behind_frozen_steps_shows(name: str) -> None:
    model = make_pipeline(clone(PREPARED[name]), Ridge(alpha=1.0)).fit(FRAME, Y)
    leak = dm.measure(model, FRAME, Y, noise=dm.Gaussian(1.0))
    J, h = leak.leak.jacobian.dense(slice(None)), 1e-3
    for column in ("age", "bmi"):
        if not leak.design.blocks[column]:
            continue
        (j,) = leak.design.blocks[column]
        for row in (2, 31):
            both = []
            for sign in (1, -1):
                moved = FRAME.copy()
                moved.iloc[row, moved.columns.get_loc(column)] += sign * h
                again = clone(model[-1]).fit(model[:-1].transform(moved), Y)
                both.append(np.append(again.coef_, again.intercept_))
            slope = (both[0] - both[1]) / (2 * h)
            np.testing.assert_allclose(J[row, :, j], slope, rtol=1e-4, atol=1e-4 * np.abs(slope).max())


def test_an_indicator_moves_the_weights_as_a_refit_on_the_encoded_matrix_shows() -> None:
    model = make_pipeline(
        clone(PREPARED["scaled after encoding"]),
        LogisticRegression(C=0.5, solver="newton-cholesky", tol=1e-13),
    ).fit(FRAME, ILL)
    leak = dm.measure(model, FRAME, ILL, noise=dm.Gaussian(1.0))
    J, h = leak.leak.jacobian.dense(slice(None)), 1e-4
    encoded = dense(model[0][0].transform(FRAME))
    assert len(leak.design.blocks["race"]) == 2
    V, steps = leak.design.vertices["race"], J[4][:, list(leak.design.blocks["race"])]
    for level in (1, 2):  # all three are kept, so the first goes down
        both = []
        for sign in (1, -1):
            moved = encoded.copy()
            moved[4, level] += sign * h
            moved[4, 0] -= sign * h
            again = clone(model[-1]).fit(model[0][1].transform(moved), ILL)
            both.append(np.append(again.coef_, again.intercept_))
        slope = (both[0] - both[1]) / (2 * h)
        np.testing.assert_allclose(steps @ (V[level] - V[0]), slope, rtol=1e-4, atol=1e-4 * np.abs(slope).max())


def test_a_nominal_column_is_one_attribute() -> None:
    model = make_pipeline(clone(PREPARED["scaler and encoder"]), Ridge(alpha=1.0)).fit(FRAME, Y)
    leak = dm.measure(model, FRAME, Y, noise=dm.Gaussian(0.1))
    assert list(leak.cells.columns) == list(FRAME.columns)
    X, y = dense(model[:-1].transform(FRAME)), Y.to_numpy()
    e = np.eye(7)
    feasible = np.column_stack([e[3] - e[2], e[4] - e[2], e[6] - e[5]])
    fit = glm.fit(X, y, glm.Squared(), 1 / N, intercept=True)
    plain = glm.measure(fit, X, y, dm.Gaussian(0.1), input_map=feasible)
    J = plain.jacobian.dense(slice(None))
    steps = [J[:, :, 0], J[:, :, 1], J[:, :, 0] - J[:, :, 1]]
    np.testing.assert_allclose(leak.cells["race"], np.linalg.norm(steps, axis=2).max(axis=0), rtol=1e-9)
    np.testing.assert_allclose(leak.cells["sex"], plain.attribute([2]), rtol=1e-9)
    # Over all rows, in a metric in which each of the three steps has length one: 2(I - 11ᵀ/3) of these two indicators.
    root = np.linalg.cholesky(2 * (np.eye(2) - 1 / 3))
    stacked = (J[:, :, :2] @ root).transpose(1, 0, 2).reshape(J.shape[1], -1)
    assert leak.attributes["race"] == pytest.approx(np.linalg.norm(stacked, 2))
    assert not leak.cells["ward"].any()
    assert leak.attributes["ward"] == 0.0


def test_the_figures_of_a_nominal_column_hardly_depend_on_the_encoders_drop() -> None:
    """Moved one by one, the indicators of a full block would read some ten times as much."""
    typical = {}
    for drop in (None, "first"):
        before = make_column_transformer((StandardScaler(), NUMBERS), (OneHotEncoder(drop=drop), LABELS))
        model = make_pipeline(before, Ridge(alpha=0.1)).fit(FRAME, Y)
        leak = dm.measure(model, FRAME, Y, noise=dm.Gaussian(1.0))
        assert [len(leak.design.blocks[name]) for name in LABELS] == [2, 1]
        typical[drop] = np.array([np.median(leak.cells[name]) for name in LABELS])
    ratio = typical[None] / typical["first"]
    assert ((ratio > 0.4) & (ratio < 1.1)).all()


def test_an_encoder_of_one_level_leaves_nothing_unknown() -> None:
    frame = FRAME.assign(race="white")
    before = make_column_transformer((OneHotEncoder(), ["race"]), ("passthrough", ["age"]))
    leak = dm.measure(make_pipeline(before, Ridge()).fit(frame, Y), frame, Y, noise=dm.Gaussian(1.0))
    assert leak.attributes["race"] == 0.0


def test_what_a_transformer_takes_from_the_data_is_named() -> None:
    model = make_pipeline(clone(PREPARED["scaler and encoder"]), Ridge()).fit(FRAME, Y)
    assert dm.measure(model, FRAME, Y, noise=dm.Gaussian(1.0)).not_covered == (
        "mean and scale of age, bmi are statistics of the data, held fixed: not covered",
        "the levels of race, sex are statistics of the data, held fixed: not covered",
    )
    safe_list = OneHotEncoder(categories=[["black", "other", "white"]])
    model = make_pipeline(make_column_transformer((safe_list, ["race"]), ("passthrough", ["age"])), Ridge()).fit(
        FRAME, Y
    )
    leak = dm.measure(model, FRAME, Y, noise=dm.Gaussian(1.0))
    assert (leak.notes, leak.standing.value) == ((), "exact")


def test_a_searched_pipeline_is_its_best_one() -> None:
    pipeline = Pipeline([("scale", StandardScaler()), ("model", Ridge())])
    search = GridSearchCV(pipeline, {"model__alpha": [0.1, 1.0]}, cv=3).fit(FRAME[NUMBERS], Y)
    leak = dm.measure(search, FRAME, Y, noise=dm.Gaussian(1.0))
    best = dm.measure(search.best_estimator_, FRAME, Y, noise=dm.Gaussian(1.0))
    np.testing.assert_allclose(leak.examples, best.examples)
    assert any("search" in note for note in leak.notes)


def test_columns_that_are_dropped_may_hold_anything() -> None:
    frame = FRAME.assign(when=pd.Timestamp("2020-01-01"), hole=np.nan)
    model = make_pipeline(clone(PREPARED["scaler and encoder"]), Ridge()).fit(frame, Y)
    leak = dm.measure(model, frame, Y, noise=dm.Gaussian(1.0))
    assert leak.attributes["when"] == leak.attributes["hole"] == 0.0


REFUSED = {
    "encoded twice": make_pipeline(StandardScaler(), OneHotEncoder(), Ridge()),
    "factors": make_pipeline(MinMaxScaler(), NMF(1, tol=0, max_iter=20), Ridge()),
    "splines that jump": make_pipeline(SplineTransformer(3, degree=0), Ridge()),
    "a step that mixes rows": make_pipeline(FunctionTransformer(scale), Ridge()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_steps_without_a_derivative_are_refused_in_one_sentence(name: str) -> None:
    model = clone(REFUSED[name]).fit(FRAME[NUMBERS], Y)
    with pytest.raises(dm.CannotMeasure) as refusal:
        dm.measure(model, FRAME, Y, noise=dm.Gaussian(1.0))
    assert "\n" not in str(refusal.value)
    assert ": " in str(refusal.value)
    assert "resulting table" not in str(refusal.value)


def test_derived_columns_measured_as_a_table_of_their_own_are_under_reported() -> None:
    """bmi and its square move together, as a refit of the whole way shows; behind the step they are one unknown."""
    bmi = FRAME["bmi"].to_numpy()
    z = (bmi - bmi.mean()) / bmi.std()

    def derived(values: Any) -> Any:
        return np.column_stack([values, values**2])

    model = Ridge(alpha=1.0).fit(derived(z), Y)
    reported = dm.measure(model, derived(z), Y, noise=dm.Gaussian(0.1)).cells
    row, h = int(np.argmax(np.abs(z))), 1e-5

    def weights(t: float) -> Any:
        moved = z.copy()
        moved[row] += t
        fitted = Ridge(alpha=1.0).fit(derived(moved), Y)
        return np.append(fitted.coef_, fitted.intercept_)

    true = np.linalg.norm((weights(h) - weights(-h)) / (2 * h)) / 0.1
    assert true > 1.5 * reported[row].max()
    pipeline = make_pipeline(PolynomialFeatures(2, include_bias=False), Ridge(alpha=1.0)).fit(z[:, None], Y)
    assert dm.measure(pipeline, z[:, None], Y, noise=dm.Gaussian(0.1)).cells[row] == pytest.approx(true, rel=1e-6)


def test_a_column_used_as_number_and_by_its_bins_is_refused() -> None:
    bins = KBinsDiscretizer(3, encode="ordinal", **QUANTILES)
    both = make_column_transformer((bins, ["age"]), ("passthrough", ["age"]))
    with pytest.raises(dm.CannotMeasure, match="age enters both"):
        dm.measure(make_pipeline(both, Ridge()).fit(FRAME, Y), FRAME, Y, noise=dm.Gaussian(1.0))


def test_a_full_set_of_indicators_without_penalty_has_no_single_minimum() -> None:
    model = make_pipeline(clone(PREPARED["scaler and encoder"]), Ridge(alpha=0.0, solver="lsqr")).fit(FRAME, Y)
    with pytest.raises(dm.CannotMeasure, match="no single minimum"):
        dm.measure(model, FRAME, Y, noise=dm.Gaussian(1.0))


def test_a_level_that_was_not_seen_is_refused_with_its_row() -> None:
    model = make_pipeline(clone(PREPARED["scaler and encoder"]), Ridge()).fit(FRAME, Y)
    other = FRAME.copy()
    other.iloc[6, 1] = "martian"
    with pytest.raises(dm.Refusal, match="row 6"):
        dm.measure(model, other, Y, noise=dm.Gaussian(1.0))
