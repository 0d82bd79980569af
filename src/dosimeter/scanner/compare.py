"""A file's arrays compared with a table: whole rows, single values, levels of lists, and statistics."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.scanner.classify import Siblings, table_of
from dosimeter.scanner.contents import Contents, FileArray
from dosimeter.scanner.finding import Finding, Match
from dosimeter.scanner.known_attributes import EXACT, EXTREME, MOMENT, NOT_IN_TABLE, PEOPLES_EXTREMES, WORD_LISTS
from dosimeter.scanner.row_matching import assign_columns, match, tolerance_of
from dosimeter.scanner.table_views import TableView, encode_labels, numeric_columns, views
from dosimeter.tables.table import Table

_VALUES = ("smallest and largest values", "cut points", "medians", "fill-in values for gaps")
_MOMENTS = ("mean_", "var_", "scale_", "xbar_", "location_", "_x_mean", "_x_std", "X_offset_", "offset")
_ENDS = ("data_min_", "data_max_", "max_abs_", "X_min_", "X_max_")
_THIS_TABLES = "this table's own"
_WORD = re.compile(r"\w\w+")


@dataclass(frozen=True, eq=False)
class Comparison:
    """A table prepared for many comparisons. tolerance: relative; None for what each array's precision allows."""

    table: Table
    contents: Contents
    tolerance: float | None = None

    @cached_property
    def views(self) -> list[TableView]:
        """The table as the file's own steps transform it."""
        return views(self.table, self.contents)

    @cached_property
    def pool(self) -> TableView:
        """The columns of every view, and the labels encoded."""
        file_views = [view for view in self.views if not view.spare]
        all_views = [*file_views, *([code] if (code := encode_labels(self.table)) is not None else [])]
        values = np.column_stack([view.values for view in all_views]) if all_views else np.empty((self.table.n, 0))
        return TableView(
            "column by column", values, np.concatenate([view.slack for view in all_views] or [np.empty(0)])
        )

    @cached_property
    def numbers(self) -> NDArray[np.intp]:
        """(n,) row numbers as a reader of the file counts them, from 1."""
        return self.table.rows + 1

    def match_rows(self, part: FileArray, siblings: Siblings) -> Match | None:
        """The best match of an array's rows with the table's rows; None if no row matches."""
        lines = table_of(part, siblings)
        if lines is None:
            return None
        tolerance = tolerance_of(lines) if self.tolerance is None else self.tolerance
        arrangements = [lines, *_rearrangements(part.values, {view.width for view in self.views})]
        matches: list[Match] = []
        for spare in (False, True):  # guesses only if nothing that the file itself says has matched
            if not any(known.beyond_accident for known in matches):
                matches += self._match_whole_rows(arrangements, tolerance, spare)
        for arrangement in arrangements:
            if len(arrangement) > 1 and not any(known.beyond_accident for known in matches):
                candidate = self._match_by_columns(arrangement, tolerance, len(arrangements))
                matches += [] if candidate is None else [candidate]
        if part.values.ndim == 2 and not any(known.beyond_accident for known in matches):
            # The bytes of a Fortran array under its shape, as safetensors writes a numpy array that is not contiguous.
            mixed = [part.values.reshape(part.values.shape[::-1]).T]
            for spare in (False, True):
                matches += self._match_whole_rows(mixed, tolerance, spare, len(arrangements) + 1)
        return max(matches, key=lambda known: (known.beyond_accident, known.matched, known.exact), default=None)

    def _match_whole_rows(
        self, arrangements: list[NDArray[Any]], tolerance: float, spare: bool, ways: int = 0
    ) -> list[Match]:
        tries = float(np.log((ways or len(arrangements)) * len(self.views)))
        candidates = [
            match(arrangement, view, self.numbers, tolerance, log_tries=tries)
            for arrangement in arrangements
            for view in self.views
            if view.spare == spare and view.width == arrangement.shape[1] >= 2
        ]
        return [candidate for candidate in candidates if candidate is not None]

    def _match_by_columns(self, lines: NDArray[Any], tolerance: float, ways: int) -> Match | None:
        clean = np.asarray(lines, dtype=np.float64)
        clean = _varied_columns(clean[np.isfinite(clean).all(axis=1)])
        # A layer of a network much wider than the table is not made of its columns.
        if not len(clean) or not 2 <= clean.shape[1] <= 2 * self.pool.width:
            return None
        line_columns, table_columns = assign_columns(clean, self.pool, tolerance)
        if len(line_columns) < 2:
            return None
        chosen = TableView(
            f"column by column ({len(line_columns)} of {lines.shape[1]})",
            self.pool.values[:, table_columns],
            self.pool.slack[table_columns],
        )
        tries = len(line_columns) * np.log(self.pool.width) + np.log(ways)
        # Two columns of unrelated rows agree too often.
        ways_alone = float(np.log(ways)) if len(line_columns) > 2 else np.inf
        return match(clean[:, line_columns], chosen, self.numbers, tolerance, float(tries), log_ways=ways_alone)

    def match_values(self, part: FileArray) -> Match | None:
        """Single values (d,) or (k, d): rows that hold them, each in its own column, and rows that alone hold one."""
        if not part.numeric or not 1 <= part.values.ndim <= 2:
            return None
        tolerance = tolerance_of(part.values) if self.tolerance is None else self.tolerance
        lines = np.atleast_2d(part.values).astype(np.float64)
        matches = [self._match_single_values(lines, view, tolerance) for view in self._raw_views(lines.shape[1])]
        best = max(matches, key=lambda candidate: candidate.matched, default=None)
        return best if best is not None and best.matched else None

    def is_absent(self, parts: list[FileArray], names: tuple[str, ...]) -> bool:
        """True if no number of the arrays is in its column (if the file names it) or in any column.

        Compared with the columns as they are, and behind the file's steps.
        """
        if names and set(names) <= set(numeric_columns(self.table)):
            return all(self.match_values(part) is None for part in parts)
        columns = [column for view in self.views if not view.spare for column in np.sort(view.values, axis=0).T]
        for part in parts:
            tolerance = tolerance_of(part.values) if self.tolerance is None else self.tolerance
            wanted = part.values.astype(np.float64).ravel()
            low, high = wanted - tolerance * np.abs(wanted), wanted + tolerance * np.abs(wanted)
            if any((np.searchsorted(c, high, "right") > np.searchsorted(c, low, "left")).any() for c in columns):
                return False
        return bool(columns)

    def _raw_views(self, d: int) -> list[TableView]:
        """Views of d raw columns: those of this width, else the first and the last d columns of all."""
        fitting = [view for view in self.views if view.raw and view.width == d]
        if fitting or not self.views or not 1 <= d < self.views[0].width:
            return fitting
        all_columns = self.views[0].values
        return [
            TableView("as it stands", columns, np.zeros(d), raw=True)
            for columns in (all_columns[:, :d], all_columns[:, -d:])
        ]

    def _match_single_values(self, values: FloatArray, view: TableView, tolerance: float) -> Match:
        rows, unique = np.zeros(self.table.n, dtype=bool), np.zeros(self.table.n, dtype=bool)
        matched, total, exact = 0, 0, True
        for j in range(view.width):
            wanted = _distinct(np.unique(values[np.isfinite(values[:, j]), j]), tolerance)
            order = np.argsort(view.values[:, j], kind="stable")
            column = view.values[order, j]
            low = np.searchsorted(column, wanted - tolerance * np.abs(wanted), "left")
            high = np.searchsorted(column, wanted + tolerance * np.abs(wanted), "right")
            is_held = high > low
            total, matched = total + len(wanted), matched + int(is_held.sum())
            exact = exact and bool((column[low[is_held]] == wanted[is_held]).all())
            rows[order[_between(low, high, len(column))]] = True
            unique[order[low[high - low == 1]]] = True
        view_name = "value by value, each in its own column"
        return Match(
            matched,
            total,
            self._row_numbers(rows),
            self._row_numbers(unique),
            view_name,
            1,
            self.table.n,
            float(matched),
            exact,
            False,
        )

    def _row_numbers(self, rows: NDArray[np.bool_]) -> tuple[int, ...]:
        return tuple(np.sort(self.numbers[rows]).tolist())

    def match_levels(self, part: FileArray) -> Match | None:
        """A list of text or codes: the column that has most of them, and rows whose level no other row has."""
        by_word = part.name in WORD_LISTS
        if part.texts:
            wanted: frozenset[Any] = frozenset(text.strip() for text in part.texts)
            names = [name for name in self.table.names if self.table.kind(name) == "text"]
        else:
            wanted = frozenset(part.values.ravel()[:100_000].astype(np.float64).tolist())
            names = [name for name in self.table.names if self.table.kind(name) != "text"]
        candidates = [self._match_level_rows(wanted, name, by_word) for name in names]
        best = max(candidates, key=lambda candidate: (candidate.matched, -candidate.distinct), default=None)
        # Codes such as 0 and 1 occur in any column of numbers: all of them, and few others, must match.
        enough = 0.5 if part.texts else 1.0
        if best is None or not best.matched or best.matched < enough * best.total:
            return None
        return best if part.texts or best.distinct <= 2 * best.total else None

    def _match_level_rows(self, wanted: frozenset[Any], name: str, by_word: bool) -> Match:
        cells = self.table[name].tolist()
        levels_of_rows = (
            [set(_WORD.findall(cell.lower())) for cell in cells] if by_word else [(_stripped(cell),) for cell in cells]
        )
        counts = Counter(level for levels in levels_of_rows for level in levels if level in wanted)
        unique = np.array([any(counts.get(level) == 1 for level in levels) for levels in levels_of_rows], dtype=bool)
        rows, view_name, distinct = self._row_numbers(unique), "level by level", len(set(cells))
        return Match(len(counts), len(wanted), rows, rows, view_name, 1, distinct, float(len(counts)), True, False)

    def moment_remark(self, part: FileArray) -> str:
        """A remark if means or scales (d,) are those of this table's columns; "" otherwise.

        "" proves nothing: a second step has means of what the first one returned.
        """
        columns = list(numeric_columns(self.table).values())
        if part.name not in _MOMENTS or not part.numeric or part.values.ndim != 1 or not columns:
            return ""
        moments = np.sort(np.array([[c.mean(), c.var(), c.std()] for c in columns]).ravel())
        values = part.values.astype(np.float64)
        above = np.searchsorted(moments, values).clip(1, len(moments) - 1)
        gap = np.minimum(np.abs(values - moments[above - 1]), np.abs(values - moments[above]))
        return _THIS_TABLES if (gap <= 1e-6 * np.abs(values)).all() else ""


