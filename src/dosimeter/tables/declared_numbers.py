"""A column of a dataframe that was declared to hold numbers: a value that is not a finite number is missing."""

from __future__ import annotations

from numbers import Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

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


def _number(cell: Any, parsed: float) -> float:
    """A number as it is; `parsed` for any other cell."""
    try:
        return float(cell) if isinstance(cell, Real | np.bool_) else parsed
    except (OverflowError, ValueError):
        return np.nan
