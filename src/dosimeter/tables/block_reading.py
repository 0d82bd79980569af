"""Blocks of a source as tables: numbers, booleans and text, checked as a table in memory is.

Columns of numbers without gaps are taken as they are; anything else goes through `Table.of`. Every fault names the
file, its row group and the row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.engine import Part
from dosimeter.engines.raw_block import RawBlock
from dosimeter.tables.classes import keep_listed_classes
from dosimeter.tables.column_values import holds_text, raw_column
from dosimeter.tables.person_ids import with_person_ids
from dosimeter.tables.table import Missing, NoCompleteRow, Table

_PLAIN = frozenset("double float int8 int16 int32 uint8 uint16 uint32".split())
"""Arrow kinds that fit into float64."""


@dataclass(frozen=True)
class BlockReading:
    """How blocks are read."""

    text: tuple[str, ...] = ()
    """Columns that are kept as exact text."""
    missing: str = "refuse"
    """"refuse" or "drop"."""
    declared: tuple[str, ...] | None = None
    """Columns that were declared to hold numbers."""
    target: str = ""
    classes: tuple[str, ...] | None = None
    """Classes of the target that were listed in advance; its cells are then read as text."""
    keep_class_names: bool = False
    person: str = ""
    """The column that says whose row it is; "" if there is none."""

    def table(self, raw: RawBlock) -> Table:
        """The block; `rows` are numbers in the whole source."""
        table = _converted(raw) if raw.checked else self._plain(raw)
        if table is None:
            table = self._checked(raw)
        if self.classes is not None and table.n:
            table = self._with_listed_classes(table, raw)
        texts = frozenset() if raw.checked else _held_as_text(raw.columns)
        table = with_person_ids(table, self.person)
        return Table(table.names, table.columns, table.rows + raw.first, table.dropped, table.gaps, texts)

    def exact_text(self, names: Collection[str]) -> tuple[str, ...]:
        """Those of these columns that are kept as exact text."""
        wanted = [name for name in self.text if name in names]
        return (*wanted, *([self.target] if self.classes is not None and self.target not in wanted else []))

    def _with_listed_classes(self, table: Table, raw: RawBlock) -> Table:
        leave_out, classes = self.missing == "drop", self.classes or ()
        try:
            return keep_listed_classes(
                table, self.target, classes, leave_out=leave_out, source=raw.place, names=self.keep_class_names
            )
        except NoCompleteRow:  # other blocks may have some
            return Table(table.names, tuple(column[:0] for column in table.columns), dropped=table.n + table.dropped)

    def _plain(self, raw: RawBlock) -> Table | None:
        """Finite numbers and texts without gaps as they are; None if a column is anything else."""
        if self.classes is not None:
            return None
        arrays = []
        for name, column in raw.columns.items():
            array = _texts(column, exact=True) if name in self.text else _numbers(column)
            if array is None and name not in self.text and self.declared is None:
                array = _texts(column, exact=False)
            if array is None:
                return None
            arrays.append(array)
        return Table(tuple(raw.columns), tuple(arrays))

    def _checked(self, raw: RawBlock) -> Table:
        text, missing = self.exact_text(raw.columns), _policy(self.missing)
        try:
            return Table.of(
                {name: _readable(column) for name, column in raw.columns.items()},
                text=text,
                missing=missing,
                declared=None if self.declared is None else [name for name in self.declared if name in raw.columns],
                source=replace(raw.place, partial=True),
            )
        except NoCompleteRow:  # other blocks may have some
            nothing: Any = np.empty(0)
            return Table(tuple(raw.columns), tuple(nothing for _ in raw.columns), dropped=raw.n)


def _policy(missing: str) -> Missing:
    return "drop" if missing == "drop" else "refuse"


def _converted(raw: RawBlock) -> Table:
    """A block whose columns are already those of its complete rows."""
    if raw.incomplete is None:
        return Table(tuple(raw.columns), tuple(raw.columns.values()))
    kept = np.flatnonzero(~raw.incomplete)
    return Table(tuple(raw.columns), tuple(raw.columns.values()), kept, len(raw.incomplete) - len(kept))


def _numbers(column: Any) -> NDArray[np.float64] | None:
    """A column of finite numbers without gaps, as float64; None for any other."""
    if isinstance(column, np.ndarray):
        values = column.astype(np.float64) if column.dtype.kind in "f" or column.dtype.itemsize < 8 else None
        if column.dtype.kind not in "fiu":
            return None
    elif hasattr(column, "null_count") and str(getattr(column, "type", "")) in _PLAIN and column.null_count == 0:
        values = np.asarray(column.to_numpy(), dtype=np.float64)
    elif type(column).__module__.startswith("polars") and column.dtype.is_numeric() and not column.null_count():
        small = column.dtype.is_float() or str(column.dtype) in ("Int8", "Int16", "Int32", "UInt8", "UInt16", "UInt32")
        values = np.asarray(column.to_numpy(), dtype=np.float64) if small else None
    else:
        return None
    # A sum is finite if all are; if it overflows all are looked at.
    if values is None or not (np.isfinite(values.sum()) or np.isfinite(values).all()):
        return None
    return values


def _texts(column: Any, *, exact: bool) -> NDArray[Any] | None:
    """A column of Arrow texts without gaps, one Python string a level; None for any other column.

    exact: take whole numbers as their digits too.
    """
    if not hasattr(column, "null_count") or not type(column).__module__.startswith("pyarrow") or column.null_count:
        return None
    import pyarrow as pa

    kind = column.type
    if pa.types.is_integer(kind) and exact:
        column = column.cast(pa.string())
    elif not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)):
        return None
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if column.indices.null_count or not pa.types.is_string(column.dictionary.type):
        return None
    levels = np.array([*column.dictionary.to_pylist(), None], dtype=object)[:-1]
    return np.asarray(levels[column.indices.to_numpy()])


def _held_as_text(columns: Mapping[str, Any]) -> frozenset[str]:
    """Columns of a typed block that hold text; those of a text file have no type."""
    return frozenset(name for name, column in columns.items() if _is_text(column))


def _is_text(column: Any) -> bool:
    """Arrow columns by their type alone: a dictionary is not decoded."""
    if not type(column).__module__.startswith("pyarrow"):
        return holds_text(raw_column(column))
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _readable(column: Any) -> Any:
    """What narwhals reads: a chunked array instead of an Arrow array."""
    if type(column).__module__.startswith("pyarrow") and not hasattr(column, "chunks"):
        import pyarrow as pa

        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return pa.chunked_array([column])
    return column


@dataclass(frozen=True)
class TablePart:
    """The blocks of a part as tables."""

    part: Any
    reading: BlockReading

    @property
    def rows(self) -> int:
        """Rows of the part, as its source counts them."""
        return int(self.part.rows)

    def blocks(self) -> Iterator[Table]:
        """Tables that have at least one row."""
        for raw in self.part.blocks():
            table = self.reading.table(raw)
            if table.n:
                yield table


def table_parts(parts: Sequence[Part], reading: BlockReading) -> list[TablePart]:
    """The parts of a source, read as tables."""
    return [TablePart(part, reading) for part in parts]


def content_digest(parts: Sequence[TablePart]) -> str:
    """A digest of every value of the parts; where a block ends makes no difference."""
    rows, columns = hashlib.blake2b(), dict[tuple[str, str], Any]()
    for part in parts:
        for table in part.blocks():
            rows.update(table.rows.astype(np.int64).tobytes())
            for name in table.names:
                digest = columns.setdefault((name, table.kind(name)), hashlib.blake2b())
                for piece in _bytes_of(table[name]):
                    digest.update(piece)
    every = [(*key, digest.hexdigest()) for key, digest in columns.items()]
    return hashlib.blake2b(repr((rows.hexdigest(), every)).encode(), digest_size=16).hexdigest()


def _bytes_of(column: NDArray[Any]) -> Iterator[bytes]:
    """The values; each text with its length before it."""
    if column.dtype.kind != "O":
        yield np.ascontiguousarray(column).tobytes()
        return
    for text in column.tolist():
        encoded = str(text).encode("utf-8", "surrogatepass")
        yield len(encoded).to_bytes(8, "little") + encoded
