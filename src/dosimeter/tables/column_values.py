"""One column of any library, as float64, bool or text; any other value is refused with its row and column.

A raw column is a numpy array or a narwhals Series; only `missing` and `to_array` read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from numbers import Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.location import Location
from dosimeter.core.text import safe_text

LARGEST_INTEGER = 2**53  # beyond it float64 skips integers, so two identifiers could become one


def raw_column(values: Any) -> Any:
    """A series of any dataframe library as a narwhals Series, anything else as a numpy array, (n,).

    Refused: a dict and a set. Their keys are no values, and a set has no order.
    """
    if isinstance(values, np.ndarray):
        return values
    if isinstance(values, Mapping | Set):
        raise Refusal(f"a {type(values).__name__} is not a column: give a list or an array, one value per row")
    if not isinstance(values, list | tuple):  # narwhals takes 20 microseconds to see that these are no series
        series = nw.from_native(values, series_only=True, pass_through=True)
        if isinstance(series, nw.Series):
            return series
    # Never np.asarray of a mixed list: [1, "a"] would become two texts, [2**63, -1] two floats.
    column = np.empty(len(values), dtype=object)
    column[:] = list(values)
    return column


def missing(raw: Any) -> NDArray[np.bool_]:
    """True where there is no value, (n,). An infinite number is a value, and is refused by `to_array`."""
    if isinstance(raw, nw.Series):
        mask = np.asarray(raw.is_null().to_numpy(), dtype=bool)
        if raw.dtype.is_float():
            mask = mask | np.asarray(raw.is_nan().fill_null(True).to_numpy(), dtype=bool)
        if raw.dtype == nw.Object:
            mask = mask | _missing_objects(raw.to_list())
        return mask
    if raw.dtype.kind == "O":
        return _missing_objects(raw.tolist())
    mask = np.ma.getmaskarray(raw)
    return mask | np.isnan(np.ma.getdata(raw)) if raw.dtype.kind == "f" else mask


def holds_text(raw: Any) -> bool:
    """Whether most values of a raw column are text: one strange cell does not decide.

    >>> holds_text(raw_column(["7", "8", 9])), holds_text(raw_column([7, 8, "9"]))
    (True, False)
    """
    if isinstance(raw, nw.Series):
        if raw.dtype == nw.String:
            return True
        if raw.dtype not in (nw.Categorical, nw.Enum, nw.Object):
            return False
        cells = raw.drop_nulls().to_list()
    elif raw.dtype.kind != "O":
        return bool(raw.dtype.kind == "U")
    else:
        cells = raw[~missing(raw)].tolist()
    return 2 * sum(isinstance(cell, str) for cell in cells) > len(cells)


def to_array(raw: Any, name: str, source: Location, rows: NDArray[np.intp], *, text: bool) -> NDArray[Any]:
    """The column without missing values as float64, bool or text, (n,); `rows` are their places, (n,)."""
    where = (name, source, rows)
    if isinstance(raw, nw.Series):
        return _series_to_array(raw, where, text)
    if text or raw.dtype.kind in "OU":
        cells = np.ma.getdata(raw).tolist()
        return _exact(cells, where) if text else _objects(cells, where)
    if raw.dtype.kind == "b":
        return np.asarray(raw, dtype=bool)
    if raw.dtype.kind in "iu":
        return _whole(np.asarray(raw), where)
    if raw.dtype.kind == "f":
        return _finite(np.asarray(raw), where)
    raise _odd_kind(str(raw.dtype), where)


def distinct(values: NDArray[Any], most: int) -> NDArray[Any] | None:
    """The sorted distinct numbers (k,) if there are at most `most`, else None. Often the first rows show that.

    >>> distinct(np.array([2.0, 1.0, 2.0]), 2), distinct(np.arange(5.0), 2)
    (array([1., 2.]), None)
    """
    if len(np.unique(values[:1000])) > most:
        return None
    numbers = np.unique(values)
    return numbers if len(numbers) <= most else None


def text_array(cells: Sequence[str]) -> NDArray[np.object_]:
    """Python strings as an object array, (n,)."""
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    return column


_Where = tuple[str, Location, NDArray[np.intp]]


def _series_to_array(raw: Any, where: _Where, text: bool) -> NDArray[Any]:
    dtype = raw.dtype
    if text:
        return _exact(raw.to_list(), where)
    if dtype == nw.Boolean:
        return np.array(raw.to_list(), dtype=bool) if len(raw) else np.zeros(0, dtype=bool)
    if dtype.is_integer():
        return _whole(np.asarray(raw.to_numpy()), where)
    if dtype.is_numeric():
        return _finite(np.asarray(raw.cast(nw.Float64).to_numpy(), dtype=float), where)
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return text_array([str(cell) for cell in raw.to_list()])
    if dtype == nw.Object:
        return _objects(raw.to_list(), where)
    if dtype == nw.Unknown and hasattr(native := raw.to_native(), "sparse"):  # a sparse column of pandas
        return _series_to_array(nw.from_native(native.sparse.to_dense(), series_only=True), where, text)
    raise _odd_kind(str(dtype), where)


def _other() -> str:
    return f"turn it into a number or text, or leave the column out ({option('exclude')})"


def _odd_kind(kind: str, where: _Where) -> Refusal:
    name, source, _ = where
    if kind.startswith(("Date", "Time", "Duration", "datetime64", "timedelta64")):
        return source.refusal(
            "dates and times are not numbers",
            f"turn the column into a number (years, days since a fixed day) or leave it out ({option('exclude')})",
            column=name,
        )
    return source.refusal(f"values of kind {safe_text(kind)} cannot be used", _other(), column=name)


def _whole(raw: NDArray[Any], where: _Where) -> NDArray[np.float64]:
    large = np.flatnonzero((raw > LARGEST_INTEGER) | (raw < -LARGEST_INTEGER))
    if large.size:
        raise too_large(int(large[0]), where)
    return raw.astype(float)


def too_large(position: int, where: _Where) -> Refusal:
    """The value itself is not shown: an integer of this size is nearly always a person's identifier."""
    name, source, rows = where
    todo = f"if it identifies people pass {option('person')}, else {option('categorical')} or {option('exclude')}"
    return source.refusal("integer beyond 2^53", todo, row=int(rows[position]), column=name)


