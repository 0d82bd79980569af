"""CSV files that are safe to open in a spreadsheet: text is never read as a formula."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.files.atomic import AnyPath, write_text

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def csv_text(columns: Mapping[str, Any]) -> str:
    r"""CSV text of columns of equal length, numbers in full precision; text that looks like a formula gets a leading '.

    >>> print(csv_text({"id": ["ann", "=1+1"], "eta": [0.5, -0.25]}), end="")
    id,eta
    ann,0.5
    '=1+1,-0.25
    """
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise Refusal(f"columns of lengths {sorted(lengths)}: pass columns of equal length")
    rows = zip(*(map(cell, values) for values in columns.values()), strict=True)
    return "".join(",".join(row) + "\n" for row in [tuple(map(cell, columns)), *rows])


def write_csv(path: AnyPath, columns: Mapping[str, Any], *, inputs: Iterable[AnyPath] = ()) -> None:
    """Write `sheet(columns)` atomically, mode 0600."""
    write_text(path, csv_text(columns), inputs=inputs)


def cell(value: Any) -> str:
    """A value as it is written. Only text is escaped: -0.25 is a number, and with a leading quote it would not be."""
    if isinstance(value, str):
        return _quote("'" + value if value.lstrip(" ").startswith(_FORMULA) else value)
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, float | np.floating):
        return repr(float(value))
    if isinstance(value, int | np.integer):
        return str(int(value))
    raise Refusal(f"a value of type {type(value).__name__} cannot be written to CSV: pass numbers and text")


def _quote(text: str) -> str:
    # Not csv.writer: in Python 3.11 it does not quote a lone CR, which would begin a new row.
    if text and not text.startswith(" ") and not any(mark in text for mark in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'
