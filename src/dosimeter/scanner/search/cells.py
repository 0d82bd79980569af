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
        """(n, d) cells that mean something alone: not whole unless large, not plain."""
        with np.errstate(invalid="ignore"):
            whole = self.values == np.rint(self.values)
        return np.asarray(~self.plain & (~whole | (np.abs(self.values) >= _LARGE)))

    @cached_property
    def word_columns(self) -> NDArray[np.intp]:
        """Columns whose values are looked for one by one; the others as runs."""
        distinct = np.array([len(np.unique(column)) for column in self.values.T], dtype=np.intp)
        usable = (~self.plain).mean(axis=0) if self.n else np.zeros(self.d)
        return np.flatnonzero((distinct >= _FEWEST_DISTINCT) & (usable >= 0.5))

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


def is_plain(values: FloatArray) -> NDArray[np.bool_]:
    """Whether numbers have few significant bits, or are not finite.

    >>> is_plain(np.array([0.0, 1.0, 0.5, 96.0, 17.99, 123456.0])).tolist()
    [True, True, True, True, False, False]
    """
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    low = (bits & np.uint64((1 << (53 - _PLAIN_BITS)) - 1)) == 0
    large = np.abs(values) >= _LARGE
    return np.asarray((low & ~large) | ~np.isfinite(values))
