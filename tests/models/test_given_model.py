"""`dm.measure`: any frame in, the same numbers and the same kind out; what does not fit is refused."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dosimeter as dm
from dosimeter import glm

RNG = np.random.default_rng(3)
N = 60
X = RNG.normal(size=(N, 3)) * [10.0, 1.0, 0.1] + [50.0, 0.0, 1.0]
Y = X @ [0.1, 1.0, -3.0] + RNG.normal(size=N)
FRAME = pd.DataFrame(X, columns=["age", "bmi", "dose"], index=RNG.permutation(N) * 7)
MODEL = Ridge(alpha=2.0).fit(FRAME, Y)
PLAIN = glm.measure(glm.fit(X, Y, glm.Squared(), 2.0 / N, intercept=True), X, Y, dm.Gaussian(0.1))
NOISE = dm.Gaussian(0.1)


def test_named_figures_equal_those_of_plain_arrays() -> None:
    leak = dm.measure(MODEL, FRAME, Y, noise=NOISE)
    np.testing.assert_allclose(leak.examples, PLAIN.examples, rtol=1e-9)
    np.testing.assert_allclose(leak.labels, PLAIN.labels, rtol=1e-9)
    np.testing.assert_allclose(leak.cells, PLAIN.cells, rtol=1e-9)
    np.testing.assert_allclose(list(leak.attributes.values()), PLAIN.attributes, rtol=1e-9)
    np.testing.assert_allclose(leak.attribute(["age", "dose"]), PLAIN.attribute([0, 2]), rtol=1e-9)
    assert leak.dataset == pytest.approx(PLAIN.dataset, rel=1e-9)
    without = dm.measure(MODEL, FRAME, Y, noise=NOISE, known_target=True)
    np.testing.assert_allclose(without.examples, PLAIN.without_target().examples, rtol=1e-9)


KINDS = {
    "pandas": (FRAME, pd.DataFrame, pd.Series),
    "polars": (pl.DataFrame({k: FRAME[k].to_numpy() for k in FRAME}), pl.DataFrame, pl.Series),
    "pyarrow": (pa.table({k: FRAME[k].to_numpy() for k in FRAME}), pa.Table, pa.ChunkedArray),
    "numpy": (X, np.ndarray, np.ndarray),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_kind_comes_back_with_the_same_numbers(kind: str) -> None:
    frame, table, series = KINDS[kind]
    leak = dm.measure(MODEL, frame, Y, noise=NOISE)
    assert isinstance(leak.cells, table)
    assert isinstance(leak.deviations, table)
    for eta in (leak.examples, leak.labels, leak.attribute("bmi")):
        assert isinstance(eta, series)
    np.testing.assert_allclose(np.asarray(leak.examples), PLAIN.examples, rtol=1e-9)
    np.testing.assert_allclose(np.asarray(leak.cells), PLAIN.cells, rtol=1e-9)
    assert leak.columns == ("age", "bmi", "dose")


def test_a_shuffled_index_stays_with_its_rows() -> None:
    leak = dm.measure(MODEL, FRAME, Y, noise=NOISE)
    for figures in (leak.examples, leak.labels, leak.cells, leak.deviations):
        assert figures.index.equals(FRAME.index)
    assert leak.examples.loc[FRAME.index[17]] == pytest.approx(PLAIN.examples[17])


def test_columns_are_found_by_name_whatever_their_order_and_company() -> None:
    other = FRAME[["dose", "age", "bmi"]].assign(note="x", hole=np.nan, target=Y)
    leak = dm.measure(MODEL, other, "target", noise=NOISE)
    np.testing.assert_allclose(leak.examples, PLAIN.examples, rtol=1e-9)
    assert leak.target == "target"
    assert "±" in leak.sentence(0, "target")


def test_y_and_person_may_be_columns_series_or_lists() -> None:
    ids = np.arange(N) // 2
    frame = FRAME.assign(y=Y, id=ids)
    named = dm.measure(MODEL, frame, "y", person="id", noise=NOISE).persons
    for person in (ids, ids.tolist(), pd.Series(ids), pl.Series(ids), frame["id"]):
        assert dm.measure(MODEL, FRAME, Y, person=person, noise=NOISE).persons == named
    assert list(named) == list(range(N // 2))
    array = np.column_stack([X, ids])
    numbers = dm.measure(Ridge(alpha=2.0).fit(X, Y), array, Y, person="x3", noise=NOISE).persons
    np.testing.assert_allclose(list(numbers.values()), list(named.values()), rtol=1e-9)


def test_an_index_in_another_order_is_refused() -> None:
    shuffled = pd.Series(np.arange(N), index=FRAME.index[::-1])
    with pytest.raises(dm.Refusal, match="another order"):
        dm.measure(MODEL, FRAME, Y, person=shuffled, noise=NOISE)


def test_standard_deviations_are_own_units_times_the_deviation() -> None:
    raw = dm.measure(MODEL, FRAME, Y, noise=NOISE)
    sd = dm.measure(MODEL, FRAME, Y, noise=NOISE, unit="sd")
    np.testing.assert_allclose(sd.cells, raw.cells * X.std(axis=0), rtol=1e-9)
    np.testing.assert_allclose(sd.labels, raw.labels * Y.std(), rtol=1e-9)
    np.testing.assert_allclose(sd.deviations, raw.deviations, rtol=1e-9)
    np.testing.assert_allclose(raw.deviations, 1 / raw.cells, rtol=1e-9)
    assert (raw.dose().measured_in, sd.dose().measured_in) == ("own units", "standard deviations")
    with pytest.raises(dm.Refusal, match="unlike"):
        raw.dose() + sd.dose()


def test_standard_deviations_do_not_depend_on_a_scaler_before_the_model() -> None:
    bare = LinearRegression().fit(FRAME, Y)
    scaled = make_pipeline(StandardScaler(), LinearRegression()).fit(FRAME, Y)
    unscaled, behind_scaler = (dm.measure(m, FRAME, Y, noise=NOISE, unit="sd").design for m in (bare, scaled))
    np.testing.assert_allclose(unscaled.spread, behind_scaler.spread)
    np.testing.assert_allclose(behind_scaler.constant_map * behind_scaler.spread, np.eye(3), atol=1e-12)


def test_a_class_label_is_never_measured_in_deviations() -> None:
    ill = (np.median(Y) < Y).astype(int)
    model = LogisticRegression(C=0.5, solver="newton-cholesky", tol=1e-12).fit(FRAME, ill)
    raw, sd = (dm.measure(model, FRAME, ill, noise=NOISE, unit=unit) for unit in ("raw", "sd"))
    np.testing.assert_allclose(raw.labels, sd.labels)


def test_a_model_that_stopped_a_little_early_is_polished_and_says_so() -> None:
    ill = (np.median(Y) < Y).astype(int)
    exact = LogisticRegression(solver="newton-cholesky", tol=1e-13).fit(FRAME, ill)
    early = LogisticRegression(solver="newton-cholesky", tol=1e-13).fit(FRAME, ill)
    early.coef_ = exact.coef_ * 1.001
    leak = dm.measure(early, FRAME, ill, noise=NOISE)
    np.testing.assert_allclose(leak.examples, dm.measure(exact, FRAME, ill, noise=NOISE).examples, rtol=1e-7)
    assert "polished" in leak.notes[0]
    assert leak.standing.value == "exact"
    assert dm.measure(exact, FRAME, ill, noise=NOISE).notes == ()


def test_a_model_that_stopped_far_too_early_is_refused() -> None:
    ill = (np.median(Y) < Y).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        early = LogisticRegression(max_iter=2).fit(FRAME, ill)
    with pytest.raises(dm.CannotMeasure, match=r"max_iter=2 iterations without converging.*newton-cholesky"):
        dm.measure(early, FRAME, ill, noise=NOISE)


@pytest.mark.parametrize(
    ("table", "y", "weight"),
    [
        (X[::-1].copy(), Y, None),
        (X, Y[::-1].copy(), None),
        (X[:-1], Y[:-1], None),
        (X, Y + 0.3 * X[:, 1], None),
        (X, Y, np.linspace(0.5, 2.0, N)),
    ],
    ids=["rows reversed", "labels reversed", "a row missing", "other labels", "other weights"],
)
def test_another_table_is_refused(table: Any, y: Any, weight: Any) -> None:
    model = Ridge(alpha=2.0).fit(X, Y)
    with pytest.raises(dm.CannotMeasure, match="not the minimum"):
        dm.measure(model, table, y, noise=NOISE, sample_weight=weight)


def test_another_table_is_refused_where_labels_outweigh_all_cells() -> None:
    """Small weights:
    nearly all of a row's figure is its label, which does not tell one table from another.
    """
    tiny = 1e-3 * Y
    model = Ridge(alpha=2.0).fit(X, tiny)
    with pytest.raises(dm.CannotMeasure, match="not the minimum"):
        dm.measure(model, X, tiny[::-1].copy(), noise=NOISE)


def test_a_tied_column_that_the_model_does_not_see_changes_nothing() -> None:
    frame = FRAME.assign(id=np.arange(N) // 2, town=["a", "a", "b", "b"] * (N // 4))
    free = dm.measure(MODEL, frame, Y, person="id", noise=NOISE)
    assert dm.measure(MODEL, frame, Y, person="id", tied=["town"], noise=NOISE).persons == free.persons


def test_what_scikit_learn_fits_by_default_is_accepted() -> None:
    table, y = load_iris(return_X_y=True, as_frame=True)
    leak = dm.measure(make_pipeline(StandardScaler(), LogisticRegression()).fit(table, y), table, y, noise=NOISE)
    assert any("polished" in note for note in leak.notes)


def test_a_poisson_model_on_a_table_where_it_overflows_is_refused() -> None:
    counts = RNG.poisson(2.0, N).astype(float)
    model = PoissonRegressor(alpha=0.1, solver="newton-cholesky").fit(X / 10, counts)
    with pytest.raises(dm.CannotMeasure):
        dm.measure(model, X * 1e6, counts, noise=NOISE)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a column gone": ({"frame": FRAME.drop(columns="bmi")}, "bmi"),
    "too many columns": ({"frame": np.hstack([X, X])}, "3 columns and the frame has 6"),
    "y too short": ({"y": Y[:-1]}, "59 values for 60 rows"),
    "y unknown": ({"y": "no such"}, "no such"),
    "y missing": ({"y": np.append(Y[:-1], np.nan)}, "row 59"),
    "y text": ({"y": ["a"] * N}, "text"),
    "y two columns": ({"y": np.column_stack([Y, Y])}, "y has"),
    "person unknown": ({"person": "no such"}, "no such"),
    "person too short": ({"person": [1, 2]}, "2 values"),
    "person missing": ({"person": [None, *range(N - 1)]}, "row 0"),
    "hole in a column": ({"frame": FRAME.mask(X[4, 1] == FRAME)}, "row 4"),
    "unit": ({"unit": "metre"}, "metre"),
    "noise is a number": ({"noise": 0.1}, "Gaussian"),
    "tied without person": ({"tied": ["age"]}, "person"),
    "tied unknown": ({"tied": ["agee"], "person": range(N)}, "agee"),
    "tied not constant": ({"tied": ["age"], "person": [0, 0, *range(2, N)]}, "row 1"),
    "weights negative": ({"sample_weight": -np.ones(N)}, "negative"),
    "weights too few": ({"sample_weight": np.ones(3)}, "3 values"),
    "no table": ({"frame": 3}, "not a table"),
    "one-dimensional": ({"frame": X[:, 0]}, "shape"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_by_name_and_place(name: str) -> None:
    changed, message = BAD[name]
    arguments: dict[str, Any] = {"frame": FRAME, "y": Y, "noise": NOISE, **changed}
    with pytest.raises(dm.Refusal, match=message) as refusal:
        dm.measure(MODEL, arguments.pop("frame"), arguments.pop("y"), **arguments)
    assert not isinstance(refusal.value, dm.CannotMeasure)


def test_a_noise_without_a_figure_is_refused_in_its_own_words() -> None:
    with pytest.raises(dm.CannotMeasure, match="Exponential"):
        dm.measure(MODEL, FRAME, Y, noise=dm.Exponential(1.0))
    with pytest.raises(dm.Refusal, match="CorrelatedGaussian"):
        dm.measure(MODEL, FRAME, Y, noise=dm.CorrelatedGaussian(np.eye(2)))


def test_correlated_noise_of_equal_variance_is_plain_noise() -> None:
    shaped = dm.measure(MODEL, FRAME, Y, noise=dm.CorrelatedGaussian(0.01 * np.eye(4)))
    np.testing.assert_allclose(shaped.examples, PLAIN.examples, rtol=1e-9)


def test_importing_the_package_imports_neither_scikit_learn_nor_statsmodels_nor_pandas() -> None:
    code = (
        "import sys, dosimeter.tables, dosimeter.models.given_model;"
        "print([m for m in ('sklearn', 'statsmodels', 'pandas') if m in sys.modules])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


@pytest.mark.parametrize("named", [True, False])
def test_weights_that_are_a_column_of_the_table_are_not_covered(named: bool) -> None:
    """By refits, a cell that is a value and a weight says more than the figure, which holds the weights fixed."""
    table = FRAME.assign(stays=RNG.integers(1, 6, N).astype(float))
    model = Ridge(alpha=2.0).fit(table, Y, sample_weight=table["stays"])
    leak = dm.measure(model, table, Y, noise=NOISE, sample_weight="stays" if named else table["stays"])
    told = "sample_weight is the column stays of the table, held fixed: not covered"
    assert leak.notes == (told,)
    assert leak.standing.value == "unaccounted"
    ratios = []
    for row in range(10):
        ends = []
        for move in (1e-4, -1e-4):
            other = table.copy()
            other.iloc[row, 3] += move
            refit = Ridge(alpha=2.0).fit(other, Y, sample_weight=other["stays"])
            ends.append(np.append(refit.coef_, refit.intercept_))
        ratios.append(float(np.linalg.norm(ends[0] - ends[1]) / 2e-4 / NOISE.scale / leak.cell("stays")[row]))
    assert max(ratios) > 1.5
    for of_column in (0.1 * table["stays"], 1.0 / table["stays"]):
        weighted = Ridge(alpha=2.0).fit(table, Y, sample_weight=of_column)
        notes = dm.measure(weighted, table, Y, noise=NOISE, sample_weight=of_column.to_numpy()).notes
        assert notes == (told.replace("is the", "follows from the"),)
    constant = np.where(np.arange(N) % 2 == 0, 1.0, 2.0)
    public = Ridge(alpha=2.0).fit(FRAME, Y, sample_weight=constant)
    assert dm.measure(public, FRAME, Y, noise=NOISE, sample_weight=constant).standing.value == "exact"


@pytest.mark.parametrize("kind", ["offset", "exposure", "weights"])
def test_offsets_and_weights_in_a_model_of_statsmodels_that_are_a_column_are_not_covered(kind: str) -> None:
    """By refits, a cell that is a value and an offset, an exposure or a weight says more than the figure."""
    import statsmodels.api as sm

    table = FRAME.iloc[:, :2].assign(stays=RNG.integers(1, 6, N).astype(float))
    y = RNG.poisson(table["stays"]).astype(float)

    def fit(frame):
        design = sm.add_constant(frame)
        if kind == "weights":
            return sm.WLS(y, design, weights=1.0 / frame["stays"]).fit()
        return sm.GLM(y, design, family=sm.families.Poisson(), **{kind: frame["stays"]}).fit(tol=1e-14)

    leak = dm.measure(fit(table), sm.add_constant(table), y, noise=NOISE)
    what = "the model's weight of a row" if kind == "weights" else "the model's offset"
    verb = "is" if kind == "offset" else "follows from"
    assert leak.notes == (f"{what} {verb} the column stays of the table, held fixed: not covered",)
    assert leak.standing.value == "unaccounted"
    ratios = []
    for row in range(10):
        up, down = (table.copy() for _ in range(2))
        up.iloc[row, 2] += 1e-4
        down.iloc[row, 2] -= 1e-4
        moved = np.asarray(fit(up).params) - np.asarray(fit(down).params)
        ratios.append(float(np.linalg.norm(moved) / 2e-4 / NOISE.scale / leak.cell("stays")[row]))
    assert max(ratios) > 1.2
    apart = FRAME.iloc[:, :2]
    alone = {"offset": sm.GLM(y, sm.add_constant(apart), family=sm.families.Poisson(), offset=np.arange(N) % 2)}
    if kind in alone:
        assert dm.measure(alone[kind].fit(tol=1e-14), sm.add_constant(apart), y, noise=NOISE).standing.value == "exact"
