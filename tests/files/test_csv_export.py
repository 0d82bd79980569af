"""CSV export: numbers to the last bit, and text that no spreadsheet reads as a formula."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dosimeter.core.errors import Refusal
from dosimeter.files.csv_export import csv_text, write_csv
from dosimeter.tables.read import read_table

FORMULAS = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    "＝1",
    '=HYPERLINK("http://x","y")',
    "-",
]


@pytest.mark.parametrize("cell", FORMULAS)
def test_text_that_begins_like_a_formula_gets_a_quote_in_cells_and_names(cell: str) -> None:
    rows = list(csv.reader(io.StringIO(csv_text({cell: [cell, "ann"]}), newline="")))
    assert rows == [["'" + cell], ["'" + cell], ["ann"]]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_numbers_are_never_quoted_and_come_back_to_the_last_bit(values: list[float]) -> None:
    rows = list(csv.reader(io.StringIO(csv_text({"eta": np.array(values)}))))
    assert [float(row[0]) for row in rows[1:]] == values


@given(st.lists(st.text(), min_size=1))
def test_no_cell_of_text_begins_like_a_formula(cells: list[str]) -> None:
    rows = list(csv.reader(io.StringIO(csv_text({"id": cells, "n": range(len(cells))}), newline="")))[1:]
    assert [row[0].removeprefix("'") for row in rows] == [cell.removeprefix("'") for cell in cells]
    assert not any(row[0].lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows)


def test_our_own_reader_reads_the_file(tmp_path: Path) -> None:
    figures = {
        "id": np.array(["a", "b"], dtype=object),
        "eta": np.array([0.1, -2e-300]),
        "over": np.array([True, False]),
    }
    write_csv(tmp_path / "s.csv", figures)
    table = read_table(tmp_path / "s.csv")
    assert {name: table[name].tolist() for name in table.names} == {k: v.tolist() for k, v in figures.items()}


def test_columns_of_unequal_length_and_other_types_are_refused() -> None:
    with pytest.raises(Refusal, match="equal length"):
        csv_text({"a": [1], "b": [1, 2]})
    with pytest.raises(Refusal, match="type dict"):
        csv_text({"a": [{}]})
