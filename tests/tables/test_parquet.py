"""Parquet: what pyarrow wrote comes back, what a footer declares is believed before a page is read."""

import builtins
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dosimeter.core.errors import Refusal
from dosimeter.tables.read import read_table

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

GOOD = {
    "age": [31, 54, 47],
    "bmi": [20.5, 31.25, 27.0],
    "city": ["Bern", "Graz", "Bern"],
    "ill": [True, False, True],
}


def write(path: Path, columns: Any, **options: Any) -> Path:
    parquet.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, **options)
    return path


def test_a_written_table_comes_back_with_its_kinds(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.parquet", GOOD))
    assert {name: table[name].tolist() for name in table.names} == GOOD
    assert [table.kind(name) for name in table.names] == ["number", "number", "text", "bool"]


def test_csv_and_parquet_of_the_same_people_are_the_same_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age,bmi,city,ill\n31,20.5,Bern,True\n54,31.25,Graz,False\n47,27,Bern,True\n")
    from_csv, from_parquet = read_table(tmp_path / "t.csv"), read_table(write(tmp_path / "t.parquet", GOOD))
    assert from_csv.names == from_parquet.names
    assert all(
        np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(from_csv.columns, from_parquet.columns, strict=True)
    )


def test_places_are_counted_from_one_and_the_file_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", GOOD | {"age": [31, None, 47]})
    with pytest.raises(Refusal, match=r"t\.parquet: missing value \(row 2, column age\): "):
        read_table(path)
    assert read_table(path, missing="drop").rows.tolist() == [0, 2]
    assert read_table(path, drop=["age"]).names == ("bmi", "city", "ill")


def test_identifiers_declared_as_text_are_exact(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", {"id": [2**53 + 1, 2**53 + 2], "x": [1.0, 2.0]})
    with pytest.raises(Refusal, match=r"beyond 2\^53 \(row 1, column id\)"):
        read_table(path)
    assert read_table(path, text=["id"])["id"].tolist() == ["9007199254740993", "9007199254740994"]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([[1], [2]]), "kind list"),
        (pa.array([{"a": 1}, {"a": 2}]), "kind struct"),
        (pa.array([b"x", b"y"]), "kind Binary"),
        (pa.array([0, 1], pa.timestamp("us")), "dates and times"),
        (pa.array([0, 1], pa.date32()), "dates and times"),
        (pa.array([0, 1], pa.duration("s")), "dates and times"),
        (pa.array([1.0, float("inf")]), r"not finite \(row 2"),
        (pa.array([1.0, float("nan")]), r"missing value \(row 2"),
        (pa.nulls(2), r"every value is missing \(column odd\)"),
    ],
)
def test_columns_that_are_no_numbers_are_refused_by_name(tmp_path: Path, column: Any, message: str) -> None:
    path = write(tmp_path / "t.parquet", pa.table({"x": [1, 2], "odd": column}))
    with pytest.raises(Refusal, match=message) as caught:
        read_table(path)
    assert "column odd" in str(caught.value)


def test_a_bomb_of_equal_values_is_refused_by_its_footer(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", {"x": np.zeros(2_000_000)})
    assert path.stat().st_size < 100_000
    with pytest.raises(Refusal, match="declares 16000000 bytes unpacked, above the limit of 1000000"):
        read_table(path, limit=1_000_000)


def test_a_long_word_in_every_row_is_one_word_in_memory(tmp_path: Path) -> None:
    texts = pa.DictionaryArray.from_arrays(np.zeros(100_000, dtype=np.int32), ["w" * 100_000])
    read = read_table(write(tmp_path / "t.parquet", pa.table({"c": texts})))["c"]
    # 10 GB of text if it were spelled out
    assert read[-1] == "w" * 100_000
    assert len({id(cell) for cell in read}) == 1


def test_plain_strings_are_shared_too_and_nulls_in_dictionaries_are_missing(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", {"c": ["a", "b"] * 500, "x": range(1000)}, row_group_size=100)
    assert read_table(path)["c"].tolist() == ["a", "b"] * 500
    holed = pa.table(
        {"c": pa.array(["a", None, "b"]).dictionary_encode(), "n": pa.array([3, 4, 3]).dictionary_encode()}
    )
    path = write(tmp_path / "t.parquet", holed)
    with pytest.raises(Refusal, match=r"missing value \(row 2, column c\)"):
        read_table(path)
    assert read_table(path, missing="drop")["c"].tolist() == ["a", "b"]
    assert read_table(path, drop=["c"], text=["c"])["n"].tolist() == [3, 4, 3]


@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_rows_are_refused(tmp_path: Path, rows: int) -> None:
    with pytest.raises(Refusal, match="give at least two people"):
        read_table(write(tmp_path / "t.parquet", {"x": [1.0] * rows}))


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4])], names=["x", "x"])
    with pytest.raises(Refusal, match="same name"):
        read_table(write(tmp_path / "t.parquet", table))


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None, max_examples=150
)
@given(st.data())
def test_a_damaged_file_is_a_table_or_one_refusal(tmp_path: Path, data: st.DataObject) -> None:
    whole = write(tmp_path / "good.parquet", GOOD).read_bytes()
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(4, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(5, len(whole)))
    path = tmp_path / "bad.parquet"
    path.write_bytes(bytes(damaged[:cut]) if data.draw(st.booleans()) else bytes(damaged))
    line = ""
    try:
        read_table(path)
    except Refusal as refusal:
        line = str(refusal)
    assert line.isprintable()


def test_without_pyarrow_the_refusal_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.parquet", GOOD)
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet")
    with pytest.raises(Refusal, match=r"pip install 'dosimeter\[parquet\]'"):
        read_table(path)
