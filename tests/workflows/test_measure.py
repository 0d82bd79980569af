"""`dm.measure`: a model or none, a frame, an array or a file; figures come back as the kind that came in."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import Ridge

import dosimeter as dm
from dosimeter.adapters.coefficients import Coefficients
from dosimeter.models.fit_table import fit_table
from dosimeter.tables.table import Table

RNG = np.random.default_rng(11)
N = 60
WHO = np.repeat(np.arange(100, 130), 2)
FRAME = pd.DataFrame(
    {
        "patient": WHO,
        "age": RNG.normal(50, 10, N),
        "bmi": RNG.normal(27, 4, N),
        "ward": RNG.choice(["north", "south"], N),
        "cost": RNG.normal(size=N),
    },
    index=RNG.permutation(N) + 1000,
)
FRAME["cost"] += FRAME["age"] / 10
NOISE = dm.Gaussian(0.5)
MODEL = Ridge(alpha=2.0).fit(FRAME[["age", "bmi"]], FRAME["cost"])


def as_kind(kind: str) -> Any:
    """The same rows as another kind of table."""
    columns = {name: FRAME[name].to_numpy() for name in FRAME}
    return {"pandas": FRAME, "polars": pl.DataFrame(columns), "pyarrow": pa.table(columns), "dict": columns}[kind]


def test_a_table_alone_is_fitted_and_measured_as_fit_table_does():
    own = fit_table(Table.of(FRAME, text=["patient"]), "cost", noise=NOISE, person="patient")
    leak = dm.measure(FRAME, target="cost", person="patient", noise=NOISE)
    assert list(leak.persons.values()) == list(own.leakage.persons.values())
    assert list(leak.persons) == list(range(100, 130))  # the ids as the frame holds them, not as text
    assert leak.measured_in == "standard deviations"
    assert leak.table_fit is not None
    assert leak.table_fit.score == own.score


@pytest.mark.parametrize(
    "how",
    [
        {"target": "cost"},
        {"y": "cost"},
        {"noise": "gaussian", "scale": 0.5, "target": "cost"},
        {"scale": 0.5, "target": "cost"},
    ],
)
def test_the_target_and_the_noise_can_be_said_in_several_ways(how):
    given = {"noise": NOISE, **how} if "scale" not in how else how
    leak = dm.measure(FRAME, person="patient", **given)
    assert leak.persons == dm.measure(FRAME, target="cost", person="patient", noise=NOISE).persons


def test_values_beside_the_table_are_its_columns():
    bare = FRAME.drop(columns=["cost", "patient"])
    leak = dm.measure(bare, y=FRAME["cost"], person=FRAME["patient"], noise=NOISE)
    named = dm.measure(FRAME, target="cost", person="patient", noise=NOISE)
    assert leak.persons == named.persons
    with pytest.raises(dm.Refusal, match="beside the values"):
        dm.measure(FRAME.rename(columns={"age": "y"}), y=FRAME["cost"].to_numpy(), person="patient", noise=NOISE)


def test_a_file_gives_the_figures_of_the_frame(tmp_path):
    path = tmp_path / "people.csv"
    FRAME.to_csv(path, index=False)
    of_file = dm.measure(path, target="cost", person="patient", noise=NOISE)
    of_frame = dm.measure(pd.read_csv(path), target="cost", person="patient", noise=NOISE)
    # Not to the last bit: a frame's columns lie in memory in another order, and a BLAS sums them in another.
    np.testing.assert_allclose(list(of_file.persons.values()), list(of_frame.persons.values()), rtol=1e-12)
    assert next(iter(of_file.persons)) == "100"  # a file's ids are text
    assert dm.measure(None, path, "cost", person="patient", noise=NOISE).persons == of_file.persons


def test_a_model_may_be_a_file_or_bare_coefficients(tmp_path):
    import skops.io as sio

    sio.dump(MODEL, tmp_path / "model.skops")
    expected = dm.measure(MODEL, FRAME, "cost", person="patient", noise=NOISE).persons
    assert dm.measure(tmp_path / "model.skops", FRAME, "cost", person="patient", noise=NOISE).persons == expected
    coefficients = Coefficients(
        "squared", 2.0 / N, float(MODEL.intercept_), dict(zip(["age", "bmi"], MODEL.coef_, strict=True))
    )
    bare = dm.measure(coefficients, FRAME, target="cost", person="patient", noise=NOISE).persons
    np.testing.assert_allclose(list(bare.values()), list(expected.values()), rtol=1e-9)
    FRAME.to_csv(tmp_path / "people.csv", index=False)
    both = dm.measure(tmp_path / "model.skops", tmp_path / "people.csv", "cost", person="patient", noise=NOISE)
    np.testing.assert_allclose(list(both.persons.values()), list(expected.values()), rtol=1e-6)


KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table, "dict": dict}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", [None, MODEL], ids=["fitted here", "given"])
def test_frames_come_back_as_the_kind_that_came_in(kind, model):
    leak = dm.measure(model, as_kind(kind), target="cost", person="patient", noise=NOISE)
    for frame in (leak.cells, leak.persons_frame(), leak.columns_frame(), leak.group_frame("ward")):
        assert isinstance(frame, KINDS[kind])
    persons = {"pandas": lambda f: f, "polars": lambda f: f, "pyarrow": lambda f: f.to_pydict(), "dict": lambda f: f}
    people = persons[kind](leak.persons_frame())
    assert list(people["patient"]) == list(leak.persons)
    np.testing.assert_array_equal(np.asarray(people["eta"]), list(leak.persons.values()))
    columns = persons[kind](leak.columns_frame())
    assert dict(zip(list(columns["column"]), np.asarray(columns["eta"]).tolist(), strict=True)) == leak.attributes


def test_an_array_gives_dicts_of_its_figures():
    X = FRAME[["age", "bmi"]].to_numpy()
    leak = dm.measure(X, y=FRAME["cost"].to_numpy(), noise=NOISE)
    assert isinstance(leak.cells, np.ndarray)
    assert leak.columns_frame()["column"].tolist() == ["x0", "x1"]


def test_rows_left_out_stay_out_of_every_frame():
    holed = FRAME.copy()
    holed.iloc[4, holed.columns.get_loc("bmi")] = np.nan
    leak = dm.measure(holed, target="cost", person="patient", noise=NOISE, missing="drop")
    assert leak.examples.index.equals(FRAME.index.delete(4))
    assert leak.table.dropped == 1
    assert leak.result().dropped_rows == 1
    assert len(leak.group("ward")) == 2
    given = dm.measure(
        Ridge(alpha=2.0).fit(holed[["age", "bmi"]].dropna(), holed["cost"].drop(holed.index[4])),
        holed,
        "cost",
        person="patient",
        noise=NOISE,
        missing="drop",
    )
    assert given.examples.index.equals(leak.examples.index)
    with pytest.raises(dm.Refusal, match='missing="drop"'):
        dm.measure(holed, target="cost", noise=NOISE)


def test_a_given_model_is_read_in_raw_units_and_a_fitted_one_in_deviations():
    assert dm.measure(MODEL, FRAME, "cost", noise=NOISE).measured_in == "own units"
    assert dm.measure(MODEL, FRAME, "cost", noise=NOISE, unit="sd").measured_in == "standard deviations"
    assert dm.measure(FRAME, target="cost", exclude="patient", noise=NOISE, unit="raw").measured_in == "own units"


def test_without_noise_the_release_is_exact():
    leak = dm.measure(FRAME, target="cost", person="patient")
    assert not leak.leak.has_noise
    assert leak.result().dose.highest == "unbounded"


def test_one_column_may_stand_for_a_list():
    one = dm.measure(FRAME, target="cost", exclude="patient", noise=NOISE)
    assert one.columns == dm.measure(FRAME, target="cost", exclude=["patient"], noise=NOISE).columns
    assert "patient" not in one.columns


def test_the_result_is_what_the_command_line_prints(tmp_path, capsys):
    from dosimeter.cli.main import run

    path = tmp_path / "people.csv"
    FRAME.to_csv(path, index=False)
    command = f"measure {path} --target cost --person patient --scale 0.5 --max-dose 9 --group ward --json - -q"
    assert run(command.split()) == 0
    printed = json.loads(capsys.readouterr().out)
    result = dm.measure(path, target="cost", person="patient", scale=0.5).result(limit=9, groups="ward").to_dict()
    del printed["reproduce"]
    remarks = [remark.replace("--not-tied NAME", 'not_tied="NAME"') for remark in printed.pop("remarks")]
    assert [remark.replace("--bounds", "bounds=") for remark in remarks] == result.pop("remarks")
    assert printed == result


def test_groups_may_be_columns_that_the_model_does_not_see():
    leak = dm.measure(MODEL, FRAME, "cost", person="patient", noise=NOISE)
    groups = leak.result(groups=["ward"]).groups
    assert {group.group for group in groups if group.column == "ward"} == {"= north", "= south"}
    with pytest.raises(dm.Refusal, match="did you mean ward"):
        leak.result(groups=["wart"])


def test_a_notebook_shows_the_result():
    leak = dm.measure(FRAME, target="cost", person="patient", noise=NOISE)
    assert "do not publish" in leak._repr_html_().lower()
    assert leak.plot().spec["layer"]
    assert dm.report(leak, edition="internal").html.startswith("<!doctype html>")


BAD: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "no table": ((MODEL,), {"target": "cost", "noise": NOISE}, "there is no table"),
    "nothing": ((), {"target": "cost"}, "there is no table"),
    "two tables": ((FRAME, FRAME), {"target": "cost"}, "the first of two arguments is the model"),
    "a table and its target": ((FRAME, "cost"), {"target": "cost"}, "the first of two arguments is the model"),
    "no target": ((FRAME,), {}, "name what the model predicts"),
    "two targets": ((FRAME,), {"y": "cost", "target": "cost"}, "not both"),
    "a name without a scale": ((FRAME,), {"target": "cost", "noise": "laplace"}, "pass scale="),
    "a noise that is not known": ((FRAME,), {"target": "cost", "noise": "pink", "scale": 1}, 'noise="pink": use'),
    "a scale twice": ((FRAME,), {"target": "cost", "noise": NOISE, "scale": 1.0}, "scale= is for a noise by name"),
    "zero scale": ((FRAME,), {"target": "cost", "scale": 0.0}, "or leave scale= out for an exact release"),
    "negative l2": ((FRAME,), {"target": "cost", "l2": -1.0}, "l2=-1.0: give a finite number"),
    "unit": ((FRAME,), {"target": "cost", "unit": "own"}, 'unit="own": use sd or raw'),
    "loss of a given model": ((MODEL, FRAME, "cost"), {"loss": "squared"}, "loss= is for a model fitted here"),
    "penalty of a given model": ((MODEL, FRAME, "cost"), {"l2": 0.0}, "l2= is for a model fitted here"),
    "bounds of a given model": ((MODEL, FRAME, "cost"), {"bounds": {"age": (0, 9)}}, "bounds= is for a model fitted"),
    "weights of our own fit": (
        (FRAME,),
        {"target": "cost", "sample_weight": np.ones(N)},
        "sample_weight= is for a given",
    ),
    "excluded target": ((FRAME,), {"target": "cost", "exclude": ["cost"]}, 'target="cost": the column was left out'),
    "misspelt person": ((FRAME,), {"target": "cost", "person": "patiend"}, "did you mean patient"),
    "missing policy": ((FRAME,), {"target": "cost", "missing": "guess"}, "use refuse, drop or impute"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_refused_in_the_words_of_python(case):
    arguments, options, message = BAD[case]
    with pytest.raises(dm.Refusal, match=message) as refusal:
        dm.measure(*arguments, **options)
    assert "--" not in str(refusal.value)


def test_values_beside_a_file_are_refused(tmp_path):
    path = tmp_path / "people.csv"
    FRAME.to_csv(path, index=False)
    with pytest.raises(dm.Refusal, match="the table is a file"):
        dm.measure(path, y=FRAME["cost"].to_numpy(), noise=NOISE)


def test_bounds_are_a_file_or_a_dict(tmp_path):
    bounds = {"age": (0, 120), "bmi": (10, 60), "ward": ["north", "south"], "cost": (-50, 50)}
    path = tmp_path / "bounds.toml"
    path.write_text(
        "[age]\nlower = 0\nupper = 120\n[bmi]\nlower = 10\nupper = 60\n[ward]\nlevels = ['north', 'south']\n"
        "[cost]\nlower = -50\nupper = 50\n"
    )
    of_dict = dm.measure(FRAME, target="cost", person="patient", noise=NOISE, bounds=bounds)
    of_file = dm.measure(FRAME, target="cost", person="patient", noise=NOISE, bounds=path)
    assert of_dict.persons == of_file.persons
    assert of_dict.standing.value == "exact"
    with pytest.raises(dm.Refusal, match="is the person column"):
        dm.measure(FRAME, target="cost", person="patient", noise=NOISE, bounds={**bounds, "patient": (0, 1)})


@pytest.mark.parametrize("role", ["y", "person", "sample_weight"])
def test_a_dict_or_a_set_of_values_is_refused_instead_of_its_keys_read(role: str) -> None:
    # The keys of `series.to_dict()` are row labels: as persons, every row would be a person of its own.
    patient = dict(enumerate(FRAME["patient"]))
    table = FRAME[["age", "bmi"]]
    assert len(dm.measure(MODEL, table, FRAME["cost"], person=FRAME["patient"]).persons) == 30
    for values in (patient, patient.keys(), set(patient)):
        with pytest.raises(dm.Refusal, match=f"{role} is .*give the name of a column or one value per row"):
            dm.measure(MODEL, table, **{"y": FRAME["cost"], role: values})


def test_a_table_of_dicts_is_refused_instead_of_its_keys_read() -> None:
    with pytest.raises(dm.Refusal, match=r"a dict is not a column \(column patient\).*to_dict\('list'\)"):
        dm.measure(FRAME.to_dict(), target="cost", person="patient")


@pytest.mark.parametrize(("rows", "message"), [(0, "the table has no row"), (1, "the table has one row only")])
@pytest.mark.parametrize("verb", [dm.measure, lambda frame, **options: dm.fix(frame, max_dose=1, **options)])
def test_a_table_without_two_rows_is_refused_for_that_reason(verb: Any, rows: int, message: str) -> None:
    with pytest.raises(dm.Refusal, match=f"{message}: give at least two people"):
        verb(FRAME.iloc[:rows], target="cost", person="patient")


def test_a_class_of_noise_and_a_text_for_a_number_are_refused_in_one_sentence() -> None:
    with pytest.raises(dm.Refusal, match=r"noise is .*Gaussian.*: give a noise such as Gaussian\(0.05\)"):
        dm.measure(FRAME, target="cost", person="patient", noise=dm.Gaussian)
    with pytest.raises(dm.Refusal, match='max_dose="1": give a finite number above 0'):
        dm.fix(FRAME, target="cost", person="patient", max_dose="1")
    with pytest.raises(dm.Refusal, match='limit="1": give a finite number above 0'):
        dm.measure(FRAME, target="cost", person="patient", noise=NOISE).result(limit="1")


def test_python_names_what_a_page_a_release_and_a_target_are(tmp_path) -> None:
    leak = dm.measure(FRAME, target="cost", person="patient", noise=NOISE)
    for name in ("page.md", "page.txt", "page"):
        with pytest.raises(dm.Refusal, match=rf"{name}: a page is an .html file .* `.card` is the text"):
            dm.report(leak).write(tmp_path / name)
    with dm.Ledger.create(tmp_path / "book.db") as ledger:
        with pytest.raises(dm.Refusal, match="a ModelLeakage is no release: book what fix, components, label or"):
            ledger.book(leak, name="june")
        with pytest.raises(dm.Refusal, match=r"there is no release june: see ledger.entries\(\)"):
            ledger.artefact("june")
    with pytest.raises(dm.Refusal, match="name what the model predicts: pass target=, the name of a column, or y="):
        dm.measure(FRAME)
    with pytest.raises(dm.Refusal, match="what the model predicts is named twice"):
        dm.measure(MODEL, FRAME, FRAME["cost"], target="cost")
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".db", ".keys"]
    with pytest.raises(dm.Refusal, match="there is no column cost: the table has no columns"):
        dm.measure(pd.DataFrame(), target="cost")
