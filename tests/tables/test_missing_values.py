"""Filled missing values: tables, our own fits, and pipelines with a SimpleImputer."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import dosimeter as dm
from dosimeter.cli.main import run
from dosimeter.core.errors import Refusal
from dosimeter.models.fit_table import fit_table
from dosimeter.tables.table import Table

RNG = np.random.default_rng(5)
N = 60
FRAME = pd.DataFrame({"age": RNG.normal(50, 10, N), "bmi": RNG.normal(27, 4, N), "city": RNG.choice(["u", "g"], N)})
Y = FRAME["age"] / 10 + FRAME["bmi"] / 4 + (FRAME["city"] == "u") + RNG.normal(size=N)
GONE = {"age": RNG.random(N) < 0.2, "city": RNG.random(N) < 0.2}
GAPPED = FRAME.copy()
for _name, _mask in GONE.items():
    GAPPED.loc[_mask, _name] = np.nan
NOISE = dm.Gaussian(0.5)


@pytest.mark.parametrize("kind", ["pandas", "polars", "dict"])
def test_numbers_get_the_declared_constant_and_labels_a_level(kind):
    frame = {"pandas": GAPPED, "polars": pl.from_pandas(GAPPED), "dict": GAPPED.to_dict("list")}[kind]
    table = Table.of(frame, missing="impute", impute={"age": 40})
    assert (table["age"][GONE["age"]] == 40).all()
    assert set(table["city"][GONE["city"]]) == {"missing"}
    np.testing.assert_array_equal(table["age"][~GONE["age"]], FRAME["age"][~GONE["age"]])
    assert {name: gap.mask.tolist() for name, gap in table.gaps.items()} == {k: m.tolist() for k, m in GONE.items()}
    few = table.take(np.arange(7)).drop(["city"])
    assert few.gaps["age"].mask.tolist() == GONE["age"][:7].tolist()
    assert "city" not in few.gaps


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, 'impute={"age": VALUE}'),
        ({"impute": {"age": "old"}}, "give a finite number"),
        ({"impute": {"age": float("nan")}}, "give a finite number"),
        ({"impute": {"age": 1}, "whole": ["city"]}, "leave the row out"),
    ],
)
def test_what_cannot_be_filled_is_refused(options, message):
    with pytest.raises(Refusal, match=message):
        Table.of(GAPPED, missing="impute", **options)


def test_a_level_called_missing_is_not_taken_for_a_gap():
    frame = {"a": ["missing", None, "b"], "x": [1.0, 2.0, 3.0]}
    with pytest.raises(Refusal, match="already"):
        Table.of(frame, missing="impute")
    assert Table.of(frame, missing="impute", impute={"a": "none"})["a"].tolist() == ["missing", "none", "b"]


def test_a_column_without_a_value_is_refused():
    with pytest.raises(Refusal, match="every value is missing"):
        Table.of({"a": [None, None], "x": [1.0, 2.0]}, missing="impute", impute={"a": 1})


def fitted_leakage(**options):
    table = Table.of(GAPPED.assign(y=Y), missing="impute", impute={"age": 40.0}, whole=["y"])
    return fit_table(table, "y", noise=NOISE, **options).leakage


def test_a_fit_keeps_every_row_and_counts_no_filled_cell():
    leak = fitted_leakage(unit="raw")
    assert leak.leak.n == N
    age, city = leak.cell("age"), leak.cell("city")
    assert (age[GONE["age"]] == 0).all()
    assert (age[~GONE["age"]] > 0).all()
    assert (city[GONE["city"]] == 0).all()
    assert any("missing is data" in note for note in leak.not_covered)
    assert any("filled with 40" in note for note in leak.remarks)
    # The unknowns of a row are its observed cells and its label: the mask computes the same in another way.
    row = int(np.argmax(GONE["age"]))
    mask = np.zeros((N, leak.leak.m + 1), dtype=bool)
    mask[row, [*leak.design.blocks["bmi"], -1]] = True
    if not GONE["city"][row]:
        mask[row, list(leak.design.blocks["city"])] = True
    assert leak.leak.examples[row] == pytest.approx(leak.leak.mask(mask), rel=1e-9)


def test_a_standard_deviation_is_that_of_the_observed_values():
    ratio = fitted_leakage(unit="sd").cell("age") / np.where(GONE["age"], 1.0, fitted_leakage(unit="raw").cell("age"))
    assert ratio[~GONE["age"]] == pytest.approx(np.std(FRAME["age"][~GONE["age"]]), rel=1e-9)


def pipeline(number, label="constant", **options):
    number_fill = {"strategy": number} | ({"fill_value": 40.0} if number == "constant" else {})
    label_fill = {"strategy": label} | ({"fill_value": "missing"} if label == "constant" else {})
    return make_pipeline(
        make_column_transformer(
            (make_pipeline(SimpleImputer(**number_fill, **options), StandardScaler()), ["age", "bmi"]),
            (make_pipeline(SimpleImputer(**label_fill), OneHotEncoder(drop="first")), ["city"]),
        ),
        Ridge(alpha=2.0),
    )


@pytest.mark.parametrize("number", ["constant", "mean", "median", "most_frequent"])
@pytest.mark.parametrize("label", ["constant", "most_frequent"])
def test_a_pipeline_with_an_imputer_is_measured_on_real_gaps(number, label):
    """Against a model of the filled table: the same weights, and the cells that were filled left out."""
    model = pipeline(number, label).fit(GAPPED, Y)
    leak = dm.measure(model, GAPPED, Y, noise=NOISE)
    before = model[0]
    filled = FRAME.copy()
    filled.loc[GONE["age"], "age"] = before.named_transformers_["pipeline-1"][0].statistics_[0]
    filled.loc[GONE["city"], "city"] = before.named_transformers_["pipeline-2"][0].statistics_[0]
    complete = dm.measure(model, filled, Y, noise=NOISE)
    for name in ("age", "bmi", "city"):
        missing = GONE.get(name, np.zeros(N, dtype=bool))
        np.testing.assert_allclose(leak.cell(name)[~missing], complete.cell(name)[~missing], rtol=1e-12)
        assert (leak.cell(name)[missing] == 0).all()
    any_gap = GONE["age"] | GONE["city"]
    assert (leak.leak.examples[any_gap] <= complete.leak.examples[any_gap]).all()
    np.testing.assert_allclose(leak.leak.examples[~any_gap], complete.leak.examples[~any_gap], rtol=1e-12)
    notes = " ".join(leak.not_covered)
    named = " ".join(note for note in leak.not_covered if "that fills gaps" in note)
    assert ("age" in named) is (number != "constant")
    assert ("city" in named) is (label != "constant")
    assert "missing is data" in notes


def test_indicators_of_gaps_are_constants():
    y = Y.median() < Y
    model = make_pipeline(
        SimpleImputer(strategy="constant", fill_value=0.0, add_indicator=True),
        StandardScaler(),
        LogisticRegression(solver="newton-cholesky", tol=1e-12),
    ).fit(GAPPED[["age", "bmi"]], y)
    leak = dm.measure(model, GAPPED[["age", "bmi"]], y, noise=NOISE)
    assert leak.columns == ("age", "bmi")
    filled = FRAME[["age", "bmi"]].assign(gone=GONE["age"].astype(float))
    filled.loc[GONE["age"], "age"] = 0.0
    again = make_pipeline(StandardScaler(), LogisticRegression(solver="newton-cholesky", tol=1e-12)).fit(filled, y)
    whole = dm.measure(again, filled, y, noise=NOISE)
    there = ~GONE["age"]
    np.testing.assert_allclose(leak.cell("age")[there], whole.cell("age")[there], rtol=1e-6)
    np.testing.assert_allclose(leak.cell("bmi"), whole.cell("bmi"), rtol=1e-6)


def test_gaps_that_no_imputer_fills_are_refused():
    model = make_pipeline(StandardScaler(), Ridge()).fit(FRAME[["age", "bmi"]], Y)
    with pytest.raises(Refusal, match="column age has no value in row"):
        dm.measure(model, GAPPED[["age", "bmi"]], Y, noise=NOISE)


@pytest.fixture
def sheet(tmp_path):
    path = tmp_path / "people.csv"
    GAPPED.assign(y=Y).to_csv(path, index=False)
    return path


def test_the_command_line_fills_what_is_declared(sheet, capsys):
    options = ["--target", "y", "--scale", "0.5", "--json", "-", "--missing", "impute", "--impute", "age=40"]
    assert run(["measure", str(sheet), *options]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["rows"] == N
    assert facts["dose"]["highest"] == pytest.approx(fitted_leakage().leak.examples.max(), rel=1e-9)
    assert any("missing is data" in note for note in facts["not_covered"])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--missing", "impute"], "--impute age=VALUE"),
        (["--missing", "impute", "--impute", "age"], "COLUMN=VALUE"),
        (["--missing", "impute", "--impute", "age=x"], "finite number"),
        (["--missing", "impute", "--impute", "aeg=4"], "aeg"),
        (["--missing", "impute", "--impute", "age=4", "--impute", "age=5"], "twice"),
        (["--impute", "age=4"], "--missing impute"),
        (["--missing", "guess"], "refuse, drop or impute"),
    ],
)
def test_bad_fillings_are_refused_in_one_line(sheet, capsys, more, message):
    assert run(["measure", str(sheet), "--target", "y", "--scale", "1", *more]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error


def test_a_given_model_fills_its_gaps_itself(sheet, tmp_path, capsys):
    import skops.io as sio

    model = pipeline("median").fit(GAPPED, Y)
    (tmp_path / "m.skops").write_bytes(sio.dumps(model))
    options = ["--target", "y", "--model", str(tmp_path / "m.skops"), "--scale", "0.5", "--missing", "impute"]
    assert run(["measure", str(sheet), *options, "--json", "-", "--unit", "raw"]) == 0
    facts = json.loads(capsys.readouterr().out)
    expected = dm.measure(model, GAPPED, Y, noise=NOISE).leak.examples.max()
    assert facts["dose"]["highest"] == pytest.approx(expected, rel=1e-9)
    assert run(["measure", str(sheet), *options, "--impute", "age=4"]) == 2


def test_every_column_with_a_constant_is_filled_in_the_release_whether_it_had_a_gap_or_not():
    """Which columns had a gap does not stand in the file: the constants do, and with bounds a level for each label."""
    files, notes = [], []
    for frame in (GAPPED, GAPPED.assign(bmi=GAPPED.bmi.where(GAPPED.index != 3)), FRAME):
        made = dm.fix(
            frame.assign(y=Y), "y", scale=1.0, missing="impute", impute={"age": 40, "bmi": 25}, even_if_useless=True,
            noise_shape="none", bounds={"age": (0, 120), "bmi": (10, 70), "city": ["g", "u"], "y": (-100, 100)},
        )  # fmt: skip
        gaps = made.model.named_steps["gaps"]
        files.append([(name, repr(step), columns) for name, step, columns in gaps.transformers_])
        notes.append(made.result.not_covered)
        assert np.isfinite(made.model.predict(FRAME.assign(bmi=np.nan, city=None))).all()
    assert files[0] == files[1] == files[2]
    assert notes[0] == notes[1] == notes[2]
    assert any(note.startswith("whether cells of age, bmi, city are missing is data") for note in notes[0])


def test_a_value_with_gaps_is_tied_where_it_is_observed():
    """A birth year on two of three visits is one unknown; filled with 1950 it must not look like two values."""
    born = np.repeat(RNG.integers(1930, 1990, N // 3).astype(float), 3)
    gapped = np.where(np.arange(N) % 3 == 1, np.nan, born)
    frame = pd.DataFrame({"who": np.arange(N) // 3, "born": gapped, "bmi": FRAME["bmi"], "y": Y})
    table = Table.of(frame, text=["who"], missing="impute", impute={"born": 1950})
    leak = fit_table(table, "y", noise=NOISE, person="who").leakage
    assert leak.tied == ("born",)
    model = make_pipeline(SimpleImputer(strategy="constant", fill_value=1950.0), StandardScaler(), Ridge(alpha=1.0))
    theirs = dm.measure(
        model.fit(frame[["born", "bmi"]], Y), frame[["born", "bmi"]], Y, person=frame["who"], noise=NOISE
    )
    assert theirs.tied == ("born",)


def test_a_decimal_comma_and_a_date_are_seen_beside_filled_gaps(tmp_path):
    for cells, message in (
        (["1,5", "", "2,25", "3,5"], "decimal comma"),
        (["01.02.2020", "", "02.02.2020", "3.2.2020"], "holds dates"),
    ):
        path = tmp_path / "t.csv"
        path.write_text("\n".join(["a;y", *(f"{cell};{k}" for k, cell in enumerate(cells))]) + "\n")
        with pytest.raises(dm.Refusal, match=message):
            dm.measure(path, target="y", noise=dm.Gaussian(1.0), missing="impute", delimiter=";")
