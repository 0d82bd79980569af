"""A text table that is read in blocks has the cells, kinds and refusals of the same file read whole."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dosimeter.core.errors import Refusal
from dosimeter.tables import csv_conversion, csv_scan
from dosimeter.tables.block_reading import BlockReading, table_parts
from dosimeter.tables.csv import read_csv
from dosimeter.tables.csv_source import CsvFile
from dosimeter.tables.people_together import join_tables

relaxed = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=150, deadline=None
)
Outcome = str | list[Any]


def whole(path: Path, **options: Any) -> Outcome:
    try:
        table = read_csv(path, **options)
    except Refusal as refusal:
        return str(refusal)
    return [table.names, table.rows.tolist(), *((c.dtype, c.tolist()) for c in table.columns)]


def in_blocks(
    path: Path, block_rows: int, *, folder: Path | None = None, delimiter: str = ",", decimal: str = ".",
    drop: Any = (), **options: Any
) -> Outcome:  # fmt: skip
    reading = BlockReading(**{**options, "text": tuple(options.get("text", ()))})
    try:
        file = CsvFile.of(path, delimiter, decimal)
        source = file.convert(reading, tuple(drop), folder or path.parent, block_rows, keep=folder is not None)
        parts = table_parts(source.parts(source.names, block_rows), reading)
        tables = [table for part in parts for table in part.blocks()]
        if sum(table.n for table in tables) < 2 and reading.declared is None:
            return f"{path}: only one row is left: give at least two people"
    except Refusal as refusal:
        return str(refusal)
    assert all(table.n <= block_rows for table in tables)
    table = join_tables(tables)
    return [table.names, table.rows.tolist(), *((c.dtype, c.tolist()) for c in table.columns)]


def assert_same(path: Path, block_rows: int = 3, **options: Any) -> Outcome:
    expected = whole(path, **options)
    assert in_blocks(path, block_rows, **options) == expected
    return expected


CELLS = [
    "1",
    "2.5",
    "-3e2",
    "",
    "NA",
    "abc",
    "true",
    "false",
    "True",
    "inf",
    "9007199254740993",
    '"a,b"',
    '"x\ny"',
    " 7",
]
cells = st.lists(st.tuples(*[st.sampled_from(CELLS)] * 3), min_size=1, max_size=12)


@relaxed
@given(
    cells,
    st.integers(1, 5),
    st.integers(1, 9),
    st.sampled_from(["refuse", "drop"]),
    st.sampled_from([(), ("a",), ("a", "c")]),
)
def test_any_table_is_the_same_in_blocks(
    tmp_path: Path, rows: list[tuple[str, ...]], block_rows: int, per_block: int, missing: str, text: tuple[str, ...]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n" + "".join(",".join(row) + "\n" for row in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_scan, "_CELLS_PER_BLOCK", 3 * per_block)
        patch.setattr(csv_scan, "_BYTES_PER_BLOCK", 8 * per_block)
        assert_same(path, block_rows, missing=missing, text=text)


@relaxed
@given(st.text(alphabet='ab01.-e,";\n\r \t?é\0', max_size=80), st.booleans())
def test_any_text_is_the_same_in_blocks(tmp_path: Path, text: str, declared: bool) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(("x,y\n" + text).encode())
    options: dict[str, Any] = {"declared": ("x",), "missing": "drop", "text": ("y",)} if declared else {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_scan, "_CELLS_PER_BLOCK", 4)
        assert_same(path, 2, **options)


def numbers(path: Path, n: int = 2000) -> Path:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) * 10.0 ** rng.integers(-12, 12, size=(n, 3))
    path.write_text("a,b,c\n" + "".join(",".join(map(repr, row)) + "\n" for row in X.tolist()))
    return path


def test_numbers_are_those_of_the_table_in_memory_to_the_last_bit(tmp_path: Path) -> None:
    path = numbers(tmp_path / "t.csv")
    assert isinstance(assert_same(path, 128), list)
    assert isinstance(assert_same(path, 1 << 16), list)


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfa,b\n1,2\n3,4\n",
        b"a,b\r\n1,x\r\n3,y\r\n",
        b"a,b\n1,2\n3\n",
        b"a,b\n1,2\n\n3,4\n",
        b"a,b\n1,2\n3,4\n\n\n",
        b'a,b\n1,"2\n3,4\n',
        b"a,b\n1,\xff\n3,4\n",
        b"a;b\n1,5;2\n2,5;4\n",
        b"a,b\n1,2\n",
        b"a,b\n",
        b"1,2\n3,4\n",
        b"a,a\n1,2\n3,4\n",
        b"\xff\xfea\0,\0",
        b"PAR1 a,b\n1,2\n",
        b"a,b\nNA,1\n,2\n",
        b"a,b\n" + b"1,2\n" * 20 + b"x,2\n",
        b"a,b\n" + b"1,2\n" * 20 + b"x,2\n" * 30,
        b"a,b\n" + b",2\n" * 9 + b"x,2\n" * 30,
        b"a,b\n" + b",true\n" * 9 + b"x,false\n" * 5,
    ],
)
@pytest.mark.parametrize("missing", ["refuse", "drop"])
def test_bad_and_odd_files_are_the_same_in_blocks(
    tmp_path: Path, content: bytes, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_scan, "_CELLS_PER_BLOCK", 6)
    monkeypatch.setattr(csv_scan, "_BYTES_PER_BLOCK", 8)
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    assert_same(path, missing=missing)
    assert_same(path, missing=missing, delimiter=";")


def test_cells_that_cannot_be_read_are_gaps_under_declared_bounds(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('a,b\n1,2\nabc,4\n5,1e400\n6\n7,8,9\n"10,11\n12,13\n')
    expected = assert_same(path, 2, declared=("a", "b"), missing="drop")
    assert isinstance(expected, list)
    assert expected[1] == [0, 6]


# --- the file of columns ---


def test_the_columns_have_no_name_on_the_disk(tmp_path: Path) -> None:
    path = numbers(tmp_path / "t.csv", 300)
    folder = tmp_path / "folder"
    folder.mkdir()
    source = CsvFile.of(path).convert(BlockReading(), (), folder, 64, keep=False)
    assert source.rows == 300
    assert not list(folder.iterdir())


def test_the_columns_of_a_checkpoint_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    path = numbers(tmp_path / "t.csv", 300)
    CsvFile.of(path).convert(BlockReading(), (), tmp_path, 64, keep=True)
    for name in (csv_conversion.COLUMNS, csv_conversion.STATE):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


class Stop(Exception):
    pass


@pytest.mark.parametrize("kind", ["numbers", "reread", "declared"])
def test_a_conversion_that_was_stopped_anywhere_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(csv_scan, "_CELLS_PER_BLOCK", 12)
    monkeypatch.setattr(csv_scan, "_BYTES_PER_BLOCK", 40)
    monkeypatch.setattr(csv_conversion, "EVERY", -1.0)
    path = tmp_path / "t.csv"
    tail = "".join(f"x{k},{k}.5,NA\n" for k in range(40)) if kind != "numbers" else ""
    path.write_text("a,b,c\n" + "".join(f"{k},{k / 7},{k}e{k % 9}\n" for k in range(30)) + tail)
    options: dict[str, Any] = {"missing": "drop"}
    options |= {"declared": ("a", "b", "c")} if kind == "declared" else {"drop": ("c",)}
    expected = whole(path, **options)
    assert isinstance(expected, list)
    real, stops = csv_conversion._State.save, 0
    for after in range(1, 100):
        folder = tmp_path / f"after-{after}"
        folder.mkdir()
        calls = 0

        def save(self: Any, *args: Any, after: int = after) -> None:
            nonlocal calls
            real(self, *args)
            calls += 1
            if calls == after:
                raise Stop

        monkeypatch.setattr(csv_conversion._State, "save", save)
        try:
            in_blocks(path, 7, folder=folder, **options)
        except Stop:
            stops += 1
            with (folder / csv_conversion.COLUMNS).open("ab") as stream:
                stream.write(b"half a segment")
        else:
            break
        calls = 1000
        assert in_blocks(path, 7, folder=folder, **options) == expected
    assert stops > 4


def test_a_file_that_changed_is_refused(tmp_path: Path) -> None:
    path = numbers(tmp_path / "t.csv", 300)
    in_blocks(path, 64, folder=tmp_path)
    before = path.stat()
    content = path.read_bytes()
    path.write_bytes(content[:40] + b"7" + content[41:])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    outcome = in_blocks(path, 64, folder=tmp_path)
    assert "not the one that the checkpoint was begun with" in outcome


@pytest.mark.parametrize("name", [csv_conversion.COLUMNS, csv_conversion.STATE])
def test_damaged_columns_are_refused(tmp_path: Path, name: str) -> None:
    path = numbers(tmp_path / "t.csv", 300)
    in_blocks(path, 64, folder=tmp_path)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:50])
    assert "damaged" in in_blocks(path, 64, folder=tmp_path)


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dosimeter.tables.column_file.ColumnFile.append", full)
    assert "no room for the columns of the table" in in_blocks(numbers(tmp_path / "t.csv", 300), 64)
