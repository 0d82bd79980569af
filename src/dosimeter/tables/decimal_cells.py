"""Cells of short plain decimals as numbers, all cells of a block at once: the same numbers as `float` of every cell.

A cell of at most 15 characters without its sign, at most 7 of them after the point, lies in two words of eight bytes.
With a zero in the place of the point its digits are the integer G = I 10^(f+1) + F, I before the point and F the f
digits after it, so that 10 (I 10^f + F) = G + 9F. That is below 2^53 and so is the power of ten, so one division,

    (G + 9F) / 10^(f+1),

rounds the exact quotient once, as `float` does. Other cells (an exponent, more digits) are read by `float` itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray

LONGEST = 15
"""Characters of a cell that is read here, without its sign."""
FEW = 8
"""Where more than one cell in this many needs `float`, the block is left to another reader."""
_EACH = 0x0101010101010101
_ALL = (1 << 64) - 1
_PAD = b"0" * 16
Words = NDArray[np.uint64]


def _kept(first: int) -> Words:
    """Masks by length 0 to 16: of the eight bytes that begin `first` before a cell's end, those inside the cell."""
    outside = (min(max(first - length, 0), 8) for length in range(17))
    return np.array([_ALL << (8 * k) & _ALL for k in outside], dtype=np.uint64)


_LATE, _EARLY = _kept(8), _kept(16)


def _powers() -> FloatArray:
    """10^(f+1) by the number of bits below the point's mark; 1 without a point, nan for several points."""
    powers = np.full(65, np.nan)
    powers[4:64:8], powers[64] = 10.0 ** np.arange(8, 0, -1), 1.0
    return powers


_POWERS = _powers()


def decimal_cells(text: bytes, ends: NDArray[np.intp]) -> FloatArray | None:
    r"""(cells,) the numbers of cells of digits, signs, points and exponents; `ends` are the places behind the cells.

    None if a cell is not a number, or too many need `float`.

    >>> decimal_cells(b"1,-2.5\n30,4e1\n", np.array([1, 6, 9, 13])) is None  # one in four needs float
    True
    >>> decimal_cells(b"1,-2.5\n30,.125\n", np.array([1, 6, 9, 14])).tolist()
    [1.0, -2.5, 30.0, 0.125]
    """
    letters = np.frombuffer(text, dtype=np.uint8)
    starts = np.empty_like(ends)
    starts[:1], starts[1:] = 0, ends[:-1] + 1
    negative = letters[starts] == ord("-")
    length = ends - starts - negative
    early, late = _last_letters(text, ends)
    late &= _LATE.take(length, mode="clip")
    early &= _EARLY.take(length, mode="clip")
    marks = (late & np.uint64(0x10 * _EACH)) >> np.uint64(4)
    other_mark = (late & (marks * np.uint64(0xFF))) != marks * np.uint64(0x1E)  # a sign or an exponent, not a point
    late ^= marks * np.uint64(0x1E)
    power = _POWERS[np.bitwise_count((marks << np.uint64(4)) - np.uint64(1))]
    no_digit = ((late + np.uint64(0x76 * _EACH)) | (early + np.uint64(0x76 * _EACH))) & np.uint64(0x80 * _EACH)
    odd = other_mark | (no_digit != 0) | (length > LONGEST) | (length <= (marks != 0)) | np.isnan(power)
    low = _number(late)
    whole = np.floor(low / power)  # of the eight last digits those before the point; F = low - power whole
    numbers = (_number(early) * 1e8 + 10.0 * low - 9.0 * power * whole) / power
    np.negative(numbers, out=numbers, where=negative)
    return None if odd.any() and not _read_odd(numbers, odd, text, starts, ends) else numbers


def _last_letters(text: bytes, ends: NDArray[np.intp]) -> tuple[Words, Words]:
    """The 16 letters before each place as two words, the earlier first; a digit is its value."""
    padded = _PAD + text + bytes(8 - len(text) % 8 + 8)
    words = np.frombuffer(padded, dtype="<u8") ^ np.uint64(0x30 * _EACH)
    word, shift = ends >> 3, ((ends & 7) << 3).astype(np.uint64)
    rest = np.uint64(64) - shift  # a shift by 64 gives 0
    first, second, third = words[word], words[word + 1], words[word + 2]
    return (first >> shift) | (second << rest), (second >> shift) | (third << rest)


def _number(digits: Words) -> FloatArray:
    """Eight digits, the first in the lowest byte, as a number: neighbours are joined three times."""
    pairs = digits * np.uint64(10) + (digits >> np.uint64(8))
    left = (pairs & np.uint64(0x000000FF000000FF)) * np.uint64((1000000 << 32) + 100)
    right = ((pairs >> np.uint64(16)) & np.uint64(0x000000FF000000FF)) * np.uint64((10000 << 32) + 1)
    return np.asarray(((left + right) >> np.uint64(32)).astype(np.float64))


def _read_odd(numbers: FloatArray, odd: Any, text: bytes, starts: Any, ends: Any) -> bool:
    """Cells that are not short plain decimals by `float`; False if one is no number or they are many."""
    places = np.flatnonzero(odd)
    if FEW * len(places) > len(numbers):
        return False
    try:
        numbers[places] = [
            float(text[i:j]) for i, j in zip(starts[places].tolist(), ends[places].tolist(), strict=True)
        ]
    except ValueError:
        return False
    return True
