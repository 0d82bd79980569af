"""`decimal=","`: a file with decimal commas has the numbers of the same file with points, however it is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.tables.csv import read_csv
from dosimeter.tables.csv_source import CsvFile
from dosimeter.tables.number_block import number_block
from tests.tables.test_csv_source import assert_same

NUMBERS = ["1.5", "-0.25", "3", ".5", "2.", "1e-3", "1.25E+2", "-12345678.901234567", "0.1", "7e0", "1234567.125"]


def write(folder: Path, lines: list[str], name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def german(folder: Path, cells: list[str], name: str = "t.csv") -> Path:
    """One column of numbers beside whole numbers, with semicolons."""
    return write(folder, ["x;k", *(f"{cell};{k}" for k, cell in enumerate(cells))], name)


def test_every_number_with_a_comma_is_the_number_with_a_point(tmp_path: Path) -> None:
    table = read_csv(german(tmp_path, [n.replace(".", ",") for n in NUMBERS]), delimiter=";", decimal=",")
    assert table["x"].tolist() == [float(n) for n in NUMBERS]


def test_missing_cells_labels_and_large_numbers_read_alike_with_both_marks(tmp_path: Path) -> None:
    rows = ["a;1.5;true;?", "b;;false;2.5", "a;9007199254740993.0;true;-1e300", "c;4;false;NA", "a;-2.5;true;0.125"]
    point = write(tmp_path, ["u;x;t;z", *rows], "p.csv")
    comma = write(tmp_path, ["u;x;t;z", *(row.replace(".", ",") for row in rows)], "c.csv")
    for missing in ("drop", "keep"):
        with_points = read_csv(point, delimiter=";", missing=missing)
        with_commas = read_csv(comma, delimiter=";", decimal=",", missing=missing)
        for name in with_points.names:
            np.testing.assert_array_equal(with_points[name], with_commas[name])
            assert with_points[name].dtype == with_commas[name].dtype


@pytest.mark.parametrize(
    "cells",
    [
        [n.replace(".", ",") for n in NUMBERS],
        ["1,5", "x", "y", "z", "2,5"],
        ["1,5", "", "2,5", "?"],
        ["1.234,5", "2.000,0", "3.100,25"],
        ["1,5", "2,5", "1.5"],
    ],
)
@pytest.mark.parametrize("missing", ["refuse", "drop"])
def test_a_file_in_blocks_is_read_as_the_file_whole(cells: list[str], missing: str, tmp_path: Path) -> None:
    assert_same(german(tmp_path, cells), missing=missing, delimiter=";", decimal=",")


def test_a_whole_block_of_lines_is_read_at_once_and_left_alone_where_it_has_points() -> None:
    text = b"1,5;2\n-0,25;1e1\n"
    block = number_block(text, 2, ";", ",")
    assert block is not None
    assert block.tolist() == [[1.5, -0.25], [2.0, 10.0]]
    assert number_block(b"1.234;2\n", 2, ";", ",") is None


def test_an_identifier_and_a_code_keep_their_text(tmp_path: Path) -> None:
    table = read_csv(german(tmp_path, ["1,50", "2,5", "2,50"]), delimiter=";", decimal=",", text=["x"])
    assert table["x"].tolist() == ["1,50", "2,5", "2,50"]


def test_a_declared_column_has_a_gap_where_its_cell_is_no_number(tmp_path: Path) -> None:
    path = german(tmp_path, ["1,5", "1.234,5", "abc", "-2,5"])
    table = read_csv(path, delimiter=";", decimal=",", declared=["x", "k"], missing="drop")
    assert table["x"].tolist() == [1.5, -2.5]


@pytest.mark.parametrize("mark", ["", ";", "'", "..", ",,", "1", "comma", "\n"])
def test_another_decimal_mark_is_refused(mark: str, tmp_path: Path) -> None:
    path = german(tmp_path, ["1,5", "2,5"])
    with pytest.raises(Refusal, match=r"use \. or ,"):
        read_csv(path, delimiter=";", decimal=mark)
    with pytest.raises(Refusal, match=r"use \. or ,"):
        CsvFile.of(path, ";", mark)


def test_a_comma_cannot_separate_both_cells_and_decimals(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="both ',': for a file with semicolons pass delimiter=\";\""):
        read_csv(german(tmp_path, ["1,5", "2,5"]), decimal=",")


@pytest.mark.parametrize(
    ("cells", "decimal", "remedy"),
    [
        (["1.234,50", "2.000,00"], ",", "remove the thousands separators, or pass categorical"),
        (["1.234", "2.000"], ",", r'pass decimal="\."'),
        (["0.5", "1.5"], ",", r'pass decimal="\."'),
        (["1,234.50", "2,000.00"], ".", "remove the thousands separators, or pass categorical"),
        (["1,234", "2,000"], ".", 'pass decimal=","'),
        (["1 234", "2 000 000", "999"], ".", "remove the thousands separators"),
        (["1'234,5", "2'000,5"], ",", "remove the thousands separators"),
        (["12", "1.234", "15"], ",", r'pass decimal="\."'),
    ],
)
def test_a_column_of_thousands_separators_is_refused_and_never_taken_for_labels(
    cells: list[str], decimal: str, remedy: str, tmp_path: Path
) -> None:
    with pytest.raises(Refusal, match=remedy) as refusal:
        read_csv(german(tmp_path, cells), delimiter=";", decimal=decimal)
    assert "column x" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_dates_versions_and_postcodes_are_not_numbers_with_separators(tmp_path: Path) -> None:
    path = write(tmp_path, ["d;v;p", "12.03.2021;1.2.3;123 45", "01.04.2021;1.2.4;987 65"])
    for decimal in (".", ","):
        assert read_csv(path, delimiter=";", decimal=decimal)["d"].tolist() == ["12.03.2021", "01.04.2021"]


def test_a_header_of_numbers_with_commas_is_no_header(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="first line holds numbers only"):
        read_csv(write(tmp_path, ["1,5;2,5", "3,5;4,5"]), delimiter=";", decimal=",")
