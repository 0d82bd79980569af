"""Comma-separated text, read strictly: UTF-8, a header line, every row as long as the header, quotes closed.

`csv_scan` reads the rows, and says what a declared column changes; `csv_lines` splits the lines. A file too large for
memory is read by `csv_source`, with the same pass.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from dosimeter.core.location import Location
from dosimeter.files.file_checks import GIBIBYTE, os_error_refusal
from dosimeter.tables.csv_lines import (
    check_delimiter,
    check_file,
    check_marks,
    header_line,
    header_of,
    lines_of,
    row_by_line,
)
from dosimeter.tables.csv_scan import Column, CsvOptions, CsvScan
from dosimeter.tables.missing_values import fill_gaps, refuse_gaps
from dosimeter.tables.table import Missing, Table, complete_rows


def read_csv(
    path: str | os.PathLike[str],
    *,
    delimiter: str = ",",
    decimal: str = ".",
    text: Collection[str] = (),
    drop: Collection[str] = (),
    needed: Collection[str] = (),
    missing: Missing = "refuse",
    impute: Mapping[str, Any] | None = None,
    whole: Collection[str] = (),
    declared: Collection[str] | None = None,
    limit: int = 4 * GIBIBYTE,
) -> Table:
    """A CSV file as a Table; see `dosimeter.tables.read.read_table`."""
    options = CsvOptions(
        check_marks(delimiter, decimal), tuple(text), tuple(drop), tuple(needed),
        None if declared is None else tuple(declared), decimal,
    )  # fmt: skip
    file, source = check_file(path, limit)

    def scan(verbatim: Collection[str] = ()) -> Sequence[Column]:
        reading = CsvScan.begin(file, source, options, verbatim)
        reading.run()
        return list(reading.columns.values())

    try:
        columns = scan()
        reread = frozenset(column.name for column in columns if column.needs_reread)
        if reread:
            columns = scan(reread)
    except OSError as error:
        raise os_error_refusal(error, source, "read") from None
    if missing in ("impute", "keep"):
        return _with_gaps(columns, dict(impute or {}) if missing == "impute" else None, whole, source)
    keep = complete_rows({column.name: column.missing for column in columns}, missing, source)
    arrays = tuple(column.to_array(keep, source) for column in columns)
    if keep.size < 2 and declared is None:
        raise source.refusal("only one row is left", "give at least two people")
    return Table(tuple(column.name for column in columns), arrays, keep, columns[0].length - keep.size)


def _with_gaps(
    columns: Sequence[Column], constants: Mapping[str, Any] | None, whole: Collection[str], source: Location
) -> Table:
    """Every row, with its gaps filled or marked."""
    masks = {column.name: column.missing for column in columns}
    refuse_gaps(masks, whole, source)
    names = tuple(masks)
    filled = [fill_gaps(masks[c.name], partial(c.to_array, source=source), c.name, constants, source) for c in columns]
    gaps = {name: gap for name, (_, gap) in zip(names, filled, strict=True) if gap is not None}
    return Table(names, tuple(column for column, _ in filled), gaps=gaps)


def names_csv(path: str | os.PathLike[str], *, delimiter: str = ",", limit: int = 4 * GIBIBYTE) -> list[str]:
    """The header of a CSV file; no row is read."""
    file, source = check_file(path, limit)
    try:
        with file.open("rb") as stream:
            return header_of(lines_of(stream), check_delimiter(delimiter), source)
    except OSError as error:
        raise os_error_refusal(error, source, "read") from None


def column_csv(
    path: str | os.PathLike[str], name: str, *, delimiter: str = ",", limit: int = 4 * GIBIBYTE
) -> list[str | None]:
    """One column of a file whose columns were declared: the text of every line, None where the cell is empty.

    A line with too few or too many cells still names its person, if it is long enough.
    """
    delimiter = check_delimiter(delimiter)
    file, source = check_file(path, limit)
    with file.open("rb") as stream:
        header = header_of(header_line(stream), delimiter, source)
        source.check_known([name], header)
        j = header.index(name)
        return [row[j] if len(row) > j and row[j].strip() else None for row in row_by_line(stream, delimiter)]
