"""Archives inside archives, numbers as people write them, and files that are built to cost much."""

from __future__ import annotations

import bz2
import gzip
import io
import pickle
import struct
import tarfile
import zipfile
from pathlib import Path

import joblib
import numpy as np
import pytest
import skops.io
from safetensors.numpy import save
from sklearn.svm import SVC

from dosimeter.core.errors import Refusal
from dosimeter.scanner import scan
from dosimeter.scanner.pickles import read_pickle
from tests.scanner.people import X, Y, table

ROWS = X[40:100]


def zipped(name: str, data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("readme.txt", "hello\nyou\n")
        archive.writestr(name, data)
    return buffer.getvalue()


def tarred(name: str, data: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def joblib_of(values: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    joblib.dump(values, buffer, compress=("xz", 3))
    return buffer.getvalue()


def half_precision(values: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, model=values.astype(np.float16))
    return buffer.getvalue()


NESTED = {
    "tar in zip.zip": lambda v: zipped("m.tar.bz2", bz2.compress(tarred("x/m.joblib", joblib_of(v)))),
    "zip in tar.tar": lambda v: tarred("inner.zip", zipped("m.npz", half_precision(v))),
    "zip in zip in gzip.gz": lambda v: gzip.compress(zipped("inner.zip", zipped("m.pkl", pickle.dumps(v)))),
    "tar in gzip.pkl": lambda v: gzip.compress(tarred("m", v.tobytes())),
    "gzip in zip.zip": lambda v: zipped("m.npz.gz", gzip.compress(half_precision(v))),
}


@pytest.mark.parametrize("name", NESTED)
def test_rows_in_an_archive_inside_an_archive_are_found(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(NESTED[name](ROWS))
    assert set(range(41, 101)) <= set(scan(path, table()).matched_rows)
    path.write_bytes(NESTED[name](np.random.default_rng(0).normal(X.mean(0), X.std(0), ROWS.shape)))
    assert not scan(path, table()).rows_inside


def test_a_model_in_a_zip_in_a_zip_is_read_as_its_kind(tmp_path: Path) -> None:
    path = tmp_path / "all.zip"
    path.write_bytes(zipped("inner.zip", zipped("svc.skops", skops.io.dumps(SVC().fit(X, Y)))))
    places = [finding.place for finding in scan(path).findings if finding.rows_inside]
    assert places == ["inner.zip/svc.skops: support_vectors_"]


@pytest.mark.parametrize(
    "write",
    [
        lambda v: "\n".join(";".join(repr(x).replace(".", ",") for x in row) for row in v.tolist()).encode(),
        lambda v: "\n".join(",".join(map(repr, row)) for row in v.tolist()).encode("utf-16"),
        lambda v: b"\1" + "\n".join(",".join(map(repr, row)) for row in v.tolist()).encode("utf-16-be"),
    ],
)
def test_rows_written_with_a_decimal_comma_or_in_utf16_are_found(write, tmp_path: Path) -> None:
    path = tmp_path / "notes.pkl"
    path.write_bytes(pickle.dumps(write(ROWS)))
    assert len(set(range(41, 101)) & set(scan(path, table()).matched_rows)) >= 58
    path.write_bytes(pickle.dumps(write(np.random.default_rng(0).normal(X.mean(0), X.std(0), ROWS.shape))))
    assert not scan(path, table()).rows_inside


def test_a_fortran_array_that_safetensors_mixes_up_is_found(tmp_path: Path) -> None:
    """A numpy array that is not contiguous: its bytes stand column by column under the shape of rows."""
    body = np.asfortranarray(ROWS[:53].astype(np.float32))
    data = save({"m": np.ascontiguousarray(body.T).reshape(body.shape)})
    (tmp_path / "m.safetensors").write_bytes(data)
    assert set(range(41, 94)) == set(scan(tmp_path / "m.safetensors", table()).matched_rows)


def test_two_rows_of_few_cells_are_found_as_float16_at_an_odd_place(tmp_path: Path) -> None:
    from dosimeter.tables.table import Table

    rng = np.random.default_rng(4)
    measured = [rng.normal(26, 4, 400).round(1), rng.normal(13, 2, 400).round(1), rng.normal(120, 15, 400).round(0)]
    values = np.column_stack([rng.integers(18, 90, 400), *measured, rng.integers(0, 40, 400)]).astype(float)
    people = Table.of({name: column for name, column in zip("abcde", values.T, strict=True)})
    for kind in ("<f2", ">f2"):
        (tmp_path / "m.pkl").write_bytes(pickle.dumps(b"abc" + values[50:80].astype(kind).tobytes()))
        assert set(range(51, 81)) <= set(scan(tmp_path / "m.pkl", people).matched_rows)


def test_a_bomb_of_an_open_format_is_refused_by_its_ratio(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (12582912,), }".ljust(117) + "\n"
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(96 * 2**20)
    path.write_bytes(zipped("a.npy", array))
    with pytest.raises(Refusal, match="declares"):
        scan(path)


def test_many_pickles_in_one_file_are_read_at_the_cost_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes are not copied for each, and instructions count together."""
    from dosimeter.scanner import pickles

    data = b"\x80\x04]." * 50 + pickle.dumps([1.5, 2.5])
    assert [part.values.tolist() for part in read_pickle(data).parts] == [[1.5, 2.5]]
    monkeypatch.setattr(pickles, "MOST_OPCODES", 60)
    assert "instructions" in read_pickle(data).unread[-1][1]


def test_texts_of_one_array_that_is_named_many_times_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    from dosimeter.scanner import symbolic_contents

    monkeypatch.setattr(symbolic_contents, "MOST_TEXTS", 1000)
    arrays = [np.frombuffer(bytes(range(100)) * 3, "S1").copy() for _ in range(5)]
    contents = read_pickle(pickle.dumps(arrays))
    assert len(contents.parts) == 3
    assert "texts" in contents.unread[0][1]