def _rearrangements(values: NDArray[Any], widths: set[int]) -> list[NDArray[Any]]:
    """The same numbers arranged otherwise: transposed, by the last axis, or a long list cut into rows."""
    if values.ndim == 2:
        return [values.T]
    if values.ndim > 2:
        return [values.reshape(-1, values.shape[-1])]
    return [values.reshape(-1, d) for d in sorted(widths) if d >= 2 and values.size % d == 0 and values.size > d]


def _varied_columns(lines: FloatArray) -> FloatArray:
    """Without columns of two values, such as indicators of a level: there are many, and they look alike."""
    if len(lines) <= 4:  # then any column has few values
        return lines
    few = ((lines == lines.min(axis=0)) | (lines == lines.max(axis=0))).all(axis=0)
    return lines[:, ~few]


def _between(low: NDArray[np.intp], high: NDArray[np.intp], n: int) -> NDArray[np.bool_]:
    """(n,) whether an index lies in any of the intervals [low, high)."""
    edges = np.zeros(n + 1, dtype=np.intp)
    np.add.at(edges, low, 1)
    np.add.at(edges, high, -1)
    return np.asarray(np.cumsum(edges)[:n] > 0)


def _stripped(cell: Any) -> Any:
    """A level without surrounding blanks, which depend on how it was stored."""
    return cell.strip() if isinstance(cell, str) else cell


