"""A text table of any size, read in blocks: one pass parses it and writes its columns into a binary file.

Text is parsed by the same pass as a table in memory (`csv_scan`), so numbers, kinds of columns and refusals are the
same. All later passes read the binary file, which takes 8 bytes a number. Without a checkpoint that file has no name:
it disappears with the process, however that ends. In a checkpoint folder it stays, readable by its owner only, and a
conversion that was stopped goes on after its last finished part.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.location import Location
from dosimeter.engines.raw_block import RawBlock
from dosimeter.files.file_checks import os_error_refusal
from dosimeter.tables.block_reading import BlockReading
from dosimeter.tables.column_file import ColumnFile
from dosimeter.tables.csv_column import as_truth
from dosimeter.tables.csv_conversion import Conversion
from dosimeter.tables.csv_lines import check_file, check_marks, header_of, lines_of
from dosimeter.tables.csv_scan import CsvOptions

ENDINGS = (".csv", ".tsv", ".txt")
ANY_SIZE = 2**63
PART_ROWS = 2**18
"""Rows of a part: what a stop may lose of a pass."""
_PROBES = 16
_PROBE_BYTES = 2**16


@dataclass(frozen=True)
class CsvFile:
    """A text table that was not read yet."""

    path: Path
    delimiter: str
    decimal: str
    names: tuple[str, ...]
    rows: int
    """About: as many lines as the file has if all are like some of them."""
    identity: str

    @classmethod
    def of(cls, path: str | os.PathLike[str], delimiter: str = ",", decimal: str = ".") -> CsvFile:
        """Read the header; refused if it is not text."""
        mark = check_marks(delimiter, decimal)
        file, source = check_file(path, ANY_SIZE)
        try:
            with file.open("rb") as stream:
                names = header_of(lines_of(stream), mark, source)
            stat = file.stat()
            rows = _about_rows(file, stat.st_size)
        except OSError as error:
            raise os_error_refusal(error, source, "read") from None
        identity = f"{file.resolve()}:{stat.st_size}:{stat.st_mtime_ns}:{mark!r}:{decimal}"
        return cls(file, mark, decimal, tuple(names), rows, identity)

    @property
    def label(self) -> str:
        """The path."""
        return str(self.path)

    def convert(
        self, reading: BlockReading, exclude: Sequence[str], folder: Path, block_rows: int, *, keep: bool
    ) -> CsvSource:
        """Parse it once. keep: leave the columns in the folder, and go on with those that are there."""
        text = reading.exact_text(self.names)
        options = CsvOptions(self.delimiter, text, tuple(exclude), (), reading.declared, self.decimal)
        conversion = Conversion(self.path, Location(self.label, first=1), options, block_rows)
        columns = conversion.run(folder, keep=keep)
        conversion.check(reading.missing)
        names = tuple(column.name for column in conversion.columns)
        return CsvSource(self.label, names, self.identity, columns, conversion.kinds())


@dataclass(frozen=True, eq=False)
class CsvSource:
    """A text table whose columns are in a binary file."""

    label: str
    names: tuple[str, ...]
    identity: str
    columns: ColumnFile
    kinds: tuple[int | None, ...]
    """Of each column: the spelling of true and false, None if it is numbers or text."""

    @property
    def rows(self) -> int:
        """Rows."""
        return self.columns.rows

    @property
    def row_bytes(self) -> int:
        """About the bytes of a row."""
        return 8 * len(self.names)

    def place_of(self, row: int) -> Location:
        """The file."""
        return Location(self.label, first=1)

    def parts(self, columns: Sequence[str], block_rows: int) -> Sequence[CsvPart]:
        """Parts of several segments each; a segment has at most the rows of a block."""
        parts: list[CsvPart] = []
        for segment in self.columns.segments:
            if parts and parts[-1].rows + segment.rows <= PART_ROWS:
                parts[-1] = replace(parts[-1], rows=parts[-1].rows + segment.rows)
            else:
                parts.append(CsvPart(self, tuple(columns), segment.first, segment.rows))
        return parts


@dataclass(frozen=True, eq=False)
class CsvPart:
    """Consecutive rows of a text table."""

    source: CsvSource
    names: tuple[str, ...]
    first: int
    rows: int

    def between(self, low: int, high: int) -> CsvPart:
        """Those of its rows that have these numbers in the whole table."""
        return replace(self, first=low, rows=high - low)

    def blocks(self) -> Iterator[RawBlock]:
        """The rows of each segment."""
        file, end = self.source.columns, self.first + self.rows
        segments = file.segments
        k = int(np.searchsorted([s.first for s in segments], self.first, side="right")) - 1
        while k < len(segments) and segments[k].first < end:
            segment = segments[k]
            some = slice(max(0, self.first - segment.first), min(segment.rows, end - segment.first))
            incomplete = file.incomplete(segment)
            columns = {name: self._column(segment, name, incomplete, some) for name in self.names}
            first = segment.first + some.start
            place = Location(self.source.label, first=1 + first)
            yield RawBlock(columns, first, place, None if incomplete is None else incomplete[some], checked=True)
            k += 1

    def _column(self, segment: Any, name: str, incomplete: NDArray[np.bool_] | None, some: slice) -> NDArray[Any]:
        """The complete rows of a slice."""
        j = self.source.names.index(name)
        values = self.source.columns.column(segment, j)[some]
        values = values if incomplete is None else values[~incomplete[some]]
        spelling = self.source.kinds[j]
        return values if spelling is None else as_truth(values, spelling)


def _about_rows(file: Path, size: int) -> int:
    """Lines of a file, if all of it is like some evenly spaced pieces."""
    lines = seen = 0
    with file.open("rb") as stream:
        for k in range(_PROBES):
            stream.seek(k * max(0, size - _PROBE_BYTES) // (_PROBES - 1))
            piece = stream.read(_PROBE_BYTES)
            lines, seen = lines + piece.count(b"\n"), seen + len(piece)
    return lines * size // max(1, seen)
