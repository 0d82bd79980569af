"""A file's parts held against a table: whole rows, single values, levels of lists, and statistics."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.scan.classify import Siblings, table_of
from dosimeter.scan.contents import Contents, FileArray
from dosimeter.scan.finding import Finding, Match
from dosimeter.scan.known_attributes import ELSEWHERE, EXACT, EXTREME, HELD, MOMENT
from dosimeter.scan.row_matching import assigned, match, tolerance_of
from dosimeter.scan.table_views import TableView, encoded, numeric, views
from dosimeter.tables.table import Table

_VALUES = ("smallest and largest values", "cut points", "medians", "what gaps are filled with")
_MOMENTS = ("mean_", "var_", "scale_", "xbar_", "location_", "_x_mean", "_x_std", "X_offset_", "offset")
_ENDS = ("data_min_", "data_max_", "max_abs_", "X_min_", "X_max_")
_OWN = "this table's own"
_WORD = re.compile(r"\w\w+")


@dataclass(frozen=True, eq=False)
class Comparison:
    """A table made ready for many parts. tolerance: relative, None for what each part's own precision allows."""

    table: Table
    contents: Contents
    tolerance: float | None = None

    @cached_property
    def views(self) -> list[TableView]:
        """The table as the file's own steps make it."""
        return views(self.table, self.contents)

    @cached_property
    def pool(self) -> TableView:
        """The columns of every view, and the labels encoded."""
        mine = [view for view in self.views if not view.spare]
        every = [*mine, *([code] if (code := encoded(self.table)) is not None else [])]
        values = np.column_stack([view.values for view in every]) if every else np.empty((self.table.n, 0))
        return TableView("column by column", values, np.concatenate([view.slack for view in every] or [np.empty(0)]))

    @cached_property
    def numbers(self) -> NDArray[np.intp]:
        """(n,) rows as a reader of the file counts them, from 1."""
        return self.table.rows + 1

    def lines(self, part: FileArray, siblings: Siblings) -> Match | None:
        """The best match of a part's lines with the table's rows; None if no line is a row."""
        lines = table_of(part, siblings)
        if lines is None:
            return None
        off = tolerance_of(lines) if self.tolerance is None else self.tolerance
        ways = [lines, *_otherwise(part.values, {view.width for view in self.views})]
        found: list[Match] = []
        for spare in (False, True):  # guesses only where nothing that the file says itself has matched
            if not any(one.beyond_accident for one in found):
                found += self._whole(ways, off, spare)
        for one in ways:
            if len(one) > 1 and not any(known.beyond_accident for known in found):
                found += [met for met in [self._by_columns(one, off, len(ways))] if met is not None]
        return max(found, key=lambda one: (one.beyond_accident, one.found, one.exact), default=None)

    def _whole(self, ways: list[NDArray[Any]], off: float, spare: bool) -> list[Match]:
        tries = float(np.log(len(ways) * len(self.views)))
        tried = [
            match(one, view, self.numbers, off, log_tries=tries)
            for one in ways
            for view in self.views
            if view.spare == spare and view.width == one.shape[1] >= 2
        ]
        return [one for one in tried if one is not None]

    def _by_columns(self, lines: NDArray[Any], off: float, ways: int) -> Match | None:
        clean = np.asarray(lines, dtype=np.float64)
        clean = _telling(clean[np.isfinite(clean).all(axis=1)])
        # A layer of a network far wider than the table is none of its columns put together.
        if not len(clean) or not 2 <= clean.shape[1] <= 2 * self.pool.width:
            return None
        mine, theirs = assigned(clean, self.pool, off)
        if len(mine) < 2:
            return None
        chosen = TableView(
            f"column by column ({len(mine)} of {lines.shape[1]})", self.pool.values[:, theirs], self.pool.slack[theirs]
        )
        tries = len(mine) * np.log(self.pool.width) + np.log(ways)
        ways_alone = (
            float(np.log(ways)) if len(mine) > 2 else np.inf
        )  # two columns of strangers hang together too often
        return match(clean[:, mine], chosen, self.numbers, off, float(tries), log_ways=ways_alone)

    def values(self, part: FileArray) -> Match | None:
        """Single values (d,) or (k, d): which rows hold them, each in its own column, and which alone."""
        if not part.numeric or not 1 <= part.values.ndim <= 2:
            return None
        off = tolerance_of(part.values) if self.tolerance is None else self.tolerance
        lines = np.atleast_2d(part.values).astype(np.float64)
        held = [self._held(lines, view, off) for view in self._raw(lines.shape[1])]
        best = max(held, key=lambda one: one.found, default=None)
        return best if best is not None and best.found else None

    def nowhere(self, parts: list[FileArray], names: tuple[str, ...]) -> bool:
        """Whether no number of the parts stands in its column, where the file names it, else in any column.

        As the columns are, and behind the file's steps.
        """
        if names and set(names) <= set(numeric(self.table)):
            return all(self.values(part) is None for part in parts)
        columns = [column for view in self.views if not view.spare for column in np.sort(view.values, axis=0).T]
        for part in parts:
            off = tolerance_of(part.values) if self.tolerance is None else self.tolerance
            wanted = part.values.astype(np.float64).ravel()
            low, high = wanted - off * np.abs(wanted), wanted + off * np.abs(wanted)
            if any((np.searchsorted(c, high, "right") > np.searchsorted(c, low, "left")).any() for c in columns):
                return False
        return bool(columns)

    def _raw(self, d: int) -> list[TableView]:
        """Views of d raw columns: those of this width, else the first and the last d columns of all."""
        fitting = [view for view in self.views if view.raw and view.width == d]
        if fitting or not self.views or not 1 <= d < self.views[0].width:
            return fitting
        every = self.views[0].values
        return [TableView("as it stands", columns, np.zeros(d), raw=True) for columns in (every[:, :d], every[:, -d:])]

    def _held(self, values: FloatArray, view: TableView, off: float) -> Match:
        rows, alone = np.zeros(self.table.n, dtype=bool), np.zeros(self.table.n, dtype=bool)
        found, of, exact = 0, 0, True
        for j in range(view.width):
            wanted = _apart(np.unique(values[np.isfinite(values[:, j]), j]), off)
            order = np.argsort(view.values[:, j], kind="stable")
            column = view.values[order, j]
            low = np.searchsorted(column, wanted - off * np.abs(wanted), "left")
            high = np.searchsorted(column, wanted + off * np.abs(wanted), "right")
            held = high > low
            of, found = of + len(wanted), found + int(held.sum())
            exact = exact and bool((column[low[held]] == wanted[held]).all())
            rows[order[_between(low, high, len(column))]] = True
            alone[order[low[high - low == 1]]] = True
        how = "value by value, each in its own column"
        return Match(found, of, self._named(rows), self._named(alone), how, 1, self.table.n, float(found), exact, False)

    def _named(self, rows: NDArray[np.bool_]) -> tuple[int, ...]:
        return tuple(np.sort(self.numbers[rows]).tolist())

    def levels(self, part: FileArray) -> Match | None:
        """A list of text or codes: levels of the column that has most of them, and whose level nobody shares."""
        words = part.name in ("vocabulary_", "pool_strings", "feature_names_")
        if part.texts:
            wanted: frozenset[Any] = frozenset(text.strip() for text in part.texts)
            names = [name for name in self.table.names if self.table.kind(name) == "text"]
        else:
            wanted = frozenset(part.values.ravel()[:100_000].astype(np.float64).tolist())
            names = [name for name in self.table.names if self.table.kind(name) != "text"]
        tried = [self._level_rows(wanted, name, words) for name in names]
        best = max(tried, key=lambda one: (one.found, -one.distinct), default=None)
        # Codes such as 0 and 1 are found in any column of numbers; all of them and few others must be.
        enough = 0.5 if part.texts else 1.0
        if best is None or not best.found or best.found < enough * best.of:
            return None
        return best if part.texts or best.distinct <= 2 * best.of else None

    def _level_rows(self, wanted: frozenset[Any], name: str, words: bool) -> Match:
        cells = self.table[name].tolist()
        said = [set(_WORD.findall(cell.lower())) for cell in cells] if words else [(_bare(cell),) for cell in cells]
        counts = Counter(word for one in said for word in one if word in wanted)
        alone = np.array([any(counts.get(word) == 1 for word in one) for one in said], dtype=bool)
        rows, how, distinct = self._named(alone), "level by level", len(set(cells))
        return Match(len(counts), len(wanted), rows, rows, how, 1, distinct, float(len(counts)), True, False)

    def agrees(self, part: FileArray) -> str:
        """Whether means or spreads (d,) are those of this table's columns, in words; "" if that was not found.

        Not finding it says nothing: a second step has means of what the first one made.
        """
        columns = list(numeric(self.table).values())
        if part.name not in _MOMENTS or not part.numeric or part.values.ndim != 1 or not columns:
            return ""
        moments = np.sort(np.array([[c.mean(), c.var(), c.std()] for c in columns]).ravel())
        values = part.values.astype(np.float64)
        after = np.searchsorted(moments, values).clip(1, len(moments) - 1)
        gap = np.minimum(np.abs(values - moments[after - 1]), np.abs(values - moments[after]))
        return _OWN if (gap <= 1e-6 * np.abs(values)).all() else ""


