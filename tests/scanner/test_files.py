"""npz, npy, safetensors and JSON: their content is found, and dishonest files are refused before they cost anything."""

from __future__ import annotations

import io
import json
import os
import pickle
import tracemalloc
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.files.npy import UnreadableArray, npy_array
from dosimeter.scanner import scan
from dosimeter.scanner.json_arrays import read_json
from dosimeter.scanner.safetensors import read_safetensors
from dosimeter.tables.table import Table
from tests.calls import calls_of
from tests.scanner.people import NAMES, X, finding_at, table


class Bomb:
    """Unpickling it leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return (os.mkdir, (str(self.trace),))


def npy(array: np.ndarray, **options) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def node(kind: str, loader: str, **more: object) -> dict[str, object]:
    """A node of a skops schema."""
    return {"__class__": kind, "__module__": "m", "__loader__": loader, **more}


def archive(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, data in members.items():
            zipped.writestr(name, data)
    return path


def test_arrays_in_an_npz_are_compared_whatever_they_are_called(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "m.npz", weights=X[10:40], other=np.eye(5))
    assert list(scan(tmp_path / "m.npz", table()).matched_rows) == list(range(11, 41))
    without_table = scan(tmp_path / "m.npz")
    assert not without_table.rows_inside
    assert [(finding.place, finding.certainty) for finding in without_table.findings] == [
        ("weights", "possible"),
        ("other", "possible"),
    ]


def test_numbers_that_match_no_more_than_by_accident_stay_a_possibility(tmp_path: Path) -> None:
    from dosimeter.tables.table import Table

    rng = np.random.default_rng(0)
    people = Table.of({f"b{j}": rng.integers(0, 2, 300) for j in range(4)})
    np.savez(tmp_path / "m.npz", signs=rng.integers(0, 2, (30, 4)))
    result = scan(tmp_path / "m.npz", people)
    finding = finding_at(result, "signs")
    assert (finding.certainty, finding.match.beyond_accident) == ("possible", False)
    assert finding.match.matched > 0
    assert not result.rows_inside
    assert result.matched_rows == ()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<f8", ">f8", "<f4"])
def test_a_single_array_is_read_in_any_order_and_width(order, kind, tmp_path: Path) -> None:
    (tmp_path / "m.npy").write_bytes(npy(np.asarray(X[:25], dtype=kind, order=order)))
    assert list(scan(tmp_path / "m.npy", table()).matched_rows) == list(range(1, 26))


def test_a_transposed_table_and_one_in_columns_are_found(tmp_path: Path) -> None:
    people = table().drop(["ill"])
    np.savez(tmp_path / "a.npz", turned=X[:40].T)
    assert list(scan(tmp_path / "a.npz", people).matched_rows) == list(range(1, 41))
    np.savez(tmp_path / "b.npz", **{name: X[5:25, j] for j, name in enumerate(NAMES)})
    assert list(scan(tmp_path / "b.npz", people).matched_rows) == list(range(6, 26))


def test_images_are_found_as_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", X[:30].reshape(30, 5, 6))
    assert list(scan(tmp_path / "m.npy", table().drop(["ill"])).matched_rows) == list(range(1, 31))


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
def test_tensors_are_found_at_their_own_precision(kind, tmp_path: Path) -> None:
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    from dosimeter.tables.table import Table

    people = Table.of(dict(zip(NAMES, scaled.T, strict=True)))
    (tmp_path / "m.safetensors").write_bytes(save({"memory.keys": scaled[100:150].astype(kind)}))
    assert list(scan(tmp_path / "m.safetensors", people).matched_rows) == list(range(101, 151))


def test_bfloat16_is_the_upper_half_of_a_float() -> None:
    header = json.dumps({"t": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    body = np.array([0x3FC0, 0xC040], dtype="<u2").tobytes()
    (part,) = read_safetensors(len(header).to_bytes(8, "little") + header + body, Location("m")).parts
    assert part.values.tolist() == [1.5, -3.0]


def test_weights_of_a_network_are_not_a_finding(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    layers = {
        "0.weight": rng.normal(size=(64, 30)),
        "0.bias": rng.normal(size=64),
        "2.weight": rng.normal(size=(2, 64)),
    }
    (tmp_path / "m.safetensors").write_bytes(save({name: layer.astype(np.float32) for name, layer in layers.items()}))
    assert scan(tmp_path / "m.safetensors", table()).findings == ()


def test_json_gives_its_arrays_records_columns_and_lists(tmp_path: Path) -> None:
    nested = {
        "model": {"support": X[:12].tolist(), "levels": ["Ulm", "Graz"]},
        "records": [{name: X[i, j] for j, name in enumerate(NAMES)} | {"note": "x"} for i in range(20, 30)],
        "columns": {name: X[40:50, j].tolist() for j, name in enumerate(NAMES)},
        "by_person": {f"p{i}": X[i].tolist() for i in range(60, 70)},
    }
    (tmp_path / "m.json").write_text(json.dumps(nested))
    result = scan(tmp_path / "m.json", table().drop(["ill"]))
    expected = [*range(1, 13), *range(21, 31), *range(41, 51), *range(61, 71)]
    assert list(result.matched_rows) == expected
    assert finding_at(scan(tmp_path / "m.json"), "model.levels").severity == "lists"


def test_keys_that_may_be_names_of_people_are_not_shown(tmp_path: Path) -> None:
    nested = {"people": {f"Miller {i}": {"row": X[i].tolist()} for i in range(30)}}
    (tmp_path / "m.json").write_text(json.dumps(nested))
    result = scan(tmp_path / "m.json", table())
    assert len(result.matched_rows) == 30
    assert "Miller" not in json.dumps(result.to_dict())


def test_tables_with_text_among_their_columns_are_found(tmp_path: Path) -> None:
    people = table().drop(["ill"])
    rows = [[f"p{i}", *X[i].tolist(), None] for i in range(10)]
    split = {"columns": ["id", *NAMES, "gap"], "index": list(range(10)), "data": rows}
    named = {"id": [f"p{i}" for i in range(20, 30)], **{name: X[20:30, j].tolist() for j, name in enumerate(NAMES)}}
    (tmp_path / "m.json").write_text(json.dumps({"split": split, "columns": named}))
    assert list(scan(tmp_path / "m.json", people).matched_rows) == [*range(1, 11), *range(21, 31)]


def test_a_dict_of_people_inside_a_model_does_not_show_its_keys(tmp_path: Path) -> None:
    import skops.io
    from sklearn.linear_model import LinearRegression

    model = LinearRegression().fit(X, X[:, 0])
    model.kept_ = {f"Miller {i}": X[i] for i in range(30)}
    model.few_ = {f"Smith {i}": {"row": X[i + 40]} for i in range(3)}
    skops.io.dump(model, tmp_path / "m.skops")
    result = scan(tmp_path / "m.skops", table().drop(["ill"]))
    assert set(result.matched_rows) == {*range(1, 31), 41, 42, 43}
    assert [(finding.place, finding.count) for finding in result.findings if finding.severity == "rows"][:2] == [
        ("kept_.*", 30),
        ("few_.*.row", 3),
    ]
    facts = json.dumps(result.to_dict())
    assert "Miller" not in facts
    assert "Smith" not in facts


def test_our_own_coefficients_are_not_a_finding(tmp_path: Path) -> None:
    coefficients = {"loss": "logistic", "l2": 0.001, "intercept": None, "coef": {"age": 1.0, "bmi": 2.0}}
    (tmp_path / "m.json").write_text(json.dumps(coefficients))
    assert not scan(tmp_path / "m.json", table()).rows_inside


@pytest.mark.parametrize("name", [f"m.{kind}" for kind in "pkl joblib pickle sav pt pth ckpt bin h5".split()])
def test_a_pickle_of_any_name_is_read_and_nothing_in_it_runs(name: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    (tmp_path / name).write_bytes(pickle.dumps({"first": Bomb(trace), "support_vectors_": X[:9]}))
    assert [finding.place for finding in scan(tmp_path / name).findings if finding.rows_inside] == ["support_vectors_"]
    assert scan(tmp_path / name, table()).matched_rows == tuple(range(1, 10))
    assert not trace.exists()


@pytest.mark.parametrize("kind", ["json", "onnx", "skops", "safetensors"])
def test_a_pickle_under_the_name_of_an_open_format_is_refused(kind: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    (tmp_path / f"m.{kind}").write_bytes(pickle.dumps(Bomb(trace)))
    with pytest.raises(Refusal, match=f"not a .{kind} file but a pickle"):
        scan(tmp_path / f"m.{kind}", table())
    assert not trace.exists()


def test_arrays_of_objects_are_reported_and_never_opened(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    objects = np.empty(1, dtype=object)
    objects[0] = Bomb(trace)
    hostile = npy(objects, allow_pickle=True)
    members = {"a": node("ndarray", "NdArrayNode", type="numpy", file="a.npy")}
    members["X_fit_"] = node("ndarray", "NdArrayNode", type="numpy", file="b.npy")
    schema = node("dict", "DictNode", content=members)
    archive(tmp_path / "m.npz", {"a.npy": hostile, "rows.npy": npy(X[:20]), "data.pkl": pickle.dumps(Bomb(trace))})
    archive(tmp_path / "m.skops", {"schema.json": json.dumps(schema).encode(), "a.npy": hostile, "b.npy": npy(X[:20])})
    (tmp_path / "m.npy").write_bytes(hostile)
    for name, unread, rows in (("m.npz", 2, 20), ("m.skops", 1, 20), ("m.npy", 1, 0)):
        result = scan(tmp_path / name, table())
        assert (len(result.unread), len(result.matched_rows)) == (unread, rows)
        assert any("an array of objects is a pickle" in why for _, why in result.unread)
        assert not trace.exists()


def _lying_npy(shape: tuple[int, ...], body: bytes = b"") -> bytes:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + body


def _safetensors(entry: object, body: bytes = b"") -> bytes:
    header = json.dumps({"t": entry}).encode()
    return len(header).to_bytes(8, "little") + header + body


def _zip_of(member: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("a.npy", member)
    return buffer.getvalue()


def _claims(data: bytes, size: int) -> bytes:
    """The archive with another unpacked size in its directory and its local header."""
    changed = bytearray(data)
    directory = changed.index(b"PK\x01\x02")
    changed[directory + 24 : directory + 28] = size.to_bytes(4, "little")
    changed[22:26] = size.to_bytes(4, "little")
    return bytes(changed)


HOSTILE = {
    "bomb.npz": _claims(_zip_of(bytes(1000)), 3_900_000_000),
    "garbage.npz": b"PK\x03\x04" + bytes(50),
    "cut.npz": _zip_of(npy(np.ones(1000)))[:200],
    "none.skops": _zip_of(b""),
    "text.skops": b"PK but no archive",
    "header.safetensors": (2**62).to_bytes(8, "little") + b"{}",
    "short.safetensors": b"\x02\x00",
    "list.safetensors": (2).to_bytes(8, "little") + b"[]",
    "deep.safetensors": (100_000).to_bytes(8, "little") + b"[" * 100_000,
    "huge.safetensors": _safetensors({"dtype": "F64", "shape": [10**10], "data_offsets": [0, 8 * 10**10]}),
    "beyond.safetensors": _safetensors({"dtype": "F64", "shape": [1], "data_offsets": [100, 108]}, bytes(8)),
    "negative.safetensors": _safetensors({"dtype": "F64", "shape": [-1, -1], "data_offsets": [0, 8]}, bytes(8)),
    "backwards.safetensors": _safetensors({"dtype": "F64", "shape": [1], "data_offsets": [8, 0]}, bytes(8)),
    "nothing.safetensors": _safetensors(7),
    "empty.safetensors": _safetensors({"dtype": "F64", "shape": [0, 10**30], "data_offsets": [0, 0]}),
    "deep.json": b"[" * 200_000 + b"]" * 200_000,
    "deeper.json": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "half.json": b'{"a": [1, 2',
    "latin.json": b'{"a": "\xff"}',
    "empty.onnx": b"\x00",
    "varint.onnx": b"\xff" * 40,
    "length.onnx": b"\x3a\xff\xff\xff\xff\x7f",
    "model.txt": b"hello",
    "model": b"hello",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_dishonest_file_is_refused_at_little_cost(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(HOSTILE[name])
    tracemalloc.start()
    try:
        with pytest.raises(Refusal) as caught:
            scan(tmp_path / name)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(caught.value).isprintable()
    assert str(caught.value).startswith(str(tmp_path / name)[:20])
    assert peak < 50_000_000


@pytest.mark.parametrize("shape", [(10**10,), (-1,), (0, 10**30), (1250, 1000, 1000), (2**63, 2)])
def test_an_array_that_declares_too_much_is_not_allocated(shape: tuple[int, ...], tmp_path: Path) -> None:
    with pytest.raises(UnreadableArray):
        npy_array(_lying_npy(shape, bytes(8)))
    (tmp_path / "m.npy").write_bytes(_lying_npy(shape, bytes(8)))
    assert len(scan(tmp_path / "m.npy").unread) == 1


def test_an_archive_that_declares_ten_gigabytes_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    archive(tmp_path / "m.npz", {f"{k}.npy": bytes(6_000_000) for k in range(4)})
    with pytest.raises(Refusal, match=r"declares 24000000 bytes unpacked, above the limit of 10000000"):
        scan(tmp_path / "m.npz", limit=10_000_000)


def test_a_sparse_matrix_too_large_to_make_dense_is_reported(tmp_path: Path) -> None:
    inner = io.BytesIO()
    pieces = {"data": np.ones(1), "indices": np.zeros(1, int), "indptr": np.zeros(2, int), "format": np.array(b"csr")}
    np.savez(inner, shape=np.array([10**9, 10**9]), **pieces)
    schema = node("csr_matrix", "SparseMatrixNode", type="scipy", file="a.npz")
    archive(tmp_path / "m.skops", {"schema.json": json.dumps(schema).encode(), "a.npz": inner.getvalue()})
    ((_, why),) = scan(tmp_path / "m.skops").unread
    assert "sparse matrix" in why


def test_many_empty_sparse_matrices_do_not_add_up(tmp_path: Path) -> None:
    inner = io.BytesIO()
    pieces = {
        "data": np.ones(0),
        "indices": np.zeros(0, int),
        "indptr": np.zeros(3001, int),
        "format": np.array(b"csr"),
    }
    np.savez(inner, shape=np.array([3000, 3000]), **pieces)
    members = {f"{k}": node("csr_matrix", "SparseMatrixNode", type="scipy", file=f"{k}.npz") for k in range(40)}
    files = {f"{k}.npz": inner.getvalue() for k in range(40)}
    schema = json.dumps(node("dict", "DictNode", content=members)).encode()
    result = scan(archive(tmp_path / "m.skops", {"schema.json": schema, **files}))
    assert len(result.unread) == 40 - 2**26 // 3000**2


def test_a_schema_that_refers_to_itself_ends(tmp_path: Path) -> None:
    again = node("C", "CachedNode", __id__=1, cached=True)
    schema = node("C", "ObjectNode", __id__=1, content=again)
    archive(tmp_path / "m.skops", {"schema.json": json.dumps(schema).encode()})
    assert scan(tmp_path / "m.skops").findings == ()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(max_size=4), below, max_size=4),
    max_leaves=20,
)


@settings(deadline=None, max_examples=300)
@given(values)
def test_any_json_is_read(value) -> None:
    contents = read_json(json.dumps(value).encode(), Location("m.json"))
    assert all(part.texts or part.values.size for part in contents.parts)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_behind_a_safetensors_header_are_read_or_one_refusal(data: bytes) -> None:
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    line = ""
    for file_bytes in (data, len(data).to_bytes(8, "little") + data, _safetensors(entry, data)):
        try:
            read_safetensors(file_bytes, Location("m"))
        except Refusal as refusal:
            line += str(refusal)
    assert line.isprintable()


def test_many_small_arrays_in_texts_are_one_table(tmp_path: Path) -> None:
    """Compared one by one, 20,000 of them took minutes: the work must not grow with the square of their number."""
    calls = []
    for count in (2_000, 20_000):
        lines = X[np.arange(count) % 400, :3]
        (tmp_path / "m.json").write_text(json.dumps([json.dumps([line.tolist()] * 2) for line in lines]))
        calls.append(calls_of(lambda: scan(tmp_path / "m.json", table())))
    assert calls[1] < 15 * calls[0]
    result = scan(tmp_path / "m.json", table())
    assert {len(finding.match.rows) for finding in result.findings if finding.rows_inside and finding.match} == {400}


def test_arrays_beyond_the_limit_are_reported_as_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("dosimeter.scanner.scan"), "MOST_COMPARED", 3)
    np.savez(tmp_path / "m.npz", **{f"a{k}": X[k : k + 2 + k, : 4 + k] for k in range(6)}, all=X[:40])
    result = scan(tmp_path / "m.npz", table())
    assert list(result.matched_rows) == list(range(1, 41))  # the largest come first
    assert any("only the 3 largest arrays" in why for _, why in result.unread)


def test_texts_beyond_the_limit_are_reported_as_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dosimeter.scanner.embedded_text.MOST", 10)
    (tmp_path / "m.json").write_text(json.dumps({"few": ["[1.5, 2.5]"] * 3, "many": ["[1.5, 2.5]"] * 30}))
    assert [place for place, _ in scan(tmp_path / "m.json").unread] == ["many"]


def tensors(header: dict[str, Any], body: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def test_a_header_that_starts_like_a_pickle_is_not_one(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_to = {"w": np.arange(4.0)}
    for size in range(40):
        path.write_bytes(save(save_to, {"note": "x" * size}))
        if path.read_bytes()[:2] == b"\x80\x00":
            break
    assert path.read_bytes()[:2] == b"\x80\x00"
    assert scan(path).arrays_read == 2


def test_overlapping_tensors_are_refused_and_unused_bytes_are_reported(tmp_path: Path) -> None:
    entry = {"dtype": "F64", "shape": [4], "data_offsets": [0, 32]}
    path = tmp_path / "m.safetensors"
    for begin, end in ((0, 32), (24, 56), (8, 16)):
        other = {"dtype": "F64", "shape": [(end - begin) // 8], "data_offsets": [begin, end]}
        path.write_bytes(tensors({"a": entry, "b": other}, bytes(64)))
        with pytest.raises(Refusal, match="two tensors share bytes"):
            scan(path)
    path.write_bytes(tensors({"a": entry, "b": {**entry, "data_offsets": [40, 72]}}, bytes(80)))
    assert scan(path).unread == (("between the tensors", "16 bytes that belong to no tensor"),)
    path.write_bytes(tensors({"a": entry, "none": {"dtype": "F32", "shape": [0], "data_offsets": [32, 32]}}, bytes(32)))
    assert scan(path).unread == ()


def test_numbers_at_the_limits_of_float64_match_no_row_and_cause_no_warning(tmp_path: Path) -> None:
    ends = np.array([1e308, -1e308, 5e-324, np.inf, np.nan, 0.0])
    np.savez(tmp_path / "m.npz", a=np.tile(ends, (30, 5)), b=np.outer(ends, np.ones(31)), c=ends, mean_=ends)
    result = scan(tmp_path / "m.npz", table())  # warnings are errors here
    assert result.matched_rows == ()


def test_a_type_of_numbers_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(tensors({"a": {"dtype": ["F64"], "shape": [4], "data_offsets": [0, 32]}}, bytes(32)))
    with pytest.raises(Refusal, match="do not fit the file"):
        scan(path)


def test_lists_and_texts_inside_records_are_read_beside_their_numbers(tmp_path: Path) -> None:
    """Records that share a number, as the trees of a file do."""
    records = [{"id": k, "row": X[k].tolist(), "who": f"person {k}"} for k in range(12)]
    (tmp_path / "m.json").write_text(json.dumps({"trees": records}))
    assert scan(tmp_path / "m.json", table()).matched_rows == tuple(range(1, 13))
    texts = {
        text for part in read_json((tmp_path / "m.json").read_bytes(), Location("m.json")).parts for text in part.texts
    }
    assert texts == {f"person {k}" for k in range(12)}


def test_names_that_are_keys_are_read(tmp_path: Path) -> None:
    names = [f"person{k}" for k in range(30)]
    people = Table.of({"name": names, "x": np.arange(30.0)})
    for content in ({name: k for k, name in enumerate(names[:12])}, {name: {"note": "-"} for name in names}):
        (tmp_path / "m.json").write_text(json.dumps({"kept": content}))
        found = scan(tmp_path / "m.json", people)
        assert any(finding.match and len(finding.match.unique_rows) == len(content) for finding in found.findings)
