"""Public bounds instead of statistics: columns are scaled by what was declared about them, not by their values.

A number between `lower` and `upper` becomes (u - centre) / half the range. A value outside is clipped, and its figure
is that of the clipped value: the rest never reached the model, so no figure of the original value is higher. A label
that is not in its public list counts as the first level. The number of such cells is a statistic of the table and stays
internal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.location import advice
from dosimeter.core.text import safe_list, safe_text
from dosimeter.tables.column_encoding import CategoryColumn, NumberColumn, number_values
from dosimeter.tables.column_values import spread
from dosimeter.tables.encoding import TableEncoding
from dosimeter.tables.table import Table

TAKEN = "bounds, levels and classes are taken as known without the table: this is not checked"


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
    """The bounds that a caller passed, checked: two numbers are a range, texts are levels.

    >>> declarations({"age": (18, 100), "city": ["Graz", "Ulm"]})
    {'age': Range(lower=18.0, upper=100.0, centre=None), 'city': ('Graz', 'Ulm')}
    """
    return {name: _declaration(name, spec) for name, spec in bounds.items()}


def _declaration(name: str, spec: Any) -> Declaration:
    shown = f"bounds of {safe_text(name)}"
    if isinstance(spec, Range):
        return spec
    if isinstance(spec, str) or not isinstance(spec, Sequence) or not len(spec):
        raise Refusal(f"{shown}: give (lower, upper) for a number or a list of levels for a category")
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in spec):
        if len(spec) != 2:
            raise Refusal(f"{shown}: give two numbers, lower and upper; levels are text")
        return Range(float(spec[0]), float(spec[1]))
    levels = tuple(spec)
    if not all(isinstance(v, str) for v in levels):
        raise Refusal(f"{shown}: levels are text, bounds two numbers")
    if len(set(levels)) < len(levels):
        raise Refusal(f"{shown} name a level twice: leave one out")
    return levels


def declared_encoding(table: Table, declared: Mapping[str, Declaration], *, own_units: bool = False) -> TableEncoding:
    """The columns of a table for our own fit, as declared; refused if one is missing or is not of its declared kind.

    own_units: numbers are centred and clipped by their bounds, but not scaled.
    """
    undeclared = [name for name in table.names if name not in declared]
    if undeclared:
        raise Refusal(
            f"nothing is declared about {safe_list(undeclared, 4)}: declare bounds or levels, or drop the column"
        )
    return TableEncoding(tuple(_source(table, name, declared[name], own_units) for name in table.names))


def refuse_unknown(declared: Collection[str], known: Collection[str]) -> None:
    """Refuse a declaration of a column that the table does not have."""
    for name in declared:
        if name not in known:
            raise Refusal(f"bounds: there is no column {safe_text(name)}: {advice(name, known)}")


def text_refusal(name: str) -> Refusal:
    """The refusal of a column of text whose lower and upper bounds were declared."""
    fault = f"column {safe_text(name)} holds text, and lower and upper were declared"
    return Refusal(f"{fault}: declare levels = [...] for a category, or leave it out ({option('exclude')})")


def _source(table: Table, name: str, declaration: Declaration, own_units: bool) -> NumberColumn | CategoryColumn:
    if isinstance(declaration, tuple):
        if len(declaration) < 2:
            raise Refusal(f"bounds of {safe_text(name)}: a category needs two levels or more, or drop the column")
        return CategoryColumn(name, declaration, others=0, as_text=name in table.texts)
    if table.kind(name) == "text":
        raise text_refusal(name)
    half = 1.0 if own_units else declaration.upper / 2 - declaration.lower / 2
    return NumberColumn(name, declaration.middle, half, (declaration.lower, declaration.upper))


def outside(encoding: TableEncoding, table: Table) -> tuple[int, int]:
    """How many cells are out of their bounds, and how many labels are in no public list. Internal."""
    clipped = 0
    for number in encoding.numbers:
        if number.bounds is not None:
            u = number_values(table, number.name)
            clipped += int(np.sum((u < number.bounds[0]) | (u > number.bounds[1])))
    return clipped, sum(int(np.sum(label.positions(table) < 0)) for label in encoding.labels)


def outside_remarks(encoding: TableEncoding, table: Table) -> tuple[str, ...]:
    """Remarks on what was clipped. Internal."""
    return clip_remarks(*outside(encoding, table))


def clip_remarks(clipped: int, labels: int) -> tuple[str, ...]:
    """The same from the numbers of cells out of their bounds, and of labels in no public list."""
    scaling = "columns are scaled by declared bounds: nothing of the preprocessing is a statistic of the table"
    clipped_cells = (
        f"{clipped} cells lay outside the bounds and were clipped: their figures are those of the clipped values"
    )
    unlisted = f"{labels} labels are in no public list and count as the first level"
    return (scaling, *((clipped_cells,) if clipped else ()), *((unlisted,) if labels else ()))


def spreads(encoding: TableEncoding, table: Table) -> NDArray[np.float64]:
    """(d,) standard deviation of each clipped number, the unit of the reading; 1 for labels. Internal."""
    deviations = []
    for source in encoding.sources:
        if isinstance(source, NumberColumn) and table.kind(source.name) != "bool":
            deviations.append(spread(source.design(table)[:, 0]) * source.scale)
        else:
            deviations += [1.0] * len(source.names)
    return np.array(deviations)
