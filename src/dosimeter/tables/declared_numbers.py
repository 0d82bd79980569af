"""Columns of a dataframe that were declared: a value that is not a finite number, or no label, is missing."""

from __future__ import annotations

from numbers import Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from dosimeter.tables.column_values import NOT_TEXT
from dosimeter.tables.csv_column import parse_numbers


def declared_numbers(raw: Any) -> NDArray[np.float64]:
    """A raw column as float64, (n,), nan where there is no finite number: no refusal depends on one person's cell.

    >>> declared_numbers(np.array([1.5, "2", "abc", None, True, float("inf")], dtype=object)).tolist()
    [1.5, 2.0, nan, nan, 1.0, nan]
    """
    if isinstance(raw, np.ndarray) and raw.dtype.kind in "fiub":
        numbers = np.ma.filled(raw.astype(np.float64), np.nan)
    else:
        cells = raw.to_list() if isinstance(raw, nw.Series) else np.ma.getdata(raw).tolist()
        parsed = parse_numbers([cell if isinstance(cell, str) else None for cell in cells])
        numbers = np.array(
            [_number(cell, text) for cell, text in zip(cells, parsed.tolist(), strict=True)], dtype=float
        )
    return np.where(np.isfinite(numbers), numbers, np.nan)


def declared_text(raw: Any) -> Any:
    """A raw column of labels, None for a list, bytes and the like; the column itself if it has none.

    >>> declared_text(np.array(["north", b"north"], dtype=object)).tolist()
    ['north', None]
    """
    if isinstance(raw, np.ndarray) and raw.dtype.kind != "O":
        return raw
    cells = raw.to_list() if isinstance(raw, nw.Series) else np.ma.getdata(raw).tolist()
    if not any(isinstance(cell, NOT_TEXT) for cell in cells):
        return raw
    column = np.empty(len(cells), dtype=object)
    column[:] = [None if isinstance(cell, NOT_TEXT) else cell for cell in cells]
    return column


def _number(cell: Any, parsed: float) -> float:
    """A number as it is; `parsed` for any other cell."""
    try:
        return float(cell) if isinstance(cell, Real | np.bool_) else parsed
    except (OverflowError, ValueError):
        return np.nan
