"""Pickles, torch and R files: their instructions are read, and what they describe is found under its name."""

from __future__ import annotations

import io
import pickle
import pickletools
import shutil
import struct
import subprocess
import zipfile
from contextlib import suppress
from pathlib import Path

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from dosimeter.scanner import scan
from dosimeter.scanner.pickle_program import NotAPickle
from dosimeter.scanner.pickles import read_pickle
from dosimeter.scanner.r_data import NotRData, read_r_data
from tests.scanner.people import X, Y, dump_model, table

ARRAYS = {
    "float64": X[:7, :3],
    "big-endian": X[:7, :3].astype(">f4"),
    "fortran": np.asfortranarray(X[:7, :3]),
    "integers": np.arange(12).reshape(3, 4),
    "booleans": Y[:9] == 1,
    "texts": np.array(["ann", "bob", "eve"]),
    "bytes": np.array([b"ann", b"bob"]),
    "records": np.array([(1, 2.5), (3, 4.5)], dtype=[("n", "<i4"), ("x", "<f8")]),
    "empty": np.empty((0, 3)),
    "scalar": np.float64(2.5),
    "zero-dimensional": np.array(7),
}


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_is_read_as_pickle_would(name: str, protocol: int) -> None:
    (part,) = read_pickle(pickle.dumps({"it": ARRAYS[name], "name": "x"}, protocol=protocol)).parts[:1]
    array = np.asarray(ARRAYS[name])
    assert part.place == "it"
    if array.dtype.kind in "US":
        assert list(part.texts) == [cell if isinstance(cell, str) else cell.decode() for cell in array.tolist()]
    elif array.dtype.names:
        assert np.array_equal(part.values, np.column_stack([array["n"], array["x"]]))
    else:
        assert part.values.shape == array.shape
        assert np.array_equal(part.values, array)


@pytest.mark.parametrize("write", ["pickle", "joblib"])
@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), SVC()),
        KNeighborsClassifier(algorithm="kd_tree"),
        KMeans(3, n_init=1, random_state=0),
        RandomForestClassifier(3, random_state=0, min_samples_leaf=1),
    ],
    ids=["svc", "neighbours", "clusters", "forest"],
)
def test_a_pickle_has_the_findings_of_the_same_model_in_skops(model, write: str, tmp_path: Path) -> None:
    fitted = model.fit(X[:200], Y[:200])
    if write == "pickle":
        (tmp_path / "m.pkl").write_bytes(pickle.dumps(fitted))
    else:
        joblib.dump(fitted, tmp_path / "m.pkl")

    def personal(path: Path) -> set[tuple[str, int]]:
        findings = scan(path).findings
        severe = ("rows", "values of single people")
        return {(f.content, f.count) for f in findings if f.severity in severe and f.certainty == "known"}

    expected = personal(dump_model(fitted, tmp_path))
    assert expected
    assert expected <= personal(tmp_path / "m.pkl")


def test_what_a_pickle_shares_is_read_once_and_a_cycle_ends() -> None:
    inner = [X[:3]]
    for _ in range(60):  # 2**60 paths lead to the array
        inner = [inner, inner]
    inner.append(inner)
    assert len(read_pickle(pickle.dumps(inner)).parts) == 1


@given(st.binary(max_size=200))
def test_any_bytes_are_a_pickle_or_are_refused(data: bytes) -> None:
    for start in (b"", b"\x80\x04", b"\x80\x02"):
        with suppress(NotAPickle):
            assert read_pickle(start + data + b".").kind == "pickle"


@given(st.integers(0, 10**6), st.integers(0, 255))
def test_a_damaged_pickle_is_read_or_refused(position: int, value: int) -> None:
    data = bytearray(pickle.dumps({"a": X[:4], "b": ["x", 1, None, (2.5, {3})], "c": SVC()}))
    data[position % len(data)] = value
    with suppress(NotAPickle):
        assert read_pickle(bytes(data)).kind == "pickle"


def test_every_instruction_of_pickle_is_known() -> None:
    from dosimeter.scanner.pickle_program import _CONSTANTS, _SPECIAL

    pushes = ("int", "long", "float", "bytes", "str", "bytearray", "int_or_bool", "bytes_or_str", "unicode")
    for opcode in pickletools.opcodes:
        kinds = [kind.name.removesuffix("_") for kind in opcode.stack_after]
        known = opcode.name in _SPECIAL or opcode.name in _CONSTANTS
        passive = opcode.name in ("PROTO", "FRAME", "STOP", "READONLY_BUFFER")
        assert known or passive or (opcode.arg is not None and kinds[-1] in pushes), opcode.name


