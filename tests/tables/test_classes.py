"""Listed classes decide what a label means, whatever else the column holds."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.tables.classes import class_names, keep_listed_classes
from dosimeter.tables.table import Table

SOURCE = Location("people.csv", first=1)


@pytest.mark.parametrize(
    ("classes", "cells", "kind", "left"),
    [
        (["no", "yes"], ["yes", "no", "1", "true", "NO"], "text", ["yes", "no"]),
        (["0", "1"], ["1", "1.0", "abc", "nan", "0e3"], "number", [1.0, 1.0, 0.0]),
        (["0", "1"], ["x", "1e400", "inf", "2", "1"], "number", [1.0]),
        (["False", "True"], ["True", "false", "yes", "maybe", "TRUE"], "bool", [True, False, True]),
        (["01", "1"], ["01", "1", "1.0", "001", ""], "text", ["01", "1"]),
        (["1", "unknown"], ["1", "unknown", "1.0", "2", "?"], "text", ["1", "unknown"]),
        (["inf", "0"], ["inf", "0", "1e400", "0.0", "a"], "text", ["inf", "0"]),
    ],
)
def test_the_list_alone_decides_the_kind(classes, cells, kind, left):
    table = Table.of({"age": range(5), "y": cells}, text=["y"])
    kept = keep_listed_classes(table, "y", classes, leave_out=True, source=SOURCE)
    assert kept.kind("y") == kind
    assert kept["y"].tolist() == left
    assert kept.dropped == 5 - len(left)
    assert kept["age"].tolist() == kept.rows.tolist()
    named = keep_listed_classes(table, "y", classes, leave_out=True, source=SOURCE, names=True)
    assert set(named["y"].tolist()) <= set(classes)
    assert np.array_equal(named.rows, kept.rows)
    with pytest.raises(Refusal, match=r"people.csv: a label .*\(row \d, column y\)"):
        keep_listed_classes(table, "y", classes, leave_out=False, source=SOURCE)


def test_rows_that_were_gone_before_stay_counted_and_keep_their_places():
    table = Table.of({"age": [1.0, None, 3.0, 4.0], "y": ["a", "b", "c", "b"]}, text=["y"], missing="drop")
    kept = keep_listed_classes(table, "y", ["a", "b"], leave_out=True, source=SOURCE)
    assert (kept.dropped, kept.rows.tolist()) == (2, [0, 3])
    with pytest.raises(Refusal, match="no row has a listed class"):
        keep_listed_classes(table, "y", ["d", "e"], leave_out=True, source=SOURCE)


def test_classes_are_named_as_they_are_written():
    table = Table.of({"n": [3.0, 1.0, 3.0], "t": ["b", "a", "b"], "x": [0.5, 1.0, 2.0], "one": [1, 1, 1]})
    assert class_names(table, "n").tolist() == ["3", "1", "3"]
    assert class_names(table, "t").tolist() == ["b", "a", "b"]
    with pytest.raises(Refusal, match="one value only"):
        class_names(table, "one")
    with pytest.raises(Refusal, match="a vote is on classes"):
        class_names(Table.of({"y": np.arange(60.0)}), "y")
