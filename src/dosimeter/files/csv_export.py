"""Figures per person as CSV that a spreadsheet may open: text is never taken for a formula."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.files.atomic import AnyPath, write_text

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def sheet(columns: Mapping[str, Any]) -> str:
    r"""CSV text of columns of one length; numbers in full precision, text that begins like a formula quoted.

    >>> print(sheet({"id": ["ann", "=1+1"], "eta": [0.5, -0.25]}), end="")
    id,eta
    ann,0.5
    '=1+1,-0.25
    """
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise Refusal(f"columns of lengths {sorted(lengths)}: give columns of one length")
    rows = zip(*(map(_cell, values) for values in columns.values()), strict=True)
    return "".join(",".join(row) + "\n" for row in [tuple(map(_cell, columns)), *rows])


def write_sheet(path: AnyPath, columns: Mapping[str, Any], *, inputs: Iterable[AnyPath] = ()) -> None:
    """`sheet` to a file, whole or not at all, mode 0600."""
    write_text(path, sheet(columns), inputs=inputs)


def _cell(value: Any) -> str:
    """Only text is guarded: -0.25 is a number, and a number with a quote before it would no longer be one."""
    if isinstance(value, str):
        return _quoted("'" + value if value.lstrip(" ").startswith(_FORMULA) else value)
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, float | np.floating):
        return repr(float(value))
    if isinstance(value, int | np.integer):
        return str(int(value))
    raise Refusal(f"a value of kind {type(value).__name__} has no place in a sheet: give numbers and text")


def _quoted(text: str) -> str:
    # Not csv.writer: that of Python 3.11 leaves a lone CR bare, and what follows it begins a new row.
    if text and not text.startswith(" ") and not any(mark in text for mark in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'