def _otherwise(values: NDArray[Any], widths: set[int]) -> list[NDArray[Any]]:
    """The same numbers in other lines: on their side, by the last axis, a long list cut into rows."""
    if values.ndim == 2:
        return [values.T]
    if values.ndim > 2:
        return [values.reshape(-1, values.shape[-1])]
    return [values.reshape(-1, d) for d in sorted(widths) if d >= 2 and values.size % d == 0 and values.size > d]


def _telling(lines: FloatArray) -> FloatArray:
    """Without columns of two values, such as the levels of a label: they are many, and do not say which they are."""
    if len(lines) <= 4:  # two values are then as many as any column has
        return lines
    few = ((lines == lines.min(axis=0)) | (lines == lines.max(axis=0))).all(axis=0)
    return lines[:, ~few]


def _between(low: NDArray[np.intp], high: NDArray[np.intp], n: int) -> NDArray[np.bool_]:
    """(n,) whether a place lies in any of the intervals [low, high)."""
    edges = np.zeros(n + 1, dtype=np.intp)
    np.add.at(edges, low, 1)
    np.add.at(edges, high, -1)
    return np.asarray(np.cumsum(edges)[:n] > 0)


def _bare(cell: Any) -> Any:
    """Blanks around a level are a matter of how it was stored."""
    return cell.strip() if isinstance(cell, str) else cell


