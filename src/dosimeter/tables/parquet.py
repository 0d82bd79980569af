"""Parquet through pyarrow, which is an extra. What the footer declares is checked before a page is read."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.location import Location
from dosimeter.core.progress import stage
from dosimeter.core.text import safe_text
from dosimeter.files.file_checks import GIBIBYTE, detect_kind, refuse_pickle, regular_file
from dosimeter.tables.csv_column import parse_numbers
from dosimeter.tables.table import Missing, Table


def read_parquet(
    path: str | os.PathLike[str],
    *,
    text: Collection[str] = (),
    drop: Collection[str] = (),
    needed: Collection[str] = (),
    missing: Missing = "refuse",
    impute: Mapping[str, Any] | None = None,
    whole: Collection[str] = (),
    declared: Collection[str] | None = None,
    limit: int = 4 * GIBIBYTE,
) -> Table:
    """A Parquet file as a Table; see `dosimeter.tables.read.read_table`."""
    file, source, parquet = _check_parquet(path, limit)
    stage(f"reading {safe_text(file.name, 40)}")
    try:
        with parquet.ParquetFile(file) as opened:
            wanted = _columns_to_read(opened, drop, source)
            source.check_known([*text, *drop, *needed], opened.schema_arrow.names)
            _check_sizes(opened, wanted, limit, source)
        # Text stays a dictionary: a million rows with one long text are one string and a million small integers.
        text_columns = [name for name, kind in wanted.items() if kind in ("string", "large_string")]
        with parquet.ParquetFile(file, read_dictionary=text_columns) as opened:
            frame = opened.read(columns=list(wanted))
        frame.validate(full=True)  # offsets and UTF-8, which reading takes on trust
        columns = {
            name: _numbers(frame.column(name))
            if declared and name in declared
            else _with_shared_strings(frame.column(name))
            for name in wanted
        }
    except Refusal:
        raise
    except Exception as error:  # pyarrow raises many kinds of errors
        raise _damage_refusal(error, source) from None
    if frame.num_rows < 2:
        fault = "there is no row" if frame.num_rows == 0 else "there is only one row"
        raise source.refusal(fault, "give at least two people")
    return Table.of(columns, text=set(text) - set(drop), missing=missing, impute=impute, whole=whole, source=source)


def names_parquet(path: str | os.PathLike[str], *, limit: int = 4 * GIBIBYTE) -> list[str]:
    """The names in the footer."""
    file, source, parquet = _check_parquet(path, limit)
    try:
        with parquet.ParquetFile(file) as opened:
            names = list(opened.schema_arrow.names)
    except Exception as error:
        raise _damage_refusal(error, source) from None
    source.check_names(names)
    return names


def column_parquet(path: str | os.PathLike[str], name: str, *, limit: int = 4 * GIBIBYTE) -> list[str | None]:
    """One column as text, None where a cell is missing."""
    table = read_parquet(path, drop=[n for n in names_parquet(path, limit=limit) if n != name], text=[name],
                         missing="drop", limit=limit)  # fmt: skip
    cells: list[str | None] = [None] * (table.n + table.dropped)
    for position, text in zip(table.rows.tolist(), table[name].tolist(), strict=True):
        cells[position] = text
    return cells


def _check_parquet(path: str | os.PathLike[str], limit: int) -> tuple[Path, Location, Any]:
    file, source = regular_file(path, limit)
    refuse_pickle(file, source, model=False)
    if detect_kind(file, source) != "a Parquet file":
        raise source.refusal("not a Parquet file", "check the name; a text table is named .csv")
    return file, source, _pyarrow(source)


def _numbers(column: Any) -> Any:
    """A column that was declared to hold numbers, as float64; nan where a value is missing or not finite."""
    kind = column.type
    if str(kind) in ("string", "large_string") or str(kind).startswith("dictionary"):
        return parse_numbers([None if cell is None else str(cell) for cell in _text_cells(column)])
    try:
        values = np.asarray(column.cast("float64", safe=False).to_numpy(), dtype=np.float64)
    except Exception:  # dates, times, binary: nothing in it is a number
        return np.full(len(column), np.nan)
    return np.where(np.isfinite(values), values, np.nan)


def _text_cells(column: Any) -> list[Any]:
    cells: list[Any] = (
        _with_shared_strings(column).tolist() if str(column.type).startswith("dictionary") else column.to_pylist()
    )
    return cells


def _damage_refusal(error: Exception, source: Location) -> Refusal:
    fault = f"cannot be read as Parquet ({safe_text(error, 100)})"
    return source.refusal(fault, "it may be truncated; write it again")


def _with_shared_strings(column: Any) -> Any:
    """A dictionary column as Python strings, one object per level and not per row; other columns as they are."""
    if not str(column.type).startswith("dictionary"):
        return column
    blocks = [np.empty(0, dtype=object)]
    for chunk in column.chunks:
        texts = [None if text is None else str(text) for text in chunk.dictionary.to_pylist()]
        levels = np.array([*texts, None], dtype=object)
        blocks.append(levels[chunk.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False).astype(np.intp)])
    return np.concatenate(blocks)


def _columns_to_read(opened: Any, drop: Collection[str], source: Location) -> dict[str, str]:
    """Column to read -> its Arrow kind. Nested columns are refused here, so their pages are never decoded."""
    schema = opened.schema_arrow
    source.check_names(schema.names)
    wanted = {field.name: str(field.type) for field in schema if field.name not in drop}
    if not wanted:
        raise source.refusal("every column is dropped", "keep at least one")
    for field in schema:
        if field.name in wanted and field.type.num_fields and not str(field.type).startswith("dictionary"):
            fault = f"values of kind {safe_text(field.type)} cannot be used"
            raise source.refusal(
                fault, f"spread them over columns or leave the column out ({option('exclude')})", column=field.name
            )
    return wanted


def _check_sizes(opened: Any, wanted: Collection[str], limit: int, source: Location) -> None:
    """The declared bytes, and rows times columns: a billion equal values take a few bytes on the disk."""
    footer = opened.metadata
    groups = [footer.row_group(g) for g in range(footer.num_row_groups)]
    declared = sum(group.total_byte_size for group in groups)
    needed = max(declared, 8 * footer.num_rows * len(wanted))
    if sum(group.num_rows for group in groups) != footer.num_rows or footer.num_rows < 0 or declared < 0:
        raise source.refusal("the footer contradicts itself", "the file is damaged; write it again")
    if needed > limit:
        fault = f"it declares {needed} bytes unpacked, above the limit of {limit}"
        raise source.refusal(fault, "take fewer rows or columns, or raise the limit")


def _pyarrow(source: Location) -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        todo = "pip install 'dosimeter[parquet]'"
        raise source.refusal("reading Parquet needs pyarrow, which is not installed", todo) from None
    return parquet
