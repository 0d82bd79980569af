"""The table type: names and columns, each column float64, bool or text. Any dataframe in, the same kind out.

narwhals reads the caller's pandas, polars and pyarrow tables; none of these libraries is imported here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from dosimeter.core.errors import Refusal
from dosimeter.core.face import offers, option
from dosimeter.core.location import Location, advice
from dosimeter.core.text import safe_list, safe_text
from dosimeter.tables.column_values import holds_text, raw_column, to_array
from dosimeter.tables.column_values import missing as missing_in
from dosimeter.tables.declared_numbers import declared_numbers, declared_text
from dosimeter.tables.missing_values import Gaps, fill_gaps, refuse_gaps

Kind = Literal["number", "text", "bool"]
Missing = Literal["refuse", "drop", "impute", "keep"]
_KINDS: dict[str, Kind] = {"f": "number", "O": "text", "b": "bool"}


class NoCompleteRow(Refusal):
    """Every row has a missing value."""


@dataclass(frozen=True, eq=False)
class Table:
    """Columns under unique names, without missing values. Arrays are read-only.

    rows: (n,) the position of each row in its source, from 0; dropped: rows left out for a missing value;
    gaps: column -> where it had no value, and what replaces it; texts: columns that a dataframe holds as text.

    >>> people = Table.of({"age": [31, 54, 47], "ill": [True, False, True], "city": ["Ulm", "Graz", "Ulm"]})
    >>> people
    Table of 3 rows: age (number), ill (bool), city (text)
    >>> people["age"]
    array([31., 54., 47.])
    >>> people.take([0, 2]).drop(["age", "ill"])["city"].tolist()
    ['Ulm', 'Ulm']
    """

    names: tuple[str, ...]
    columns: tuple[NDArray[Any], ...]
    rows: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    dropped: int = 0
    gaps: Mapping[str, Gaps] = field(default_factory=dict)
    texts: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        source = Location("table")
        source.check_names(self.names)
        if len(self.names) != len(self.columns):
            raise source.refusal(f"{len(self.names)} names, {len(self.columns)} columns", "give one name per column")
        n = len(self.columns[0]) if self.columns else self.rows.size
        for name, column in zip(self.names, self.columns, strict=True):
            if column.shape != (n,):
                fault = f"{column.shape} values beside {n} rows"
                raise source.refusal(fault, "give columns of one length", column=name)
            if column.dtype.kind not in _KINDS or (column.dtype.kind == "f" and column.dtype != np.float64):
                fault = f"columns of dtype {column.dtype} are not kept"
                raise source.refusal(fault, "make the table with Table.of", column=name)
        rows = self.rows if self.rows.size == n else np.arange(n, dtype=np.intp)
        object.__setattr__(self, "columns", tuple(_read_only(column) for column in self.columns))
        object.__setattr__(self, "rows", _read_only(rows))

    @classmethod
    def of(
        cls,
        frame: Any,
        *,
        text: Collection[str] = (),
        drop: Collection[str] = (),
        missing: Missing = "refuse",
        impute: Mapping[str, Any] | None = None,
        whole: Collection[str] = (),
        declared: Collection[str] | None = None,
        source: Location | None = None,
    ) -> Table:
        """From pandas, polars, pyarrow, a dict of columns, a 2-D array (named x0, x1, ...), or a Table as it is.

        text: columns kept as exact text whatever they hold (identifiers); drop: columns not read;
        missing: "refuse" names the first place without a value, "drop" leaves those rows out and counts them,
        "impute" fills a number with the constant declared for its column in `impute` and a label with a separate
        level, "keep" leaves nan or an empty text for a model's own imputer. whole: columns that are never filled.
        declared: columns that were declared to hold numbers, where a value that is not a finite number is missing; a
        value of `text` that is no text is then missing as well.
        """
        source = source or Location("frame")
        if isinstance(frame, Table):
            source.check_known([*text, *drop], frame.names)
            return frame.drop(drop)
        raw = _raw_columns(frame, source)
        source.check_known([*text, *drop], raw)
        used = {name: column for name, column in raw.items() if name not in drop}
        texts = frozenset(name for name, column in used.items() if holds_text(column))
        used |= {name: declared_numbers(used[name]) for name in declared or () if name in used}
        if declared is not None:
            used |= {name: declared_text(used[name]) for name in text if name in used}
        if len({len(column) for column in used.values()}) > 1:
            lengths = sorted({len(column) for column in used.values()})
            raise source.refusal(f"columns of lengths {lengths}", "give columns of one length")
        masks = {name: missing_in(column) for name, column in used.items()}
        if missing in ("impute", "keep"):
            refuse_gaps(masks, whole, source)
            constants = dict(impute or {}) if missing == "impute" else None
            filled = [
                fill_gaps(masks[k], _row_reader(c, k, source, k in text), k, constants, source) for k, c in used.items()
            ]
            gaps = {name: gap for name, (_, gap) in zip(used, filled, strict=True) if gap is not None}
            return cls(tuple(used), tuple(column for column, _ in filled), gaps=gaps, texts=texts)
        keep = complete_rows(masks, missing, source)
        columns = []
        for name, column in used.items():
            kept = column if keep.size == len(column) else column[keep]
            columns.append(to_array(kept, name, source, keep, text=name in text))
        absent = (len(next(iter(used.values()))) if used else 0) - keep.size
        return cls(tuple(used), tuple(columns), keep, absent, texts=texts)

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.rows.size

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self.names:
            raise Refusal(f"there is no column {safe_text(name)}: {advice(name, self.names)}")
        return self.columns[self.names.index(name)]

    def kind(self, name: str) -> Kind:
        """What a column holds: "number", "text" or "bool"."""
        return _KINDS[self[name].dtype.kind]

    def drop(self, names: Collection[str]) -> Table:
        """The table without these columns; each must exist."""
        for name in names:
            self[name]
        kept = [(name, column) for name, column in zip(self.names, self.columns, strict=True) if name not in names]
        gaps = {name: gap for name, gap in self.gaps.items() if name not in names}
        texts = self.texts.difference(names)
        return Table(tuple(k for k, _ in kept), tuple(c for _, c in kept), self.rows, self.dropped, gaps, texts)

    def take(self, rows: Sequence[int] | NDArray[Any]) -> Table:
        """The table of these rows (positions or a mask), in the order given."""
        chosen = np.asarray(rows)
        chosen = chosen if chosen.dtype == bool else chosen.astype(np.intp)
        gaps = {name: gap.take(chosen) for name, gap in self.gaps.items()}
        columns = tuple(c[chosen] for c in self.columns)
        return Table(self.names, columns, self.rows[chosen], self.dropped, gaps, self.texts)

    def observed(self, name: str) -> NDArray[Any]:
        """The values of a column that were not missing, (k,)."""
        return self[name][~self.gaps[name].mask] if name in self.gaps else self[name]

    def __repr__(self) -> str:
        shown = ", ".join(f"{safe_text(name)} ({self.kind(name)})" for name in self.names)
        dropped = f", {self.dropped} left out for missing values" if self.dropped else ""
        return f"Table of {self.n} rows{dropped}: {shown}"


def column_names(frame: Any) -> list[str]:
    """The names of the columns of any table; no row is read.

    >>> column_names({"age": [31], "city": ["Ulm"]})
    ['age', 'city']
    """
    return list(frame.names) if isinstance(frame, Table) else list(_raw_columns(frame, Location("frame")))


def complete_rows(masks: Mapping[str, NDArray[np.bool_]], missing: Missing, source: Location) -> NDArray[np.intp]:
    """Positions of the rows without a missing value, or a refusal: the first missing one, and all columns with some."""
    if missing not in ("refuse", "drop"):
        raise Refusal(f"{option('missing', safe_text(missing))}: use refuse, drop or impute")
    if not masks:
        return np.empty(0, dtype=np.intp)
    absent = np.logical_or.reduce(list(masks.values()))
    if missing == "refuse" and absent.any():
        row = int(np.argmax(absent))
        column = next(name for name, mask in masks.items() if mask[row])
        gaps = {name: int(mask.sum()) for name, mask in masks.items()}
        raise missing_value_refusal(row, column, int(absent.sum()), absent.size, gaps, source)
    if absent.size and absent.all():
        raise no_complete_row(max(masks, key=lambda name: int(masks[name].sum())), source)
    return np.flatnonzero(~absent)


def missing_value_refusal(
    row: int, column: str, incomplete: int, n: int, gaps: Mapping[str, int], source: Location
) -> Refusal:
    """The refusal of the first missing value. incomplete: rows of the n that have one; gaps: column -> how many."""
    empty = [name for name, count in gaps.items() if count == n > 1]
    if empty and not source.partial:
        leave_out = f"leave the column out ({option('exclude', safe_text(empty[0]))})"
        todo = leave_out if offers("exclude") else "correct the column"
        return source.refusal("every value is missing", todo, column=empty[0])
    counted = [safe_text(name) + (f" ({count})" if not source.partial else "") for name, count in gaps.items() if count]
    leave_out = option("exclude", None if len(counted) > 1 else safe_text(column))
    other = f"fill it ({option('missing', 'impute')}), leave the column out ({leave_out})"
    counts = "" if source.partial else f": {incomplete} of {n} rows"
    todo = (
        f"{other if offers('exclude') else 'correct the cell'}, or leave such rows out "
        f"({option('missing', 'drop')}{counts})"
    )
    todo += f"; columns with missing values: {safe_list(counted)}" if len(counted) > 1 else ""
    fault = "missing value" if offers("exclude") else "missing value, or a cell that cannot be read"
    return source.refusal(fault, todo, row=row, column=column)


def no_complete_row(emptiest: str, source: Location) -> NoCompleteRow:
    """The refusal of a table in which every row has a missing value."""
    todo = f"leave the emptiest column out ({option('exclude')})" if offers("exclude") else "correct the table"
    return NoCompleteRow(str(source.refusal("every row has a missing value", todo, column=emptiest)))


def _row_reader(column: Any, name: str, source: Location, text: bool) -> Any:
    return lambda rows: to_array(column if rows.size == len(column) else column[rows], name, source, rows, text=text)


def like(frame: Any, columns: Mapping[str, Any], rows: NDArray[np.intp] | None = None) -> Any:
    """A frame of the caller's kind: pandas with its index, polars, pyarrow; else a dict of arrays.

    rows: positions in `frame` that the columns belong to (`table.rows`); all of them if not given.

    >>> like({"age": [31, 54]}, {"eta": np.array([0.1, 0.2])})
    {'eta': array([0.1, 0.2])}
    """
    caller = _native_frame(frame)
    if caller is None:
        return {name: np.asarray(values) for name, values in columns.items()}
    result = nw.from_dict({name: _plain(values) for name, values in columns.items()}, backend=caller.implementation)
    return _indexed(result.to_native(), caller, rows)


def new_frame_like(frame: Any, columns: Mapping[str, Sequence[Any]]) -> Any:
    """A frame of the caller's kind with other rows, without the caller's index; else a dict of arrays.

    >>> new_frame_like({"age": [31, 54]}, {"person": ["ann"], "eta": [0.1]})
    {'person': array(['ann'], dtype=object), 'eta': array([0.1])}
    """
    caller = _native_frame(frame)
    if caller is None:
        return {name: _array(values) for name, values in columns.items()}
    result = nw.from_dict({name: list(values) for name, values in columns.items()}, backend=caller.implementation)
    return result.to_native()


def _array(values: Sequence[Any]) -> NDArray[Any]:
    all_numbers = all(isinstance(value, int | float) for value in values)
    return np.asarray(values) if all_numbers else np.array(values, dtype=object)


def series_like(frame: Any, name: str, values: Any, rows: NDArray[np.intp] | None = None) -> Any:
    """One column of the caller's kind: a Series with its index, a ChunkedArray, or an array.

    >>> series_like(np.zeros((2, 3)), "eta", [0.1, 0.2])
    array([0.1, 0.2])
    """
    caller = _native_frame(frame)
    if caller is None:
        return np.asarray(values)
    series = nw.new_series(name, _plain(values), backend=caller.implementation)
    return _indexed(series.to_native(), caller, rows)


def _indexed(native: Any, caller: Any, rows: NDArray[np.intp] | None) -> Any:
    index = nw.maybe_get_index(caller)
    if index is not None:
        # nw.maybe_set_index would read the labels of an Index as names of columns.
        native.index = index if rows is None else index[rows]
    return native


def library_of(frame: Any) -> Any:
    """The dataframe library of a table, as narwhals names it; None for arrays, dicts and Tables.

    >>> library_of({"age": [31]}) is None
    True
    """
    caller = None if isinstance(frame, Table) else _native_frame(frame)
    return None if caller is None else caller.implementation


def _native_frame(frame: Any) -> Any:
    """The caller's frame in narwhals, or None for arrays and dicts."""
    wrapped = nw.from_native(frame, eager_only=True, pass_through=True)
    return wrapped if isinstance(wrapped, nw.DataFrame) else None


