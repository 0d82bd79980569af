"""Model files: scikit-learn through skops, coefficients through JSON, and the archives that lie."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dosimeter.adapters.coefficients import Coefficients
from dosimeter.adapters.read_model import read_model
from dosimeter.core.errors import Refusal


class Untrusted:
    """A type that skops does not trust."""

    def __init__(self) -> None:
        self.x = 1


def _fitted() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = np.random.default_rng(0).normal(size=(30, 3))
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(X, X[:, 0] > 0), X


def _dumped() -> bytes:
    from skops.io import dumps

    data: bytes = dumps(_fitted()[0])
    return data


def _members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _archive(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def test_a_pipeline_comes_back_and_predicts_the_same(tmp_path: Path) -> None:
    model, X = _fitted()
    (tmp_path / "m.skops").write_bytes(_dumped())
    assert np.array_equal(read_model(tmp_path / "m.skops").predict_proba(X), model.predict_proba(X))


def test_types_that_are_not_trusted_are_named_and_not_made(tmp_path: Path) -> None:
    from skops.io import dumps

    (tmp_path / "m.skops").write_bytes(dumps(Untrusted()))
    with pytest.raises(Refusal, match=r"not trusted: .*Untrusted"):
        read_model(tmp_path / "m.skops")


def test_a_hostile_type_name_is_shown_harmless(tmp_path: Path) -> None:
    schema = {
        "__class__": "\u001b[2J",
        "__module__": "os",
        "__loader__": "TypeNode",
        "__id__": 1,
        "protocol": 2,
    }
    (tmp_path / "m.skops").write_bytes(_archive({"schema.json": json.dumps(schema).encode()}))
    with pytest.raises(Refusal) as caught:
        read_model(tmp_path / "m.skops")
    assert str(caught.value).isprintable()


def test_an_archive_that_declares_too_much_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    members = _members(_dumped()) | {"bomb.npy": bytes(30_000_000)}
    path = tmp_path / "m.skops"
    path.write_bytes(_archive(members))
    assert path.stat().st_size < 100_000
    with pytest.raises(Refusal, match=r"declares .* bytes unpacked, above the limit of 10000000"):
        read_model(path, limit=10_000_000)


def test_one_member_asked_for_a_thousand_times_counts_a_thousand_times(tmp_path: Path) -> None:
    node = {
        "__class__": "ndarray",
        "__module__": "numpy",
        "__loader__": "NdArrayNode",
        "type": "numpy",
        "file": "a.npy",
    }
    schema = {
        "__class__": "list",
        "__module__": "builtins",
        "__loader__": "ListNode",
        "content": [node] * 1000,
    }
    path = tmp_path / "m.skops"
    path.write_bytes(_archive({"schema.json": json.dumps(schema).encode(), "a.npy": bytes(1_000_000)}))
    with pytest.raises(Refusal, match="declares 1000000000 bytes"):
        read_model(path, limit=10_000_000)


def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    data = _archive({"schema.json": b"{}", "schema.jsoX": b"{}"}).replace(b"schema.jsoX", b"schema.json")
    (tmp_path / "m.skops").write_bytes(data)
    with pytest.raises(Refusal, match="one name"):
        read_model(tmp_path / "m.skops")


def test_a_zip_that_is_no_model_is_refused(tmp_path: Path) -> None:
    for members in (
        {"a": b"b"},
        {"schema.json": b"["},
        {"schema.json": b"[" * 200_000},
        {"schema.json": b"{}"},
    ):
        (tmp_path / "m.skops").write_bytes(_archive(members))
        with pytest.raises(Refusal, match="cannot be read as skops"):
            read_model(tmp_path / "m.skops")
    (tmp_path / "m.skops").write_bytes(b"not a zip")
    with pytest.raises(Refusal, match="not a skops file"):
        read_model(tmp_path / "m.skops")
    (tmp_path / "m.zip").write_bytes(_dumped())
    with pytest.raises(Refusal, match=r"the ending \.zip is not a model file"):
        read_model(tmp_path / "m.zip")


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None, max_examples=60
)
@given(st.data())
def test_a_damaged_model_is_a_model_or_one_refusal(tmp_path: Path, data: st.DataObject) -> None:
    damaged = bytearray(_DUMPED)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(4, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "m.skops").write_bytes(bytes(damaged))
    line = ""
    try:
        read_model(tmp_path / "m.skops")
    except Refusal as refusal:
        line = str(refusal)
    assert line.isprintable()


_DUMPED = _dumped()

names = st.text(min_size=1, max_size=10).filter(lambda name: name.strip() and name.isprintable())
figures = st.floats(allow_nan=False, allow_infinity=False)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(
    st.sampled_from(["squared", "logistic", "poisson"]),
    st.floats(0, 1e9),
    st.none() | figures,
    st.dictionaries(names, figures, min_size=1),
)
def test_coefficients_come_back_from_json_to_the_last_bit(
    tmp_path: Path, loss: str, l2: float, intercept: float | None, coef: dict[str, float]
) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"loss": loss, "l2": l2, "intercept": intercept, "coef": coef}), encoding="utf-8")
    assert read_model(path) == Coefficients(loss, l2, intercept, coef)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(st.binary(max_size=200) | st.text(alphabet='{}[]:,"lossco ef12.e-\\u', max_size=80).map(str.encode))
def test_any_bytes_are_coefficients_or_one_refusal(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(data)
    with pytest.raises(Refusal) as caught:
        read_model(path)
    assert str(caught.value).isprintable()
