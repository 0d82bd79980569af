"""Parquet through pyarrow, which is an extra. What the footer declares is checked before a page is read."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.core.progress import stage
from dosimeter.core.text import safe_text
from dosimeter.files.file_checks import GIBIBYTE, kind_of, refuse_pickle, regular_file
from dosimeter.tables.csv_column import as_declared
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
    file, source, parquet = _checked(path, limit)
    stage(f"reading {safe_text(file.name, 40)}")
    try:
        with parquet.ParquetFile(file) as opened:
            wanted = _wanted(opened, drop, source)
            source.check_known([*text, *drop, *needed], opened.schema_arrow.names)
            _check_sizes(opened, wanted, limit, source)
        # Text stays a dictionary: a million rows of one long word are one word and a million small integers.
        words = [name for name, kind in wanted.items() if kind in ("string", "large_string")]
        with parquet.ParquetFile(file, read_dictionary=words) as opened:
            frame = opened.read(columns=list(wanted))
        frame.validate(full=True)  # offsets and UTF-8, which reading takes on trust
        columns = {
            name: _numbers(frame.column(name)) if declared and name in declared else _shared(frame.column(name))
            for name in wanted
        }
    except Refusal:
        raise
    except Exception as error:  # pyarrow has no one error of its own
        raise _damaged(error, source) from None
    if frame.num_rows < 2:
        what = "there is no row" if frame.num_rows == 0 else "there is only one row"
        raise source.refusal(what, "give at least two people")
    return Table.of(columns, text=set(text) - set(drop), missing=missing, impute=impute, whole=whole, source=source)


def names_parquet(path: str | os.PathLike[str], *, limit: int = 4 * GIBIBYTE) -> list[str]:
    """The names in the footer."""
    file, source, parquet = _checked(path, limit)
    try:
        with parquet.ParquetFile(file) as opened:
            names = list(opened.schema_arrow.names)
    except Exception as error:
        raise _damaged(error, source) from None
    source.check_names(names)
    return names


def column_parquet(path: str | os.PathLike[str], name: str, *, limit: int = 4 * GIBIBYTE) -> list[str | None]:
    """One column as text, None where there is none."""
    table = read_parquet(path, drop=[n for n in names_parquet(path, limit=limit) if n != name], text=[name],
                         missing="drop", limit=limit)  # fmt: skip
    found: list[str | None] = [None] * (table.n + table.dropped)
    for position, text in zip(table.rows.tolist(), table[name].tolist(), strict=True):
        found[position] = text
    return found


def _checked(path: str | os.PathLike[str], limit: int) -> tuple[Path, Location, Any]:
    file, source = regular_file(path, limit)
    refuse_pickle(file, source, model=False)
    if kind_of(file, source) != "a Parquet file":
        raise source.refusal("not a Parquet file", "check the name; a text table is named .csv")
    return file, source, _pyarrow(source)


def _numbers(column: Any) -> Any:
    """A column that was declared to hold numbers, as float64; nan where a value is missing or no finite number."""
    kind = column.type
    if str(kind) in ("string", "large_string") or str(kind).startswith("dictionary"):
        return as_declared([None if cell is None else str(cell) for cell in _shared_text(column)])
    try:
        values = np.asarray(column.cast("float64", safe=False).to_numpy(), dtype=np.float64)
    except Exception:  # dates, times, binary: nothing in it is a number
        return np.full(len(column), np.nan)
    return np.where(np.isfinite(values), values, np.nan)


def _shared_text(column: Any) -> list[Any]:
    cells: list[Any] = _shared(column).tolist() if str(column.type).startswith("dictionary") else column.to_pylist()
    return cells


def _damaged(error: Exception, source: Location) -> Refusal:
    what = f"cannot be read as Parquet ({safe_text(error, 100)})"
    return source.refusal(what, "it may be truncated; write it again")


def _shared(column: Any) -> Any:
    """A dictionary column as Python strings, one object a level, not one a row; others as they are."""
    if not str(column.type).startswith("dictionary"):
        return column
    blocks = [np.empty(0, dtype=object)]
    for chunk in column.chunks:
        words = [None if word is None else str(word) for word in chunk.dictionary.to_pylist()]
        levels = np.array([*words, None], dtype=object)
        blocks.append(levels[chunk.indices.fill_null(len(words)).to_numpy(zero_copy_only=False).astype(np.intp)])
    return np.concatenate(blocks)


def _wanted(opened: Any, drop: Collection[str], source: Location) -> dict[str, str]:
    """Used column -> its Arrow kind. Nested columns are refused here: their pages are never decoded."""
    schema = opened.schema_arrow
    source.check_names(schema.names)
    wanted = {field.name: str(field.type) for field in schema if field.name not in drop}
    if not wanted:
        raise source.refusal("every column is dropped", "keep at least one")
    for field in schema:
        if field.name in wanted and field.type.num_fields and not str(field.type).startswith("dictionary"):
            what = f"values of kind {safe_text(field.type)} cannot be used"
            raise source.refusal(what, "spread them over columns or drop the column (--drop)", column=field.name)
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
        what = f"it declares {needed} bytes unpacked, above the limit of {limit}"
        raise source.refusal(what, "take fewer rows or columns, or raise the limit")


def _pyarrow(source: Location) -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        todo = "pip install 'dosimeter[parquet]'"
        raise source.refusal("reading Parquet needs pyarrow, which is not installed", todo) from None
    return parquet
