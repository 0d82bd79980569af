"""Public bounds in place of statistics: columns are scaled by what was declared about them, not by what they hold.

A number between `lower` and `upper` becomes (u - centre) / half the range. A value outside is clipped, and the figure
is that of the clipped value: what lies beyond the bound never reached the model, so no figure of the original value is
higher. A label that is not in its public list counts as the first level, for the same reason. How many there were is a
statistic of the table and stays internal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.errors import Refusal
from dosimeter.core.location import advice
from dosimeter.core.text import safe_list, safe_text
from dosimeter.tables.column_values import spread
from dosimeter.tables.fit_encoding import CategoryColumn, Columns, NumberColumn, as_text
from dosimeter.tables.table import Table

TAKEN = "that bounds, levels and classes were known without the table is taken on your word"


@dataclass(frozen=True)
class Range:
    """Public bounds of a number, and the public point that it is centred on (the middle if None)."""

    lower: float
    upper: float
    centre: float | None = None

    def __post_init__(self) -> None:
        ends = (self.lower, self.upper, *(() if self.centre is None else (self.centre,)))
        if not (all(np.isfinite(ends)) and self.lower < self.upper and np.isfinite(self.upper - self.lower)):
            raise Refusal(f"bounds {self.lower} to {self.upper}: give finite numbers, the lower one first")

    @property
    def middle(self) -> float:
        """What the column is centred on."""
        return self.lower + (self.upper - self.lower) / 2 if self.centre is None else self.centre


Declaration = Range | tuple[str, ...]
"""Bounds of a number, or the levels of a category."""

Bounds = Mapping[str, Any]
"""Column -> a Range, (lower, upper), or a list of levels."""


def declarations(bounds: Bounds) -> dict[str, Declaration]:
    """The bounds as given by a caller: two numbers are a range, names are levels.

    >>> declarations({"age": (18, 100), "city": ["Graz", "Ulm"]})
    {'age': Range(lower=18.0, upper=100.0, centre=None), 'city': ('Graz', 'Ulm')}
    """
    return {name: _declaration(name, told) for name, told in bounds.items()}


def _declaration(name: str, told: Any) -> Declaration:
    shown = f"bounds of {safe_text(name)}"
    if isinstance(told, Range):
        return told
    if isinstance(told, str) or not isinstance(told, Sequence) or not len(told):
        raise Refusal(f"{shown}: give (lower, upper) for a number or a list of levels for a category")
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in told):
        if len(told) != 2:
            raise Refusal(f"{shown}: give two numbers, lower and upper; levels are text")
        return Range(float(told[0]), float(told[1]))
    levels = tuple(told)
    if not all(isinstance(v, str) for v in levels):
        raise Refusal(f"{shown}: levels are text, bounds two numbers")
    if len(set(levels)) < len(levels):
        raise Refusal(f"{shown} name a level twice: leave one out")
    return levels


def declared_columns(table: Table, told: Mapping[str, Declaration], *, own_units: bool = False) -> Columns:
    """The columns of the table as declared; refused where one is missing or is not of its declared kind."""
    left = [name for name in table.names if name not in told]
    if left:
        raise Refusal(f"nothing is declared about {safe_list(left, 4)}: declare bounds or levels, or drop the column")
    return Columns(tuple(_source(table, name, told[name], own_units) for name in table.names))


def refuse_unknown(told: Collection[str], known: Collection[str]) -> None:
    """A declaration about no column of the table is a misspelt name."""
    for name in told:
        if name not in known:
            raise Refusal(f"bounds: there is no column {safe_text(name)}: {advice(name, known)}")


def _source(table: Table, name: str, told: Declaration, own_units: bool) -> NumberColumn | CategoryColumn:
    shown = safe_text(name)
    if isinstance(told, tuple):
        if len(told) < 2:
            raise Refusal(f"bounds of {shown}: a category needs two levels or more, or drop the column")
        return CategoryColumn(name, told, others=0)
    if table.kind(name) == "text":
        raise Refusal(f"column {shown} holds text, and lower and upper were declared: declare levels, or drop it")
    half = 1.0 if own_units else told.upper / 2 - told.lower / 2
    return NumberColumn(name, told.middle, half, (told.lower, told.upper))


def outside(columns: Columns, table: Table) -> tuple[int, int]:
    """How many cells were clipped, and how many labels stand in no public list. Internal."""
    clipped = labels = 0
    for source in columns.sources:
        if isinstance(source, CategoryColumn):
            labels += int(np.sum(~np.isin(as_text(table, source.name), source.levels)))
        elif source.bounds is not None:
            u = table[source.name].astype(float)
            clipped += int(np.sum((u < source.bounds[0]) | (u > source.bounds[1])))
    return clipped, labels


def outside_remarks(columns: Columns, table: Table) -> tuple[str, ...]:
    """What was clipped, in words. Internal."""
    clipped, labels = outside(columns, table)
    told = "columns are scaled by declared bounds: nothing of the preprocessing is a statistic of the table"
    cells = f"{clipped} cells lay outside the bounds and were clipped: their figures are those of the clipped values"
    names = f"{labels} labels stand in no public list and count as the first level"
    return (told, *((cells,) if clipped else ()), *((names,) if labels else ()))


def spreads(columns: Columns, table: Table) -> NDArray[np.float64]:
    """(d,) standard deviation of each clipped number, the unit of the reading; 1 for labels. Internal."""
    found = []
    for source in columns.sources:
        if isinstance(source, CategoryColumn):
            found += [1.0] * len(source.names)
        elif table.kind(source.name) == "bool":
            found.append(1.0)
        else:
            found.append(spread(source.design(table)[:, 0]) * source.scale)
    return np.array(found)
