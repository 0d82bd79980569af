"""Rows in disguise: scaled by hand, on their side, in a long list, as text; and strangers in the same clothes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dosimeter.scan import scan
from dosimeter.tables.table import Table
from tests.scan.people import CITY, NAMES, X, at, table

CHOSEN = np.arange(20, 60)
WIDE = X[:, :10]
PEOPLE = Table.of({**{name: X[:, j] for j, name in enumerate(NAMES[:10])}, "ill": np.arange(len(X)) % 2})


def _sheet(rows: np.ndarray) -> str:
    return "\n".join(",".join(map(repr, row)) for row in rows.tolist())


def _records(rows: np.ndarray) -> list[dict[str, float]]:
    return [dict(zip(NAMES, row, strict=False)) for row in rows.tolist()]


def _structured(rows: np.ndarray) -> np.ndarray:
    made = np.zeros(len(rows), dtype=[(name, "<f8") for name in NAMES[:10]])
    for name, column in zip(NAMES, rows.T, strict=False):
        made[name] = column
    return made


ARRAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "as they are": lambda rows: rows,
    "on their side": lambda rows: rows.T,
    "one after the other": np.ravel,
    "in pages": lambda rows: rows.reshape(4, 10, 10),
    "structured": _structured,
    "complex": lambda rows: rows + 0j,
    "among strangers": lambda rows: np.vstack([np.random.default_rng(0).normal(size=(500, 10)), rows]),
}
TEXTS: dict[str, Callable[[np.ndarray], Any]] = {
    "base64": lambda rows: base64.b64encode(np.ascontiguousarray(rows).tobytes()).decode(),
    "base64 of float32": lambda rows: base64.urlsafe_b64encode(rows.astype("<f4").tobytes()).decode(),
    "a sheet": _sheet,
    "a sheet with a heading": lambda rows: ";".join(NAMES[:10]) + "\n" + _sheet(rows).replace(",", ";"),
    "JSON in JSON": lambda rows: json.dumps({"rows": rows.tolist()}),
    "written numbers": lambda rows: [[repr(cell) for cell in row] for row in rows.tolist()],
    "records": _records,
    "records below": lambda rows: [{"person": one} for one in _records(rows)],
    "records by name": lambda rows: {f"p{k}": one for k, one in enumerate(_records(rows))},
}
SCALED: dict[str, np.ndarray] = {
    "standardised": (WIDE - WIDE.mean(axis=0)) / WIDE.std(axis=0),
    "standardised, n - 1": (WIDE - WIDE.mean(axis=0)) / WIDE.std(axis=0, ddof=1),
    "to the range": (WIDE - WIDE.min(axis=0)) / np.ptp(WIDE, axis=0),
    "by length": WIDE / np.linalg.norm(WIDE, axis=1, keepdims=True),
    "by sum": WIDE / np.abs(WIDE).sum(axis=1, keepdims=True),
}


def strangers(rows: np.ndarray) -> np.ndarray:
    """Numbers like them that are nobody's: each cell moved by a thousandth."""
    return rows * (1 + 1e-3 * np.random.default_rng(1).choice([-1, 1], size=rows.shape))


def _found(folder: Path, content: Any) -> tuple[int, ...]:
    if isinstance(content, np.ndarray):
        np.savez(folder / "m.npz", w=content)
        return scan(folder / "m.npz", PEOPLE).named
    (folder / "m.json").write_text(json.dumps({"kept": content}))
    return scan(folder / "m.json", PEOPLE).named


@pytest.mark.parametrize("how", [*ARRAYS, *TEXTS])
def test_rows_are_found_however_they_lie_and_strangers_are_not(how: str, tmp_path: Path) -> None:
    """The table has a target that the model does not."""
    hide = {**ARRAYS, **TEXTS}[how]
    assert _found(tmp_path, hide(WIDE[CHOSEN])) == tuple(CHOSEN + 1)
    assert _found(tmp_path, hide(strangers(WIDE[CHOSEN]))) == ()


@pytest.mark.parametrize("how", SCALED)
def test_rows_that_were_scaled_by_hand_are_found(how: str, tmp_path: Path) -> None:
    assert _found(tmp_path, SCALED[how][CHOSEN]) == tuple(CHOSEN + 1)
    assert _found(tmp_path, strangers(SCALED[how][CHOSEN])) == ()


def test_a_single_row_is_found_where_the_table_has_a_target_besides(tmp_path: Path) -> None:
    assert _found(tmp_path, WIDE[33]) == (34,)
    assert _found(tmp_path, strangers(WIDE[33:34])[0]) == ()


def test_metadata_of_tensors_is_read_as_the_text_it_is(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    place = tmp_path / "m.safetensors"
    save_file({"a": np.zeros((3, 3), "f4")}, place, metadata={"kept": json.dumps(WIDE[CHOSEN].tolist())})
    found = scan(place, PEOPLE)
    assert found.named == tuple(CHOSEN + 1)
    assert at(found, "__metadata__.kept (text)").rows_inside


def test_a_step_of_the_file_is_named_before_a_guess(tmp_path: Path) -> None:
    """The scaler's means are the table's own: both views match, and the file's is the one that is told."""
    import skops.io
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), KNeighborsClassifier()).fit(WIDE, np.arange(len(X)) % 2)
    skops.io.dump(model, tmp_path / "m.skops")
    assert at(scan(tmp_path / "m.skops", PEOPLE), "steps[1]._fit_X").match.how == "standardised by steps[0]"


def test_levels_are_known_with_blanks_around_them(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps({"cities": ["Ulm  ", "Graz ", "Bern ", "Vaduz"]}))
    found = scan(tmp_path / "m.json", table(city=CITY.tolist()))
    assert at(found, "cities").match.alone == (8,)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "A" * 40_000, "1,2\n" * 3, "{}", '{"a": [NaN, 1e999]}', "1e5,x\n,", "1," * 40_000]
)
def test_text_that_is_no_table_is_no_finding_and_no_fault(text: str, tmp_path: Path) -> None:
    assert _found(tmp_path, text) == ()


@pytest.mark.parametrize("where", ["model", "graph", "node", "attribute", "metadata"])
def test_words_beside_the_numbers_of_an_onnx_model_are_read(where: str, tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    said = _sheet(WIDE[CHOSEN])
    more = {"value_string": said} if where == "attribute" else {"value_float": 1.0}
    node = helper.make_node("Constant", [], ["y"], doc_string=said if where == "node" else "", **more)
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [], [out], doc_string=said if where == "graph" else "")
    model = helper.make_model(graph, doc_string=said if where == "model" else "")
    if where == "metadata":
        helper.set_model_props(model, {"kept": said})
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert scan(tmp_path / "m.onnx", PEOPLE).named == tuple(CHOSEN + 1)


@pytest.mark.parametrize("matrix", [np.eye(5), np.ones((5, 5)), np.zeros((5, 5)), np.eye(5)[::-1] / 2])
def test_a_plain_matrix_is_no_row_of_a_table_of_small_counts(matrix: np.ndarray, tmp_path: Path) -> None:
    """Rows (0, 0, 3, 0, 0) divided by their length are a unit vector."""
    counts = np.random.default_rng(5).integers(0, 5, size=(362, 5)) * np.random.default_rng(6).integers(0, 2, (362, 5))
    people = Table.of({**{f"c{j}": counts[:, j] for j in range(5)}, "ill": np.arange(362) % 2})
    np.savez(tmp_path / "m.npz", w=matrix)
    assert not scan(tmp_path / "m.npz", people).rows_inside
