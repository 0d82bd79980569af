"""A table split among clients: how each row is encoded, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.tables.client_rows import derive_client_encoding, encode_client_rows
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
    encoding, read_off_rows = derive_client_encoding(table, "ill", "site")
    encoded = encode_client_rows(table, encoding, "site")
    assert encoded.names == ("a", "b")
    assert [rows.tolist() for rows in encoded.clients] == [[1, 3, 4], [0, 2]]
    assert encoded.y.tolist() == [0, 1, 1, 0, 1]
    a = np.array([40.0, 60.0, 80.0])
    np.testing.assert_allclose(encoded.X[[1, 3, 4], 0], (a - 60) / np.sqrt(800 / 3))
    np.testing.assert_allclose(encoded.X[[0, 2], 0], [-1, 1])
    np.testing.assert_allclose(encoded.X[[0, 2], 1], [0, 0])  # the same in all rows of b
    np.testing.assert_array_equal(encoded.X[:, 2:], [[1, 0], [0, 1], [1, 0], [1, 0], [0, 1]])
    assert len(read_off_rows) == 2  # classes and levels were read off the rows


def test_declared_bounds_clip_and_unlisted_levels_count_as_none():
    table = Table.of({name: values for name, values in ROWS.items() if name != "flag"})
    bounds = {"age": (40.0, 60.0), "ward": ("x", "z")}
    encoding, read_off_rows = derive_client_encoding(table, "ill", "site", declared=bounds, classes=["no", "yes"])
    assert read_off_rows == ()
    X = encode_client_rows(table, encoding, "site").X
    np.testing.assert_allclose(X, [[-1, 1, 0], [-1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(encode_client_rows(table, encoding, None).X, X)  # bounds do not depend on the clients


BAD = {
    "no such target": {"target": "il"},
    "target and client in one": {"client": "ill"},
    "bounds of a text": {"declared": {"age": (0.0, 1.0), "flag": (0.0, 1.0), "ward": (0.0, 1.0)}},
    "levels of a number": {"declared": {"age": ("a",), "flag": (0.0, 1.0), "ward": ("x",)}},
    "a column undeclared": {"declared": {"age": (0.0, 1.0)}},
    "an unknown column declared": {"declared": {"aeg": (0.0, 1.0)}},
    "a class twice": {"classes": ["no", "no"]},
}


@pytest.mark.parametrize("case", list(BAD))
def test_what_does_not_fit_is_refused(case):
    arguments = {"target": "ill", "client": "site", **BAD[case]}
    with pytest.raises(Refusal):
        derive_client_encoding(Table.of(ROWS), arguments.pop("target"), arguments.pop("client"), **arguments)


def test_a_class_that_is_not_listed_and_a_name_for_each_row_are_refused():
    table = Table.of(ROWS)
    encoding, _ = derive_client_encoding(table, "ill", "site", classes=["no", "maybe"])
    with pytest.raises(Refusal, match="ill has a value that is not in the list of classes") as refused:
        encode_client_rows(table, encoding, "site")
    assert "yes" not in str(refused.value)  # it may identify one client
    names = {**{k: v * 20 for k, v in ROWS.items()}, "name": [f"n{i}" for i in range(100)]}
    with pytest.raises(Refusal, match="name has 100 levels in 100 rows: it looks like an identifier; pass exclude="):
        derive_client_encoding(Table.of(names), "ill", "site")


def test_names_of_people_do_not_become_levels_of_the_released_file():
    visits = {**{k: v * 100 for k, v in ROWS.items()}, "patient_id": [f"p{i % 150}" for i in range(500)]}
    with pytest.raises(Refusal, match="patient_id has 150 levels in 500 rows: it looks like an identifier"):
        derive_client_encoding(Table.of(visits), "ill", "site")
    encoding, _ = derive_client_encoding(Table.of(visits), "ill", "site", codes=["patient_id"])
    assert len(encoding.columns.names) > 150
    wards = {("ward_no" if k == "patient_id" else k): v for k, v in visits.items()}
    wards["ward_no"] = [f"w{i % 120}" for i in range(500)]
    assert derive_client_encoding(Table.of(wards), "ill", "site")[0].columns.names
