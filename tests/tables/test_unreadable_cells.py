"""Tables whose columns were declared in advance: the content of a line changes its row and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.tables.read import read_column, read_table, table_names

LINES = ["who,age,city,bmi", "ann,31,Ulm,20.5", "bob,44,Graz,21", "eve,50,Ulm,22.25", "zoe,61,Bonn,23"]
HOSTILE = {
    "a word": b"bob,abc,Graz,21",
    "infinity": b"bob,inf,Graz,21",
    "minus infinity": b"bob,-Infinity,Graz,21",
    "beyond float64": b"bob,1e400,Graz,21",
    "nan": b"bob,nan,Graz,21",
    "nothing": b"bob,,Graz,21",
    "blanks": b"bob,  ,Graz,21",
    "underscores": b"bob,4_4,Graz,21",
    "other digits": "bob,٤٤,Graz,21".encode(),
    "no label": b"bob,44,,21",
    "too few cells": b"bob,44",
    "one cell": b"bob",
    "too many cells": b"bob,44,Graz,21,7",
    "an empty line": b"",
    "an open quote": b'bob,44,"Graz,21',
    "text after a quote": b'bob,44,"Gr"az,21',
    "a quote in a cell": b'bob,4"4,Graz,21',
    "a carriage return": b"bob,44,Gr\raz,21",
    "not UTF-8": b"bob,44,\xff\xfe,21",
    "a NUL byte": b"bob,44,Gr\0az,21",
    "a line without end": b"bob," + b"4" * (1 << 24) + b",Graz,21",
    "two lines without end": b"bob," + b"4" * (1 << 25) + b",Graz,21",
    "commas": b",,,,,,,",
}


def table(folder, changed=None):
    path = folder / "people.csv"
    lines = [line.encode() for line in LINES]
    if changed is not None:
        lines[2] = changed
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def read(path, **options):
    return read_table(path, **{"text": ["who", "city"], "declared": ["age", "bmi"], "missing": "drop", **options})


@pytest.mark.parametrize("name", list(HOSTILE))
def test_one_line_changes_its_own_row_alone_and_ends_nothing(name, tmp_path):
    path = table(tmp_path, HOSTILE[name])
    people = read(path)
    assert people.rows.tolist() == [0, 2, 3]
    assert people.dropped == 1
    assert people["age"].tolist() == [31.0, 50.0, 61.0]
    assert people["bmi"].tolist() == [20.5, 22.25, 23.0]
    assert people["city"].tolist() == ["Ulm", "Ulm", "Bonn"]
    whose = read_column(path, "who")
    assert len(whose) == 4
    assert [whose[i] for i in (0, 2, 3)] == ["ann", "eve", "zoe"]
    assert whose[1] in ("bob", None)


@pytest.mark.parametrize("name", list(HOSTILE))
def test_where_gaps_are_refused_the_place_is_named_and_the_cell_is_not_quoted(name, tmp_path):
    with pytest.raises(dm.Refusal, match=r"missing value \(row 2") as caught:
        read(table(tmp_path, HOSTILE[name]), missing="refuse")
    for word in ("abc", "inf", "1e400", "Gr", "44", "bob", "4_4"):
        assert word not in str(caught.value).replace("refuse", "")


@pytest.mark.parametrize("cell", ["44", " 44", "4.4e1", "+44.0", "44 "])
def test_numbers_are_read_as_they_always_were(cell, tmp_path):
    path = table(tmp_path, f"bob,{cell},Graz,21".encode())
    declared, undeclared = read(path), read_table(path, text=["who", "city"])
    for name in declared.names:
        assert declared[name].tolist() == undeclared[name].tolist()


def test_truth_is_one_and_zero_and_a_large_whole_number_is_a_number(tmp_path):
    path = table(tmp_path, b"bob,True,Graz,12345678901234567890")
    people = read(path)
    assert people["age"].tolist() == [31.0, 1.0, 50.0, 61.0]
    assert people["bmi"][1] == 12345678901234567890.0


def test_a_short_or_long_line_still_says_whose_it_is(tmp_path):
    for line, person in ((b"bob,44", "bob"), (b"bob,44,Graz,21,7", "bob"), (b"", None), (b",44,Graz,21", None)):
        assert read_column(table(tmp_path, line), "who")[1] == person
    assert read_column(table(tmp_path, b"bob,44"), "city")[1] is None


def test_every_line_is_a_row_also_the_last_and_quotes_hold_delimiters(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text('who,age\r\n"a, b",31\r\nbob,x\r\n\r\n')
    people = read_table(path, text=["who"], declared=["age"], missing="drop")
    assert people["who"].tolist() == ["a, b"]
    assert people.dropped == 2
    assert read_column(path, "who") == ["a, b", "bob", None]
    assert table_names(path) == ["who", "age"]


def test_columns_that_are_not_declared_are_read_as_before(tmp_path):
    path = table(tmp_path)
    assert read_table(path, text=["who"], declared=["age"])["bmi"].tolist() == [20.5, 21.0, 22.25, 23.0]
    with pytest.raises(dm.Refusal, match="text in a number column"):
        read_table(table(tmp_path, b"bob,44,Graz,x"), text=["who"], declared=["age"])


def test_a_column_in_which_nothing_can_be_read_is_refused_by_name(tmp_path):
    with pytest.raises(dm.Refusal, match=r"every row has a missing value \(column city\)"):
        read(table(tmp_path), text=["who"], declared=["age", "city", "bmi"])
    with pytest.raises(dm.Refusal, match="no column"):
        read(table(tmp_path), text=["whom"])
    empty = tmp_path / "empty.csv"
    empty.write_text("who,age\n")
    with pytest.raises(dm.Refusal, match="no row"):
        read_table(empty, declared=["age"])


def test_a_wrong_header_is_refused_as_ever(tmp_path):
    path = tmp_path / "people.csv"
    for header, message in ((b"who,who\n", "same name"), (b"\n", "first line is empty"), (b"who;age\n", "delimiter")):
        path.write_bytes(header + b"1,2\n")
        for call in (lambda: read_table(path, declared=["age"]), lambda: table_names(path)):
            with pytest.raises(dm.Refusal, match=message):
                call()


def test_parquet_holds_to_the_same(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "people.parquet"
    ages = pa.array(["31", "abc", None, "1e400", "61"])
    bmi = pa.array([20.5, 21.0, 22.0, 23.0, float("inf")])
    whole = pa.array([1, 2, 3, 4, 2**60])
    names = pa.array(["ann", "bob", None, "zoe", "kim"])
    parquet.write_table(pa.table({"who": names, "age": ages, "bmi": bmi, "n": whole}), path)
    people = read_table(path, text=["who"], declared=["age", "bmi", "n"], missing="drop")
    assert people["who"].tolist() == ["ann"]
    assert people.dropped == 4
    assert read_column(path, "who") == ["ann", "bob", None, "zoe", "kim"]
    assert table_names(path) == ["who", "age", "bmi", "n"]
    alone = read_table(path, drop=["who", "age", "bmi"], declared=["n"])
    np.testing.assert_array_equal(alone["n"], [1.0, 2.0, 3.0, 4.0, 2.0**60])
