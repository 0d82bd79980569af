"""Many lines of plain decimals at once: the same numbers as `float` of every cell, in a fraction of the time.

Short cells are joined from their digits (`decimal_cells`). numpy's reader of text, for the rest, rounds as `float` does
and warns of the first cell that is no number. A block with such a cell is left to the reader of lines.
"""

from __future__ import annotations

import warnings

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.tables.decimal_cells import decimal_cells

_DIGITS = b"0123456789+-.eE\n"
_LONGEST_CELL = 1000


def number_block(lines: bytes, columns: int, delimiter: str, decimal: str = ".") -> FloatArray | None:
    r"""(columns, rows) the numbers of whole lines, None if a cell is not a plain number or a line has another length.

    >>> number_block(b"1,-2.5\n30,4e1\n", 2, ",").tolist()
    [[1.0, 30.0], [-2.5, 40.0]]
    >>> number_block(b"1,x\n", 2, ",") is None
    True
    >>> number_block(b"1;-2,5\n", 2, ";", ",").tolist()
    [[1.0], [-2.5]]
    """
    mark = delimiter.encode()
    text = lines.replace(b"\r\n", b"\n") if b"\r" in lines else lines
    if decimal == ",":
        if b"." in text:  # of thousands, or another decimal mark: the reader of cells decides
            return None
        text = text.replace(b",", b".")
    if len(mark) > 1 or mark in _DIGITS or not text or text.translate(None, _DIGITS + mark):
        return None
    text = text if text.endswith(b"\n") else text + b"\n"
    letters = np.frombuffer(text, dtype=np.uint8)
    ends = np.flatnonzero((letters == ord("\n")) | (letters == mark[0]))
    at_line_end = letters[ends] == ord("\n")
    rows, rest = divmod(len(ends), columns)
    if rest or not at_line_end[columns - 1 :: columns].all() or np.count_nonzero(at_line_end) != rows:
        return None
    steps = np.diff(ends, prepend=-1)
    if steps.min() <= 1 or steps.max() > _LONGEST_CELL:  # an empty cell, or one that is no number
        return None
    numbers = decimal_cells(text, ends)
    numbers = _any_numbers(text, mark) if numbers is None else numbers
    if numbers is None or len(numbers) != len(ends):
        return None
    return np.ascontiguousarray(numbers.reshape(rows, columns).T)


def _any_numbers(text: bytes, mark: bytes) -> FloatArray | None:
    """Numbers of any length by numpy's reader, None if a cell is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.fromstring(text[:-1].replace(b"\n", mark).decode("ascii"), sep=mark.decode("ascii"))
        except (ValueError, DeprecationWarning):
            return None
