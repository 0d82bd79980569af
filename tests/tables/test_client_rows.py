"""A table cut among clients: what each row becomes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.tables.client_rows import form_of, parted
from dosimeter.tables.table import Table

ROWS = {
    "site": ["b", "a", "b", "a", "a"],
    "age": [30.0, 40.0, 50.0, 60.0, 80.0],
    "flag": [True, False, True, True, False],
    "ward": ["x", "y", "x", "x", "y"],
    "ill": ["no", "yes", "yes", "no", "yes"],
}


def test_rows_become_numbers_by_hand():
    table = Table.of(ROWS)
    form, read = form_of(table, "ill", "site")
    own = parted(table, form, "site")
    assert own.names == ("a", "b")
    assert [rows.tolist() for rows in own.clients] == [[1, 3, 4], [0, 2]]
    assert own.y.tolist() == [0, 1, 1, 0, 1]
    a = np.array([40.0, 60.0, 80.0])
    np.testing.assert_allclose(own.X[[1, 3, 4], 0], (a - 60) / np.sqrt(800 / 3))
    np.testing.assert_allclose(own.X[[0, 2], 0], [-1, 1])
    np.testing.assert_allclose(own.X[[0, 2], 1], [0, 0])  # the same in all rows of b
    np.testing.assert_array_equal(own.X[:, 2:], [[1, 0], [0, 1], [1, 0], [1, 0], [0, 1]])
    assert len(read) == 2  # classes and levels were read off the rows


def test_declared_bounds_clip_and_unlisted_levels_count_as_none():
    table = Table.of({name: values for name, values in ROWS.items() if name != "flag"})
    told = {"age": (40.0, 60.0), "ward": ("x", "z")}
    form, read = form_of(table, "ill", "site", declared=told, classes=["no", "yes"])
    assert read == ()
    found = parted(table, form, "site").X
    np.testing.assert_allclose(found, [[-1, 1, 0], [-1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(parted(table, form, None).X, found)  # bounds ask nobody


BAD = {
    "no such target": {"target": "il"},
    "target and client in one": {"client": "ill"},
    "bounds of a text": {"declared": {"age": (0.0, 1.0), "flag": (0.0, 1.0), "ward": (0.0, 1.0)}},
    "levels of a number": {"declared": {"age": ("a",), "flag": (0.0, 1.0), "ward": ("x",)}},
    "a column undeclared": {"declared": {"age": (0.0, 1.0)}},
    "a stranger declared": {"declared": {"aeg": (0.0, 1.0)}},
    "a class twice": {"classes": ["no", "no"]},
}


@pytest.mark.parametrize("case", list(BAD))
def test_what_does_not_fit_is_refused(case):
    given = {"target": "ill", "client": "site", **BAD[case]}
    with pytest.raises(Refusal):
        form_of(Table.of(ROWS), given.pop("target"), given.pop("client"), **given)


def test_a_class_that_is_not_listed_and_a_name_for_each_row_are_refused():
    table = Table.of(ROWS)
    form, _ = form_of(table, "ill", "site", classes=["no", "maybe"])
    with pytest.raises(Refusal, match="ill has a value that is not in the list of classes") as refused:
        parted(table, form, "site")
    assert "yes" not in str(refused.value)  # it may be one client's own
    names = {**{k: v * 20 for k, v in ROWS.items()}, "name": [f"n{i}" for i in range(100)]}
    with pytest.raises(Refusal, match="100 different texts"):
        form_of(Table.of(names), "ill", "site")