def test_an_array_that_declares_more_than_its_bytes_is_not_allocated(tmp_path: Path) -> None:
    text = pickle.dumps(np.zeros(3), protocol=2)
    lying = text.replace(b"K\x03\x85", b"K\x09\x85")
    assert lying != text
    (tmp_path / "m.pkl").write_bytes(lying)
    assert any("bytes for an array" in why for _, why in scan(tmp_path / "m.pkl").unread)


def _torch_file(path: Path, tensor: np.ndarray) -> None:
    """A file as torch.save writes it: the instructions beside the storage."""
    program = (
        b"\x80\x02}q\x00(X\x06\x00\x00\x00memoryq\x01ctorch._utils\n_rebuild_tensor_v2\nq\x02((X\x07\x00\x00\x00storage"
        b"ctorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuM" + struct.pack("<H", tensor.size) + b"tQK\x00"
        b"K" + bytes([tensor.shape[0]]) + b"K" + bytes([tensor.shape[1]]) + b"\x86"
        b"K" + bytes([tensor.shape[1]]) + b"K\x01\x86\x89ccollections\nOrderedDict\n)RtRu."
    )  # fmt: skip
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", program)
        archive.writestr("archive/data/0", tensor.astype("<f4").tobytes())


def test_tensors_of_a_torch_file_are_read_under_their_names(tmp_path: Path) -> None:
    _torch_file(tmp_path / "m.pt", X[:50])
    result = scan(tmp_path / "m.pt", table())
    assert result.matched_rows == tuple(range(1, 51))
    assert any(finding.place == "memory" for finding in result.findings)
    assert [finding.place for finding in scan(tmp_path / "m.pt").findings] == ["memory"]


def test_a_file_that_torch_wrote_is_read(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"layer.weight": torch.tensor(X[:20]).T, "memory": torch.tensor(X[30:40])}, tmp_path / "m.pt")
    assert set(scan(tmp_path / "m.pt", table()).matched_rows) == {*range(1, 21), *range(31, 41)}


R_MODELS = {
    "lm": ("lm(a ~ b + c, t)", "model.numbers"),
    "glm": ("glm(a ~ b + c, data = t)", "data.numbers"),
    "list of a frame": ("list(kept = t)", "kept.numbers"),
    "closure": ("(function() { kept <- t; f <- function(x) x + 1; f(1); f(2); f(3); f })()", ""),
}


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
def test_r_objects_are_read_without_r_and_without_a_table(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "t.csv", X[:80, :3], delimiter=",", header="a,b,c", comments="", fmt="%.17g")
    saves = "".join(f"saveRDS({code}, '{name}.rds');" for name, (code, _) in R_MODELS.items())
    code = f"t <- read.csv('t.csv'); {saves} save(t, file = 'all.rdata')"
    subprocess.run(["Rscript", "-e", code], cwd=tmp_path, check=True, capture_output=True)
    for name, (_, place) in R_MODELS.items():
        rows = [finding for finding in scan(tmp_path / f"{name}.rds").findings if finding.rows_inside]
        assert any(finding.place.endswith(place) and finding.shape == (80, 3) for finding in rows), name
    assert any(finding.place == "t.numbers" for finding in scan(tmp_path / "all.rdata").findings)


@given(st.binary(max_size=300))
def test_any_bytes_are_r_data_or_are_refused(data: bytes) -> None:
    header = b"X\n" + struct.pack(">iii", 2, 0, 0)
    for start in (header, header + struct.pack(">ii", 0x213, 3)):
        with suppress(NotRData):
            assert read_r_data(start + data).kind == "R data"


def test_a_list_nested_a_thousand_deep_is_refused() -> None:
    data = b"X\n" + struct.pack(">iii", 2, 0, 0) + struct.pack(">ii", 19, 1) * 1000
    with pytest.raises(NotRData, match="nested too deeply"):
        read_r_data(data)


def test_joblib_arrays_of_objects_nested_deeply_are_refused() -> None:
    objects = np.empty(1, dtype=object)
    buffer = io.BytesIO()
    joblib.dump(objects, buffer)
    data = buffer.getvalue()
    inner = data.index(b"\x80", 1)  # the objects follow as a pickle of their own
    with pytest.raises(NotAPickle, match="deep"):
        read_pickle(data[:inner] * 30 + data[inner:])
