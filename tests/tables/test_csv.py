"""The CSV reader against pandas, against the csv module, and on what it must tell apart."""

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dosimeter.core.errors import Refusal
from dosimeter.tables import csv_scan
from dosimeter.tables.csv_column import MISSING
from dosimeter.tables.csv_lines import rows_of
from dosimeter.tables.read import read_table
from tests.calls import calls_of

relaxed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
short_texts = st.text(
    alphabet=st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\r"), min_size=1, max_size=8
).filter(lambda w: w.strip() not in MISSING and not w.startswith(" ") and not _number_like(w))


def _number_like(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return word.lower() in ("true", "false")
    return True


@st.composite
def frames(draw: st.DrawFn) -> pd.DataFrame:
    n = draw(st.integers(2, 12))
    columns: dict[str, Any] = {}
    for j in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["float", "int", "text", "bool"]))
        cells = {
            "float": st.floats(allow_nan=False, allow_infinity=False),
            "int": st.integers(-(2**53), 2**53),
            "text": short_texts,
            "bool": st.booleans(),
        }[kind]
        columns[f"c{j}"] = draw(st.lists(cells, min_size=n, max_size=n))
    return pd.DataFrame(columns)


@relaxed
@given(frames())
def test_what_pandas_writes_is_read_as_pandas_reads_it(tmp_path: Path, frame: pd.DataFrame) -> None:
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    table = read_table(path)
    theirs = pd.read_csv(path, skipinitialspace=True, keep_default_na=False, dtype=str)
    assert table.names == tuple(theirs.columns)
    for name in table.names:
        turn = {"number": float, "text": str, "bool": {"True": True, "False": False}.get}[table.kind(name)]
        assert table[name].tolist() == [turn(cell) for cell in theirs[name]]
        assert table[name].tolist() == frame[name].tolist()


@relaxed
@given(st.lists(st.lists(st.sampled_from(["a", " b", 'q"', "c,d", "1", "", "x\ny", "e "]), min_size=3, max_size=3)))
def test_the_short_way_of_splitting_a_line_agrees_with_the_csv_module(rows: list[list[str]]) -> None:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    lines = out.getvalue().splitlines(keepends=True)
    theirs = list(csv.reader(iter(lines), strict=True, skipinitialspace=True))
    assert list(rows_of(iter(lines), ",")) == theirs


def line_of_refusal(path: Path) -> str:
    """The refusal, or nothing where the file is a table; any other exception is a failure."""
    try:
        read_table(path)
    except Refusal as refusal:
        return str(refusal)
    return ""


