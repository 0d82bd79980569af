"""Comma-separated text, read strictly: UTF-8, a header line, every row as long as the header, quotes closed.

The parser is the standard library's. This module adds that every failure names its row and column, that an endless line
does not fill the memory, and that whole blocks of lines or of a column are converted to numbers at once
(`number_block`).

If columns were declared beforehand (`declared`), no line can stop the reading or change the meaning of another line:
every line after the header is one row, and a line that does not split into the header's cells is a row of missing
values.
"""

from __future__ import annotations

import csv
import itertools
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.location import Location
from dosimeter.core.progress import advance, stage
from dosimeter.core.text import safe_text
from dosimeter.files.file_checks import (
    GIBIBYTE,
    binary_remedy,
    detect_kind,
    first_bytes,
    os_error_refusal,
    refuse_pickle,
    regular_file,
)
from dosimeter.tables.column_values import LARGEST_INTEGER
from dosimeter.tables.csv_column import Cells, DeclaredNumbers
from dosimeter.tables.missing_values import fill_gaps, refuse_gaps
from dosimeter.tables.number_block import number_block
from dosimeter.tables.table import Missing, Table, complete_rows

_LONGEST_LINE = 2**24
_CELLS_PER_BLOCK = 2**16  # bounds the Python strings held at once; 2**13 to 2**18 differ little in speed
_BYTES_PER_BLOCK = 2**17  # of plain numbers: the block and its temporaries stay in the caches
_TAB_NAMES = {"\\t": "\t", "tab": "\t"}
_NOT_UTF8 = "save the file as UTF-8 (iconv -f latin1 -t utf-8)"


