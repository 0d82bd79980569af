"""One column of a table in a file, columns in an order of their own, and files in digits of base64."""

from __future__ import annotations

import base64
import gzip
import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import QuantileTransformer, SplineTransformer

from dosimeter.scanner import scan, unpack
from dosimeter.scanner.search import locate
from dosimeter.scanner.search.arrangement import rows_in_one_order
from dosimeter.tables.table import Table
from tests.scanner.people import X, Y, dump_model, table

RNG = np.random.default_rng(17)
N = 300
PEOPLE = {
    "creatinine": RNG.lognormal(0, 0.3, N),
    "age": RNG.integers(18, 95, N).astype(float),
    "bmi": RNG.normal(27, 5, N).round(1),
    "ill": RNG.integers(0, 2, N).astype(float),
}
TABLE = Table.of(PEOPLE)


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


ALONE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "a column": ("npz", lambda: npz(a=PEOPLE["creatinine"])),
    "a column named as weights": ("npz", lambda: npz(coef_=PEOPLE["creatinine"])),
    "a sorted column": ("npz", lambda: npz(a=np.sort(PEOPLE["creatinine"]))),
    "a column as float32": ("npz", lambda: npz(a=PEOPLE["creatinine"].astype(np.float32))),
    "a column of ages as one byte each": ("npz", lambda: npz(a=PEOPLE["age"].astype(np.int8))),
    "a column of two values": ("npz", lambda: npz(a=PEOPLE["ill"])),
    "the bits of a column": ("npz", lambda: npz(a=PEOPLE["creatinine"].view(np.uint64))),
    "a column as bytes in two dimensions": ("npz", lambda: npz(a=PEOPLE["creatinine"].view(np.uint8).reshape(N, 8))),
    "a column beside one of gaps": (
        "npz",
        lambda: npz(a=np.column_stack([PEOPLE["creatinine"], np.full(N, np.nan)])),
    ),
    "a column in JSON": ("json", lambda: json.dumps({"a": PEOPLE["creatinine"].tolist()}).encode()),
}


@pytest.mark.parametrize("how", ALONE)
def test_a_column_alone_is_found_in_an_open_format(how: str, tmp_path: Path) -> None:
    kind, write = ALONE[how]
    path = tmp_path / f"m.{kind}"
    path.write_bytes(write())
    result = scan(path, TABLE)
    assert result.values_inside
    assert result.matched_rows == ()
    strangers = {name: RNG.permutation(values) + 0.0123 for name, values in PEOPLE.items()}
    assert not scan(path, Table.of(strangers)).values_inside


def test_a_column_kept_by_a_skops_model_is_found(tmp_path: Path) -> None:
    model = LogisticRegression().fit(X[:, :3], Y)
    assert not scan(dump_model(model, tmp_path), table()).values_inside
    model.n_iter_ = X[:, 3]
    assert scan(dump_model(model, tmp_path), table()).values_inside


@pytest.mark.parametrize("kind", ["skops", "pkl"])
def test_columns_sorted_one_by_one_are_values_and_no_rows(kind: str, tmp_path: Path) -> None:
    columns = np.random.default_rng(0).normal(size=(300, 4))
    people = Table.of({f"x{j}": columns[:, j] for j in range(4)})
    model = QuantileTransformer(n_quantiles=300).fit(columns)
    path = tmp_path / "m.pkl"
    path.write_bytes(pickle.dumps(model))
    result = scan(path if kind == "pkl" else dump_model(model, tmp_path), people)
    assert result.values_inside
    assert result.matched_rows == ()


@pytest.mark.parametrize("kind", ["<f8", "<f4", "written"])
@pytest.mark.parametrize("order", ["the table's", "another"])
def test_columns_in_one_order_are_rows(kind: str, order: str, tmp_path: Path) -> None:
    columns = np.random.default_rng(0).normal(27, 5, size=(300, 4))
    columns[:, 2:] = columns[:, 2:].round(1)
    people = Table.of({f"x{j}": columns[:, j] for j in range(4)})
    held = columns[:60] if order != "another" else columns[np.random.default_rng(1).permutation(60)]
    stored = np.ascontiguousarray(held.T)
    data = json.dumps(stored.tolist()).encode() if kind == "written" else stored.astype(kind).tobytes()
    (tmp_path / "m.pkl").write_bytes(pickle.dumps({"kept": b"head" + data}))
    rows = set(scan(tmp_path / "m.pkl", people).matched_rows)
    assert len(rows & set(range(1, 61))) >= 55
    assert len(rows - set(range(1, 61))) <= 5


def test_rows_in_one_order_are_those_of_two_columns_alike() -> None:
    row = np.arange(40)
    order = np.random.default_rng(3).permutation(40)
    first, alike, other = 8 * row, 1000 + 8 * row, 2000 + 8 * order
    both = (np.tile(row, 2), np.repeat([0, 1], 40))
    assert rows_in_one_order(np.concatenate([first, alike]), *both).tolist() == row.tolist()
    assert rows_in_one_order(np.concatenate([first, other]), *both).tolist() == []
    uneven = 1000 + np.cumsum(np.random.default_rng(4).integers(4, 20, 40))  # texts of different lengths
    assert rows_in_one_order(np.concatenate([first, uneven]), *both).tolist() == row.tolist()
    assert rows_in_one_order(*(np.empty(0, np.intp),) * 3).tolist() == []