@relaxed
@given(st.binary(max_size=300))
def test_any_bytes_are_a_table_or_one_refusal(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "noise.csv"
    path.write_bytes(data)
    assert line_of_refusal(path).isprintable()


@relaxed
@given(st.text(alphabet='ab01.-e,";\n\r \t?é', max_size=80))
def test_any_text_like_a_table_is_a_table_or_one_refusal(tmp_path: Path, text: str) -> None:
    path = tmp_path / "noise.csv"
    path.write_bytes(("x,y\n" + text).encode())
    assert line_of_refusal(path).isprintable()


def read(tmp_path: Path, content: str, **options: Any) -> Any:
    path = tmp_path / "people.csv"
    path.write_bytes(content.encode())
    return read_table(path, **options)


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("finish", ["", "\n", "\n\n\n"])
def test_line_ends_and_byte_order_marks_make_no_difference(tmp_path: Path, ends: str, start: str, finish: str) -> None:
    table = read(tmp_path, (start + "age,city\n31,Bern\n54,Graz" + finish).replace("\n", ends))
    assert table.names == ("age", "city")
    assert table["age"].tolist() == [31, 54]
    assert table["city"].tolist() == ["Bern", "Graz"]


@pytest.mark.parametrize("cell", ["1e3", "1000", "1000.", "+1000.0", " 1000", "1000 ", "1E+3", "0001000"])
def test_all_plain_ways_of_writing_a_number_are_numbers(tmp_path: Path, cell: str) -> None:
    assert read(tmp_path, f"x,y\n{cell},1\n2,2\n")["x"].tolist() == [1000, 2]


@pytest.mark.parametrize("cell", ["1_000", "0x1F", "١٢", "1d3", "12kg", "--1"])
def test_other_ways_are_text(tmp_path: Path, cell: str) -> None:
    table = read(tmp_path, f"x,y\n{cell},1\n{cell},2\n")
    assert table.kind("x") == "text"


@pytest.mark.parametrize("cell", [*sorted(MISSING - {""}), '""', " "])
def test_missing_values_are_refused_with_their_place_or_left_out_and_counted(tmp_path: Path, cell: str) -> None:
    text = f"x,y\n1,a\n2,b\n{cell},b\n4,a\n"
    with pytest.raises(Refusal, match=r'missing value \(row 3, column x\): .*missing="drop"'):
        read(tmp_path, text)
    table = read(tmp_path, text, missing="drop")
    assert table["x"].tolist() == [1, 2, 4]
    assert table.rows.tolist() == [0, 1, 3]
    assert table.dropped == 1


def test_a_missing_value_in_a_column_that_is_not_used_does_not_matter(tmp_path: Path) -> None:
    assert read(tmp_path, "x,note\n1,\n2,\n", drop=["note"]).names == ("x",)


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e999"])
@pytest.mark.parametrize("missing", ["refuse", "drop"])
def test_an_infinite_number_is_refused_and_is_never_taken_for_a_missing_one(
    tmp_path: Path, cell: str, missing: str
) -> None:
    with pytest.raises(Refusal, match=r"not finite \(row 2, column x\)"):
        read(tmp_path, f"x,y\n1,1\n{cell},2\n3,3\n", missing=missing)


def test_identifiers_declared_as_text_are_kept_to_the_last_digit(tmp_path: Path) -> None:
    content = "id,x\n90071992547409931,1\n007,2\nNA,3\n"
    assert read(tmp_path, content, text=["id"])["id"].tolist() == ["90071992547409931", "007", "NA"]


@pytest.mark.parametrize("cell", ["9007199254740993", "-9007199254740993", "9" * 5000])
def test_integers_that_float64_would_merge_are_refused_unshown(tmp_path: Path, cell: str) -> None:
    with pytest.raises(Refusal, match=r"beyond 2\^53 \(row 2, column id\): .*person=") as caught:
        read(tmp_path, f"id,x\n1,1\n{cell},2\n")
    assert cell not in str(caught.value)


def test_the_largest_exact_integer_and_large_floats_are_numbers(tmp_path: Path) -> None:
    assert read(tmp_path, "x\n9007199254740992\n1e300\n")["x"].tolist() == [2.0**53, 1e300]


def test_a_word_among_numbers_is_a_refusal_and_not_a_new_level(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"text in a number column \(row 3, column x\): 'abc': .*categorical=.x."):
        read(tmp_path, "x,y\n1,1\n2,1\nabc,2\n")


def test_a_few_numbers_among_words_are_words_exactly_as_written(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(csv_scan, "_CELLS_PER_BLOCK", 4)
    cells = ["1.50", "2", "007", "1e3", *["word"] * 9]
    assert read(tmp_path, "x,y\n" + "".join(f"{c},1\n" for c in cells))["x"].tolist() == cells


@pytest.mark.parametrize("block", [1, 2, 3, 7, 10**6])
def test_the_size_of_the_blocks_does_not_change_the_table(tmp_path: Path, monkeypatch: Any, block: int) -> None:
    monkeypatch.setattr(csv_scan, "_CELLS_PER_BLOCK", block)
    text = "x,b,c\n" + "".join(f"{i / 7},{i % 2 == 0},{'?' if i == 5 else 'w' + str(i % 3)}\n" for i in range(20))
    table = read(tmp_path, text, missing="drop")
    kept = [i for i in range(20) if i != 5]
    assert table["x"].tolist() == [i / 7 for i in kept]
    assert table["b"].tolist() == [i % 2 == 0 for i in kept]
    assert table["c"].tolist() == [f"w{i % 3}" for i in kept]


@pytest.mark.parametrize(("delimiter", "option"), [(";", ";"), ("\t", "\\t"), ("\t", "tab"), ("|", "|")])
def test_another_delimiter_is_used_when_it_is_named(tmp_path: Path, delimiter: str, option: str) -> None:
    assert read(tmp_path, "x,y\n1,2\n3,4\n".replace(",", delimiter), delimiter=option)["y"].tolist() == [2, 4]


def test_the_numbers_that_pandas_gives_to_nameless_columns_are_names(tmp_path: Path) -> None:
    assert read(tmp_path, "0,1\n5,6\n7,8\n").names == ("0", "1")


def test_quotes_hold_delimiters_quotes_and_line_ends(tmp_path: Path) -> None:
    table = read(tmp_path, 'c,x\n"a,b",1\n"say ""hi""",2\n"two\nlines",3\n"a,b",4\n')
    assert table["c"].tolist() == ["a,b", 'say "hi"', "two\nlines", "a,b"]


def test_the_row_that_is_named_is_the_row_also_after_cells_of_two_lines(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"\(row 3\)"):
        read(tmp_path, 'c,x\n"two\nlines",1\nb,2\nc\n')


def test_numbers_are_read_to_the_last_bit(tmp_path: Path) -> None:
    values = np.random.default_rng(5).normal(size=3000) * 10.0 ** np.arange(-150, 150, 0.1)
    table = read(tmp_path, "x\n" + "\n".join(map(repr, values.tolist())))
    assert np.array_equal(table["x"], values)
    assert math.copysign(1, read(tmp_path, "x\n-0.0\n1\n")["x"][0]) == -1


def test_thirty_thousand_rows_take_less_than_two_calls_a_cell(tmp_path: Path) -> None:
    """Half a second is the aim, and 0.2 s are measured, with one call a cell."""
    rows = np.random.default_rng(1).normal(size=(30_000, 15)).round(4)
    path = tmp_path / "many.csv"
    pd.DataFrame(rows, columns=[f"c{j}" for j in range(15)]).to_csv(path, index=False)
    assert np.array_equal(np.column_stack(read_table(path).columns), rows)
    assert calls_of(lambda: read_table(path)) < 2 * rows.size
