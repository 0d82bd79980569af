"""A private table is read through the public one: nothing about it decides a column."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.tables.public_encoding import PublicColumns, class_names
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


def public_columns():
    return PublicColumns.of(PRIVATE, PUBLIC, aside=["ill"])


def test_columns_come_by_name_numbers_first_and_unknown_levels_are_all_zeros():
    columns = public_columns()
    assert columns.numbers == ("smokes", "age") or columns.numbers == ("age", "smokes")
    table = dict(zip([*columns.numbers, "Bern", "Graz", "Ulm"], columns.design(PRIVATE).T.tolist(), strict=True))
    assert table == {
        "smokes": [0.0, 1.0, 0.0],
        "age": [31.0, 54.0, 1e9],
        "Bern": [1.0, 0.0, 0.0],
        "Graz": [0.0, 0.0, 0.0],
        "Ulm": [0.0, 0.0, 1.0],
    }


def test_the_private_rows_decide_nothing():
    """Other people, the same columns: what is kept is equal, and so is every other row of the design."""
    fewer = PRIVATE.take([0, 1])
    assert PublicColumns.of(fewer, PUBLIC, aside=["ill"]) == public_columns()
    np.testing.assert_array_equal(public_columns().design(fewer), public_columns().design(PRIVATE)[:2])


def test_what_was_left_out_is_reported():
    left, unused = sorted(public_columns().remarks)
    assert left == "public columns left out, with one value only: flat"
    assert unused == "public columns not used: visit"


def test_the_pipeline_gives_the_model_what_the_design_does():
    pandas = pytest.importorskip("pandas")
    from sklearn.dummy import DummyClassifier

    columns = public_columns()
    model = DummyClassifier().fit(columns.design(PUBLIC), [0, 1, 0, 1])
    pipeline = columns.pipeline(model)
    frame = pandas.DataFrame({name: PRIVATE[name] for name in PRIVATE.names})
    np.testing.assert_array_equal(pipeline[:-1].transform(frame).astype(float), columns.design(PRIVATE))


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
        PublicColumns.of(Table.of(private), PUBLIC, aside=["ill"])
    assert "\n" not in str(refused.value)


def test_classes_are_named_as_they_are_written():
    table = Table.of({"n": [3.0, 1.0, 3.0], "t": ["b", "a", "b"], "x": [0.5, 1.0, 2.0], "one": [1, 1, 1]})
    assert class_names(table, "n").tolist() == ["3", "1", "3"]
    assert class_names(table, "t").tolist() == ["b", "a", "b"]
    with pytest.raises(Refusal, match="one value only"):
        class_names(table, "one")
    with pytest.raises(Refusal, match="a vote is on classes"):
        class_names(Table.of({"y": np.arange(60.0)}), "y")
