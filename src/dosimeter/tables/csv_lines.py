"""The lines and cells of comma-separated text: UTF-8, quotes closed, no endless line; and its header.

The parser is the standard library's. This module adds that every failure names its row, and that a line with nothing
special in it is only split.
"""

from __future__ import annotations

import csv
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.location import Location
from dosimeter.core.text import safe_text
from dosimeter.files.file_checks import binary_remedy, detect_kind, first_bytes, refuse_pickle, regular_file
from dosimeter.tables.csv_column import CsvCells

LONGEST_LINE = 2**24
DECIMAL_MARKS = (".", ",")
_TAB_NAMES = {"\\t": "\t", "tab": "\t"}
_NOT_UTF8 = "save the file as UTF-8 (in Excel 'CSV UTF-8', elsewhere iconv -f windows-1252 -t utf-8)"


def check_file(path: str | os.PathLike[str], limit: int) -> tuple[Path, Location]:
    file, source = regular_file(path, limit)
    refuse_pickle(file, source, model=False)
    _refuse_other_kinds(file, source)
    return file, source


def check_marks(delimiter: str, decimal: str) -> str:
    """The delimiter, refused if it cannot be distinguished from the decimal mark in a line.

    >>> check_marks("tab", ",")
    '\\t'
    """
    mark = check_delimiter(delimiter)
    if decimal not in DECIMAL_MARKS:
        raise Refusal(f"decimal {safe_text(decimal)!r}: use . or ,")
    if mark == decimal:
        todo = f"for a file with semicolons pass {option('delimiter', ';')}"
        raise Refusal(f"decimal and delimiter are both {mark!r}: {todo}")
    return mark


def check_delimiter(delimiter: str) -> str:
    delimiter = _TAB_NAMES.get(delimiter, delimiter)
    if len(delimiter) != 1 or delimiter.isalnum() or delimiter in ' "\r\n\0.+-':
        raise Refusal(f"delimiter {safe_text(delimiter)!r}: use one character such as , ; | or \\t")
    return delimiter


def _refuse_other_kinds(file: Path, source: Location) -> None:
    kind = detect_kind(file, source)
    if kind:
        raise source.refusal(f"this is {kind}, not text", binary_remedy(kind))
    start = first_bytes(file, source)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or start[:2].count(0) or start[2:4] == b"\0\0":
        raise source.refusal("not UTF-8 (it looks like UTF-16)", "save the file as UTF-8")


def header_of(lines: Iterator[str], delimiter: str, source: Location) -> list[str]:
    try:
        header = next(rows_of(lines, delimiter), [])
    except (csv.Error, UnicodeDecodeError, BadLine) as error:
        raise reading_refusal(error, -1, source) from None
    _check_header(header, delimiter, source)
    return header


def header_line(stream: BinaryIO) -> Iterator[str]:
    """The first line alone, so that the rows after it are still in the stream."""
    lines = lines_of(stream)
    first = next(lines, None)
    return iter([] if first is None else [first])


def _check_header(header: list[str], delimiter: str, source: Location) -> None:
    if not header:
        raise source.refusal("the first line is empty", "begin with a header line")
    if header[0].lower().startswith("sep="):
        raise source.refusal("the first line is a note for Excel (sep=)", "delete this line")
    if len(header) == 1:
        for other in (";", "\t", "|", ","):
            if other in header[0] and other != delimiter:
                shown = "\\t" if other == "\t" else other
                todo = f"pass {option('delimiter', shown)}"
                if other == ";":
                    todo += f", and {option('decimal', ',')} if its numbers have decimal commas"
                raise source.refusal(f"looks like delimiter '{shown}'", todo)
    source.check_names(header)
    if _looks_like_data(header):
        raise source.refusal("the first line holds numbers only", "begin with a header line that names the columns")


def _looks_like_data(header: list[str]) -> bool:
    """Numbers only, and not the 0, 1, 2, ... that pandas writes for columns without names."""
    if header == [str(j) for j in range(len(header))]:
        return False
    probes = [CsvCells("header", decimal=mark) for mark in DECIMAL_MARKS]
    for probe in probes:
        probe.add(header)
    return any(probe.numbers == len(header) for probe in probes)


def rows_of(lines: Iterator[str], delimiter: str) -> Iterator[list[str]]:
    """Rows as the csv module gives them. A line with nothing special in it is only split."""
    for line in lines:
        plain = line.removesuffix("\n").removesuffix("\r")
        special = '"' in plain or "\r" in plain or delimiter + " " in plain or plain[:1] == " "
        if special or len(plain) > csv.field_size_limit():
            record = itertools.chain((line,), lines)
            yield next(csv.reader(record, delimiter=delimiter, strict=True, skipinitialspace=True))
        else:
            yield plain.split(delimiter) if plain else []


class BadLine(Exception):
    """A line that cannot be read: (fault, remedy)."""


def lines_of(stream: BinaryIO, *, start: bool = True) -> Iterator[str]:
    """Lines ended by LF. Decoded one by one, so that a wrong byte is known by its row. start: of the file."""
    while line := stream.readline(LONGEST_LINE):
        if start:
            line, start = line.removeprefix(b"\xef\xbb\xbf"), False
        if len(line) == LONGEST_LINE:
            todo = "end the lines with LF or CRLF" if b"\r" in line else "this is not a table of rows"
            raise BadLine(f"line longer than {LONGEST_LINE} bytes", todo)
        if b"\0" in line:
            raise BadLine("NUL byte", "this is not text; save the file as UTF-8")
        yield line.decode("utf-8")


def row_by_line(stream: BinaryIO, delimiter: str) -> Iterator[list[str]]:
    """The cells of each line by itself, [] if the line cannot be read. A quote ends with its line."""
    while line := stream.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            while rest := stream.readline(LONGEST_LINE):
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


def reading_refusal(error: Exception, rows_read: int, source: Location) -> Refusal:
    """The refusal for an error of the line reader or of the csv module, in the row after the last complete one."""
    message = str(error)
    if isinstance(error, BadLine):
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


def length_refusal(cells: int, expected: int, row: int, source: Location) -> Refusal:
    todo = "quote cells that hold the delimiter, and fill short rows"
    if row == 0 and cells == expected + 1:
        todo = f"name every column (R: write.csv(..., row.names=FALSE)), or {todo}"
    return source.refusal(f"{cells} cells where the header has {expected}", todo, row=row)
