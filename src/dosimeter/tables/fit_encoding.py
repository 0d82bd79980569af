"""From a table of people to the design matrix of our own fit, and back to the unknowns of a person.

Numbers are standardised, x = (u - centre) / scale. A category of k levels becomes k - 1 columns, the corners of a
simplex (`core/category.py`): -1/2 and 1/2 for two levels, so that penalty, noise and figures do not depend on which
level comes first. A column of two values is a category however it is written: 0 and 1, 0.5 and 7.3, ja and nein.
Leakage of a number is read in its original units u through dx/du, so the figures do not depend on these coordinates.
Centre, scale and levels follow from public bounds (`declared_bounds`), or are taken from the data: then the figure
goes through centre and scale (docs/explanation/scaler.md), and what the levels leak is not covered.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.category import simplex, step_of
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.location import advice
from dosimeter.core.text import safe_text
from dosimeter.tables.table import Table

_DATE = re.compile(r"\d{4}-\d\d?-\d\d?(?:[T ].*)?|\d\d?[./]\d\d?[./]\d{2,4}")


_COMMA = re.compile(r"[+-]?\d*,\d+")
_WHOLE = re.compile(r"[+-]?\d+")
COMMA = "decimal comma: write them with a point (1.5)"

FEW_LEVELS = 10
"""A label with more levels than this, and more than a quarter of the rows, identifies rows rather than groups."""


@dataclass(frozen=True)
class NumberColumn:
    """A column of measured numbers, x = (u - centre) / scale, from public bounds or from the data."""

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

    def design(self, table: Table) -> NDArray[np.float64]:
        """(n, 1)."""
        return ((self.values(table) - self.centre) / self.scale)[:, None]

    def values(self, table: Table) -> NDArray[np.float64]:
        """(n,) in the column's unit, clipped to its bounds."""
        if table.kind(self.name) == "text":
            raise Refusal(f"column {safe_text(self.name)} was a number and is text here: give the same columns")
        u = table[self.name].astype(float)
        return np.asarray(u if self.bounds is None else np.clip(u, *self.bounds))


@dataclass(frozen=True)
class CategoryColumn:
    """A column of labels on the corners of a simplex. Levels are public or taken from the data."""

    name: str
    levels: tuple[str, ...]
    others: int | None = None
    """Position of the level that unlisted labels count as; None refuses them."""

    @property
    def names(self) -> tuple[str, ...]:
        """Each level after the first, "race=white": set against the levels before it."""
        return tuple(f"{self.name}={level}" for level in self.levels[1:])

    def design(self, table: Table) -> NDArray[np.float64]:
        """(n, levels - 1)."""
        levels, position = _levels(table, self.name)
        position_of = {level: j for j, level in enumerate(self.levels)}
        unlisted = [j for j, level in enumerate(levels) if level not in position_of]
        if unlisted and self.others is None:
            row = int(table.rows[np.argmax(np.isin(position, unlisted))])
            where = f"row {row} counted from 0, column {safe_text(self.name)}"
            raise Refusal(f"a level that the fit did not have ({where}): pass the rows that it was fitted on")
        positions = np.array([position_of.get(level, self.others or 0) for level in levels], dtype=np.intp)
        return self.vertices[positions[position]]

    @property
    def vertices(self) -> NDArray[np.float64]:
        """(levels, levels - 1) the corner of each level."""
        return simplex(len(self.levels))