def read_csv(
    path: str | os.PathLike[str],
    *,
    delimiter: str = ",",
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
    delimiter = _check_delimiter(delimiter)
    file, source = _check_file(path, limit)

    def scan(verbatim: Collection[str]) -> list[Cells | DeclaredNumbers]:
        if declared is None:
            return [*_scan(file, source, delimiter, text, drop, verbatim, needed)]
        return _scan_lines(file, source, delimiter, (text, drop, needed, declared), verbatim)

    try:
        columns = scan(frozenset())
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
    columns: Sequence[Cells | DeclaredNumbers],
    constants: Mapping[str, Any] | None,
    whole: Collection[str],
    source: Location,
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
    file, source = _check_file(path, limit)
    try:
        with file.open("rb") as stream:
            return _header(_lines(stream), _check_delimiter(delimiter), source)
    except OSError as error:
        raise os_error_refusal(error, source, "read") from None


def column_csv(
    path: str | os.PathLike[str], name: str, *, delimiter: str = ",", limit: int = 4 * GIBIBYTE
) -> list[str | None]:
    """One column of a file whose columns were declared: the text of every line, None where the cell is empty.

    A line with too few or too many cells still names its person, if it is long enough.
    """
    delimiter = _check_delimiter(delimiter)
    file, source = _check_file(path, limit)
    with file.open("rb") as stream:
        header = _header(_header_lines(stream), delimiter, source)
        source.check_known([name], header)
        j = header.index(name)
        return [row[j] if len(row) > j and row[j].strip() else None for row in _row_by_line(stream, delimiter)]


def _scan_lines(
    file: Path, source: Location, delimiter: str, used: tuple[Collection[str], ...], verbatim: Collection[str]
) -> list[Cells | DeclaredNumbers]:
    """Every used column of the file, line by line; a line of another length has empty cells only."""
    text, drop, needed, declared = used
    lines = 0
    with file.open("rb") as stream:
        header = _header(_header_lines(stream), delimiter, source)
        source.check_known([*text, *drop, *needed], header)
        columns = {
            j: DeclaredNumbers(name) if name in declared else Cells(name, exact=name in text, verbatim=name in verbatim)
            for j, name in enumerate(header)
            if name not in drop
        }
        if not columns:
            raise source.refusal("every column is dropped", "keep at least one")
        block, empty, size = [], [""] * len(header), max(1, _CELLS_PER_BLOCK // len(header))
        for row in _row_by_line(stream, delimiter):
            block.append(row if len(row) == len(header) else empty)
            lines += 1
            if len(block) == size:
                _add(columns, block)
                block = []
        _add(columns, block)
    if not lines:
        raise source.refusal("there is a header and no row", "give at least two people")
    return list(columns.values())


def _row_by_line(stream: BinaryIO, delimiter: str) -> Iterator[list[str]]:
    """The cells of each line by itself, [] if the line cannot be read. A quote ends with its line."""
    while line := stream.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            while rest := stream.readline(_LONGEST_LINE):
                if rest.endswith(b"\n"):
                    break
            yield []
            continue
        try:
            yield _cells(line, delimiter)
        except (UnicodeDecodeError, csv.Error):
            yield []


def _cells(line: bytes, delimiter: str) -> list[str]:
    if b"\0" in line:
        return []
    plain = line.decode("utf-8").removesuffix("\n").removesuffix("\r")
    special = '"' in plain or "\r" in plain or delimiter + " " in plain or plain[:1] == " "
    if special or len(plain) > csv.field_size_limit():
        return next(csv.reader([plain], delimiter=delimiter, strict=True, skipinitialspace=True), [])
    return plain.split(delimiter) if plain else []


def _header_lines(stream: BinaryIO) -> Iterator[str]:
    """The first line alone, so that the rows after it are still in the stream."""
    lines = _lines(stream)
    first = next(lines, None)
    return iter([] if first is None else [first])


def _header(lines: Iterator[str], delimiter: str, source: Location) -> list[str]:
    try:
        header = next(_rows(lines, delimiter), [])
    except (csv.Error, UnicodeDecodeError, _BadLine) as error:
        raise _reading_refusal(error, -1, source) from None
    _check_header(header, delimiter, source)
    return header


def _check_file(path: str | os.PathLike[str], limit: int) -> tuple[Path, Location]:
    file, source = regular_file(path, limit)
    refuse_pickle(file, source, model=False)
    _refuse_other_kinds(file, source)
    return file, source


def _scan(
    file: Path,
    source: Location,
    delimiter: str,
    text: Collection[str],
    drop: Collection[str],
    verbatim: Collection[str],
    needed: Collection[str] = (),
) -> list[Cells]:
    """Every used column of the file, row by row; `done` counts the data rows that are complete."""
    rows_read = -1
    length = max(1, file.stat().st_size)
    stage(f"reading {safe_text(file.name, 40)}")
    with file.open("rb") as stream:
        reader = _rows(_lines(stream), delimiter)
        try:
            header = next(reader, [])
            _check_header(header, delimiter, source)
            source.check_known([*text, *drop, *needed], header)
            columns = {
                j: Cells(name, exact=name in text, verbatim=name in verbatim)
                for j, name in enumerate(header)
                if name not in drop
            }
            if not columns:
                raise source.refusal("every column is dropped", "keep at least one")
            size = max(1, _CELLS_PER_BLOCK // len(header))
            rows_read, block, blank = 0, [], -1
            rows_read += _add_number_blocks(stream, columns, len(header), delimiter, length)
            for row in reader:
                if len(row) != len(header):
                    if not row:
                        blank = rows_read if blank < 0 else blank
                        continue
                    raise _length_refusal(len(row), len(header), rows_read, source)
                if blank >= 0:
                    raise source.refusal("blank line", "remove it", row=blank)
                block.append(row)
                rows_read += 1
                if len(block) == size:
                    _add(columns, block)
                    block = []
                    advance(stream.tell() / length)
                    rows_read += _add_number_blocks(stream, columns, len(header), delimiter, length)
            _add(columns, block)
        except (csv.Error, UnicodeDecodeError, _BadLine) as error:
            raise _reading_refusal(error, rows_read, source) from None
    if rows_read < 2:
        fault = "there is a header and no row" if rows_read == 0 else "there is only one row"
        raise source.refusal(fault, "give at least two people")
    return list(columns.values())


def _add_number_blocks(stream: BinaryIO, columns: Mapping[int, Cells], width: int, delimiter: str, length: int) -> int:
    """Rows that were read from here as blocks of plain numbers; the stream stands before the first line that is not."""
    if not all(column.takes_numbers for column in columns.values()):
        return 0
    rows = 0
    while lines := stream.read(_BYTES_PER_BLOCK):
        lines += stream.readline(_LONGEST_LINE)
        numbers = number_block(lines, width, delimiter) if lines[:1] not in b"\r\n" else None
        if numbers is None or max(numbers.max(), -numbers.min()) >= LARGEST_INTEGER:
            stream.seek(-len(lines), os.SEEK_CUR)
            break
        for j, column in columns.items():
            column.add_numbers(numbers[j])
        rows += numbers.shape[1]
        advance(stream.tell() / length)
    return rows


def _add(columns: Mapping[int, Cells | DeclaredNumbers], block: list[list[str]]) -> None:
    if block:
        across = list(zip(*block, strict=True))
        for j, column in columns.items():
            column.add(across[j])


def _rows(lines: Iterator[str], delimiter: str) -> Iterator[list[str]]:
    """Rows as the csv module gives them. A line with nothing special in it is only split."""
    for line in lines:
        plain = line.removesuffix("\n").removesuffix("\r")
        special = '"' in plain or "\r" in plain or delimiter + " " in plain or plain[:1] == " "
        if special or len(plain) > csv.field_size_limit():
            record = itertools.chain((line,), lines)
            yield next(csv.reader(record, delimiter=delimiter, strict=True, skipinitialspace=True))
        else:
            yield plain.split(delimiter) if plain else []


class _BadLine(Exception):
    """A line that cannot be read: (fault, remedy)."""


def _lines(stream: BinaryIO) -> Iterator[str]:
    """Lines ended by LF. Decoded one by one, so that a wrong byte is known by its row."""
    start = True
    while line := stream.readline(_LONGEST_LINE):
        if start:
            line, start = line.removeprefix(b"\xef\xbb\xbf"), False
        if len(line) == _LONGEST_LINE:
            todo = "end the lines with LF or CRLF" if b"\r" in line else "this is not a table of rows"
            raise _BadLine(f"line longer than {_LONGEST_LINE} bytes", todo)
        if b"\0" in line:
            raise _BadLine("NUL byte", "this is not text; save the file as UTF-8")
        yield line.decode("utf-8")


def _reading_refusal(error: Exception, rows_read: int, source: Location) -> Refusal:
    """The refusal for an error of the line reader or of the csv module, in the row after the last complete one."""
    message = str(error)
    if isinstance(error, _BadLine):
        fault, todo = error.args
    elif isinstance(error, UnicodeDecodeError):
        fault, todo = "not UTF-8", _NOT_UTF8
    elif "new-line character" in message:
        fault, todo = "carriage return without line feed", "end the lines with LF or CRLF"
    elif "unexpected end" in message:
        fault, todo = "a quote is opened and never closed", "close it, or double the quotes inside a cell"
    elif "field larger" in message:
        fault = f"cell longer than {csv.field_size_limit()} characters"
        todo = "a quote may be opened and never closed; close it, or shorten the cell"
    else:
        fault, todo = "text after a closing quote", "double the quotes inside a cell"
    return source.refusal(fault if rows_read >= 0 else f"{fault} in the header", todo, row=rows_read)


def _length_refusal(cells: int, expected: int, row: int, source: Location) -> Refusal:
    todo = "quote cells that hold the delimiter, and fill short rows"
    return source.refusal(f"{cells} cells where the header has {expected}", todo, row=row)


def _check_header(header: list[str], delimiter: str, source: Location) -> None:
    if not header:
        raise source.refusal("the first line is empty", "begin with a header line")
    if len(header) == 1:
        for other in (";", "\t", "|", ","):
            if other in header[0] and other != delimiter:
                shown = "\\t" if other == "\t" else other
                raise source.refusal(f"looks like delimiter '{shown}'", f"pass {option('delimiter', shown)}")
    source.check_names(header)
    if _looks_like_data(header):
        raise source.refusal("the first line holds numbers only", "begin with a header line that names the columns")


def _looks_like_data(header: list[str]) -> bool:
    """Numbers only, and not the 0, 1, 2, ... that pandas writes for columns without names."""
    if header == [str(j) for j in range(len(header))]:
        return False
    probe = Cells("header")
    probe.add(header)
    return probe.numbers == len(header)


def _refuse_other_kinds(file: Path, source: Location) -> None:
    kind = detect_kind(file, source)
    if kind:
        raise source.refusal(f"this is {kind}, not text", binary_remedy(kind))
    start = first_bytes(file, source)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or start[:2].count(0) or start[2:4] == b"\0\0":
        raise source.refusal("not UTF-8 (it looks like UTF-16)", "save the file as UTF-8")


def _check_delimiter(delimiter: str) -> str:
    delimiter = _TAB_NAMES.get(delimiter, delimiter)
    if len(delimiter) != 1 or delimiter.isalnum() or delimiter in ' "\r\n\0.+-':
        raise Refusal(f"delimiter {safe_text(delimiter)!r}: use one character such as , ; | or \\t")
    return delimiter
