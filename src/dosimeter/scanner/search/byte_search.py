"""The search of one stream of bytes for the cells of a table, and what the hits prove."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from scipy.special import pdtrc

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.scanner.search.arrangement import Hits, arrangement
from dosimeter.scanner.search.cells import Cells
from dosimeter.scanner.search.decoys import Decoys, DecoyTest, decoys, decoys_per_cell
from dosimeter.scanner.search.locate import Bytes, Needles, locate, sorted_unique
from dosimeter.scanner.search.needles import RUN_BITS, TEXTS, WORDS, CellNeedles, described, runs, texts, words
from dosimeter.scanner.search.written_numbers import (
    TOO_MANY,
    as_it_is,
    of_two_bytes,
    with_decimal_comma,
    written_hits,
    written_numbers,
)
from dosimeter.tables.table import Table

LEVEL = 1e-6
"""Probability that accident alone leads to a verdict about one file, over all encodings and streams."""
_TESTS = 40
WRITTEN = "written numbers"
FEWEST_TEXTS = 3
_LONG_NUMBER = 8
"""Digits of an id that another may follow without a gap."""
_SHORT = ("<f4", ">f4")


@dataclass(frozen=True, eq=False)
class ByteMatch:
    """What of the table is in the bytes, in one encoding.

    rows: (k,) from 0, those that stand there as rows, or in two columns and more; cells: (m,) row * d + column, of
    those found; columns: number of columns that stand there value after value; expected: cells, or rows, found by
    accident; probability: of as many by accident, over all encodings; texts: whether the cells are texts.
    """

    encoding: str
    rows: Index
    cells: Index
    columns: int
    expected: float
    probability: float
    count: int

    @property
    def is_rows(self) -> bool:
        """True if whole rows are there, or values of two and more columns in the order of the table."""
        return len(self.rows) > 0


class ByteSearch:
    """A table prepared for searching many streams. streams: their number, for which the level is divided."""

    def __init__(self, cells: Cells, streams: int = 1) -> None:
        self.cells = cells
        self.level = LEVEL / (_TESTS * max(1, streams))
        self.factor = float(_TESTS * max(1, streams))

    @classmethod
    def of(cls, table: Table, streams: int = 1, *, texts: bool = True) -> ByteSearch:
        """The search for a table; what it takes to prepare is done once for each table. texts: look for ids too."""
        prepared = _prepared(table, texts)
        result = cls(prepared.cells, streams)
        for name in ("_needles", "_together", "_decoys", "_short_decoys", "_searched_cells"):
            result.__dict__[name] = getattr(prepared, name)
        return result

    @cached_property
    def _needles(self) -> list[tuple[str, CellNeedles]]:
        kinds = [("word", entry) for entry in words(self.cells)] + [("run", entry) for entry in runs(self.cells)]
        return [*kinds, *(("text", entry) for entry in self._texts())]

    def _texts(self) -> Iterator[CellNeedles]:
        wanted: dict[str, int] = {}
        for column, rows in enumerate(self.cells.single_texts.values()):
            for text, row in rows.items():
                wanted.setdefault(text, row * len(self.cells.texts) + column)
        if wanted:
            yield from (texts(wanted, encoding) for encoding in TEXTS)

    @cached_property
    def _decoys(self) -> Decoys:
        """One decoy for each value: for verdicts about many values."""
        return decoys(self.cells, 1)

    @cached_property
    def _short_decoys(self) -> list[CellNeedles]:
        """Decoys as float32. Four bytes of a large file equal some value by accident, so they are needed every time."""
        return list(words(self._decoys.cells, _SHORT)) if self._decoys.cells.n else []

    @cached_property
    def _together(self) -> tuple[Needles, Index]:
        """All needles and the short decoys as one, and where each set begins."""
        sets = [*(entry.needles for _, entry in self._needles), *(entry.needles for entry in self._short_decoys)]
        return _joined(sets), np.cumsum([0, *(needles.size for needles in sets)])

    @property
    def searched(self) -> int:
        """Cells that can be distinguished from coincidences: of many digits, or in runs."""
        return len(self._searched_cells)

    @cached_property
    def _searched_cells(self) -> Index:
        pieces = [entry.cell for kind, entry in self._needles if kind != "text" and entry.encoding in ("<f8", "<f2")]
        return np.unique(np.concatenate(pieces)) if pieces else np.empty(0, np.intp)

    def search(self, data: bytes | memoryview) -> tuple[list[ByteMatch], list[str]]:
        """The matches that accident does not explain, and what could not be searched."""
        array = np.frombuffer(data, dtype=np.uint8)
        problems: list[str] = []
        matches = [*self._machine_numbers(array, problems), *self._written(array, problems)]
        return matches, problems

    def _machine_numbers(self, data: Bytes, problems: list[str]) -> Iterator[ByteMatch]:
        if not self._needles:
            return
        needles, counts = self._together
        places = locate(data, needles)
        if places.too_common > 0.01 * counts[-1]:
            problems.append("values of the table that are everywhere in these bytes were not followed")
        short = {
            entry.encoding: _distinct_in(places.needle, *counts[k : k + 2])
            for k, entry in enumerate(self._short_decoys, start=len(self._needles))
        }
        taken = np.zeros(len(data) + 1, dtype=bool)
        for k, (kind, entry) in enumerate(self._needles):
            mine = (places.needle >= counts[k]) & (places.needle < counts[k + 1])
            if mine.any():
                # Four bytes inside a float64 that was recognised are no float32.
                mine &= ~taken[places.offset]
                needle, offset = places.needle[mine] - counts[k], places.offset[mine]
                if not len(offset):
                    continue
                length = entry.needles.length[needle]
                hits = Hits(offset, offset + length, needle, entry.cell, entry.first)
                match = self._verdict(kind, entry, hits, data, short)
                if match is not None:
                    for step in range(8 if kind == "word" else 0):
                        taken[(offset + step).clip(0, len(data))] = True
                    yield match

    def _verdict(
        self, kind: str, entry: CellNeedles, hits: Hits, data: Bytes, short: Mapping[str, int]
    ) -> ByteMatch | None:
        if kind == "run":
            return self._of_runs(entry, hits, len(data))
        if kind == "text":
            return self._of_texts(entry, hits, data)

        def decoy_count(table: Cells) -> int:
            known = table is self._decoys.cells and entry.encoding in short
            return short[entry.encoding] if known else locate_words(data, table, entry.encoding)

        return self._of_values(entry.encoding, hits, decoy_count, described(entry.encoding))

    def _of_runs(self, entry: CellNeedles, hits: Hits, size: int) -> ByteMatch | None:
        """Runs carry so much information that one suffices in a small file, and a few in a large one.

        The expected number is for all places and all runs.
        """
        expected = size * entry.needles.size * 2.0 ** -(RUN_BITS - 16)
        _, first = np.unique(hits.needle, return_index=True)
        _, cell = hits.expanded(first)
        cell = np.unique(cell)
        rows, columns = np.divmod(cell, max(1, self.cells.d))
        probability = min(1.0, float(pdtrc(len(first) - 1, expected)) * self.factor)
        if probability >= LEVEL:
            return None
        wide = _rows_with_two(rows, columns)
        whole = len(np.unique(columns))
        return ByteMatch(described(entry.encoding), wide, cell, whole, expected, probability, len(hits.offset))

    def _of_values(self, encoding: str, hits: Hits, decoy_count: Callable[[Cells], int], name: str) -> ByteMatch | None:
        order = arrangement(hits, self.cells, self.level)
        _, cell = hits.expanded(np.unique(hits.needle, return_index=True)[1])
        cell = np.unique(cell)
        telling = self.cells.telling.ravel()
        distinct = np.unique(self.cells.values.ravel()[cell[telling[cell]]])
        rows, probability, expected = order.rows, order.probability, order.expected
        if not len(rows):
            test = self._decoy_test(distinct, decoy_count)
            if test.probability >= self.level:
                return None
            # The values are the table's own: in columns one after the other, rows are in two of them in the same order.
            rows = order.column_rows
            probability, expected = test.probability, test.expected
        probability = min(1.0, probability * self.factor)
        return ByteMatch(name, rows, cell, len(order.columns), expected, probability, len(hits.offset))

    def _decoy_test(self, found: FloatArray, decoy_count: Callable[[Cells], int]) -> DecoyTest:
        """found: the distinct telling values that are in the bytes."""
        per_value = decoys_per_cell(len(found))
        drawn = self._decoys if per_value == 1 else decoys(self.cells, per_value)
        count, values = int(np.isin(found, drawn.paired).sum()), len(drawn.paired)
        if not count:
            return DecoyTest(0, values, 0, 0)
        return DecoyTest(count, values, int(decoy_count(drawn.cells)), drawn.cells.n)

    def _of_texts(self, entry: CellNeedles, hits: Hits, data: Bytes) -> ByteMatch | None:
        """Texts that one row alone has: names and ids. Three of one column, each standing alone, count."""
        alone = _stands_alone(hits, data, len("a".encode(entry.encoding)))
        number = np.unique(entry.cell[entry.first[hits.needle[alone]]])
        rows, column = np.divmod(number, max(1, len(self.cells.texts)))
        kept = np.bincount(column, minlength=1)[column] >= FEWEST_TEXTS if len(column) else column > 0
        if not kept.any():
            return None
        nobody = np.empty(0, np.intp)
        cells = rows[kept]
        return ByteMatch(
            described(entry.encoding), nobody, cells, len(np.unique(column[kept])), 0.0, 0.0, int(kept.sum())
        )

    def _written(self, data: Bytes, problems: list[str]) -> Iterator[ByteMatch]:
        """Numbers written as text; if none of the table's are found, with a decimal comma, or two bytes a letter."""
        if not len(self.cells.word_columns):
            return
        for read in (as_it_is, with_decimal_comma, of_two_bytes):
            text = read(data)
            match = None if text is None else self._written_in(text, problems)
            if match is not None:
                yield match
                return

    def _written_in(self, data: Bytes, problems: list[str]) -> ByteMatch | None:
        numbers = written_numbers(data)
        if not numbers.complete and TOO_MANY not in problems:
            problems.append(TOO_MANY)
        hits = written_hits(numbers, self.cells)
        if not len(hits.offset):
            return None

        def decoy_count(table: Cells) -> int:
            return len(np.unique(written_hits(numbers, table).needle))

        return self._of_values(WRITTEN, hits, decoy_count, WRITTEN)


