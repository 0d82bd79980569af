"""A table as cells to look for: which columns single values identify, and which only runs of values do."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.tables.table import Table

_FEWEST_DISTINCT = 10
_SHORTEST_TEXT = 5
_PLAIN_BITS = 12
"""A number with at most this many significant bits (0.5, 3, 96, 1.25) is in any file, whatever its table."""
_DECIMALS = 10
_STEPS = 50
"""Of a column's interquartile range: within one, the density of rounded values hardly changes."""
_CROWDED = 0.5
_LARGE = 1e5
"""A whole number from here on is rare enough to mean something by itself."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Numbers (n, d) and texts of a table, with what each can prove.

    names: (d,) of the columns of numbers; texts: column -> (n,) text; ids: (n,) of the people, () if there are none.
    """

    names: tuple[str, ...]
    values: FloatArray
    texts: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table, ids: tuple[str, ...] = ()) -> Cells:
        """ids: (n,) of the people, if a column says them."""
        numbers = [name for name in table.names if table.kind(name) != "text"]
        columns = [table[name].astype(np.float64) for name in numbers]
        values = np.column_stack(columns) if columns else np.empty((table.n, 0))
        texts = {name: tuple(map(str, table[name])) for name in table.names if table.kind(name) == "text"}
        return cls(tuple(numbers), values, {**texts, **({"person": ids} if ids else {})})

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.values)

    @property
    def d(self) -> int:
        """Number of columns of numbers."""
        return int(self.values.shape[1])

    @cached_property
    def plain(self) -> NDArray[np.bool_]:
        """(n, d) numbers that are in any file: few significant bits, or not finite."""
        return is_plain(self.values)

    @cached_property
    def telling(self) -> NDArray[np.bool_]:
        """(n, d) cells that mean something alone: not whole unless large, not plain, not of a column of few values."""
        with np.errstate(invalid="ignore"):
            whole = self.values == np.rint(self.values)
        alone = ~self.plain & (~whole | (np.abs(self.values) >= _LARGE))
        return np.asarray(alone & ~np.array([is_crowded(column) for column in self.values.T], dtype=bool))

    @cached_property
    def word_columns(self) -> NDArray[np.intp]:
        """Columns whose values are looked for one by one; the others as runs."""
        distinct = np.array([len(np.unique(column)) for column in self.values.T], dtype=np.intp)
        usable = (~self.plain).mean(axis=0) if self.n else np.zeros(self.d)
        return np.flatnonzero((distinct >= _FEWEST_DISTINCT) & (usable >= 0.5))

    @cached_property
    def by_value(self) -> tuple[FloatArray, NDArray[np.intp], NDArray[np.intp]]:
        """Of the columns of words: the distinct values, the cells in their order, and where those of each begin."""
        columns = self.word_columns
        usable = ~self.plain[:, columns]
        flat = self.values[:, columns][usable]
        cell = (np.arange(self.n)[:, None] * self.d + columns)[usable]
        order = np.argsort(flat, kind="stable")
        flat, cell = flat[order], cell[order]
        first = np.flatnonzero(np.append(True, flat[1:] != flat[:-1])) if len(flat) else np.empty(0, np.intp)
        return flat[first], cell, np.append(first, len(flat))

    @cached_property
    def shares(self) -> FloatArray:
        """(n, d) share of the column's cells that have the same value."""
        result = np.ones(self.values.shape)
        for j, column in enumerate(self.values.T):
            _, inverse, counts = np.unique(column, return_inverse=True, return_counts=True)
            result[:, j] = counts[inverse.ravel()] / len(column)
        return result

    @cached_property
    def single_texts(self) -> dict[str, dict[str, int]]:
        """Column -> text that one row alone has -> that row; texts of fewer than five bytes are in any file."""
        result = {}
        for name, column in self.texts.items():
            rows: dict[str, int] = {}
            repeated: set[str] = set()
            for row, text in enumerate(column):
                (repeated.add(text) if text in rows else rows.setdefault(text, row))
            result[name] = {
                text: row
                for text, row in rows.items()
                if text not in repeated and len(text.encode("utf-8", "replace")) >= _SHORTEST_TEXT
            }
        return result


def decimals(values: FloatArray) -> int | None:
    """Decimals that all values were rounded to; None if they have more than nine.

    >>> decimals(np.array([26.4, 31.0])), decimals(np.array([2**0.5]))
    (1, None)
    """
    return next((p for p in range(_DECIMALS) if (np.round(values, p) == values).all()), None)


def step_of(values: FloatArray, places: int) -> float:
    """A power of ten that is small beside the spread of rounded values, and at least their last digit.

    >>> step_of(np.linspace(20.0, 30.0, 1001), 2)
    0.1
    """
    low, high = np.quantile(values, [0.25, 0.75])
    small = (high - low) / _STEPS
    power = max(-places, int(np.floor(np.log10(small)))) if small > 0 else -places
    return float(np.round(10.0**power, max(0, -power)))


def is_crowded(column: FloatArray) -> bool:
    """Whether rounded values have most of their neighbours in the column too: strangers then share them.

    >>> is_crowded(np.arange(100, 200) / 10), is_crowded(np.array([20.13, 24.57, 26.41, 29.88, 33.02]))
    (True, False)
    """
    values = np.unique(column[np.isfinite(column)])
    places = decimals(values)
    if places is None or not len(values):
        return False
    step = step_of(values, places)
    near = np.round(np.concatenate([values - step, values + step]), places)
    return bool(np.isin(near, values).mean() > _CROWDED)


def is_plain(values: FloatArray) -> NDArray[np.bool_]:
    """Whether numbers have few significant bits, or are not finite.

    >>> is_plain(np.array([0.0, 1.0, 0.5, 96.0, 17.99, 123456.0])).tolist()
    [True, True, True, True, False, False]
    """
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    low = (bits & np.uint64((1 << (53 - _PLAIN_BITS)) - 1)) == 0
    large = np.abs(values) >= _LARGE
    return np.asarray((low & ~large) | ~np.isfinite(values))
