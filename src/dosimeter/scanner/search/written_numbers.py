"""Numbers written as text in bytes: of CSV, JSON, XML, a model in text form, a pickle of protocol 0.

A written number is a cell's if it is equal to it, or if it has at least four digits and the cell rounded to that many
digits is equal to it. A number that was rounded to fewer digits is not recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.scanner.search.arrangement import Hits
from dosimeter.scanner.search.cells import Cells
from dosimeter.scanner.search.locate import Bytes

FEWEST_DIGITS = 4
_MOST_DIGITS = 15
MOST_NUMBERS = 3_000_000
_AT_ONCE = 1 << 17
_SHORTEST_RUN = 12
_NUMBER = re.compile(rb"(?<![\w.])[-+]?(?:\d{1,25}(?:\.\d{0,25})?|\.\d{1,25})(?:[eE][-+]?\d{1,3})?(?![\w.])")
TOO_MANY = "written numbers beyond 3 million were not read"
_PRINTABLE = np.zeros(256, dtype=bool)
_PRINTABLE[[9, 10, 13, *range(32, 127)]] = True
_DIGIT = np.zeros(256, dtype=bool)
_DIGIT[list(b"0123456789")] = True
_FEWEST_COMMAS = 8
_LINE = np.frombuffer(b"\n", dtype=np.uint8)


@dataclass(frozen=True, eq=False)
class WrittenNumbers:
    """offset, end: (k,) where each number stands; value: (k,); digits: (k,) significant digits that were written."""

    offset: Index
    end: Index
    value: FloatArray
    digits: NDArray[np.uint8]
    complete: bool = True


def as_it_is(data: Bytes) -> Bytes | None:
    """The bytes themselves."""
    return data


def with_decimal_comma(data: Bytes) -> Bytes | None:
    """The bytes with 1,25 written as 1.25; None if no more commas stand between digits than in random bytes."""
    comma = np.flatnonzero(data[1:-2] == ord(",")) + 1 if len(data) > 3 else np.empty(0, np.intp)
    between = _DIGIT[data[comma - 1]] & _DIGIT[data[comma + 1]] & _DIGIT[data[comma + 2]]
    if between.sum() < _FEWEST_COMMAS + 1e-6 * len(data):
        return None
    text = data.copy()
    text[comma] = ord(".")
    return text


def of_two_bytes(data: Bytes) -> Bytes | None:
    """Texts of UTF-16 with one byte a letter, one text a line; None if there are none.

    Blocks of twelve bytes are tested first, one byte after the other, as in `_printable_runs`.
    """
    blocks = data[: len(data) // _SHORTEST_RUN * _SHORTEST_RUN].reshape(-1, _SHORTEST_RUN)
    pieces: list[Bytes] = []
    for letter in (0, 1):
        chosen = np.flatnonzero(blocks[:, 1 - letter] == 0)
        for k in range(_SHORTEST_RUN):
            byte = blocks[chosen, k]
            chosen = chosen[_PRINTABLE[byte] if k % 2 == letter else byte == 0]
        starts = np.flatnonzero(np.diff(chosen, prepend=-2) > 1)
        ends = np.flatnonzero(np.diff(chosen, append=len(blocks) + 1) > 1)
        for first, last in zip(chosen[starts], chosen[ends], strict=True):
            # The ends of a text are in blocks that it does not fill.
            begin = max(letter, (int(first) - 1) * _SHORTEST_RUN + letter)
            piece = data[begin : (int(last) + 2) * _SHORTEST_RUN : 2]
            pieces += [np.where(_PRINTABLE[piece], piece, ord("\n")).astype(np.uint8), _LINE]
    return np.concatenate(pieces) if pieces else None


def written_numbers(data: Bytes) -> WrittenNumbers:
    """The numbers in the printable parts of the bytes, up to a limit."""
    pieces = [_Piece.of([], [])]
    offsets, tokens = list[int](), list[bytes]()
    count, complete = 0, True
    for begin, end in _printable_runs(data):
        text = data[begin:end].tobytes()
        for match in _NUMBER.finditer(text):
            offsets.append(begin + match.start())
            tokens.append(match.group())
            if len(tokens) >= _AT_ONCE:
                pieces.append(_Piece.of(offsets, tokens))
                count, offsets, tokens = count + len(tokens), [], []
                if count > MOST_NUMBERS:
                    break
        if count > MOST_NUMBERS:
            complete = False
            break
    pieces.append(_Piece.of(offsets, tokens))
    offset, length, value, digits = (np.concatenate(column) for column in zip(*pieces, strict=True))
    return WrittenNumbers(offset, offset + length, value, digits, complete)


class _Piece(NamedTuple):
    """Some of the numbers: as texts they take ten times the memory."""

    offset: Index
    length: NDArray[np.uint8]
    value: FloatArray
    digits: NDArray[np.uint8]

    @classmethod
    def of(cls, offsets: list[int], tokens: list[bytes]) -> _Piece:
        return cls(
            np.array(offsets, dtype=np.intp),
            np.array([len(token) for token in tokens], dtype=np.uint8),
            np.array(tokens, dtype="S64").astype(np.float64) if tokens else np.empty(0),
            np.array([_significant(token) for token in tokens], dtype=np.uint8),
        )


def _printable_runs(data: Bytes) -> Iterator[tuple[int, int]]:
    """Runs of printable bytes that may hold a few numbers.

    A run of twelve bytes covers a whole block of six, so blocks are tested first: random bytes have few of them.
    """
    half = _SHORTEST_RUN // 2
    blocks = len(data) // half
    full = _PRINTABLE[data[: blocks * half].reshape(blocks, half)[:, 0]] if blocks else np.empty(0, dtype=bool)
    chosen = np.flatnonzero(full)
    for k in range(1, half):
        chosen = chosen[_PRINTABLE[data[chosen * half + k]]]
    last = 0
    for block in chosen.tolist():
        begin, end = block * half, (block + 1) * half
        if end <= last:
            continue
        begin, end = _extended(data, begin, end, last)
        last = end
        if end - begin >= _SHORTEST_RUN:
            yield begin, end


_NOT_PRINTABLE = re.compile(rb"[^\t\n\r -~]")


def _extended(data: Bytes, begin: int, end: int, lowest: int) -> tuple[int, int]:
    """The printable bytes around a printable block."""
    while begin > lowest and _PRINTABLE[data[begin - 1]]:
        begin -= 1
    stop = _NOT_PRINTABLE.search(data.data, end)
    return begin, len(data) if stop is None else stop.start()


def _significant(token: bytes) -> int:
    mantissa = token.lower().split(b"e")[0].lstrip(b"+-").replace(b".", b"")
    return len(mantissa.lstrip(b"0"))


def written_hits(numbers: WrittenNumbers, cells: Cells) -> Hits:
    """Which of the written numbers are cells of the table, to the digits that were written."""
    distinct, cell, first = cells.by_value
    pieces = [np.empty((2, 0), np.intp)]
    for begin in range(0, len(numbers.value), _AT_ONCE):
        value, written = numbers.value[begin : begin + _AT_ONCE], numbers.digits[begin : begin + _AT_ONCE]
        needle = _equal(value, distinct)
        for digits in range(FEWEST_DIGITS, _MOST_DIGITS + 1):
            open_ = np.flatnonzero((needle < 0) & (written == digits))
            if len(open_) and len(distinct):
                needle[open_] = _rounded(value[open_], distinct, digits)
        matched = np.flatnonzero(needle >= 0)
        pieces.append(np.stack([matched + begin, needle[matched]]))
    is_hit, needle = np.concatenate(pieces, axis=1)
    return Hits(numbers.offset[is_hit], numbers.end[is_hit], needle, cell, first)


def _equal(values: FloatArray, distinct: FloatArray) -> NDArray[np.intp]:
    """(k,) the number of the equal distinct value, or -1."""
    if not len(distinct):
        return np.full(len(values), -1)
    at = np.searchsorted(distinct, values).clip(0, len(distinct) - 1)
    return np.where(distinct[at] == values, at, -1)


def _rounded(values: FloatArray, distinct: FloatArray, digits: int) -> NDArray[np.intp]:
    """(k,) the number of a distinct value that rounds to this one, or -1. The nearest value alone can."""
    above = np.searchsorted(distinct, values).clip(0, len(distinct) - 1)
    below = (above - 1).clip(0)
    nearest = np.where(np.abs(distinct[below] - values) < np.abs(distinct[above] - values), below, above)
    with np.errstate(all="ignore"):
        unit = 10.0 ** (np.floor(np.log10(np.abs(values))) - digits + 1)
        close = np.abs(distinct[nearest] - values) <= unit * (0.5 + 1e-9)
    return np.where(close, nearest, -1)
