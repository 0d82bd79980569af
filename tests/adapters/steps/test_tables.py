"""Steps on tables as people have them: gaps, persons with several rows, other frames, wide tables, wrong input."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import NMF, PCA
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
    TargetEncoder,
)

import dosimeter as dm
from dosimeter import glm
from dosimeter.adapters.chain import Chain
from dosimeter.adapters.features import assemble
from dosimeter.adapters.steps import STEPS
from dosimeter.adapters.steps.registry import Route, kind_of
from dosimeter.models.given_model_release import release_model
from dosimeter.results.measurement import Measurement
from dosimeter.tables.column_values import text_array
from dosimeter.tables.table import Table
from tests.adapters.steps.own_steps import (
    Broken,
    Centred,
    Hinge,
    Lagged,
    Noisy,
    Ranked,
    Ratio,
    Shorter,
    Single,
    Steps,
    TownSize,
    Waves,
    Winsor,
)
from tests.adapters.steps.refits import FRAME, ILL, QUANTILES, N, Y, dense, fit_pipeline, weights
from tests.calls import calls_of

NOISE = dm.Gaussian(0.5)
SAME = FunctionTransformer(np.positive)
"""The identity, read row by row: its figures must be those of no step."""
NUMBERS = ["age", "bmi", "dose"]
WHO = np.arange(N) // 2


def figures(leak: Any) -> dict[str, Any]:
    return {
        "rows": leak.examples,
        "labels": leak.labels,
        "cells": np.column_stack([leak.cell(name) for name in leak.columns]),
        "attributes": np.array(list(leak.attributes.values())),
        "dataset": np.array(leak.dataset),
        "persons": np.array(list(leak.persons.values())) if leak.ids is not None else np.zeros(1),
        "groups": np.array(list(leak.group(WHO % 7).values())),
        "left": leak.left,
    }


@pytest.mark.parametrize("scaler", ["held", "total"])
@pytest.mark.parametrize("unit", ["raw", "sd"])
@pytest.mark.parametrize("classes", [1, 2, 3])
def test_a_step_that_changes_nothing_changes_no_figure(classes: int, unit: str, scaler: str) -> None:
    y = Y if classes == 1 else ILL if classes == 2 else np.digitize(Y, np.quantile(Y, [0.3, 0.7]))
    model: Any = Ridge(alpha=2.0) if classes == 1 else LogisticRegression(solver="newton-cholesky", tol=1e-12)
    frame = FRAME[[*NUMBERS, "smokes"]].assign(age=FRAME["age"].to_numpy()[WHO * 2])  # age is tied
    scaled = make_pipeline(StandardScaler(), clone(model)).fit(frame, y)
    bent = make_pipeline(clone(SAME), StandardScaler(), clone(model)).fit(frame, y)
    options: dict[str, Any] = {"noise": NOISE, "person": WHO, "unit": unit, "scaler": scaler}
    one, each = (dm.measure(m, frame, y, **options) for m in (scaled, bent))
    assert one.design.row_map is None
    assert each.design.row_map is not None
    assert one.tied == each.tied == ("age",)
    theirs = figures(one)
    for name, figure in figures(each).items():
        np.testing.assert_allclose(figure, theirs[name], rtol=1e-8, atol=1e-12, err_msg=name)
    assert each.scale_for(0.4) == pytest.approx(one.scale_for(0.4), rel=1e-6)
    assert one.not_covered == each.not_covered


def test_a_tied_number_behind_a_step_moves_all_rows_of_its_person() -> None:
    frame = FRAME[["dose", "bmi"]].assign(dose=FRAME["dose"].to_numpy()[WHO * 2])
    model = fit_pipeline(
        make_column_transformer((FunctionTransformer(np.log), ["dose"]), ("passthrough", ["bmi"])), "ridge", frame
    )
    leak = dm.measure(model, frame, Y, person=WHO, noise=dm.Gaussian(1.0))
    assert leak.tied == ("dose",)
    for person in (0, 17):
        rows, h = np.flatnonzero(person == WHO), 1e-4

        def move(t: float, rows: Any = rows) -> Any:
            moved = frame.copy()
            moved.iloc[rows, 0] += t
            return weights(model, dense(model[:-1].transform(moved)), Y)

        slope = (8 * (move(h) - move(-h)) - (move(2 * h) - move(-2 * h))) / (12 * h)
        np.testing.assert_allclose(leak.cell("dose")[rows], np.linalg.norm(slope), rtol=1e-6)


def test_a_filled_cell_behind_a_step_is_no_unknown() -> None:
    frame = FRAME[NUMBERS].copy()
    frame.iloc[[4, 9], 0] = np.nan
    before = make_column_transformer(
        (make_pipeline(PowerTransformer(), SimpleImputer(strategy="constant", fill_value=0.0)), ["age", "dose"]),
        (make_pipeline(SimpleImputer(), PolynomialFeatures(2)), ["bmi"]),
    )
    model = fit_pipeline(before, "ridge", frame)
    leak = dm.measure(model, frame, Y, noise=NOISE)
    assert (leak.cell("age")[[4, 9]] == 0).all()
    assert (np.delete(leak.cell("age"), [4, 9]) > 0).all()
    whole = dm.measure(fit_pipeline(before, "ridge", FRAME[NUMBERS]), FRAME[NUMBERS], Y, noise=NOISE)
    assert (whole.cell("age") > 0).all()
    with pytest.raises(dm.CannotMeasure, match=r"KNNImputer.*rows mix"):
        dm.measure(fit_pipeline(KNNImputer(), "ridge", frame), frame, Y, noise=NOISE)


def test_what_a_step_learned_and_how_it_is_read_is_stated() -> None:
    leak = dm.measure(fit_pipeline(Winsor(), "ridge", FRAME[NUMBERS]), FRAME[NUMBERS], Y, noise=NOISE)
    assert leak.not_covered == (
        "the constants in Winsor of age, bmi, dose are statistics of the data, held fixed: not covered",
    )
    assert any("Winsor is by differences" in note for note in leak.remarks)
    waves = dm.measure(fit_pipeline(Waves(), "ridge", FRAME[NUMBERS]), FRAME[NUMBERS], Y, noise=NOISE)
    assert (waves.not_covered, waves.standing.value) == ((), "estimate")
    assert waves.dose().standing.value == "estimate"
    assert Measurement.of(waves, Table.of(FRAME[NUMBERS])).standing == "estimate"
    bins = KBinsDiscretizer(3, encode="ordinal", **QUANTILES)
    binned = dm.measure(fit_pipeline(bins, "ridge", FRAME[NUMBERS]), FRAME[NUMBERS], Y, noise=NOISE)
    assert any("age goes through KBinsDiscretizer and is read as a category" in note for note in binned.remarks)
    result = Measurement.of(binned, Table.of(FRAME[NUMBERS]))
    assert {column.kind for column in result.columns} == {"category"}


def test_an_end_of_a_normal_quantile_map_is_read_by_the_chord_of_its_piece() -> None:
    steps = QuantileTransformer(n_quantiles=10, output_distribution="normal")
    model = fit_pipeline(steps, "ridge", FRAME[["age"]])
    leak = dm.measure(model, FRAME[["age"]], Y, noise=dm.Gaussian(1.0))
    row = int(np.argmin(FRAME["age"]))
    knots = model[0].quantiles_[:, 0]
    ends = model[0].transform(pd.DataFrame({"age": knots[:2]}))[:, 0]
    X, dx = dense(model[0].transform(FRAME[["age"]])), np.array([np.diff(ends)[0] / np.diff(knots)[0]])

    def move(t: float) -> Any:
        moved = X.copy()
        moved[row] += t * dx
        return weights(model, moved, Y)

    slope = (move(1e-5) - move(-1e-5)) / 2e-5
    assert leak.cell("age")[row] == pytest.approx(float(np.linalg.norm(slope)), rel=1e-5)
    assert leak.cell("age")[row] > np.median(leak.cell("age"))


def test_a_row_at_a_bend_of_ones_own_step_has_the_steeper_side() -> None:
    frame, row = FRAME[["age"]], 12
    model = fit_pipeline(Hinge(float(frame["age"].iloc[row])), "ridge", frame)
    leak = dm.measure(model, frame, Y, noise=dm.Gaussian(1.0))
    X, sides = dense(model[0].transform(frame)), []
    for dx in (np.array([0.3, 1.0]), np.array([0.3, 0.0])):
        both = []
        for t in (1e-4, -1e-4):
            moved = X.copy()
            moved[row] += t * dx
            both.append(weights(model, moved, Y))
        sides.append(float(np.linalg.norm(both[0] - both[1])) / 2e-4)
    assert leak.cell("age")[row] == pytest.approx(sides[0], rel=1e-6)
    assert any("bends at 1 cells" in remark for remark in leak.remarks)


# --- frames -----------------------------------------------------------------------------------------------------------

MIXED = make_column_transformer(
    (make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False)), ["age", "dose"]),
    (Ratio(), ["age", "bmi"]),
    (TownSize(), ["town"]),
    (OneHotEncoder(sparse_output=False), ["sex"]),
)


def test_any_frame_gives_the_same_figures() -> None:
    model = fit_pipeline(MIXED, "ridge", FRAME)
    known = dm.measure(model, FRAME, Y, noise=NOISE)
    columns = {name: FRAME[name].to_numpy() for name in FRAME}
    shuffled = FRAME[[*reversed(FRAME.columns)]]
    for frame in (columns, Table.of(columns), shuffled, FRAME.assign(note="x")):
        leak = dm.measure(model, frame, Y, noise=NOISE)
        np.testing.assert_allclose(np.asarray(leak.examples), known.examples, rtol=1e-9)
    no_names = make_column_transformer((PolynomialFeatures(2), ["age", "dose"]), (Waves(), ["bmi"]))
    model = fit_pipeline(no_names, "ridge", FRAME)
    known = dm.measure(model, FRAME, Y, noise=NOISE)
    polars = dm.measure(model, pl.DataFrame(columns), Y, noise=NOISE)
    np.testing.assert_allclose(polars.examples.to_numpy(), known.examples, rtol=1e-9)


@pytest.mark.parametrize("kind", ["float32", "integers"])
def test_float32_and_integer_frames_are_measured(kind: str) -> None:
    frame = FRAME[NUMBERS].astype("float32") if kind == "float32" else (10 * FRAME[NUMBERS]).round().astype(int)
    before = make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False))
    model = make_pipeline(before, Ridge(alpha=1.0)).fit(frame, Y)
    exact = make_pipeline(clone(before), Ridge(alpha=1.0)).fit(frame.astype(float), Y)
    figures = dm.measure(model, frame, Y, noise=NOISE).examples
    np.testing.assert_allclose(figures, dm.measure(exact, frame.astype(float), Y, noise=NOISE).examples, rtol=1e-4)


def test_frames_between_steps_and_sparse_outputs_are_read() -> None:
    frame = FRAME[[*NUMBERS, "town"]]
    first = make_column_transformer(
        (StandardScaler(), NUMBERS), (OneHotEncoder(sparse_output=False), ["town"]), verbose_feature_names_out=False
    ).set_output(transform="pandas")
    second = make_column_transformer(
        (PolynomialFeatures(2, include_bias=False), ["age", "town_ulm"]), remainder="passthrough"
    )
    model = fit_pipeline(make_pipeline(first, second), "ridge", frame)
    leak = dm.measure(model, frame, Y, noise=NOISE)
    np.testing.assert_allclose(leak.design.X, dense(model[:-1].transform(frame)), atol=1e-12)
    sparse = make_column_transformer(
        (OneHotEncoder(), ["town"]), (FunctionTransformer(np.log), ["dose"]), sparse_threshold=1.0
    )
    model = fit_pipeline(sparse, "ridge", frame)
    leak = dm.measure(model, frame, Y, noise=NOISE)
    np.testing.assert_allclose(leak.design.X, dense(model[:-1].transform(frame)), atol=1e-12)


def test_three_hundred_columns_behind_a_step_are_measured_column_by_column() -> None:
    rng = np.random.default_rng(5)
    X = rng.lognormal(size=(350, 300))
    y = np.log(X[:, :5]).sum(axis=1) + rng.normal(size=350)
    model = make_pipeline(FunctionTransformer(np.log), Ridge(alpha=50.0)).fit(X, y)
    leak = dm.measure(model, X, y, noise=NOISE)
    assert leak.cells.shape == (350, 300)
    maps: Any = leak.design.row_map
    assert len(maps.slopes[0].columns) == 300  # one entry for each column, not 300 by 300
    h, before, final = 1e-4 * X[7, 3], model[:-1], model[-1]

    def move(t: float) -> Any:
        moved = X.copy()
        moved[7, 3] += t
        again = clone(final).fit(before.transform(moved), y)
        return np.append(again.coef_, again.intercept_)

    slope = (8 * (move(h) - move(-h)) - (move(2 * h) - move(-2 * h))) / (12 * h)
    assert leak.cells[7, 3] == pytest.approx(float(np.linalg.norm(slope)) / NOISE.sigma, rel=1e-5)


# --- many levels ------------------------------------------------------------------------------------------------------

LEVELS = 5000


def zip_codes(levels: int) -> Any:
    """Every level once, and some of them again."""
    rng = np.random.default_rng(8)
    codes = np.concatenate([np.arange(levels), rng.integers(0, 40, 400)]).astype(str)
    frame = pd.DataFrame({"zip": codes, "age": rng.normal(50, 12, len(codes))})
    return frame, frame["age"].to_numpy() / 12 + rng.normal(size=len(codes))


@pytest.mark.parametrize("kind", ["encoded by the target", "times a number", "pooled"])
def test_a_category_of_thousands_of_levels_has_its_largest_step(kind: str) -> None:
    frame, y = zip_codes({"encoded by the target": 2000, "times a number": 700, "pooled": LEVELS}[kind])
    encoder: Any = OneHotEncoder(max_categories=30)
    if kind != "pooled":
        encoder = FrozenEstimator(TargetEncoder().fit(frame[["zip"]], y))
    before: Any = make_column_transformer((encoder, ["zip"]), (StandardScaler(), ["age"]))
    if kind == "times a number":
        before = make_pipeline(before, PolynomialFeatures(2, include_bias=False))
    model = make_pipeline(before, Ridge(alpha=1.0)).fit(frame, y)
    leak = dm.measure(model, frame, y, noise=dm.Gaussian(1.0))
    # The design's own Jacobian, without a map, times the columns of the row at every level.
    plain = glm.measure(leak.fit, leak.design.X, leak.fit.y, dm.Gaussian(1.0), include_target=False)
    levels = np.unique(frame["zip"])
    for row in (0, len(frame) - 1):
        at = frame.iloc[np.full(len(levels), row)].assign(zip=levels)
        points = np.unique(dense(model[:-1].transform(at)).round(12), axis=0)
        images = points @ plain.jacobian.dense(np.array([row]))[0][:, :-1].T
        assert leak.cell("zip")[row] == pytest.approx(pdist(images).max(), rel=1e-6)
        assert leak.leak.examples[row] >= leak.cell("zip")[row]


def test_the_design_of_five_thousand_levels_stays_small() -> None:
    frame, _ = zip_codes(LEVELS)
    before = make_column_transformer((OneHotEncoder(), ["zip"]), (StandardScaler(), ["age"])).fit(frame)
    columns = {"zip": text_array(list(frame["zip"])), "age": frame["age"].to_numpy()}
    tracemalloc.start()
    design = assemble(Chain((before,), ("zip", "age"), columns, len(frame)), ["zip", "age"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # X, the map and the simplex, each of the size of a Hessian; rows times levels times columns is a terabyte.
    assert peak < 8 * 4 * LEVELS * len(frame)
    V, constant_map = design.vertices["zip"], design.constant_map
    step = constant_map[:, :-1] @ (V[17] - V[4900])  # levels by the order of the encoder, which sorts text
    order = np.sort(np.unique(frame["zip"]))
    assert design.names[17] == f"zip={order[17]}"
    np.testing.assert_allclose(step, np.eye(LEVELS + 1)[17] - np.eye(LEVELS + 1)[4900], atol=1e-9)


def test_reading_a_category_takes_work_in_proportion_to_its_levels() -> None:
    """Per level, not per pair of levels: a thousand more levels cost what a thousand did."""

    def work(levels: int) -> int:
        frame, _ = zip_codes(levels)
        before = make_column_transformer((OneHotEncoder(), ["zip"]), (StandardScaler(), ["age"])).fit(frame)
        columns = {"zip": text_array(list(frame["zip"])), "age": frame["age"].to_numpy()}
        return calls_of(lambda: assemble(Chain((before,), ("zip", "age"), columns, len(frame)), ["zip", "age"]))

    few, some, many = work(500), work(1000), work(2000)
    assert many - some < 2.5 * (some - few)


def test_a_target_encoder_that_a_pipeline_cross_fitted_says_what_to_do() -> None:
    frame = FRAME[["town", "age"]]
    before = make_column_transformer((TargetEncoder(), ["town"]), (StandardScaler(), ["age"]))
    model = make_pipeline(before, Ridge(alpha=1.0)).fit(frame, Y)
    with pytest.raises(dm.CannotMeasure, match="FrozenEstimator"):
        dm.measure(model, frame, Y, noise=NOISE)


# --- what is refused --------------------------------------------------------------------------------------------------

BAD: dict[str, tuple[Any, str]] = {
    "mean of the table": (Centred(), "Centred.*mixes rows"),
    "largest of the table": (Ranked(), "Ranked.*mixes rows"),
    "row before": (Lagged(), "Lagged.*mixes rows"),
    "random": (Noisy(), "Noisy.*each time"),
    "fewer rows": (Shorter(), "Shorter.*rows"),
    "raises": (Broken(), "Broken.*RuntimeError.*the server is down"),
    "float32 inside": (Single(), "Single.*rounds its input"),
    "jumps of a continuous number": (Steps(), "Steps jumps"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_step_that_cannot_be_read_is_refused_in_one_sentence(name: str) -> None:
    step, message = BAD[name]
    n = 1200 if name.startswith("jumps") else N
    rng = np.random.default_rng(4)
    X, y = rng.normal(50, 10, size=(n, 2)), rng.normal(size=n)
    model = Ridge(alpha=1.0).fit(X, y)
    with pytest.raises(dm.CannotMeasure, match=message) as refusal:
        dm.measure(Pipeline([("own", step.fit(X)), ("model", model)]), X, y, noise=NOISE)
    assert "\n" not in str(refusal.value)


def test_a_row_without_a_derivative_is_refused_by_name() -> None:
    frame = FRAME[NUMBERS].copy()
    frame.iloc[5] = 0.0
    with pytest.raises(dm.CannotMeasure, match=r"Normalizer.*row 5"):
        dm.measure(fit_pipeline(Normalizer(), "ridge", frame), frame, Y, noise=NOISE)
    with pytest.raises(dm.Refusal, match="row 5"):
        dm.measure(fit_pipeline(FunctionTransformer(np.sqrt), "ridge", frame), frame, Y, noise=NOISE)


@pytest.mark.parametrize("kind", sorted(kind.name for kind in STEPS.values() if kind.route is Route.REFUSED))
def test_a_refused_kind_has_a_reason(kind: str) -> None:
    assert len(STEPS["sklearn", kind].remark) > 20


def test_another_table_is_refused() -> None:
    model = fit_pipeline(make_pipeline(StandardScaler(), PolynomialFeatures(2)), "ridge", FRAME[NUMBERS])
    with pytest.raises(dm.Refusal, match="dose"):
        dm.measure(model, FRAME[["age", "bmi"]], Y, noise=NOISE)
    array = FRAME[NUMBERS].to_numpy()
    wrong_order = array[:, ::-1].copy()
    with pytest.raises(dm.CannotMeasure, match="not the minimum"):
        dm.measure(model, wrong_order, Y, noise=NOISE)
    other = Pipeline([("a", PowerTransformer().fit(array[:, :2])), ("model", model[-1])])
    with pytest.raises(dm.Refusal, match="2 columns"):
        dm.measure(other, array, Y, noise=NOISE)
    inside = Pipeline(
        [("a", StandardScaler().fit(array)), ("b", Waves().fit(array)), ("c", PCA(2).fit(array)), ("m", model[-1])]
    )
    with pytest.raises(dm.Refusal, match=r"PCA was fitted on 3 columns and gets 6"):
        dm.measure(inside, array, Y, noise=NOISE)


class Shifted(StandardScaler):
    """A subclass with a transform of its own is not the step it inherits from."""

    def transform(self, X: Any, copy: Any = None) -> Any:
        return np.tanh(super().transform(X, copy))


class Renamed(StandardScaler):
    """A subclass without one is."""


def test_a_subclass_with_its_own_transform_is_another_step() -> None:
    assert kind_of(Shifted()) is None
    kind = kind_of(Renamed())
    assert kind is not None
    assert kind.name == "StandardScaler"
    model = fit_pipeline(Shifted(), "ridge", FRAME[NUMBERS])
    leak = dm.measure(model, FRAME[NUMBERS], Y, noise=NOISE)
    assert leak.design.estimated


@pytest.mark.parametrize(
    "before",
    [
        PCA(2),
        PolynomialFeatures(2),
        NMF(2, tol=0.1),
        Waves(),
        KBinsDiscretizer(3, **QUANTILES),
    ],
    ids=lambda step: type(step).__name__,
)
def test_a_release_of_a_model_behind_a_step_that_does_not_fold_is_refused(before: Any) -> None:
    frame = FRAME[NUMBERS].abs()
    model = make_pipeline(clone(before), Ridge(alpha=1.0)).fit(frame, Y)
    table = Table.of({**{name: frame[name].to_numpy() for name in frame}, "y": Y})
    with pytest.raises(dm.CannotMeasure, match=type(before).__name__):
        release_model(model, table, "y", max_dose=1.0)


def test_a_release_of_a_column_that_is_a_number_and_a_label_is_refused() -> None:
    both = make_column_transformer((OneHotEncoder(), ["visits"]), (StandardScaler(), ["visits"]))
    model = make_pipeline(both, Ridge(alpha=1.0)).fit(FRAME[["visits"]], Y)
    table = Table.of({"visits": FRAME["visits"].to_numpy(), "y": Y})
    with pytest.raises(dm.CannotMeasure, match="both as a number and as labels"):
        release_model(model, table, "y", max_dose=1.0)
