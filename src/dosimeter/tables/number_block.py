"""Many lines of plain decimals at once: the same numbers as `float` of every cell, in a fraction of the time.

A cell is [sign] digits [. digits]. Its digits are read eight bytes at a time, as one 64-bit word for all cells of a
block. With at most fifteen digits the whole number they make is exact in float64, and so is the power of ten that
divides it: one division is then rounded correctly, as `float` is (Clinger 1990). Every other cell (an exponent, more
digits) is left to `float`. A block that holds anything but numbers is not read here at all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray, Index, Mask

_DIGITS = b"0123456789+-.eE\n"
_WORD = 8
_MOST_DIGITS = 15
_LONGEST = 1000
"""Digits of a cell above which a line is read with care."""
_POWERS = 10.0 ** np.arange(23)
"""Exact in float64 up to 1e22."""
_SHIFTS = np.array([0, *(64 - 8 * k for k in range(1, _WORD + 1))], dtype=np.uint64)
"""A word of k bytes loses the 64 - 8k bits that stood before the cell."""
_JOINS = [
    (np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(2561), np.uint64(8)),
    (np.uint64(0x00FF00FF00FF00FF), np.uint64(6553601), np.uint64(16)),
    (np.uint64(0x0000FFFF0000FFFF), np.uint64(42949672960001), np.uint64(32)),
]
_ZEROS = np.uint64(0x3030303030303030)


def number_block(lines: bytes, columns: int, delimiter: str) -> FloatArray | None:
    r"""(columns, rows) the numbers of whole lines, None if a cell is not a plain number or a line has another length.

    >>> number_block(b"1,-2.5\n30,4e1\n", 2, ",").tolist()
    [[1.0, 30.0], [-2.5, 40.0]]
    >>> number_block(b"1,x\n", 2, ",") is None
    True
    """
    mark = delimiter.encode()
    text = lines.replace(b"\r\n", b"\n") if b"\r" in lines else lines
    if len(mark) > 1 or mark in _DIGITS or not text or text.translate(None, _DIGITS + mark):
        return None
    text = text if text.endswith(b"\n") else text + b"\n"
    if mark + mark in text or mark + b"\n" in text or b"\n" + mark in text:  # an empty cell
        return None
    # The eight bytes before the first cell are read with it, and dropped.
    letters = np.frombuffer(bytes(_WORD) + text, dtype=np.uint8)
    stops = np.flatnonzero((letters == ord(mark)) | (letters == ord("\n")) | (letters == ord(".")))
    kinds = letters[stops]
    is_point = kinds == ord(".")
    if (is_point[1:] & is_point[:-1]).any():
        return None
    last = np.flatnonzero(~is_point)  # of each cell; the stop before it may be the point of its fraction
    ends = stops[last]
    at_line_end = kinds[last] == ord("\n")
    if len(ends) % columns or not at_line_end[columns - 1 :: columns].all() or at_line_end.sum() * columns != len(ends):
        return None
    whole_ends = np.where(is_point[last - 1], stops[last - 1], ends)
    numbers = _numbers(text, letters, ends, whole_ends)
    return None if numbers is None else np.ascontiguousarray(numbers.reshape(-1, columns).T)


def _numbers(text: bytes, letters: NDArray[np.uint8], ends: Index, whole_ends: Index) -> FloatArray | None:
    """(cells,) the numbers before each of `ends`; None if one of them is not a number. whole_ends: without fraction."""
    starts = np.empty_like(ends)
    starts[0] = _WORD
    np.add(ends[:-1], 1, out=starts[1:])
    first = letters[starts]
    negative = first == ord("-")
    signed = negative | (first == ord("+"))
    fraction = np.maximum(ends - whole_ends - 1, 0)
    whole = whole_ends - starts
    whole -= signed
    digits = whole + fraction
    if digits.max() > _LONGEST:
        return None
    odd = (digits == 0) | (digits > _MOST_DIGITS) | (whole > _WORD) | (fraction > _WORD)
    if not _mark_exponents(text, letters, ends, odd, int(signed.sum())):
        return None
    plain = np.where(odd, 0, fraction)
    numbers = _word(letters, whole_ends, np.where(odd, 0, whole))
    if plain.any():
        power = _POWERS[plain]
        numbers *= power
        numbers += _word(letters, ends, plain)
        numbers /= power
    np.negative(numbers, out=numbers, where=negative)
    try:
        for k in np.flatnonzero(odd).tolist():
            numbers[k] = float(letters[starts[k] : ends[k]].tobytes())
    except ValueError:
        return None
    return numbers


def _mark_exponents(text: bytes, letters: NDArray[np.uint8], ends: Index, odd: Mask, signed: int) -> bool:
    """Mark cells with an exponent as odd. False if a sign stands neither first in a cell nor in an exponent."""
    signs = text.count(b"-") + text.count(b"+")
    if b"e" in text or b"E" in text:
        exponents = np.flatnonzero((letters == ord("e")) | (letters == ord("E")))
        odd[np.searchsorted(ends, exponents)] = True
        after = letters[exponents + 1]
        signs -= int(((after == ord("-")) | (after == ord("+"))).sum())
    return signs == signed


def _word(letters: NDArray[np.uint8], ends: Index, length: Index) -> FloatArray:
    """(cells,) the whole number of the `length` digits, at most eight, before each end."""
    words = np.ndarray((len(letters) - _WORD + 1,), dtype="<u8", buffer=letters, strides=(1,))[ends - _WORD]
    words ^= _ZEROS  # digits become 0 to 9; what stands before them is shifted out
    shift = _SHIFTS[length]
    words >>= shift
    words <<= shift
    words[length == 0] = 0
    # Pairs, fours, eights of digits: each step joins neighbours, the earlier one times a power of ten.
    for mask, factor, half in _JOINS:
        words &= mask
        words *= factor
        words >>= half
    return words.astype(np.float64)
