"""A private table is read through the public one: nothing about it decides a column."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dosimeter as dm
from dosimeter.core.errors import Refusal
from dosimeter.tables.learned_encoding import learn_encoding, public_encoding
from dosimeter.tables.sklearn_export import pipeline
from dosimeter.tables.table import Table

PUBLIC = Table.of(
    {
        "age": [40.0, 60.0, 50.0, 45.0],
        "city": ["Ulm", "Graz", "Ulm", "Bern"],
        "flat": [1, 1, 1, 1],
        "smokes": [True, False, True, True],
        "visit": [1.5, 2.5, 3.5, 4.5],
    }
)
PRIVATE = Table.of(
    {
        "smokes": [False, True, False],
        "city": ["Bern", "Atlantis", "Ulm"],
        "age": [31.0, 54.0, 1e9],
        "flat": [1, 2, 3],
        "ill": [0, 1, 1],
    }
)


def encoding():
    return public_encoding(PRIVATE, PUBLIC, aside=["ill"])[0]


def test_columns_come_by_name_numbers_first_and_unknown_levels_are_all_zeros():
    assert encoding().names == ("age", "smokes", "city=Bern", "city=Graz", "city=Ulm")
    assert dict(zip(encoding().names, encoding().design(PRIVATE).T.tolist(), strict=True)) == {
        "age": [31.0, 54.0, 1e9],
        "smokes": [0.0, 1.0, 0.0],
        "city=Bern": [1.0, 0.0, 0.0],
        "city=Graz": [0.0, 0.0, 0.0],
        "city=Ulm": [0.0, 0.0, 1.0],
    }


def test_the_private_rows_decide_nothing():
    """Other people, the same columns: what is kept is equal, and so is every other row of the design."""
    fewer = PRIVATE.take([0, 1])
    assert public_encoding(fewer, PUBLIC, aside=["ill"]) == public_encoding(PRIVATE, PUBLIC, aside=["ill"])
    np.testing.assert_array_equal(encoding().design(fewer), encoding().design(PRIVATE)[:2])


def test_what_was_left_out_is_reported():
    left, unused = sorted(public_encoding(PRIVATE, PUBLIC, aside=["ill"])[1])
    assert left == "public columns left out, with one value only: flat"
    assert unused == "public columns not used: visit"


def test_the_pipeline_gives_the_model_what_the_design_does():
    pandas = pytest.importorskip("pandas")
    from sklearn.dummy import DummyClassifier

    model = DummyClassifier().fit(encoding().design(PUBLIC), [0, 1, 0, 1])
    frame = pandas.DataFrame({name: PRIVATE[name] for name in PRIVATE.names})
    transformed = pipeline(encoding(), model)[:-1].transform(frame).astype(float)
    np.testing.assert_array_equal(transformed, encoding().design(PRIVATE))


@pytest.mark.parametrize(
    ("private", "message"),
    [
        ({"ill": [0, 1]}, "no column beside the target"),
        ({"ill": [0, 1], "hight": [1.0, 2.0]}, "the public table has no column hight"),
        ({"ill": [0, 1], "age": ["old", "young"]}, "text in the private table and number in the public one"),
        ({"ill": [0, 1], "city": [1.0, 2.0]}, "number in the private table and text in the public one"),
        ({"ill": [0, 1], "flat": [1.0, 2.0]}, "no column varies"),
    ],
)
def test_tables_that_do_not_match_are_refused_in_one_line(private, message):
    with pytest.raises(Refusal, match=message) as refused:
        public_encoding(Table.of(private), PUBLIC, aside=["ill"])
    assert "\n" not in str(refused.value)


def test_all_columns_that_cannot_be_used_are_named_in_one_line():
    columns = {
        "when": [f"2020-01-{k % 28 + 1:02}" for k in range(40)],
        "code": [f"p{k}" for k in range(40)],
        "age": list(range(40)),
        "dose": [f"{k},5" for k in range(40)],
    }
    with pytest.raises(Refusal) as caught:
        learn_encoding(Table.of(columns))
    line = str(caught.value)
    assert line.isprintable()
    assert [name for name in columns if f"column {name} " in line] == ["when", "code", "dose"]
    assert "more columns" not in line
    with pytest.raises(Refusal, match=r"column x4 .*; 2 more columns cannot be used$"):
        learn_encoding(Table.of({f"x{j}": columns["code"] for j in range(7)}))


@pytest.mark.parametrize("engine", ["memory", "blocks"])
def test_the_index_that_pandas_wrote_is_not_learned_from(engine, tmp_path) -> None:
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"age": rng.normal(50, 10, 40), "cost": rng.normal(size=40)}, index=rng.permutation(40))
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv")
    options = {"target": "cost", "noise": dm.Gaussian(1.0), "engine": engine}
    with pytest.raises(dm.Refusal, match=r"column __index_level_0__ is the index .* exclude=\"__index_level_0__\""):
        dm.measure(tmp_path / "t.parquet", **options)
    leak = dm.measure(tmp_path / "t.parquet", **options, exclude="__index_level_0__")
    assert [column.column for column in leak.result().columns] == ["age"]
    with pytest.raises(dm.Refusal, match="column Unnamed: 0 is the index"):
        dm.measure(pd.read_csv(tmp_path / "t.csv"), target="cost", noise=dm.Gaussian(1.0))
