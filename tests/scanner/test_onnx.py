"""ONNX read by its wire format. The onnx library writes the files and is the oracle of their content."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from sklearn.decomposition import PCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.scanner import scan
from dosimeter.scanner.onnx import read_onnx
from dosimeter.scanner.protobuf import ProtobufError, fields_by_number, floats, integers
from tests.scanner.people import X, Y, finding_at, table

KINDS = [np.float32, np.float64, np.float16, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32]
KINDS += [np.uint64, np.bool_]


def model_of(nodes: list[Any] = (), tensors: list[Any] = ()) -> bytes:
    """A model around nodes and initialisers."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 30])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None])
    nodes = list(nodes) or [helper.make_node("Identity", ["x"], ["y"])]
    model: bytes = helper.make_model(helper.make_graph(nodes, "g", [x], [y], list(tensors))).SerializeToString()
    return model


def parts(data: bytes) -> dict[str, Any]:
    """Place -> array or texts."""
    contents = read_onnx(data, Location("m.onnx"))
    return {part.place: part.texts or part.values for part in contents.parts}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("raw", [True, False])
def test_every_type_of_number_is_read_as_the_library_reads_it(kind, raw) -> None:
    values = np.random.default_rng(0).integers(0, 2 if kind is np.bool_ else 100, (3, 4)).astype(kind)
    if not raw:
        number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        flat = values.view(np.uint16).ravel() if kind is np.float16 else values.ravel()
        tensor = helper.make_tensor("t", number, values.shape, flat if kind is not np.float16 else values.ravel())
    else:
        tensor = numpy_helper.from_array(values, "t")
    (read,) = parts(model_of(tensors=[tensor])).values()
    assert read.dtype == values.dtype
    assert np.array_equal(read, numpy_helper.to_array(tensor))


def test_negative_numbers_and_bfloat16_are_read() -> None:
    ints = helper.make_tensor("i", TensorProto.INT64, [3], [-1, -(2**62), 5])
    half = helper.make_tensor("b", TensorProto.BFLOAT16, [2], np.array([1.5, -3.0], dtype=np.float32))
    texts = helper.make_tensor("s", TensorProto.STRING, [2], [b"Ulm", "Zürich".encode()])
    read = parts(model_of(tensors=[ints, half, texts]))
    assert read["i"].tolist() == [-1, -(2**62), 5]
    assert read["b"].tolist() == [1.5, -3.0]
    assert read["s"] == ("Ulm", "Zürich")


def test_attributes_subgraphs_functions_and_metadata_are_read() -> None:
    inner = helper.make_graph([], "inner", [], [], [numpy_helper.from_array(np.ones((2, 2)), "deep")])
    nodes = [
        helper.make_node(
            "SVMRegressor", ["x"], ["y"], "svm", support_vectors=[1.0, 2.0, 3.0, 4.0], coefficients=[0.5, -0.5]
        ),
        helper.make_node("LabelEncoder", ["x"], ["z"], "enc", keys_strings=["a", "b"], values_int64s=[0, -1]),
        helper.make_node("If", ["x"], ["w"], "if", then_branch=inner, else_branch=inner),
        helper.make_node("Constant", [], ["c"], "const", value=numpy_helper.from_array(np.arange(6.0).reshape(2, 3))),
    ]  # fmt: skip
    model = onnx.load_from_string(model_of(nodes))
    model.metadata_props.add(key="who", value="us")
    function = helper.make_function("d", "f", ["a"], ["b"], [nodes[3]], [helper.make_opsetid("", 18)])
    model.functions.append(function)
    arrays = {part.place: part for part in read_onnx(model.SerializeToString(), Location("m")).parts}
    assert arrays["svm.support_vectors"].values.tolist() == [1, 2, 3, 4]
    assert arrays["enc.keys_strings"].texts == ("a", "b")
    assert arrays["enc.values_int64s"].values.tolist() == [0, -1]
    assert arrays["if.then_branch.deep"].values.tolist() == [[1, 1], [1, 1]]
    assert arrays["const.value"].values.shape == (2, 3)
    assert arrays["metadata.who"].texts == ("us",)
    assert (arrays["svm.support_vectors"].owner, arrays["svm.support_vectors"].holder) == ("SVMRegressor", "svm")