def _apart(values: FloatArray, off: float) -> FloatArray:
    """Sorted values without those that are the one before them up to rounding."""
    if not len(values):
        return values
    return np.asarray(values[np.append(True, np.diff(values) > off * np.abs(values[1:]))])


def compared(finding: Finding, part: FileArray, comparison: Comparison, siblings: Siblings) -> Finding:
    """The finding with what the table says about it."""
    if finding.severity == "lists":
        found = comparison.levels(part)
    elif finding.severity == "values of single people":
        found = comparison.values(part) if finding.what in _VALUES else None
    else:
        found = comparison.lines(part, siblings)
        if found is not None and not found.beyond_accident and finding.severity != "rows":
            found = None
    if found is not None:
        return replace(finding.matched(found), why=HELD if finding.why == EXTREME else finding.why)
    if finding.why == EXTREME:
        ends = [siblings[name] for name in _ENDS if name in siblings and siblings[name].numeric]
        names = siblings["feature_names_in_"].texts if "feature_names_in_" in siblings else ()
        absent = comparison.nowhere(ends or [part], names)
        return replace(finding, remark="none is a value of this table", why=ELSEWHERE) if absent else finding
    if finding.severity == "rows":
        return replace(finding, remark="none of this table's rows")
    said = comparison.agrees(part)
    return replace(finding, remark=said, why=EXACT if said == _OWN and finding.why == MOMENT else finding.why)
