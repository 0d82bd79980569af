"""Rows in disguise: scaled by hand, transposed, in a long list, as text; and similar numbers that are no rows."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from dosimeter.scanner import scan
from dosimeter.tables.table import Table
from tests.scanner.people import CITY, NAMES, X, finding_at, table

CHOSEN = np.arange(20, 60)
WIDE = X[:, :10]
PEOPLE = Table.of({**{name: X[:, j] for j, name in enumerate(NAMES[:10])}, "ill": np.arange(len(X)) % 2})


def _sheet(rows: np.ndarray) -> str:
    return "\n".join(",".join(map(repr, row)) for row in rows.tolist())


def _records(rows: np.ndarray) -> list[dict[str, float]]:
    return [dict(zip(NAMES, row, strict=False)) for row in rows.tolist()]


def _structured(rows: np.ndarray) -> np.ndarray:
    records = np.zeros(len(rows), dtype=[(name, "<f8") for name in NAMES[:10]])
    for name, column in zip(NAMES, rows.T, strict=False):
        records[name] = column
    return records


ARRAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "as they are": lambda rows: rows,
    "transposed": lambda rows: rows.T,
    "one after the other": np.ravel,
    "in pages": lambda rows: rows.reshape(4, 10, 10),
    "structured": _structured,
    "complex": lambda rows: rows + 0j,
    "among other rows": lambda rows: np.vstack([np.random.default_rng(0).normal(size=(500, 10)), rows]),
}
TEXTS: dict[str, Callable[[np.ndarray], Any]] = {
    "base64": lambda rows: base64.b64encode(np.ascontiguousarray(rows).tobytes()).decode(),
    "base64 of float32": lambda rows: base64.urlsafe_b64encode(rows.astype("<f4").tobytes()).decode(),
    "a sheet": _sheet,
    "a sheet with a heading": lambda rows: ";".join(NAMES[:10]) + "\n" + _sheet(rows).replace(",", ";"),
    "JSON in JSON": lambda rows: json.dumps({"rows": rows.tolist()}),
    "written numbers": lambda rows: [[repr(cell) for cell in row] for row in rows.tolist()],
    "records": _records,
    "records below": lambda rows: [{"person": record} for record in _records(rows)],
    "records by name": lambda rows: {f"p{k}": record for k, record in enumerate(_records(rows))},
}
SCALED: dict[str, np.ndarray] = {
    "standardised": (WIDE - WIDE.mean(axis=0)) / WIDE.std(axis=0),
    "standardised, n - 1": (WIDE - WIDE.mean(axis=0)) / WIDE.std(axis=0, ddof=1),
    "to the range": (WIDE - WIDE.min(axis=0)) / np.ptp(WIDE, axis=0),
    "by length": WIDE / np.linalg.norm(WIDE, axis=1, keepdims=True),
    "by sum": WIDE / np.abs(WIDE).sum(axis=1, keepdims=True),
    "to -1 and 1": MinMaxScaler((-1, 1)).fit_transform(WIDE),
    "centred": StandardScaler(with_std=False).fit_transform(WIDE),
    "divided by deviations": StandardScaler(with_mean=False).fit_transform(WIDE),
    "divided by the largest": MaxAbsScaler().fit_transform(WIDE),
    "by medians and quartiles": RobustScaler().fit_transform(WIDE),
}


def similar(rows: np.ndarray) -> np.ndarray:
    """Similar numbers that are no rows: each cell moved by a thousandth."""
    return rows * (1 + 1e-3 * np.random.default_rng(1).choice([-1, 1], size=rows.shape))


def _matched_rows(folder: Path, content: Any) -> tuple[int, ...]:
    if isinstance(content, np.ndarray):
        np.savez(folder / "m.npz", w=content)
        return scan(folder / "m.npz", PEOPLE).matched_rows
    (folder / "m.json").write_text(json.dumps({"kept": content}))
    return scan(folder / "m.json", PEOPLE).matched_rows


@pytest.mark.parametrize("disguise", [*ARRAYS, *TEXTS])
def test_rows_are_found_in_any_form_and_similar_numbers_are_not(disguise: str, tmp_path: Path) -> None:
    """The table has a target that the model does not have."""
    hide = {**ARRAYS, **TEXTS}[disguise]
    assert _matched_rows(tmp_path, hide(WIDE[CHOSEN])) == tuple(CHOSEN + 1)
    assert _matched_rows(tmp_path, hide(similar(WIDE[CHOSEN]))) == ()


@pytest.mark.parametrize("scaling", SCALED)
def test_rows_that_were_scaled_by_hand_are_found(scaling: str, tmp_path: Path) -> None:
    assert _matched_rows(tmp_path, SCALED[scaling][CHOSEN]) == tuple(CHOSEN + 1)
    assert _matched_rows(tmp_path, similar(SCALED[scaling][CHOSEN])) == ()


def test_a_single_row_is_found_although_the_table_also_has_a_target(tmp_path: Path) -> None:
    assert _matched_rows(tmp_path, WIDE[33]) == (34,)
    assert _matched_rows(tmp_path, similar(WIDE[33:34])[0]) == ()


def test_metadata_of_tensors_is_read_as_text(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    path = tmp_path / "m.safetensors"
    save_file({"a": np.zeros((3, 3), "f4")}, path, metadata={"kept": json.dumps(WIDE[CHOSEN].tolist())})
    result = scan(path, PEOPLE)
    assert result.matched_rows == tuple(CHOSEN + 1)
    assert finding_at(result, "__metadata__.kept (text)").rows_inside


def test_a_step_of_the_file_is_named_before_a_guess(tmp_path: Path) -> None:
    """The scaler's means are the table's own: both views match, and the file's own is reported."""
    import skops.io
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), KNeighborsClassifier()).fit(WIDE, np.arange(len(X)) % 2)
    skops.io.dump(model, tmp_path / "m.skops")
    assert finding_at(scan(tmp_path / "m.skops", PEOPLE), "steps[1]._fit_X").match.view == "standardised by steps[0]"