def _plain(values: Any) -> Any:
    # polars would keep an object array as opaque objects, where a list of str becomes a String column
    array = np.asarray(values)
    return array.tolist() if array.dtype.kind == "O" else array


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def _raw_columns(frame: Any, source: Location) -> dict[str, Any]:
    """Name -> narwhals Series or numpy array, of any supported table."""
    if isinstance(frame, np.ndarray):
        if frame.ndim != 2 or frame.dtype.names:
            raise source.refusal(f"an array of shape {frame.shape}", "give a 2-D array, one row a person")
        return {f"x{j}": frame[:, j] for j in range(frame.shape[1])}
    if isinstance(frame, Mapping):
        pairs = [(name, _one_dimensional(name, values, source)) for name, values in frame.items()]
    else:
        try:
            wrapped = nw.from_native(frame, eager_only=True)
        except (TypeError, ValueError) as error:
            raise not_a_table(frame, error, source) from None
        pairs = [(name, wrapped[:, j]) for j, name in enumerate(wrapped.columns)]
    for name, _ in pairs:
        if not isinstance(name, str | int):
            raise source.refusal(f"the column name {safe_text(name)} is not text", "give each column one name")
    source.check_names(str(name) for name, _ in pairs)
    return {str(name): column for name, column in pairs}


