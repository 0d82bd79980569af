"""Many lines of plain decimals at once: the same numbers as `float` of every cell, in a fraction of the time.

numpy's reader of text rounds as `float` does, and warns of the first cell that is no number. A block with such a cell
is left to the reader of lines.
"""

from __future__ import annotations

import warnings

import numpy as np

from dosimeter.core.arrays import FloatArray

_DIGITS = b"0123456789+-.eE\n"
_LONGEST_CELL = 1000


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
    if text[:1] in (mark, b"\n") or any(pair in text for pair in (mark + mark, mark + b"\n", b"\n" + mark, b"\n\n")):
        return None  # an empty cell
    letters = np.frombuffer(text, dtype=np.uint8)
    ends = np.flatnonzero((letters == ord("\n")) | (letters == mark[0]))
    at_line_end = letters[ends] == ord("\n")
    rows, rest = divmod(len(ends), columns)
    if rest or not at_line_end[columns - 1 :: columns].all() or at_line_end.sum() != rows:
        return None
    if np.diff(ends, prepend=-1).max() > _LONGEST_CELL:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            numbers = np.fromstring(text[:-1].replace(b"\n", mark).decode("ascii"), sep=delimiter)
        except (ValueError, DeprecationWarning):  # a cell that is no number
            return None
    return np.ascontiguousarray(numbers.reshape(rows, columns).T) if len(numbers) == len(ends) else None
