"""A table from a file; the ending of its name decides the format."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text
from dosimeter.files.file_checks import GIBIBYTE, SAVE_TABLE, binary_remedy, detect_kind, refuse_pickle, regular_file
from dosimeter.tables.csv import column_csv, names_csv, read_csv
from dosimeter.tables.parquet import column_parquet, names_parquet, read_parquet
from dosimeter.tables.table import Missing, Table

_TEXT = (".csv", ".tsv", ".txt")
_PARQUET = (".parquet", ".pq")


def read_table(
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
    """The people in a .csv (.tsv, .txt) or .parquet file.

    delimiter: of text files; decimal: the mark in their numbers, "." or ","; text: columns kept as exact text, in which
    only an empty cell is missing
    (identifiers, labels that look like numbers); drop: columns that are not read; needed: columns that must be
    there, checked before any value is read; missing: "refuse" names the first missing value, "drop" leaves such rows
    out (`table.dropped` counts them, `table.rows` says which are left), "impute" fills them (`Table.of`), numbers with
    the constants in `impute`, never in the columns `whole`; declared: columns that were declared to hold numbers. Their
    cells that cannot be read (`abc`, `inf`, 1e400) are then missing, every line of a text file is one row, and a line
    with too few or too many cells, an open quote or wrong bytes is a row of missing values: no refusal quotes such a
    cell, and no line changes what another one means. limit: bytes of the file, and of what a Parquet file declares to
    hold.

    Anything else is a `Refusal` of one line, `<file>: <fault> (row r, column c): <what to do>`, rows counted from 1.
    """
    kind = Path(path).suffix.lower()
    options: dict[str, Any] = {"text": text, "drop": drop, "needed": needed, "missing": missing, "limit": limit}
    options |= {"impute": impute, "whole": whole, "declared": declared}
    if kind in _TEXT:
        return read_csv(path, delimiter=delimiter, decimal=decimal, **options)
    if kind in _PARQUET:
        return read_parquet(path, **options)
    raise _not_a_table(path, limit)


def table_names(path: str | os.PathLike[str], *, delimiter: str = ",", limit: int = 4 * GIBIBYTE) -> list[str]:
    """The names of a table's columns; no row is read."""
    kind = Path(path).suffix.lower()
    if kind in _TEXT:
        return names_csv(path, delimiter=delimiter, limit=limit)
    if kind in _PARQUET:
        return names_parquet(path, limit=limit)
    raise _not_a_table(path, limit)


def read_column(
    path: str | os.PathLike[str], name: str, *, delimiter: str = ",", limit: int = 4 * GIBIBYTE
) -> list[str | None]:
    """The text of one column on every row of a table whose columns were declared; None where a cell is missing."""
    kind = Path(path).suffix.lower()
    if kind in _TEXT:
        return column_csv(path, name, delimiter=delimiter, limit=limit)
    if kind in _PARQUET:
        return column_parquet(path, name, limit=limit)
    raise _not_a_table(path, limit)


def _not_a_table(path: str | os.PathLike[str], limit: int) -> Refusal:
    kind = Path(path).suffix.lower()
    file, source = regular_file(path, limit)
    refuse_pickle(file, source, model=False)
    detected = detect_kind(file, source)
    if detected:
        return source.refusal(f"this is {detected}, not a table", binary_remedy(detected))
    named = f"the ending {safe_text(kind, 20)}" if kind else "a name without ending"
    return source.refusal(
        f"{named} does not say what kind of file this is", SAVE_TABLE if kind else "name it .csv or .parquet"
    )
