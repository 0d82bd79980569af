"""One pass over a text table, a block of rows at a time into its columns. It can begin where another one stopped.

Whole blocks of lines or of a column are converted to numbers at once (`number_block`). If columns were declared
in advance (`declared`), no line can stop the reading or change the meaning of another line: every line after the header
is one row, and a line that does not split into the header's cells is a row of missing values.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dosimeter.core.location import Location
from dosimeter.core.progress import advance, stage
from dosimeter.core.text import safe_text
from dosimeter.tables.column_values import LARGEST_INTEGER
from dosimeter.tables.csv_column import CsvCells, DeclaredNumbers
from dosimeter.tables.csv_lines import (
    LONGEST_LINE,
    BadLine,
    header_line,
    header_of,
    length_refusal,
    lines_of,
    reading_refusal,
    row_by_line,
    rows_of,
)
from dosimeter.tables.number_block import number_block

_CELLS_PER_BLOCK = 2**16  # bounds the Python strings held at once; 2**13 to 2**18 differ little in speed
_BYTES_PER_BLOCK = 2**17  # of plain numbers: the block and its temporaries stay in the caches
Column = CsvCells | DeclaredNumbers


@dataclass(frozen=True)
class CsvOptions:
    """How the cells of a text table are read; see `dosimeter.tables.read.read_table`."""

    delimiter: str = ","
    text: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    declared: tuple[str, ...] | None = None
    decimal: str = "."


def nothing() -> None:
    """What happens after a block that stays in memory."""


@dataclass
class CsvScan:
    """A pass over a file: its columns, and how far it is."""

    file: Path
    source: Location
    options: CsvOptions
    columns: dict[int, Column]
    """Position in the header -> column; those that are dropped are left out."""
    width: int
    """Cells of the header."""
    offset: int
    """Where the next row begins, in bytes."""
    rows: int = 0
    """Rows before it."""

    @classmethod
    def begin(cls, file: Path, source: Location, options: CsvOptions, verbatim: Collection[str] = ()) -> CsvScan:
        """Read the header. verbatim: columns whose numbers keep their text."""
        stage(f"reading {safe_text(file.name, 40)}")
        with file.open("rb") as stream:
            lines = lines_of(stream) if options.declared is None else header_line(stream)
            header = header_of(lines, options.delimiter, source)
            offset = stream.tell()
        source.check_known([*options.text, *options.drop, *options.needed], header)
        columns = {j: _column(name, options, verbatim) for j, name in enumerate(header) if name not in options.drop}
        if not columns:
            raise source.refusal("every column is dropped", "keep at least one")
        return cls(file, source, options, columns, len(header), offset)

    def run(self, after_block: Callable[[], None] = nothing) -> None:
        """Read the rest of the file; `after_block` is called with `offset` and `rows` at the end of each block."""
        length = max(1, self.file.stat().st_size)

        def finish(stream: BinaryIO, rows: int) -> None:
            self.rows, self.offset = rows, stream.tell()
            after_block()
            advance(self.offset / length)

        with self.file.open("rb") as stream:
            stream.seek(self.offset)
            (self._run_rows if self.options.declared is None else self._run_lines)(stream, finish)
        if self.rows < 1 or (self.rows < 2 and self.options.declared is None):
            fault = "there is a header and no row" if self.rows == 0 else "there is only one row"
            raise self.source.refusal(fault, "give at least two people")

    def _run_rows(self, stream: BinaryIO, finish: Callable[[BinaryIO, int], None]) -> None:
        """Rows as the csv module reads them."""
        rows, blank, block = self.rows, -1, list[list[str]]()
        size = max(1, _CELLS_PER_BLOCK // self.width)
        try:
            rows = self._number_blocks(stream, rows, finish)
            for row in rows_of(lines_of(stream, start=False), self.options.delimiter):
                if len(row) != self.width:
                    if not row:
                        blank = rows if blank < 0 else blank
                        continue
                    raise length_refusal(len(row), self.width, rows, self.source)
                if blank >= 0:
                    raise self.source.refusal("blank line", "remove it", row=blank)
                block.append(row)
                rows += 1
                if len(block) == size:
                    self._add(block)
                    block = []
                    finish(stream, rows)
                    rows = self._number_blocks(stream, rows, finish)
        except (csv.Error, UnicodeDecodeError, BadLine) as error:
            raise reading_refusal(error, rows, self.source) from None
        if block:
            self._add(block)
            finish(stream, rows)

    def _run_lines(self, stream: BinaryIO, finish: Callable[[BinaryIO, int], None]) -> None:
        """Every line a row; a line of another length has empty cells only."""
        rows, block, empty = self.rows, list[list[str]](), [""] * self.width
        size = max(1, _CELLS_PER_BLOCK // self.width)
        for row in row_by_line(stream, self.options.delimiter):
            block.append(row if len(row) == self.width else empty)
            rows += 1
            if len(block) == size:
                self._add(block)
                block = []
                finish(stream, rows)
        if block:
            self._add(block)
            finish(stream, rows)

    def _number_blocks(self, stream: BinaryIO, rows: int, finish: Callable[[BinaryIO, int], None]) -> int:
        """The rows so far, after blocks of plain numbers; the stream stands before the first line that is not."""
        columns = {
            j: column for j, column in self.columns.items() if isinstance(column, CsvCells) and column.takes_numbers
        }
        if len(columns) < len(self.columns):
            return rows
        while lines := stream.read(_BYTES_PER_BLOCK):
            lines += stream.readline(LONGEST_LINE)
            numbers = None
            if lines[:1] not in b"\r\n":
                numbers = number_block(lines, self.width, self.options.delimiter, self.options.decimal)
            if numbers is None or max(numbers.max(), -numbers.min()) >= LARGEST_INTEGER:
                stream.seek(-len(lines), os.SEEK_CUR)
                break
            for j, column in columns.items():
                column.add_numbers(numbers[j])
            rows += numbers.shape[1]
            finish(stream, rows)
        return rows

    def _add(self, block: list[list[str]]) -> None:
        across = list(zip(*block, strict=True))
        for j, column in self.columns.items():
            column.add(across[j])


def _column(name: str, options: CsvOptions, verbatim: Collection[str]) -> Column:
    if options.declared is not None and name in options.declared:
        return DeclaredNumbers(name, decimal=options.decimal)
    return CsvCells(name, exact=name in options.text, verbatim=name in verbatim, decimal=options.decimal)
