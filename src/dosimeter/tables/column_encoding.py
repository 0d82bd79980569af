"""How one column of a table becomes numbers. Four kinds, each without rows: only constants and levels.

kind             numbers of the design                                          used by
---------------  -------------------------------------------------------------  ----------------------------------
NumberColumn     (u - centre) / scale, u clipped to bounds if there are any;    own fit, as they are: pate, pca
                 as it is with centre 0 and scale 1
RangeColumn      -1 at the public lower bound, 1 at the upper                   pca, federate
PartColumn       standardised by each part of the rows, with its own constants  federate without bounds
CategoryColumn   a corner of a simplex, or an indicator for each level          own fit; pate, pca and federate
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.category import simplex
from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text
from dosimeter.tables.column_levels import level_positions
from dosimeter.tables.table import Table

_FAR = 1e100
"""Beyond any bounds: a value that overflows when scaled is clamped like any other."""


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers, x = (u - centre) / scale, from public bounds or from the data; as it is by default."""

    name: str
    centre: float = 0.0
    scale: float = 1.0
    bounds: tuple[float, float] | None = None
    """Public bounds that values are clipped to; None if none were declared."""
    fitted: bool = False
    """Whether centre and scale are the mean and the standard deviation (1/n) of the table's own column."""
    two: bool = False
    """Whether centre and scale are the middle of the table's two values and the step between them."""

    @property
    def names(self) -> tuple[str, ...]:
        """One number of the design."""
        return (self.name,)

    def design(self, table: Table) -> FloatArray:
        """(n, 1)."""
        return ((self.values(table) - self.centre) / self.scale)[:, None]

    def values(self, table: Table) -> FloatArray:
        """(n,) in the column's unit, clipped to its bounds."""
        u = number_values(table, self.name)
        return np.asarray(u if self.bounds is None else np.clip(u, *self.bounds))


@dataclass(frozen=True)
class RangeColumn:
    """A column of numbers between public bounds, scaled to -1 at the lower and 1 at the upper one."""

    name: str
    lower: float
    upper: float
    clip: bool = True
    """False leaves values outside where they are, for a release that clips rows and counts them itself."""

    @property
    def names(self) -> tuple[str, ...]:
        """One number of the design."""
        return (self.name,)

    @property
    def bounds(self) -> tuple[float, float]:
        """(lower, upper)."""
        return self.lower, self.upper

    def design(self, table: Table) -> FloatArray:
        """(n, 1)."""
        return self.place(number_values(table, self.name))[:, None]

    def place(self, u: FloatArray) -> FloatArray:
        """Values (n,) between -1 and 1 at the bounds."""
        low, high = self.bounds
        # One map in two roundings. Both stay: other last bits of the rows are other released numbers.
        if self.clip:
            return np.asarray(np.clip((u - low / 2 - high / 2) / (high / 2 - low / 2), -1.0, 1.0))
        with np.errstate(over="ignore"):
            return np.asarray(np.clip(2 * ((u - low) / (high - low)) - 1, -_FAR, _FAR))


@dataclass(frozen=True)
class PartColumn:
    """A column that each part of the rows standardises by its own mean and deviation: no part depends on another."""

    name: str

    @property
    def names(self) -> tuple[str, ...]:
        """One number of the design."""
        return (self.name,)

    @property
    def bounds(self) -> None:
        """There are none."""
        return None

    def design(self, table: Table, parts: Sequence[Index]) -> FloatArray:
        """(n, 1); parts: the rows of each, 0 in a part where the column does not vary."""
        u, scaled = number_values(table, self.name), np.zeros(table.n)
        for rows in parts:
            # By the largest first: the square of 1e200 has no float64.
            own = u[rows] / max(float(np.abs(u[rows]).max()), 1e-300)
            spread = float(own.std())
            scaled[rows] = (own - own.mean()) / spread if spread > 1e-12 else 0.0
        return scaled[:, None]


@dataclass(frozen=True)
class CategoryColumn:
    """A column of labels. Levels are declared, taken from a public table or from the data.

    >>> table = Table.of({"city": ["Ulm", "Graz", "Bonn"]})
    >>> CategoryColumn("city", ("Graz", "Ulm"), indicators=True).design(table)
    array([[0., 1.], [1., 0.], [0., 0.]])
    """

    name: str
    levels: tuple[Any, ...]
    others: int | None = None
    """Position of the level that unlisted labels count as. None: a simplex refuses them, indicators are all 0."""
    indicators: bool = False
    """An indicator for each level, instead of the corners of a simplex (`core/category.py`)."""
    as_text: bool = False
    """Whether a frame holds the levels as text, "7" and not 7: what a released pipeline then looks up."""

    @property
    def names(self) -> tuple[str, ...]:
        """Each level, "race=white"; on a simplex those after the first, each set against the levels before it."""
        return tuple(f"{self.name}={level}" for level in self.levels[0 if self.indicators else 1 :])

    def design(self, table: Table) -> FloatArray:
        """(n, levels), or (n, levels - 1) on a simplex."""
        corners = self.vertices
        # The position -1 is the row of zeros at the end.
        return np.concatenate([corners, np.zeros((1, corners.shape[1]))])[self.codes(table)]

    def codes(self, table: Table) -> Index:
        """(n,) the position of the level that each cell counts as; -1 for an indicator of none."""
        positions = self.positions(table)
        if self.others is not None:
            positions = np.where(positions < 0, self.others, positions)
        elif not self.indicators and (positions < 0).any():
            row = int(table.rows[np.argmax(positions < 0)])
            where = f"row {row} counted from 0, column {safe_text(self.name)}"
            raise Refusal(f"a level that the fit did not have ({where}): pass the rows that it was fitted on")
        return positions

    def positions(self, table: Table) -> Index:
        """(n,) the position of each cell among the levels, -1 if it is not listed."""
        levels, position = level_positions(table, self.name)
        place = {level: j for j, level in enumerate(self.levels)}
        return np.array([place.get(level, -1) for level in levels], dtype=np.intp)[position]

    @property
    def vertices(self) -> FloatArray:
        """(levels, numbers) what each level becomes."""
        return np.eye(len(self.levels)) if self.indicators else simplex(len(self.levels))


NumericColumn = NumberColumn | RangeColumn | PartColumn
ColumnEncoding = NumericColumn | CategoryColumn


def number_values(table: Table, name: str) -> NDArray[np.float64]:
    """(n,) a column that is encoded as a number."""
    if table.kind(name) == "text":
        raise Refusal(f"column {safe_text(name)} was a number and is text here: give the same columns")
    return table[name].astype(np.float64, copy=False)