def test_the_knots_of_a_spline_are_known_by_name(tmp_path: Path) -> None:
    model = SplineTransformer(n_knots=4).fit(X[:, :2])
    result = scan(dump_model(model, tmp_path))
    assert result.values_inside
    assert {finding.place for finding in result.findings if finding.content == "cut points"} == {
        "bsplines_[0]._t",
        "bsplines_[1]._t",
    }


HELD = X[20:60]
DIGITS = base64.b64encode(HELD.tobytes())
IN_DIGITS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "bytes in a pickle": ("pkl", lambda: pickle.dumps({"a": DIGITS})),
    "JSON in a pickle": ("pkl", lambda: pickle.dumps({"a": json.dumps({"bdata": DIGITS.decode(), "dtype": "f8"})})),
    "a list in a pickle, a text for each row": (
        "pkl",
        lambda: pickle.dumps({"a": [base64.b64encode(row.tobytes()).decode() for row in HELD]}),
    ),
    "one line": ("txt", lambda: DIGITS),
    "several lines": ("txt", lambda: base64.encodebytes(HELD.tobytes())),
    "hexadecimal digits in a line": ("txt", lambda: HELD.tobytes().hex().encode()),
    "an element of XML": ("pmml", lambda: b"<PMML><Extension>" + DIGITS + b"</Extension></PMML>"),
}


@pytest.mark.parametrize("how", IN_DIGITS)
def test_rows_in_digits_of_base64_are_found_wherever_they_stand(how: str, tmp_path: Path) -> None:
    kind, write = IN_DIGITS[how]
    path = tmp_path / f"m.{kind}"
    path.write_bytes(write())
    assert scan(path, table()).matched_rows == tuple(range(21, 61))


@pytest.mark.parametrize("magic", [b"PAR1", b"ARROW1\0\0", b"SQLite format 3\0", b"\x89HDF\r\n\x1a\n"])
def test_bytes_of_a_table_format_inside_a_pickle_are_listed(magic: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.pkl").write_bytes(pickle.dumps({"a": magic + bytes(range(256)) * 8}))
    assert any("is searched as it is" in why for _, why in scan(tmp_path / "m.pkl", table()).unread)


@pytest.mark.parametrize("kind", ["<i8", "|i1", "<f8"])
def test_a_column_of_ages_is_found_in_a_large_file_and_by_a_long_table(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    ends = {"age": (18, 95), "weight": (40, 130), "visits": (0, 20), "ward": (0, 30)}
    people = {name: rng.integers(*limits, 4000).astype(float) for name, limits in ends.items()}
    long_table, other = Table.of(people), rng.bytes(2_000_000)
    (tmp_path / "m.pkl").write_bytes(pickle.dumps({"other": other, "kept": people["age"][:300].astype(kind)}))
    assert scan(tmp_path / "m.pkl", long_table).values_inside
    (tmp_path / "m.pkl").write_bytes(pickle.dumps({"other": other}))
    assert not scan(tmp_path / "m.pkl", long_table).values_inside


def test_places_beyond_the_limit_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(locate, "_MOST_CANDIDATES", 1000)
    (tmp_path / "m.pkl").write_bytes(pickle.dumps({"a": np.repeat(PEOPLE["creatinine"][:1], 20_000).tobytes()}))
    assert any("everywhere" in why for _, why in scan(tmp_path / "m.pkl", TABLE).unread)


def test_a_list_that_holds_itself_many_times_costs_little(tmp_path: Path) -> None:
    (tmp_path / "m.pkl").write_bytes(b"\x80\x04]\x94(" + b"h\x00" * 190_000 + b"e.")
    assert not scan(tmp_path / "m.pkl", TABLE).values_inside


def test_files_in_the_texts_of_a_small_file_share_its_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bombs = {f"n{k}": base64.b64encode(gzip.compress(bytes(2**24) + bytes([k]), mtime=0)).decode() for k in range(12)}
    (tmp_path / "m.json").write_text(json.dumps(bombs))
    unpacked = []

    def decompressed(create, again, content, most, source):
        unpacked.append(most)
        return unpack_decompressed(create, again, content, most, source)

    unpack_decompressed = unpack._decompressed
    monkeypatch.setattr(unpack, "_decompressed", decompressed)
    scan(tmp_path / "m.json", TABLE)
    assert max(unpacked) <= 2**26


def test_words_of_a_vocabulary_are_no_digits(tmp_path: Path) -> None:
    words = "\n".join(f"word{k % 7}x" for k in range(3000))
    (tmp_path / "m.vocab").write_text(words)
    assert scan(tmp_path / "m.vocab").unread == ()
    (tmp_path / "m.pkl").write_bytes(pickle.dumps({"note": words.replace("\n", " ")}))
    assert scan(tmp_path / "m.pkl").unread == ()