def _prepared(table: Table, texts: bool) -> ByteSearch:
    """The search for one stream. It is kept as long as the table is."""
    searches = _PREPARED.setdefault(table, {})
    if texts not in searches:
        cells = Cells.of(table)
        searches[texts] = ByteSearch(cells if texts else replace(cells, texts={}))
    return searches[texts]


_PREPARED: WeakKeyDictionary[Table, dict[bool, ByteSearch]] = WeakKeyDictionary()


def _distinct_in(needle: Index, first: int, end: int) -> int:
    """How many distinct needles of this range were found."""
    return len(sorted_unique(needle[(needle >= first) & (needle < end)]))


def locate_words(data: Bytes, table: Cells, encoding: str) -> int:
    """How many distinct values of a table are in the bytes as words of this encoding."""
    if encoding not in WORDS:
        return 0
    return sum(len(np.unique(locate(data, entry.needles).needle)) for entry in words(table, (encoding,)))


def _rows_with_two(rows: Index, columns: Index) -> Index:
    """Rows of which two and more columns are there."""
    width = int(columns.max(initial=0)) + 1
    distinct, counts = np.unique(sorted_unique(rows * width + columns) // width, return_counts=True)
    return np.asarray(distinct[counts >= 2])


def _stands_alone(hits: Hits, data: Bytes, width: int) -> Mask:
    """Whether no letter or digit touches the text on either side, but those of another text that is looked for.

    Arrow, and pandas with it, writes the texts of a column one behind the other.
    """
    letters = np.zeros(256, dtype=bool)
    letters[[ord(c) for c in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"]] = True
    before = (hits.offset - width).clip(0)
    after = hits.end.clip(0, len(data) - 1)
    # Two of five digits each stand in any long number.
    long = hits.end - hits.offset >= _LONG_NUMBER * width
    first, last = data[hits.offset], data[(hits.end - width).clip(0, len(data) - 1)]
    next_left = np.isin(hits.offset, hits.end) & (long | ~(_is_digit(first) & _is_digit(data[before])))
    next_right = np.isin(hits.end, hits.offset) & (long | ~(_is_digit(last) & _is_digit(data[after])))
    left = letters[data[before]] & (hits.offset >= width) & ~next_left
    right = letters[data[after]] & (hits.end < len(data)) & ~next_right
    return np.asarray(~(left | right))


def _is_digit(letters: Bytes) -> Mask:
    return np.asarray((letters >= ord("0")) & (letters <= ord("9")))


def _joined(sets: list[Needles]) -> Needles:
    shifts = np.cumsum([0, *(len(needles.blob) for needles in sets)])
    if not sets:
        return Needles.of_strings([], [])
    return Needles(
        np.concatenate([needles.blob for needles in sets]),
        np.concatenate([needles.start + shift for needles, shift in zip(sets, shifts, strict=False)]),
        np.concatenate([needles.length for needles in sets]),
        np.concatenate([needles.key_at for needles in sets]),
        np.concatenate([needles.sieve_at for needles in sets]),
    )


__all__ = ["FEWEST_TEXTS", "LEVEL", "ByteMatch", "ByteSearch"]
