"""Files inside the objects of a pickle or of R data: what is in them is found, with a table and without."""

from __future__ import annotations

import base64
import gzip
import pickle
import shutil
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest
from sklearn.svm import SVC

from dosimeter.scanner import scan, unpack
from dosimeter.scanner.search import byte_search
from dosimeter.tables.table import Table
from tests.scanner.people import NAMES, X, Y, table

WRAPPED = {
    "gzip": lambda data: gzip.compress(data),
    "zlib": lambda data: zlib.compress(data),
    "base64": lambda data: base64.b64encode(data).decode(),
    "hexadecimal": lambda data: data.hex(),
    "base64 of gzip": lambda data: base64.b64encode(gzip.compress(data)).decode(),
    "gzip twice": lambda data: gzip.compress(gzip.compress(data)),
}
needs_r = pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")


@pytest.mark.parametrize("how", WRAPPED)
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_rows_wrapped_inside_a_pickle_are_found(how: str, protocol: int, tmp_path: Path) -> None:
    body = {"note": "a model", "kept": WRAPPED[how](X[20:60].tobytes())}
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(body, protocol=protocol))
    assert scan(tmp_path / "m.pkl", table()).matched_rows == tuple(range(21, 61))


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_inside_a_pickle_has_its_findings_without_a_table(protocol: int, tmp_path: Path) -> None:
    model = SVC().fit(X, Y)
    inside = pickle.dumps({"model": zlib.compress(pickle.dumps(model, protocol=protocol))}, protocol=protocol)
    (tmp_path / "m.pkl").write_bytes(inside)
    result = scan(tmp_path / "m.pkl")
    assert result.rows_inside
    assert any(finding.place.endswith("support_vectors_") for finding in result.findings)


def test_bytes_that_nobody_knows_are_not_called_clean_without_a_table(tmp_path: Path) -> None:
    (tmp_path / "m.pkl").write_bytes(pickle.dumps({"kept": X[:40].tobytes(), "weights": np.zeros(3)}))
    result = scan(tmp_path / "m.pkl")
    assert not result.rows_inside
    assert [why for _, why in result.unread] == ["only its bytes can be searched: pass the training table"]


def test_labels_in_one_byte_each_are_an_array_and_not_unknown_bytes(tmp_path: Path) -> None:
    (tmp_path / "m.pkl").write_bytes(pickle.dumps({"labels": np.tile(np.arange(4, dtype=np.uint8), 500)}))
    assert scan(tmp_path / "m.pkl").unread == ()


def test_bytes_that_an_object_holds_many_times_are_unpacked_once(tmp_path: Path) -> None:
    kept = zlib.compress(bytes(2**20))
    text = base64.b64encode(kept * 20).decode()
    (tmp_path / "m.pkl").write_bytes(pickle.dumps([{"a": kept, "b": text}] + [[kept, text] for _ in range(20_000)]))
    assert not scan(tmp_path / "m.pkl", table()).rows_inside


def test_bombs_inside_a_file_share_one_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bombs = [gzip.compress(bytes(2**26) + bytes([k]), mtime=0) for k in range(12)]
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(bombs))
    unpacked = []

    def decompressed(create, again, content, most, source):
        unpacked.append(most)
        return unpack_decompressed(create, again, content, most, source)

    unpack_decompressed = unpack._decompressed
    monkeypatch.setattr(unpack, "_decompressed", decompressed)
    assert len(scan(tmp_path / "m.pkl").unread) == 12
    assert sum(unpacked) < 200 * sum(map(len, bombs)) + 2**26


def test_many_files_inside_one_are_searched_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pieces = [zlib.compress(np.random.default_rng(k).bytes(200) + X[k].tobytes()) for k in range(300)]
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(pieces))
    searches = []

    def locate(*arguments):
        searches.append(arguments)
        return byte_search_locate(*arguments)

    byte_search_locate = byte_search.locate
    monkeypatch.setattr(byte_search, "locate", locate)
    assert scan(tmp_path / "m.pkl", table()).matched_rows == tuple(range(1, 301))
    assert len(searches) < 20


def test_a_pickled_lightgbm_model_has_the_findings_of_its_text(tmp_path: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    settings = {"verbose": -1, "min_data_in_leaf": 1, "num_leaves": 31, "num_threads": 1, "seed": 0}
    model = lightgbm.train(settings, lightgbm.Dataset(X, Y), 3)
    model.save_model(tmp_path / "m.txt")
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(model))
    alone, pickled = scan(tmp_path / "m.txt"), scan(tmp_path / "m.pkl")
    assert alone.values_inside
    assert pickled.values_inside
    assert {f.content for f in alone.findings if f.severity != "lists"} <= {f.content for f in pickled.findings}