def _one_dimensional(name: Any, values: Any, source: Location) -> Any:
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise source.refusal("a single value is not a column", "give a list or an array", column=str(name))
    if isinstance(values, Mapping | Set):
        todo = "give a list or an array (pandas: to_dict('list'))"
        raise source.refusal(f"a {type(values).__name__} is not a column", todo, column=str(name))
    column = raw_column(values)
    if not isinstance(column, nw.Series) and column.ndim != 1:
        fault = f"a column of shape {column.shape}"
        raise source.refusal(fault, "give one value per row", column=str(name))
    return column


def not_a_table(frame: Any, error: Exception, source: Location) -> Refusal:
    """The refusal of an object that narwhals does not read."""
    kind = safe_text(f"{type(frame).__module__}.{type(frame).__qualname__}")
    if type(error).__name__ == "DuplicateError":
        names = [str(name) for name in getattr(frame, "columns", ())]
        names = names if len(set(names)) < len(names) else [str(name) for name in getattr(frame, "column_names", ())]
        twice = next((name for name in names if names.count(name) > 1), "")
        return source.refusal("two columns have the same name", "rename one of them", column=twice)
    if "Lazy" in kind or "dask" in kind:
        return source.refusal(f"a {kind} is not in memory", "call .collect() or .compute() first")
    return source.refusal(f"a {kind} is not a table", "give a pandas, polars or pyarrow table, a dict or a 2-D array")
