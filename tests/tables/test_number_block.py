"""Blocks of plain numbers: bit by bit those of `float`, and a file read by blocks is the file read line by line."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter.core.errors import Refusal
from dosimeter.tables import csv_scan as csv_reader
from dosimeter.tables.csv import read_csv
from dosimeter.tables.number_block import number_block

digits = st.text("0123456789", max_size=19)
NUMBERS = st.one_of(
    st.builds(
        lambda sign, whole, point, fraction, exponent: f"{sign}{whole}{point}{fraction}{exponent}",
        st.sampled_from(["", "-", "+"]),
        digits,
        st.sampled_from(["", "."]),
        digits,
        st.sampled_from(["", "", "", "e5", "E-7", "e+300", "e-310"]),
    ),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(2**60), 2**60).map(str),
)
ODD = st.sampled_from(["", "-", ".", "1.2.3", "1-2", "--5", "1e", "e5", "1e5e3", "+-1", "1+", " 1", "x", "nan", "1_0"])


def float_of(text):
    try:
        return None if "_" in text or "n" in text or " " in text else float(text)
    except ValueError:
        return None


@settings(max_examples=400, deadline=None)
@given(st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=1, max_size=30), st.booleans(), st.booleans())
def test_every_number_is_that_of_float_to_the_last_bit(rows, carriage_return, last_end):
    end = "\r\n" if carriage_return else "\n"
    text = end.join(";".join(row) for row in rows) + (end if last_end else "")
    values = [[float_of(cell) for cell in row] for row in rows]
    block = number_block(text.encode(), 3, ";")
    if any(value is None for row in values for value in row):
        assert block is None
    else:
        assert block is not None
        np.testing.assert_array_equal(block.T.view(np.uint64), np.array(values).view(np.uint64))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(NUMBERS, ODD), min_size=4, max_size=4))
def test_a_block_with_anything_else_is_left_alone(cells):
    line, values = ",".join(cells), [float_of(cell) for cell in cells]
    for text in (f"{line}\n1,2,3,4\n", f"1,2,3,4\n{line}\n", f"1,2,3,4\n{line}"):
        block = number_block(text.encode(), 4, ",")
        assert (block is None) == any(value is None for value in values)


@pytest.mark.parametrize(
    "text", ["1,2\n3\n", "1,2,3\n4,5\n", "1\n2,3\n", "1,2\n\n3,4\n", "\n1,2\n", "1,2\r3,4\n", "1,2\n3,\n"]
)
def test_lines_of_another_length_are_left_alone(text):
    assert number_block(text.encode(), 2, ",") is None


def table_text(rng, rows):
    lines = [",".join([f"{rng.normal():.6g}", str(rng.integers(0, 100)), f"{rng.normal():.17g}"]) for _ in range(rows)]
    return ["a,b,c", *lines]


@pytest.mark.parametrize(
    "change", [None, "1,,2", "1,NA,2", '"1",2,3', "1, 2,3", "x,1,2", "", "1,2", "9007199254740993,1,2", "1,2,1e999"]
)
@pytest.mark.parametrize("row", [1, 7000, 15000])
def test_a_file_is_read_as_line_by_line(tmp_path, monkeypatch, change, row):
    """The same table, or the same refusal with the same row, whatever stands between blocks of numbers."""
    lines = table_text(np.random.default_rng(0), 16000)
    if change is not None:
        lines.insert(row, change)
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def outcome():
        try:
            table = read_csv(path, missing="drop")
        except Refusal as refusal:
            return str(refusal)
        return [table.names, table.dropped, *(column.tolist() for column in table.columns)]

    calls = []
    monkeypatch.setattr(csv_reader, "number_block", lambda *args: calls.append(number_block(*args)) or calls[-1])
    quick = outcome()
    if row > 1 or change is None:
        assert any(block is not None for block in calls)
    monkeypatch.setattr(csv_reader, "number_block", lambda *args: None)
    assert quick == outcome()