def test_levels_are_recognised_with_blanks_around_them(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps({"cities": ["Ulm  ", "Graz ", "Bern ", "Vaduz"]}))
    result = scan(tmp_path / "m.json", table(city=CITY.tolist()))
    assert finding_at(result, "cities").match.unique_rows == (8,)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "A" * 40_000, "1,2\n" * 3, "{}", '{"a": [NaN, 1e999]}', "1e5,x\n,", "1," * 40_000]
)
def test_text_that_is_no_table_is_not_a_finding_and_not_an_error(text: str, tmp_path: Path) -> None:
    assert _matched_rows(tmp_path, text) == ()


@pytest.mark.parametrize("where", ["model", "graph", "node", "attribute", "metadata"])
def test_text_beside_the_numbers_of_an_onnx_model_is_read(where: str, tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    sheet = _sheet(WIDE[CHOSEN])
    more = {"value_string": sheet} if where == "attribute" else {"value_float": 1.0}
    node = helper.make_node("Constant", [], ["y"], doc_string=sheet if where == "node" else "", **more)
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [], [out], doc_string=sheet if where == "graph" else "")
    model = helper.make_model(graph, doc_string=sheet if where == "model" else "")
    if where == "metadata":
        helper.set_model_props(model, {"kept": sheet})
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert scan(tmp_path / "m.onnx", PEOPLE).matched_rows == tuple(CHOSEN + 1)


@pytest.mark.parametrize("matrix", [np.eye(5), np.ones((5, 5)), np.zeros((5, 5)), np.eye(5)[::-1] / 2])
def test_a_simple_matrix_is_no_row_of_a_table_of_small_counts(matrix: np.ndarray, tmp_path: Path) -> None:
    """Rows such as (0, 0, 3, 0, 0) divided by their length are unit vectors."""
    counts = np.random.default_rng(5).integers(0, 5, size=(362, 5)) * np.random.default_rng(6).integers(0, 2, (362, 5))
    people = Table.of({**{f"c{j}": counts[:, j] for j in range(5)}, "ill": np.arange(362) % 2})
    np.savez(tmp_path / "m.npz", w=matrix)
    assert not scan(tmp_path / "m.npz", people).rows_inside
