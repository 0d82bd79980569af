"""Comma-separated text, read strictly: UTF-8, a header line, every row as long as the header, quotes closed.

The reader is the standard library's. Ours is that every failure names its place, that a line without end does
not fill the memory, and that whole blocks of a column become numbers at once.

Where columns were declared beforehand (`declared`) no line may end the reading or change what another line means: every
line after the header is one row, and one that cannot be cut into the header's cells is a row without values.
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
from dosimeter.core.location import Location
from dosimeter.core.progress import part, stage
from dosimeter.core.text import safe_text
from dosimeter.files.file_checks import (
    GIBIBYTE,
    cannot,
    first_bytes,
    kind_of,
    refuse_pickle,
    regular_file,
    unpack_first,
)
from dosimeter.tables.csv_column import Cells, DeclaredNumbers
from dosimeter.tables.missing_values import filled, refuse_gaps
from dosimeter.tables.table import Missing, Table, present

_LONGEST_LINE = 2**24
_CELLS_PER_BLOCK = 2**16  # bounds the Python strings held at once; 2**13 to 2**18 differ little in speed
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
    delimiter = _checked_delimiter(delimiter)
    file, source = _checked_file(path, limit)

    def scan(verbatim: Collection[str]) -> list[Cells | DeclaredNumbers]:
        if declared is None:
            return [*_scan(file, source, delimiter, text, drop, verbatim, needed)]
        return _scan_lines(file, source, delimiter, (text, drop, needed, declared), verbatim)

    try:
        columns = scan(frozenset())
        again = frozenset(column.name for column in columns if column.forgotten)
        if again:
            columns = scan(again)
    except OSError as error:
        raise cannot(error, source, "read") from None
    if missing in ("impute", "keep"):
        return _with_gaps(columns, dict(impute or {}) if missing == "impute" else None, whole, source)
    keep = present({column.name: column.missing for column in columns}, missing, source)
    settled = tuple(column.settle(keep, source) for column in columns)
    if keep.size < 2 and declared is None:
        raise source.refusal("only one row is left", "give at least two people")
    return Table(tuple(column.name for column in columns), settled, keep, columns[0].length - keep.size)


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
    made = [filled(masks[c.name], partial(c.settle, source=source), c.name, constants, source) for c in columns]
    gaps = {name: gap for name, (_, gap) in zip(names, made, strict=True) if gap is not None}
    return Table(names, tuple(column for column, _ in made), gaps=gaps)


def names_csv(path: str | os.PathLike[str], *, delimiter: str = ",", limit: int = 4 * GIBIBYTE) -> list[str]:
    """The header of a CSV file; no row is looked at."""
    file, source = _checked_file(path, limit)
    try:
        with file.open("rb") as stream:
            return _header(_lines(stream), _checked_delimiter(delimiter), source)
    except OSError as error:
        raise cannot(error, source, "read") from None


def column_csv(
    path: str | os.PathLike[str], name: str, *, delimiter: str = ",", limit: int = 4 * GIBIBYTE
) -> list[str | None]:
    """One column of a file whose columns were declared: the text of every line, None where the line has none.

    A line with too few or too many cells still says whose it is, if it reaches that far.
    """
    delimiter = _checked_delimiter(delimiter)
    file, source = _checked_file(path, limit)
    with file.open("rb") as stream:
        header = _header(_header_lines(stream), delimiter, source)
        source.check_known([name], header)
        j = header.index(name)
        return [row[j] if len(row) > j and row[j].strip() else None for row in _row_by_line(stream, delimiter)]


def _scan_lines(
    file: Path, source: Location, delimiter: str, used: tuple[Collection[str], ...], verbatim: Collection[str]
) -> list[Cells | DeclaredNumbers]:
    """Every used column of the file, line by line; all cells of a line that is no row of this table are empty."""
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
    """The cells of each line by itself; none where the line cannot be read. A quote ends with its line."""
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
        raise _broken(error, -1, source) from None
    _check_header(header, delimiter, source)
    return header


def _checked_file(path: str | os.PathLike[str], limit: int) -> tuple[Path, Location]:
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
    done = -1
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
            done, block, blank = 0, [], -1
            for row in reader:
                if len(row) != len(header):
                    if not row:
                        blank = done if blank < 0 else blank
                        continue
                    raise _ragged(len(row), len(header), done, source)
                if blank >= 0:
                    raise source.refusal("blank line", "remove it", row=blank)
                block.append(row)
                done += 1
                if len(block) == size:
                    _add(columns, block)
                    block = []
                    part(stream.tell() / length)
            _add(columns, block)
        except (csv.Error, UnicodeDecodeError, _BadLine) as error:
            raise _broken(error, done, source) from None
    if done < 2:
        what = "there is a header and no row" if done == 0 else "there is only one row"
        raise source.refusal(what, "give at least two people")
    return list(columns.values())


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
    """What is wrong with a line, and what to do."""


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


def _broken(error: Exception, done: int, source: Location) -> Refusal:
    """What the line reader or the csv module found, in the row after the last complete one."""
    said = str(error)
    if isinstance(error, _BadLine):
        what, todo = error.args
    elif isinstance(error, UnicodeDecodeError):
        what, todo = "not UTF-8", _NOT_UTF8
    elif "new-line character" in said:
        what, todo = "carriage return without line feed", "end the lines with LF or CRLF"
    elif "unexpected end" in said:
        what, todo = "a quote is opened and never closed", "close it, or double the quotes inside a cell"
    elif "field larger" in said:
        what = f"cell longer than {csv.field_size_limit()} characters"
        todo = "a quote may be opened and never closed; close it, or shorten the cell"
    else:
        what, todo = "text after a closing quote", "double the quotes inside a cell"
    return source.refusal(what if done >= 0 else f"{what} in the header", todo, row=done)


def _ragged(found: int, wanted: int, row: int, source: Location) -> Refusal:
    todo = "quote cells that hold the delimiter, and fill short rows"
    return source.refusal(f"{found} cells where the header has {wanted}", todo, row=row)


def _check_header(header: list[str], delimiter: str, source: Location) -> None:
    if not header:
        raise source.refusal("the first line is empty", "begin with a header line")
    if len(header) == 1:
        for other in (";", "\t", "|", ","):
            if other in header[0] and other != delimiter:
                shown = "\\t" if other == "\t" else other
                raise source.refusal(f"looks like delimiter '{shown}'", f"pass --delimiter '{shown}'")
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
    kind = kind_of(file, source)
    if kind:
        raise source.refusal(f"this is {kind}, not text", unpack_first(kind))
    start = first_bytes(file, source)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or start[:2].count(0) or start[2:4] == b"\0\0":
        raise source.refusal("not UTF-8 (it looks like UTF-16)", "save the file as UTF-8")


def _checked_delimiter(delimiter: str) -> str:
    delimiter = _TAB_NAMES.get(delimiter, delimiter)
    if len(delimiter) != 1 or delimiter.isalnum() or delimiter in ' "\r\n\0.+-':
        raise Refusal(f"delimiter {safe_text(delimiter)!r}: use one character such as , ; | or \\t")
    return delimiter