def test_support_vectors_take_their_shape_from_their_weights(tmp_path: Path) -> None:
    model = SVC().fit(X, Y)
    node = helper.make_node(
        "SVMClassifier", ["x"], ["y"], "svm", domain="ai.onnx.ml", kernel_type="RBF",
        support_vectors=model.support_vectors_.ravel().tolist(), vectors_per_class=model.n_support_.tolist(),
        coefficients=model.dual_coef_.ravel().tolist(), classlabels_ints=[0, 1],
    )  # fmt: skip
    (tmp_path / "m.onnx").write_bytes(model_of([node]))
    result = scan(tmp_path / "m.onnx", table())
    assert list(result.matched_rows) == sorted((model.support_ + 1).tolist())
    assert finding_at(result, "svm.support_vectors").shape == model.support_vectors_.shape


CONVERTED = [
    (make_pipeline(StandardScaler(), SVC()), "SVMc.support_vectors"),
    (make_pipeline(StandardScaler(), PCA(6), SVR()), "SVM.support_vectors"),
    (make_pipeline(StandardScaler(), KNeighborsClassifier()), ""),
    (GaussianProcessRegressor(), ""),
]


@pytest.mark.parametrize(("model", "place"), CONVERTED, ids=lambda value: str(value)[-40:])
def test_converted_models_reveal_their_rows(model, place, tmp_path: Path) -> None:
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: its conversions are not read here")
    small = X.astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(small, Y)
        (tmp_path / "m.onnx").write_bytes(skl2onnx.to_onnx(model, small[:1]).SerializeToString())
    last = model[-1] if hasattr(model, "steps") else model
    stored_rows = getattr(last, "support_", np.arange(len(X)))
    result = scan(tmp_path / "m.onnx", table())
    assert list(result.matched_rows) == sorted((stored_rows + 1).tolist())
    if place:
        assert finding_at(result, place).match.matched == len(stored_rows)


def test_a_converted_linear_model_has_no_rows(tmp_path: Path) -> None:
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: its conversions are not read here")
    small = X.astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_pipeline(StandardScaler(), LogisticRegression()).fit(small, Y)
        (tmp_path / "m.onnx").write_bytes(skl2onnx.to_onnx(model, small[:1]).SerializeToString())
    assert not scan(tmp_path / "m.onnx", table()).rows_inside


def test_numbers_in_another_file_are_reported_and_not_followed(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(X.astype(np.float32), "elsewhere")
    model = onnx.load_from_string(model_of(tensors=[tensor]))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data")
    result = scan(tmp_path / "m.onnx")
    assert result.unread == (("elsewhere", "its numbers are in another file, which is not followed"),)
    assert result.findings == ()


def test_a_model_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    whole = model_of(tensors=[numpy_helper.from_array(X[:20], "t")])
    for end in range(0, len(whole) - 1, 37):
        with pytest.raises(Refusal, match="not an ONNX model") as caught:
            read_onnx(whole[:end], Location("m.onnx"))
        assert str(caught.value).isprintable()


def test_a_tensor_that_claims_ten_gigabytes_is_refused() -> None:
    tensor = numpy_helper.from_array(np.ones(3), "t")
    tensor.dims[:] = [1250, 1000, 1000]
    with pytest.raises(Refusal, match="do not fill its shape"):
        read_onnx(model_of(tensors=[tensor]), Location("m.onnx"))


def _field(number: int, body: bytes) -> bytes:
    """A field of bytes in the wire format."""
    from google.protobuf.internal import encoder

    return bytes([8 * number + 2]) + encoder._VarintBytes(len(body)) + body


def test_endless_subgraphs_are_refused() -> None:
    graph = b""
    for _ in range(500):
        graph = _field(1, _field(5, _field(6, graph)))
    with pytest.raises(Refusal, match="nested too deeply"):
        read_onnx(_field(7, graph), Location("m.onnx"))


def read_or_refused(data: bytes) -> str:
    """The text of the refusal; "" if there was none."""
    try:
        read_onnx(data, Location("m.onnx"))
    except Refusal as refusal:
        return str(refusal)
    return ""


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=300))
def test_any_bytes_are_a_model_or_one_refusal(data: bytes) -> None:
    assert read_or_refused(data).isprintable()


