"""Groups of people over blocks: the doses of those with one value of a column, or in the lowest or highest tenth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.core.engine import Each, Engine, term
from dosimeter.core.selection import Collected, Counts, quantile
from dosimeter.engines.reading_store import read_readings
from dosimeter.results.groups import FEW, Tenth, kept_groups
from dosimeter.results.linear_parts import GroupFigures
from dosimeter.results.parts import SMALLEST
from dosimeter.tables.data_checks import varies_within
from dosimeter.tables.table import Table

MOST_LEVELS = 50
"""Levels of a column whose groups are compared."""
TENTHS = (0.1, 0.9)


@term
@dataclass(frozen=True)
class FewValues:
    """The distinct values of a column at people's first rows, as long as they are few."""

    values: NDArray[Any] | None
    """Ascending; None if there are more than `most`."""
    most: int

    @classmethod
    def of(cls, values: NDArray[Any], most: int) -> FewValues:
        """Of a column (k,)."""
        if values.dtype.kind == "O":
            levels = sorted(set(values.tolist()))
            return cls(np.array([*levels, None], dtype=object)[:-1] if len(levels) <= most else None, most)
        if len(np.unique(values[:1000])) > most:
            return cls(None, most)
        distinct = np.unique(values)
        return cls(distinct if len(distinct) <= most else None, most)

    def __add__(self, other: FewValues) -> FewValues:
        if self.values is None or other.values is None:
            return FewValues(None, self.most)
        return FewValues.of(np.concatenate([self.values, other.values]), self.most)


@dataclass(frozen=True)
class Group:
    """People by one column: those with a value, or in a tenth."""

    column: str
    label: str
    end: Tenth
    """'' for a value."""
    value: Any

    def members(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """(people,) of the column at their first rows (people,)."""
        if self.end == "lowest tenth":
            return np.asarray(values <= self.value, dtype=bool)
        if self.end == "highest tenth":
            return np.asarray(values >= self.value, dtype=bool)
        return np.asarray(values == self.value, dtype=bool)


@dataclass(frozen=True, eq=False)
class GroupReader:
    """Columns and doses at people's first rows, from the readings that the first pass wrote."""

    folder: Path
    names: tuple[str, ...]
    """Columns whose groups are compared."""
    person: str | None
    groups: tuple[Group, ...] = ()
    bins: tuple[NDArray[np.int64], ...] = field(default_factory=tuple)
    """Wanted bins of each column, or of each group."""

    def _at_first_rows(self, table: Table) -> tuple[dict[str, NDArray[Any]], FloatArray]:
        readings = read_readings(self.folder, int(table.rows[0]))
        order = np.argsort(table.rows, kind="stable")  # rows that were brought together are not ascending
        first = order[np.searchsorted(table.rows, readings["row"], sorter=order)]
        return {name: table[name][first] for name in self.names}, readings["eta"]

    def _numbers(self, table: Table) -> list[FloatArray]:
        columns, _ = self._at_first_rows(table)
        return [np.empty(0) if v.dtype.kind == "O" else v.astype(np.float64) for v in columns.values()]

    def count_values(self, table: Table) -> tuple[Any, ...]:
        """How values spread, which there are if they are few, and whether they change within a person."""
        columns, _ = self._at_first_rows(table)
        few = [FewValues.of(v, 20 * MOST_LEVELS if v.dtype.kind == "O" else FEW) for v in columns.values()]
        varies = [0] * len(columns)
        if self.person is not None:
            ids = table[self.person].tolist()
            varies = [int(varies_within(table[name], ids)) for name in columns]
        counts = [Counts.of(v) for v in self._numbers(table)]
        return Each(tuple(counts)), Each(tuple(few)), np.array(varies, dtype=np.int64)

    def collect_values(self, table: Table) -> tuple[Each]:
        """The values in the wanted bins."""
        pairs = zip(self._numbers(table), self.bins, strict=True)
        return (Each(tuple(Collected.of(v, wanted) for v, wanted in pairs)),)

    def _doses(self, table: Table) -> list[FloatArray]:
        columns, eta = self._at_first_rows(table)
        return [eta[group.members(columns[group.column])] for group in self.groups]

    def count_doses(self, table: Table) -> tuple[Each]:
        """How the doses of each group spread."""
        return (Each(tuple(Counts.of(eta) for eta in self._doses(table))),)

    def collect_doses(self, table: Table) -> tuple[Each]:
        """The doses in the wanted bins."""
        return (Each(tuple(Collected.of(eta, b) for eta, b in zip(self._doses(table), self.bins, strict=True))),)


def block_groups(
    reader: GroupReader,
    parts: Sequence[Any],
    engine: Engine,
    *,
    median: float,
    people: int,
    requested: Sequence[str],
    bounded: bool,
) -> list[GroupFigures]:
    """As `groups.groups` of the whole table, by four passes over the parts. median: of all doses."""
    if median <= 0 or not reader.names:
        return []
    counts, few, varies = engine.sum_over(parts, reader.count_values)
    by_first_row = dict(zip(reader.names, (bool(k) for k in varies), strict=True))
    bins = tuple(c.bins_for(TENTHS) for c in counts.items)
    (collected,) = engine.sum_over(parts, replace(reader, bins=bins).collect_values)
    groups: list[Group] = []
    for name, c, v, f in zip(reader.names, counts.items, collected.items, few.items, strict=True):
        groups += _groups_of(name, c, v, f)
    if not groups:
        return []
    reader = replace(reader, groups=tuple(groups))
    (doses,) = engine.sum_over(parts, reader.count_doses)
    shares = (0.5, 0.99)
    bins = tuple(c.bins_for(shares) for c in doses.items)
    (values,) = engine.sum_over(parts, replace(reader, bins=bins).collect_doses)
    unit = 1.0 if bounded else median
    every = []
    for group, c, v in zip(groups, doses.items, values.items, strict=True):
        asked = group.column in requested
        if c.total >= SMALLEST and (asked or c.total <= people - SMALLEST):
            middle, worst = (quantile(c, v, share) for share in shares)
            every.append(
                GroupFigures(
                    column=group.column,
                    group=group.label,
                    end=group.end,
                    people=c.total,
                    over_median=middle / median,
                    median=middle / unit,
                    worst_1_percent=worst / unit,
                    asked=asked,
                    by_first_row=by_first_row[group.column],
                )
            )
    return kept_groups(every)


def _groups_of(name: str, counts: Counts, collected: Collected, few: FewValues) -> list[Group]:
    if few.values is not None:
        text = few.values.dtype.kind == "O"
        levels = few.values[:MOST_LEVELS]
        return [Group(name, f"= {v}" if text else f"= {float(v) + 0.0:g}", "", v) for v in levels]
    if not counts.total:
        return []
    low, high = (quantile(counts, collected, share) for share in TENTHS)
    return [
        Group(name, f"<= {low:.4g}", "lowest tenth", low),
        Group(name, f">= {high:.4g}", "highest tenth", high),
    ]