@pytest.mark.parametrize("kind", ["U20", "S20"])
def test_numbers_written_in_an_array_of_texts_of_a_pickle_are_found(kind: str, tmp_path: Path) -> None:
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(X[:80, :6].astype(kind)))
    people = Table.of(dict(zip(NAMES, X[:, :6].T, strict=False)))
    found = scan(tmp_path / "m.pkl", people).matched_rows
    assert set(found) <= set(range(1, 81))
    assert len(found) >= 78


@pytest.mark.parametrize("shape", ["lists", "tuples", "dicts", "columns"])
def test_rows_as_plain_lists_in_a_pickle_are_possible_without_a_table(shape: str, tmp_path: Path) -> None:
    rows = X[:30, :5].tolist()
    forms = {
        "lists": rows,
        "tuples": [tuple(row) for row in rows],
        "dicts": [dict(zip(NAMES, row, strict=False)) for row in rows],
        "columns": dict(zip(NAMES, X[:30, :5].T.tolist(), strict=False)),
    }
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(forms[shape]))
    (finding,) = [finding for finding in scan(tmp_path / "m.pkl").findings if finding.severity == "rows"]
    assert (finding.certainty, finding.shape) == ("possible", (30, 5))
    people = Table.of(dict(zip(NAMES, X[:, :5].T, strict=False)))
    # Column by column, a row that shares two values with them counts as well.
    found = set(scan(tmp_path / "m.pkl", people).matched_rows)
    assert set(range(1, 31)) <= found
    assert len(found) <= 31


@pytest.mark.parametrize("kind", ["<f8", ">f8", "<f4", ">f4"])
def test_a_column_of_days_alone_is_found_as_floating_point_numbers(kind: str, tmp_path: Path) -> None:
    """R keeps dates as float64. No single day proves anything; nine in the order of the table do."""
    rng = np.random.default_rng(0)
    people = {"day": rng.integers(15_000, 19_000, 400).astype(float), "age": rng.integers(18, 95, 400).astype(float)}
    (tmp_path / "m.pkl").write_bytes(rng.bytes(999) + people["day"].astype(kind).tobytes() + rng.bytes(999))
    result = scan(tmp_path / "m.pkl", Table.of(people))
    assert result.values_inside
    assert not result.rows_inside
    other = {name: rng.permutation(column) for name, column in people.items()}
    assert not scan(tmp_path / "m.pkl", Table.of(other)).values_inside


def _by_r(code: str, folder: Path) -> None:
    np.savetxt(folder / "t.csv", X[:200, :4], delimiter=",", header="a,b,c,d", comments="", fmt="%.17g")
    code = f"t <- read.csv('t.csv'); {code}"
    subprocess.run(["Rscript", "-e", code], cwd=folder, check=True, capture_output=True)


PEOPLE = Table.of(dict(zip("abcd", X[:200, :4].T, strict=True)))
IN_R = {
    "the environment of a formula": "f <- function() {d <- t; m <- lm(a ~ b, d, model=FALSE); m[c('coefficients', "
    "'terms')]}; saveRDS(f(), 'm.rds')",
    "the environment around that of a function": "f <- function() {d <- t; (function() {y <- 1; function(x) x})()}; "
    "saveRDS(f(), 'm.rds')",
    "an attribute of a number": "saveRDS(structure(1.5, kept=t), 'm.rds')",
    "an attribute of a text": "saveRDS(structure('a', kept=t), 'm.rds')",
    "compressed bytes": "saveRDS(list(memCompress(serialize(t, NULL), 'gzip')), 'm.rds')",
    "bytes": "saveRDS(serialize(t, NULL), 'm.rds')",
}


@needs_r
@pytest.mark.parametrize("where", IN_R)
def test_a_table_anywhere_in_an_r_file_is_known_without_a_table_and_found_with_one(where: str, tmp_path: Path) -> None:
    _by_r(IN_R[where], tmp_path)
    alone = scan(tmp_path / "m.rds")
    assert "the cells of a dataframe" in {finding.content for finding in alone.findings}
    assert scan(tmp_path / "m.rds", PEOPLE).matched_rows == tuple(range(1, 201))


