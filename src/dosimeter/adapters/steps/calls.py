"""Calls of a step's own `transform`, in the form that it was fitted on, with whatever comes back as an array."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from dosimeter.adapters.steps.feature import Feature, Features
from dosimeter.adapters.steps.run import Run, step_name
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.text import safe_text

Form = str
"""'frame' or 'array'."""


def transform_numbers(step: Any, X: FloatArray) -> FloatArray:
    """(k, outputs) of a step of scikit-learn for numbers X (k, inputs); names of columns do not matter to it."""
    with _quietly():
        return _as_numbers(step, _call(step, X), len(X))


def call_step(step: Any, columns: Sequence[NDArray[Any]], names: Sequence[str], form: Form, run: Run) -> NDArray[Any]:
    """(k, outputs) numbers, or text as objects, of a step of any kind for columns (k,) each."""
    with _quietly():
        data = _frame(columns, names, run) if form == "frame" else _array(columns)
        return _as_matrix(step, _call(step, data), len(columns[0]))


def forms_of(step: Any, features: Features, run: Run) -> tuple[tuple[Form, tuple[str, ...]], ...]:
    """(form, names of the columns) in which the step may want its input, the likeliest first."""
    names = tuple(feature.name for feature in features)
    fitted = getattr(step, "feature_names_in_", None)
    if fitted is not None and len(fitted) == len(features):
        return (("frame", tuple(map(str, fitted))), ("array", names))
    raw = all(feature.raw for feature in features) and run.library is not None
    return (("frame", names), ("array", names)) if raw else (("array", names), ("frame", names))


def columns_of(features: Features) -> list[NDArray[Any]]:
    """The values of each feature: float64, or objects for text."""
    return [_column(feature) for feature in features]


def _column(feature: Feature) -> NDArray[Any]:
    return feature.numbers if feature.is_number else feature.values


@contextmanager
def _quietly() -> Iterator[None]:
    """Without warnings: of names that an array does not have, and of values that are tried outside a domain."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _call(step: Any, data: Any) -> Any:
    try:
        return step.transform(data)
    except Exception as error:
        # Foreign code: whatever it raises, the step has no output here.
        raise StepFailure(step, error) from error


class StepFailure(CannotMeasure):
    """A step's `transform` raised."""

    def __init__(self, step: Any, error: Exception) -> None:
        reason = safe_text(" ".join(str(error).split()), 120)
        super().__init__(
            f"{step_name(step)} before the model raised {type(error).__name__} on this table ({reason}): pass the "
            "training table, or leave the step out"
        )


def _array(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    kind: Any = np.float64 if all(column.dtype.kind == "f" for column in columns) else object
    out = np.empty((len(columns[0]), len(columns)), dtype=kind)
    for j, column in enumerate(columns):
        out[:, j] = column
    return out


def _frame(columns: Sequence[NDArray[Any]], names: Sequence[str], run: Run) -> Any:
    backend = run.library
    if backend is None:
        try:
            backend = importlib.import_module("pandas")
        except ImportError:
            return _array(columns)
    cells = {
        name: column.tolist() if column.dtype.kind == "O" else column
        for name, column in zip(names, columns, strict=True)
    }
    return nw.from_dict(cells, backend=backend).to_native()


def _as_numbers(step: Any, output: Any, rows: int) -> FloatArray:
    matrix = _as_matrix(step, output, rows)
    if matrix.dtype.kind != "f":
        raise CannotMeasure(f"{step_name(step)} before the model returns text: encode it as numbers")
    return np.asarray(matrix, dtype=np.float64)


def _as_matrix(step: Any, output: Any, rows: int) -> NDArray[Any]:
    """(rows, outputs) float64 or objects, of an array, a frame or a sparse matrix."""
    if hasattr(output, "toarray"):
        output = output.toarray()
    frame = nw.from_native(output, eager_only=True, allow_series=True, pass_through=True)
    values = np.asarray(frame.to_numpy() if isinstance(frame, nw.DataFrame | nw.Series) else output)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) != rows:
        raise CannotMeasure(
            f"{step_name(step)} before the model returns {values.shape[0] if values.ndim else 0} rows for {rows}: a "
            "step must return one row for each"
        )
    if values.dtype.kind in "fiub":
        return np.asarray(values, dtype=np.float64)
    try:
        return values.astype(np.float64)  # numbers in a column of objects
    except (TypeError, ValueError):
        return values.astype(object)
