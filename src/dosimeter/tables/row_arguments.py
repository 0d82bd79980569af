"""Arguments with one value per row (target, persons, weights, groups), as the name of a column or as values."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Set
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location, advice
from dosimeter.core.text import safe_text
from dosimeter.tables.column_values import missing, raw_column, to_array
from dosimeter.tables.table import Table, not_a_table

_ADVICE = "give one for each row"


def names_of(frame: Any) -> tuple[str, ...]:
    """Column names as `Table.of` would have them: x0, x1, ... for an array."""
    if isinstance(frame, Table):
        return frame.names
    if isinstance(frame, np.ndarray):
        return tuple(f"x{j}" for j in range(frame.shape[1])) if frame.ndim == 2 else ()
    if isinstance(frame, Mapping):
        return tuple(map(str, frame))
    try:
        wrapped = nw.from_native(frame, eager_only=True, pass_through=True)
    except (TypeError, ValueError) as error:
        raise not_a_table(frame, error, Location("frame")) from None
    return tuple(map(str, wrapped.columns)) if isinstance(wrapped, nw.DataFrame) else ()


def column_of(frame: Any, name: str) -> Any:
    """One raw column (a narwhals Series or an array) under its name."""
    names = names_of(frame)
    if name not in names:
        raise Refusal(f"the frame has no column {safe_text(name)}: {advice(name, names)}")
    if isinstance(frame, Table):
        return frame[name]
    if isinstance(frame, np.ndarray):
        return frame[:, names.index(name)]
    if isinstance(frame, Mapping):
        return raw_column(next(values for key, values in frame.items() if str(key) == name))
    return nw.from_native(frame, eager_only=True)[:, names.index(name)]


class FrameColumns(Mapping[str, Any]):
    """The columns of a frame by name, each read when it is asked for."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in names_of(self.frame):
            raise KeyError(name)
        raw = column_of(self.frame, name)
        return np.asarray(raw.to_numpy() if isinstance(raw, nw.Series) else raw)

    def __iter__(self) -> Iterator[str]:
        return iter(names_of(self.frame))

    def __len__(self) -> int:
        return len(names_of(self.frame))


def frame_columns(frame: Any) -> FrameColumns:
    """The columns of any frame as a mapping.

    >>> frame_columns({"age": [40.0, 60.0]})["age"].tolist()
    [40.0, 60.0]
    """
    return FrameColumns(frame)


def values_of(frame: Any, values: Any, n: int, role: str) -> Any:
    """The raw column that `values` names or holds; one value for each of the n rows, none missing."""
    named = isinstance(values, str)
    if not named and (not hasattr(values, "__len__") or isinstance(values, Mapping | Set)):
        raise Refusal(f"{role} is {safe_text(type(values).__name__)}: give the name of a column or one value per row")
    raw = column_of(frame, values) if named else raw_column(values)
    if not isinstance(raw, nw.Series) and raw.ndim == 2 and raw.shape[1] == 1:
        raw = raw[:, 0]
    if len(raw) != n or (not isinstance(raw, nw.Series) and raw.ndim != 1):
        raise Refusal(f"{role} has {len(raw)} values for {n} rows: {_ADVICE}")
    if not named:
        _refuse_shuffled(frame, values, role)
    absent = missing(raw)
    if absent.any():
        raise Refusal(f"{role} has no value in row {int(np.argmax(absent))} (from 0): fill it or leave the row out")
    return raw


def target_names(frame: Any, y: Any) -> tuple[str, ...]:
    """Names of the target's columns: those of the frame that y lists, those of a frame of targets, or "y".

    >>> target_names({"a": [1], "b": [2], "c": [3]}, ["a", "b"]), target_names({"a": [1]}, [0])
    (('a', 'b'), ('y',))
    """
    if isinstance(y, str):
        return (y,)
    if lists_columns(frame, y):
        return tuple(y)
    if isinstance(y, np.ndarray):
        return ("y",) if y.ndim < 2 or y.shape[1] == 1 else tuple(f"y{k}" for k in range(y.shape[1]))
    return tuple(map(str, y.columns)) if _is_frame(y) else ("y",)


def _is_frame(y: Any) -> bool:
    return hasattr(y, "columns") and not isinstance(y, Mapping)


def _column_alone(y: Any, name: str) -> Any:
    """One column of a frame of targets as a series of its kind, with its index."""
    column = column_of(y, name)
    return column.to_native() if isinstance(column, nw.Series) else column


def lists_columns(frame: Any, y: Any) -> bool:
    """Whether y lists columns of the frame by name, rather than one label per row."""
    if not isinstance(y, list | tuple) or not y or not all(isinstance(name, str) for name in y):
        return False
    return set(y) <= set(names_of(frame))


def target_of(frame: Any, y: Any, n: int) -> NDArray[Any]:
    """(n,) the target as numbers, booleans or text; (n, t) numbers if there are several targets."""
    names = target_names(frame, y)
    if len(names) == 1:
        labels = y[0] if lists_columns(frame, y) else _column_alone(y, names[0]) if _is_frame(y) else y
        raw = values_of(frame, labels, n, "y")
        return to_array(raw, names[0], Location("y"), np.arange(n), text=False)
    if lists_columns(frame, y):
        parts = [values_of(frame, name, n, "y") for name in names]
    else:
        parts = [values_of(frame, _column_alone(y, name), n, "y") for name in names_of(y)]
    columns = [
        to_array(raw, name, Location("y"), np.arange(n), text=False) for raw, name in zip(parts, names, strict=True)
    ]
    if any(column.dtype.kind not in "fb" for column in columns):
        raise Refusal(f"y has {len(names)} columns, and one of them holds text: give several targets as numbers")
    return np.column_stack([column.astype(np.float64) for column in columns])


def ids_of(frame: Any, values: Any, n: int, role: str = "person") -> tuple[Hashable, ...]:
    """(n,) hashable values of plain Python kind, in the rows' order."""
    raw = values_of(frame, values, n, role)
    cells = raw.to_list() if isinstance(raw, nw.Series) else raw.tolist()
    for row, cell in enumerate(cells):
        if not isinstance(cell, Hashable):
            raise Refusal(f"{role} of row {row} is a {type(cell).__name__}: give plain ids")
    return tuple(cells)


def weights_of(frame: Any, values: Any, n: int) -> FloatArray | None:
    """(n,) sample weights, not negative; None if there are none."""
    if values is None:
        return None
    raw = values_of(frame, values, n, "sample_weight")
    weight = to_array(raw, "sample_weight", Location("sample_weight"), np.arange(n), text=False)
    if weight.dtype.kind not in "fb" or (weight < 0).any():
        raise Refusal("sample_weight must hold numbers that are not negative: pass what the model was fitted with")
    return np.asarray(weight, dtype=np.float64)


def _refuse_shuffled(frame: Any, values: Any, role: str) -> None:
    """Values are taken by position; an index in another order than the frame's is refused."""
    frame_index, values_index = _index(frame), _index(values)
    if frame_index is None or values_index is None or frame_index.equals(values_index):
        return
    if set(frame_index) == set(values_index):
        raise Refusal(f"{role} has the frame's index in another order: align it first, {role}.loc[frame.index]")


def _index(native: Any) -> Any:
    wrapped = nw.from_native(native, allow_series=True, pass_through=True)
    return nw.maybe_get_index(wrapped) if isinstance(wrapped, nw.DataFrame | nw.Series) else None