@needs_r
def test_what_r_keeps_of_each_person_is_known_by_name(tmp_path: Path) -> None:
    _by_r("saveRDS(prcomp(t), 'p.rds'); saveRDS(princomp(t), 'q.rds'); saveRDS(kmeans(t, 3), 'k.rds')", tmp_path)
    assert scan(tmp_path / "p.rds").rows_inside
    assert scan(tmp_path / "q.rds").rows_inside
    assert scan(tmp_path / "k.rds").values_inside


@needs_r
def test_settings_in_the_call_of_an_r_model_are_no_rows(tmp_path: Path) -> None:
    """`x = FALSE` stands in the call under the name of the design."""
    left = "m[c('coefficients', 'call')]"
    code = f"m <- lm(a ~ b, t, x=FALSE, model=FALSE); saveRDS(structure({left}, class='lm'), 'm.rds'); "
    _by_r(code + "saveRDS(princomp(t, scores=FALSE), 'p.rds')", tmp_path)
    for name in ("m.rds", "p.rds"):
        assert not scan(tmp_path / name).rows_inside
        assert not scan(tmp_path / name, PEOPLE).rows_inside


@needs_r
def test_r_data_in_text_form_is_not_called_clean(tmp_path: Path) -> None:
    _by_r("saveRDS(t, 'm.zip.rds', ascii=TRUE); save(t, file='m.rda', ascii=TRUE)", tmp_path)
    shutil.move(tmp_path / "m.zip.rds", tmp_path / "m.rds")
    (tmp_path / "folder").mkdir()
    for name in ("m.rds", "m.rda"):
        shutil.move(tmp_path / name, tmp_path / "folder" / name)
    result = scan(tmp_path / "folder")
    assert len(result.unread) == 2
    assert len(scan(tmp_path / "folder", PEOPLE).matched_rows) >= 195


IDS = [f"NHS-{7919 * k % 99991:05d}" for k in range(60)]
NAMED = Table.of({"id": IDS, "x": np.arange(60.0)})


@pytest.mark.parametrize("strangers", [False, True])
def test_ids_that_name_arrays_or_metadata_or_stand_in_an_index_are_found(strangers: bool, tmp_path: Path) -> None:
    import pandas as pd
    from safetensors.numpy import save_file

    ids = [f"XYZ-{k:05d}" for k in range(30)] if strangers else IDS[:30]
    np.savez(tmp_path / "a.npz", **{name: np.zeros(2) for name in ids})
    save_file({name: np.zeros(2) for name in ids}, tmp_path / "b.safetensors")
    save_file({"w": np.zeros(2)}, tmp_path / "c.safetensors", metadata=dict.fromkeys(ids, "seen"))
    (tmp_path / "d.pkl").write_bytes(pickle.dumps(pd.Series(np.zeros(30), index=ids)))
    (tmp_path / "e.pkl").write_bytes(b"\x80\x04" + "".join(ids).encode())
    inside = {path.name: scan(path, NAMED).values_inside for path in sorted(tmp_path.iterdir())}
    assert inside == dict.fromkeys(inside, not strangers)


def test_ids_of_five_digits_are_not_read_into_long_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    people = Table.of({"id": [f"{k:05d}" for k in rng.permutation(100_000)[:30_000]], "x": np.arange(30_000.0)})
    (tmp_path / "m.pkl").write_bytes(b"\x80\x04" + " ".join(f"{x:.10f}" for x in rng.normal(size=4000)).encode())
    assert not scan(tmp_path / "m.pkl", people).values_inside
    long = [f"{k:010d}" for k in rng.integers(0, 10**10, 60)]
    (tmp_path / "m.pkl").write_bytes(b"\x80\x04" + "".join(long[:20]).encode())
    assert scan(tmp_path / "m.pkl", Table.of({"id": long, "x": np.arange(60.0)})).values_inside


def test_rows_in_a_field_that_onnx_does_not_know_are_found(tmp_path: Path) -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    from sklearn.linear_model import LinearRegression

    model = skl2onnx.to_onnx(LinearRegression().fit(X[:, :4], X[:, 4]), X[:1, :4]).SerializeToString()
    body = X[20:60].tobytes()
    size = bytes([len(body) & 0x7F | 0x80, (len(body) >> 7) & 0x7F | 0x80, len(body) >> 14])
    (tmp_path / "m.onnx").write_bytes(model + b"\xfa\x3f" + size + body)  # field 1023
    assert scan(tmp_path / "m.onnx", table()).matched_rows == tuple(range(21, 61))
    (tmp_path / "m.onnx").write_bytes(model)
    assert not scan(tmp_path / "m.onnx", table()).rows_inside
