"""Rows that are in a file as text, wrapped, behind each other, or in fields of records; and files of other programs."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import lzma
import pickle
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.scanner import scan, unpack
from dosimeter.tables.table import Table

ALL = np.random.default_rng(8).normal(size=(300, 4))
PEOPLE = Table.of({**{f"r{j}": ALL[:, j] for j in range(4)}, "id": [f"patient-{k:04d}" for k in range(300)]})
HELD = tuple(range(41, 81))
ROWS = ALL[40:80]


def strangers() -> np.ndarray:
    return np.random.default_rng(9).normal(size=ROWS.shape)


def texts(rows: np.ndarray) -> list[list[str]]:
    return [[repr(cell) for cell in row] for row in rows.tolist()]


def sheet(rows: np.ndarray) -> str:
    return "\n".join(",".join(row) for row in texts(rows))


WRITTEN: dict[str, Callable[[np.ndarray], Any]] = {
    "records of texts": lambda rows: [dict(zip("abcd", row, strict=True)) for row in texts(rows)],
    "columns of texts": lambda rows: dict(zip("abcd", map(list, zip(*texts(rows), strict=True)), strict=True)),
    "a page": lambda rows: "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in texts(rows)),
    "sentences": lambda rows: [f"Patient {k}: {a} and {b}, {c}; {d}." for k, (a, b, c, d) in enumerate(texts(rows))],
    "base64 of big-endian numbers": lambda rows: base64.b64encode(rows.astype(">f8").tobytes()).decode(),
    "base64 in lines": lambda rows: base64.encodebytes(rows.tobytes()).decode(),
    "a data URL of a sheet": lambda rows: "data:text/csv;base64," + base64.b64encode(sheet(rows).encode()).decode(),
    "base64 of a compressed pickle": lambda rows: base64.b64encode(gzip.compress(pickle.dumps(rows))).decode(),
    "hexadecimal digits": lambda rows: rows.tobytes().hex(),
}


@pytest.mark.parametrize("how", WRITTEN)
def test_rows_in_the_texts_of_json_are_found_and_strangers_are_not(how: str, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"kept": WRITTEN[how](ROWS)}))
    assert scan(path, PEOPLE).matched_rows == HELD
    path.write_text(json.dumps({"kept": WRITTEN[how](strangers())}))
    other = scan(path, PEOPLE)
    assert (other.rows_inside, other.values_inside, other.unread) == (False, False, ())


def test_ids_in_records_and_in_a_sentence_are_found(tmp_path: Path) -> None:
    for kept in (
        [{"id": f"patient-{k:04d}"} for k in range(5)],
        "checked with patient-0003, patient-0007, patient-0009",
    ):
        (tmp_path / "m.json").write_text(json.dumps({"kept": kept}))
        assert scan(tmp_path / "m.json", PEOPLE).values_inside


def test_the_first_of_two_equal_keys_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(f'{{"kept": {json.dumps(ROWS.tolist())}, "kept": 0}}')
    assert json.loads((tmp_path / "m.json").read_text()) == {"kept": 0}
    assert scan(tmp_path / "m.json", PEOPLE).matched_rows == HELD


@pytest.mark.parametrize("write", [str, lambda cell: f'"{cell}"', lambda cell: f"[{cell}]"])
def test_whole_numbers_in_quotes_or_brackets_are_found(write: Callable[[int], str], tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    values = np.column_stack([rng.integers(18, 90, 300), rng.integers(0, 200, 300), rng.integers(0, 999, 300)])
    people = Table.of({name: values[:, j] for j, name in enumerate("abc")})
    (tmp_path / "m.txt").write_text("\n".join(",".join(map(write, row)) for row in values[40:80].tolist()))
    assert set(HELD) <= set(scan(tmp_path / "m.txt", people).matched_rows)


@pytest.mark.parametrize(("pack", "ending"), [(gzip.compress, ".gz"), (bz2.compress, ".bz2"), (lzma.compress, ".xz")])
def test_rows_in_a_later_compressed_stream_are_found(
    pack: Callable[[bytes], bytes], ending: str, tmp_path: Path
) -> None:
    """pbzip2 and bgzip write many streams behind each other, and so does whoever appends to a log."""
    behind = b"\0\0\0\0" if ending == ".xz" else b""
    data = pack(b"a header\n" * 9) + pack(b"") + behind + pack(ROWS.tobytes())
    for name in (f"m{ending}", "m.pkl"):
        (tmp_path / name).write_bytes(data)
        assert scan(tmp_path / name, PEOPLE).matched_rows == HELD
    (tmp_path / "m.pkl").write_bytes(data[:-9])
    with pytest.raises(Refusal, match="damaged"):
        scan(tmp_path / "m.pkl", PEOPLE)


def test_compressed_streams_without_end_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(unpack, "_MOST_STREAMS", 50)
    (tmp_path / "m.pkl").write_bytes(gzip.compress(b"x") * 51)
    with pytest.raises(Refusal, match="more than 50 compressed streams"):
        scan(tmp_path / "m.pkl", PEOPLE)


@pytest.mark.parametrize("name", ["m.zip", "m.pkl"])
def test_a_zip_behind_a_program_is_opened(name: str, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rows", ROWS.tobytes() + bytes(4000))
    (tmp_path / name).write_bytes(b"#!/usr/bin/env python3\n" + buffer.getvalue())
    assert scan(tmp_path / name, PEOPLE).matched_rows == HELD


def records(fields: Any, *columns: Any) -> np.ndarray:
    array = np.zeros(len(ROWS), dtype=fields)
    for name, column in zip(array.dtype.names, columns, strict=True):
        array[name] = column
    return array


def inner() -> np.ndarray:
    pair = [("x", "<f8"), ("y", "<f8")]
    array = np.zeros(len(ROWS), dtype=[("p", pair), ("q", pair)])
    array["p"]["x"], array["p"]["y"], array["q"]["x"], array["q"]["y"] = ROWS.T
    return array


FIELDS: dict[str, Callable[[], dict[str, np.ndarray]]] = {
    "one field of four": lambda: {"m": records([("x", "<f8", 4)], ROWS)},
    "an id and a field of four": lambda: {"m": records([("id", "<i4"), ("x", ">f8", (4,))], np.arange(40), ROWS)},
    "records in records": lambda: {"m": inner()},
    "columns of one": lambda: {f"c{j}": ROWS[:, j : j + 1] for j in range(4)},
    "the bytes of a pickle": lambda: {"m": np.frombuffer(pickle.dumps(ROWS), np.uint8)},
}


@pytest.mark.parametrize("how", FIELDS)
def test_rows_in_fields_of_records_are_found(how: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", **FIELDS[how]())
    assert scan(tmp_path / "m.npz", PEOPLE).matched_rows == HELD


def test_dates_and_names_in_an_array_are_found(tmp_path: Path) -> None:
    days = np.datetime64("1950-01-01") + np.arange(300) * 37
    people = Table.of({"born": days.astype(str).tolist(), "name": [f"name {k}" for k in range(300)]})
    for kind in ("M8[D]", "M8[ns]"):
        np.savez(tmp_path / "m.npz", born=days[:30].astype(kind))
        assert scan(tmp_path / "m.npz", people).values_inside
        (tmp_path / "m.pkl").write_bytes(pickle.dumps({"born": days[:30].astype(kind)}))
        assert scan(tmp_path / "m.pkl", people).values_inside
    both = np.zeros(30, dtype=[("name", "U20"), ("x", "<f8")])
    both["name"] = [f"name {k}" for k in range(30)]
    np.savez(tmp_path / "m.npz", both=both)
    assert scan(tmp_path / "m.npz", people).values_inside


def test_an_array_that_is_compared_with_nothing_is_listed(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "m.npz", raw=np.frombuffer(ROWS.tobytes(), "V32"), time=np.ones(9, "m8[s]"), day=np.ones(9, "M8")
    )
    assert [place for place, _ in scan(tmp_path / "m.npz", PEOPLE).unread] == ["raw", "time", "day"]


def nothing(values: Any, keep: Any = None) -> Any:
    return values


def test_records_of_people_in_the_settings_of_a_step_are_found(tmp_path: Path) -> None:
    import skops.io
    from sklearn.preprocessing import FunctionTransformer

    rows = ROWS[:, :3].tolist()
    for kept in ([dict(zip("abc", row, strict=True)) for row in rows], rows):
        step = FunctionTransformer(nothing, kw_args={"keep": kept}).fit(ALL)
        skops.io.dump(step, tmp_path / "m.skops")
        assert scan(tmp_path / "m.skops", Table.of({f"r{j}": ALL[:, j] for j in range(3)})).matched_rows == HELD


@pytest.mark.parametrize("name", ["t.db", "t.parquet"])
def test_a_table_of_another_program_is_no_clean_file(name: str, tmp_path: Path) -> None:
    """Its whole numbers are packed, so the search of its bytes proves nothing."""
    import pandas as pd

    folder = tmp_path / "model"
    folder.mkdir()
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({name: rng.integers(0, 200, 300) for name in "abc"})
    if name == "t.db":
        with sqlite3.connect(folder / name) as database:
            frame.to_sql("t", database)
    else:
        frame.to_parquet(folder / name)
    result = scan(folder, Table.of(frame))
    assert not result.matched_rows
    assert "is searched as it is" in result.unread[0][1]


def test_a_folder_that_cannot_be_listed_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "model" / "private").mkdir(parents=True)
    np.savez(tmp_path / "model" / "m.npz", w=np.zeros(3))
    refuse_listing(monkeypatch, "private")
    with pytest.raises(Refusal, match=r"private.*permission"):
        scan(tmp_path / "model", PEOPLE)


def refuse_listing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Listing this folder fails, as for a user who may not read it."""
    import os

    listed = os.scandir

    def scandir(path: Any = ".") -> Any:
        if Path(path).name == name:
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