def _distinct(values: FloatArray, tolerance: float) -> FloatArray:
    """Sorted values without those that equal the previous one up to rounding."""
    if not len(values):
        return values
    return np.asarray(values[np.append(True, np.diff(values) > tolerance * np.abs(values[1:]))])


def _ends_of_scale(part: FileArray, siblings: Siblings) -> FileArray | None:
    """The extremes that a shift and a scale still say: of MinMaxScaler, min_ = low - smallest * scale_."""
    if part.owner == "MaxAbsScaler" and part.name == "scale_":
        return part
    scale = siblings.get("scale_")
    if part.owner != "MinMaxScaler" or part.name != "min_" or scale is None or scale.shape != part.shape:
        return None
    bounds = siblings.get("feature_range")
    low = float(bounds.values.ravel()[0]) if bounds is not None and bounds.numeric else 0.0
    return replace(part, values=(low - part.values) / scale.values)


def compare(finding: Finding, part: FileArray, comparison: Comparison, siblings: Siblings) -> Finding:
    """The finding with what the table says about it."""
    if finding.severity == "lists":
        table_match = comparison.match_levels(part)
    elif finding.severity == "values of single people":
        compared = part if finding.content in _VALUES else _ends_of_scale(part, siblings)
        table_match = None if compared is None else comparison.match_values(compared)
    else:
        table_match = comparison.match_rows(part, siblings)
        if table_match is not None and not table_match.beyond_accident and finding.severity != "rows":
            table_match = None
    if table_match is not None:
        return replace(finding.with_match(table_match), why=PEOPLES_EXTREMES if finding.why == EXTREME else finding.why)
    if finding.why == EXTREME:
        ends = [siblings[name] for name in _ENDS if name in siblings and siblings[name].numeric]
        names = siblings["feature_names_in_"].texts if "feature_names_in_" in siblings else ()
        absent = comparison.is_absent(ends or [part], names)
        return replace(finding, remark="none is a value of this table", why=NOT_IN_TABLE) if absent else finding
    if finding.severity == "rows":
        return replace(finding, remark="none of this table's rows")
    remark = comparison.moment_remark(part)
    return replace(
        finding, remark=remark, why=EXACT if remark == _THIS_TABLES and finding.why == MOMENT else finding.why
    )