_SCALER = helper.make_node("Scaler", ["x"], ["y"], offset=[1.0, 2.0, 3.0], scale=[1.0, 2.0, 3.0], modes=["a"])
_WHOLE = model_of([_SCALER], [numpy_helper.from_array(np.arange(6.0).reshape(2, 3), "t")])


@settings(deadline=None, max_examples=300)
@given(st.lists(st.tuples(st.integers(0, len(_WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_damaged_model_is_a_model_or_one_refusal(changes) -> None:
    damaged = bytearray(_WHOLE)
    for place, byte in changes:
        damaged[place] = byte
    assert read_or_refused(bytes(damaged)).isprintable()


@settings(deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_packed_integers_are_read_as_protobuf_packs_them(values: list[int]) -> None:
    from google.protobuf.internal import encoder

    packed = b"".join(encoder._VarintBytes(value % 2**64) for value in values)
    assert integers([memoryview(packed)]).tolist() == values
    if packed:
        with pytest.raises(ProtobufError):
            integers([memoryview(packed[:-1] + b"\x80")])


@settings(deadline=None, max_examples=300)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=400), st.binary(max_size=30), st.booleans())
def test_unpacked_integers_are_read_one_by_one_whatever_follows(values: list[int], after: bytes, near: bool) -> None:
    from google.protobuf.internal import encoder

    ours = b"".join(b"\x40" + encoder._VarintBytes(value) for value in values)
    follows = b"\x4a" + encoder._VarintBytes(len(after)) + after if near else b""
    fields = fields_by_number(memoryview(ours + follows))
    assert integers(fields[8]).view(np.uint64).tolist() == values
    assert [bytes(value) for value in fields[9]] == ([after] if near else [])


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.floats(width=32, allow_nan=False), max_size=60),
    st.lists(st.floats(width=32, allow_nan=False), max_size=20),
)
def test_unpacked_floats_end_where_the_next_field_begins(first: list[float], second: list[float]) -> None:
    import struct

    ours = b"".join(b"\x3d" + struct.pack("<f", value) for value in first)
    theirs = b"".join(b"\x25" + struct.pack("<f", value) for value in second)
    fields = fields_by_number(memoryview(ours + theirs + ours))
    assert floats(fields[7]).tolist() == [*first, *first]
    assert floats(fields[4]).tolist() == second


def test_long_lists_of_numbers_are_read_and_nonsense_of_the_same_size_is_refused() -> None:
    node = helper.make_node("TreeEnsembleClassifier", ["x"], ["y"], "t", nodes_featureids=list(range(100_000)))
    (part,) = read_onnx(model_of([node]), Location("m")).parts
    assert part.values.tolist() == list(range(100_000))
    for nonsense in (b"\x08\x00", b"\x0d\x00\x00\x00\x00", b"\x08\x00\x10\x00"):
        with pytest.raises(Refusal, match="not an ONNX model"):
            read_onnx(nonsense * 100_000, Location("m"))


def test_more_fields_than_a_model_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dosimeter.scanner.protobuf._MOST", 1000)
    with pytest.raises(Refusal, match="more fields"):
        read_onnx(b"\x08\x00\x10\x00" * 1000, Location("m"))