@dataclass(frozen=True)
class Columns:
    """How columns become a design matrix. Holds no rows, only centres, scales and levels.

    constant: columns left out because they have one value, as `notes` report.

    >>> table = Table.of({"age": [40, 60, 36, 64], "race": ["white", "black"] * 2, "one": [1, 1, 1, 1]})
    >>> columns = Columns.of(table)
    >>> columns.names
    ('age', 'race=white')
    >>> columns.design(table)[:2].round(2)
    array([[-0.82,  0.5 ], [ 0.82, -0.5 ]])
    >>> columns.through.round(3)
    array([[0.082, 0.   ], [0.   , 1.   ]])
    >>> columns.blocks
    {'age': (0,), 'race': (1,)}
    >>> columns.notes
    ('column one has one value only and is left out',)
    """

    sources: tuple[NumberColumn | CategoryColumn, ...]
    constant: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.sources:
            raise Refusal("no column varies: there is nothing to fit")
        used: set[str] = set()
        for name in self.names:
            if name in used:
                raise Refusal(f"two numbers of the design are called {safe_text(name)}: rename the column")
            used.add(name)

    @classmethod
    def of(cls, table: Table, *, nominal: Collection[str] = (), max_levels: int = 50) -> Columns:
        """Learn centres, scales and levels; `nominal` names numeric columns whose numbers are only labels."""
        for name in nominal:
            table[name]
        sources: list[NumberColumn | CategoryColumn] = []
        constant = []
        for name in table.names:
            column = table[name]
            if table.n == 0 or (column == column[0]).all():
                constant.append(name)
            elif name in nominal or table.kind(name) == "text":
                sources.append(_nominal(table, name, max_levels, name in nominal))
            else:
                sources.append(_two_values(name, table.observed(name).astype(float)) or _number(name, column))
        return cls(tuple(sources), tuple(constant))

    def design(self, table: Table) -> NDArray[np.float64]:
        """X, (n, d)."""
        return np.concatenate([source.design(table) for source in self.sources], axis=1)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns of X, (d,)."""
        return tuple(name for source in self.sources for name in source.names)

    @property
    def unknowns(self) -> tuple[str, ...]:
        """The unknowns of a person, (m,): each number in its own unit, each coordinate of a simplex. Here m = d."""
        return self.names

    @property
    def centre(self) -> NDArray[np.float64]:
        """(d,); 0 for labels."""
        return np.array([s.centre if isinstance(s, NumberColumn) else 0.0 for s in self.sources for _ in s.names])

    @property
    def scale(self) -> NDArray[np.float64]:
        """(d,); 1 for labels."""
        return np.array([s.scale if isinstance(s, NumberColumn) else 1.0 for s in self.sources for _ in s.names])

    @property
    def fitted(self) -> NDArray[np.bool_]:
        """(d,) which columns of X are standardised by the table's own mean and deviation."""
        return np.array([isinstance(s, NumberColumn) and s.fitted for s in self.sources for _ in s.names])

    @property
    def through(self) -> NDArray[np.float64]:
        """dx/du, (d, m): 1/scale for a number, 1 for a coordinate of a simplex."""
        return np.diag(1.0 / self.scale)

    @property
    def blocks(self) -> dict[str, tuple[int, ...]]:
        """Source column -> positions of its unknowns; a constant column has none and is not listed."""
        spans: dict[str, tuple[int, ...]] = {}
        first = 0
        for source in self.sources:
            spans[source.name] = tuple(range(first, first + len(source.names)))
            first += len(source.names)
        return spans

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of the figures must know about this choice of columns."""
        return tuple(f"column {safe_text(name)} has one value only and is left out" for name in self.constant)

    def block(self, name: str) -> tuple[int, ...]:
        """Positions of a source column among the unknowns; a column that is not in the design is refused."""
        if name not in self.blocks:
            raise Refusal(f"there is no column {safe_text(name)} in the design: {advice(name, self.blocks)}")
        return self.blocks[name]


def _two_values(name: str, u: NDArray[np.float64]) -> NumberColumn | None:
    """A column of two values as -1/2 and 1/2; None if it has more values."""
    step = step_of(u)
    if step is None:
        return None
    low, size = float(u.min()), float(np.abs(u).max())
    _refuse_odd(name, low, step, size)
    return NumberColumn(name, low + step / 2, step, two=True)


def _number(name: str, u: NDArray[np.float64]) -> NumberColumn:
    # Divided by the largest magnitude first: the squares of 1e200 are infinite and those of 1e-200 are zero.
    size = float(np.abs(u).max())
    centre, scale = float((u / size).mean() * size), float((u / size).std() * size)
    _refuse_odd(name, centre, scale, size)
    return NumberColumn(name, centre, scale, fitted=True)


def _refuse_odd(name: str, centre: float, scale: float, size: float) -> None:
    shown = f"column {safe_text(name)}"
    if not 1e-150 < scale < 1e150 or size > 1e150:
        raise Refusal(f"{shown} has a spread of {scale:.3g}: change its units, squares of it leave float64")
    if scale < 1e-12 * size:
        raise Refusal(f"{shown} varies by {scale:.3g} around {centre:.3g}: subtract a fixed number")


def _nominal(table: Table, name: str, max_levels: int, declared: bool) -> CategoryColumn:
    levels, _ = _levels(table, name)
    shown = f"column {safe_text(name)}"
    if not declared and decimal_commas(levels):
        raise Refusal(f"{shown} holds numbers with a {COMMA}")
    if len(levels) > 2 and all(_DATE.fullmatch(level) for level in levels):
        raise Refusal(f"{shown} holds dates: turn them into a number (years, days) or pass {option('exclude')}")
    advise = f"looks like an identifier; pass {option('person')} or {option('exclude')}"
    if len(levels) == table.n:
        raise Refusal(f"{shown} has a different value in each row: {advise}")
    if not declared and max(FEW_LEVELS, table.n // 4) < len(levels) <= max_levels:
        raise Refusal(f"{shown} has {len(levels)} levels in {table.n} rows: {advise}")
    if len(levels) > max_levels:
        raise Refusal(f"{shown} has {len(levels)} levels and at most {max_levels} are taken: {advise}")
    return CategoryColumn(name, levels)


def decimal_commas(cells: Iterable[str]) -> bool:
    """Whether text is all numbers, some of them with a comma where a point belongs.

    >>> decimal_commas(["1,5", "2", "-0,25"]), decimal_commas(["1", "2"])
    (True, False)
    """
    texts = list(cells)
    commas = [bool(_COMMA.fullmatch(cell)) for cell in texts]
    return any(commas) and all(comma or _WHOLE.fullmatch(cell) for comma, cell in zip(commas, texts, strict=True))


def as_text(table: Table, name: str) -> NDArray[np.str_]:
    """(n,) each cell as the text of its level."""
    levels, position = _levels(table, name)
    return np.asarray(levels, dtype=np.str_)[position]


def level_names(table: Table, name: str) -> tuple[str, ...]:
    """The levels of a column as text, in their order."""
    return _levels(table, name)[0]


def _levels(table: Table, name: str) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    """Sorted levels as text, numbers in the order of numbers, and each row's position among them, (n,)."""
    column = table[name]
    if table.kind(name) == "number":
        values, position = np.unique(column, return_inverse=True)
        names = tuple(str(int(v)) if float(v).is_integer() else repr(float(v)) for v in values)
        return names, position.astype(np.intp)
    # A dict and not np.unique, which would sort a million Python strings one comparison at a time.
    cells = [str(cell) for cell in column.tolist()]
    levels = tuple(sorted(set(cells)))
    place = {level: j for j, level in enumerate(levels)}
    return levels, np.fromiter((place[cell] for cell in cells), dtype=np.intp, count=len(cells))