def _finite(raw: NDArray[Any], where: _Where) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes infinite, refused below
        numbers = raw.astype(float)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        name, source, rows = where
        todo = "correct the cell or leave the row out"
        raise source.refusal("number that is not finite", todo, row=int(rows[bad[0]]), column=name)
    return numbers


def _missing_objects(cells: Sequence[Any]) -> NDArray[np.bool_]:
    # pandas' NA and NaT are known by their names: pandas is not imported here.
    nothing = ("NoneType", "NAType", "NaTType")
    absent = [type(c).__name__ in nothing or (isinstance(c, float) and c != c) for c in cells]
    return np.array(absent, dtype=bool)


def _objects(cells: Sequence[Any], where: _Where) -> NDArray[Any]:
    """Python objects that are all text, all boolean or all numbers."""
    if all(isinstance(cell, str) for cell in cells):
        return text_array([str(cell) for cell in cells])
    if all(isinstance(cell, bool | np.bool_) for cell in cells):
        return np.array(cells, dtype=bool)
    for position, cell in enumerate(cells):
        if isinstance(cell, bool | np.bool_) or not isinstance(cell, Real):
            name, source, rows = where
            fault = f"{_article(cell)} in a column of mixed kinds"
            raise source.refusal(fault, _other(), row=int(rows[position]), column=name)
        if hasattr(cell, "__index__") and abs(int(cell)) > LARGEST_INTEGER:
            raise too_large(position, where)
    return _finite(np.array([float(cell) for cell in cells]), where)


def _article(cell: Any) -> str:
    return "a text" if isinstance(cell, str) else f"a value of kind {safe_text(type(cell).__name__)}"


def _exact(cells: Sequence[Any], where: _Where) -> NDArray[np.object_]:
    return text_array([_as_text(cell, i, where) for i, cell in enumerate(cells)])


NOT_TEXT = (list, tuple, dict, set, bytes, np.ndarray)
"""Kinds of cells that are no label."""


def _as_text(cell: Any, position: int, where: _Where) -> str:
    """The exact text of a cell; 7.0, which pandas makes of the id 7 beside a missing one, reads '7'."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, NOT_TEXT):
        name, source, rows = where
        raise source.refusal(f"{_article(cell)} is not text", _other(), row=int(rows[position]), column=name)
    return str(cell)


def spread(column: NDArray[Any]) -> float:
    """Standard deviation (as StandardScaler's, 1/n); 1 for booleans and for a column that does not vary."""
    if column.dtype.kind == "b":
        return 1.0
    numbers = np.asarray(column, dtype=np.float64)
    size = float(np.abs(numbers).max(initial=0.0))
    deviation = float((numbers / size).std()) * size if size > 0 else 0.0
    return deviation if deviation > 1e-12 * size else 1.0
