"""Columns of a text table in a binary file, a segment of rows at a time: text is parsed once and read back many times.

A segment is a line of JSON that describes it, which of its rows are incomplete (a bit each), and then every column:
float64 as they are, or the distinct texts of the segment and each row's position among them. The file describes itself,
so that a reader needs nothing else after a stop, and holds a checksum of each of these, so that a damaged file is never
read as another table. It is as private as the table.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.errors import Refusal

_END_OF_TEXT = "\0"  # in no cell: the reader of text refuses it
_WIDTHS = (np.uint8, np.uint16, np.uint32)


@dataclass(frozen=True)
class Segment:
    """Where some consecutive rows are in the file."""

    first: int
    """Number of the first row."""
    rows: int
    incomplete: int
    """Bytes of the bits of incomplete rows; 0 if every row is complete."""
    incomplete_checksum: int
    columns: tuple[tuple[str, int, int, int], ...]
    """Of each column: f or the kind of its positions, bytes of numbers or positions, bytes of texts, checksum."""
    offset: int
    """Of the bits."""

    @property
    def end(self) -> int:
        """Of the segment, in bytes of the file."""
        return self.offset + self.incomplete + sum(a + b for _, a, b, _ in self.columns)


class ColumnFile:
    """A file of segments that is open for writing at its end and reading anywhere."""

    def __init__(self, stream: BinaryIO, end: int = 0) -> None:
        """end: bytes that are known to be whole; what follows is cut off."""
        self._stream = stream
        if stream.seek(0, os.SEEK_END) < end:
            raise ValueError("the file of columns is shorter than it was")
        stream.truncate(end)
        self.segments = list(self._described(end))
        self.end = end

    @property
    def rows(self) -> int:
        """Rows in the file."""
        return self.segments[-1].first + self.segments[-1].rows if self.segments else 0

    def append(self, columns: Sequence[NDArray[Any]], incomplete: NDArray[np.bool_]) -> None:
        """Write a segment. columns: float64 or texts (n,); incomplete: (n,) rows that have a missing value."""
        bits = np.packbits(incomplete).tobytes() if incomplete.any() else b""
        pieces, described = [bits], []
        for column in columns:
            kind, numbers, texts = _texts(column) if column.dtype == object else ("f", _numbers(column), b"")
            described.append((kind, len(numbers), len(texts), zlib.crc32(texts, zlib.crc32(numbers))))
            pieces += [numbers, texts]
        description = json.dumps([len(incomplete), len(bits), zlib.crc32(bits), described]).encode()
        head = b"%08x %b\n" % (zlib.crc32(description), description)
        self._stream.seek(self.end)
        self._stream.write(head)
        for piece in pieces:
            self._stream.write(piece)
        at = self.end + len(head)
        segment = Segment(self.rows, len(incomplete), len(bits), zlib.crc32(bits), tuple(described), at)
        self.segments.append(segment)
        self.end = segment.end

    def sync(self) -> None:
        """Write everything to the disk."""
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def incomplete(self, segment: Segment) -> NDArray[np.bool_] | None:
        """(n,) rows that have a missing value; None if there is none."""
        if not segment.incomplete:
            return None
        content = self._read(segment.offset, segment.incomplete, segment.incomplete_checksum)
        bits = np.frombuffer(content, dtype=np.uint8)
        return np.unpackbits(bits, count=segment.rows).astype(bool)

    def column(self, segment: Segment, j: int) -> NDArray[Any]:
        """The j-th column of a segment, float64 or texts (n,)."""
        start = segment.offset + segment.incomplete + sum(a + b for _, a, b, _ in segment.columns[:j])
        kind, length, texts, checksum = segment.columns[j]
        content = self._read(start, length + texts, checksum)
        if kind == "f":
            return np.frombuffer(content, dtype=np.float64)
        levels = np.array([*content[length:].decode().split(_END_OF_TEXT), None], dtype=object)[:-1]
        return np.asarray(levels[np.frombuffer(content, dtype=np.dtype(kind), count=segment.rows)])

    def _read(self, offset: int, size: int, checksum: int) -> bytes:
        self._stream.seek(offset)
        content = self._stream.read(size)
        if zlib.crc32(content) != checksum:
            raise Refusal("the file of columns is damaged: delete the folder of the checkpoint and start again")
        return content

    def _described(self, end: int) -> Iterator[Segment]:
        at, first = 0, 0
        while at < end:
            self._stream.seek(at)
            head = self._stream.readline()
            checksum, _, description = head.rstrip(b"\n").partition(b" ")
            if checksum != b"%08x" % zlib.crc32(description):
                raise ValueError("the file of columns is damaged")
            rows, bits, of_bits, columns = json.loads(description)
            segment = Segment(first, rows, bits, of_bits, tuple((k, a, b, c) for k, a, b, c in columns), at + len(head))
            yield segment
            at, first = segment.end, first + rows


def _numbers(column: NDArray[Any]) -> bytes:
    return column.astype(np.float64, copy=False).tobytes()


def _texts(column: NDArray[Any]) -> tuple[str, bytes, bytes]:
    """Kind of the positions, positions, and the distinct texts."""
    cells = column.tolist()
    place = {level: k for k, level in enumerate(dict.fromkeys(cells))}
    width = np.dtype(next(width for width in _WIDTHS if len(place) <= np.iinfo(width).max + 1))
    positions = np.fromiter(map(place.__getitem__, cells), dtype=width, count=len(cells))
    return width.str, positions.tobytes(), _END_OF_TEXT.join(place).encode()
