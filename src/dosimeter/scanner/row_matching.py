"""Which rows of one array are rows of another, up to rounding, and how many would match by accident.

Rows are compared through one random projection: rows that agree in every column agree in it too, so sorting and a
binary search leave a few candidates each, which are then compared column by column. A hash of rounded numbers would
miss pairs on two sides of a rounding edge; a KD-tree is slow for many columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, pdtrc

from dosimeter.core.arrays import FloatArray
from dosimeter.scanner.finding import Match
from dosimeter.scanner.table_views import TableView

_TOLERANCES = {8: 1e-9, 4: 2e-6, 2: 2e-3}
_PAIRS_AT_ONCE = 2**22
_MOST_PAIRS = 2**26
ACCIDENT = 1e-6
"""A match counts if as many matches would occur by accident with a probability below this."""


_BFLOAT16 = 5e-3


def tolerance_of(values: NDArray[Any]) -> float:
    """Relative: what a number loses when it is scaled and stored in this type.

    A model that was fitted on float32 may store its numbers as float64: they are still no finer.
    """
    if values.dtype.kind != "f" or values.dtype.itemsize not in _TOLERANCES:
        return _TOLERANCES[8]
    if values.dtype.itemsize < 8:
        return _BFLOAT16 if _is_bfloat16(values) else _TOLERANCES[values.dtype.itemsize]
    with np.errstate(over="ignore"):
        coarse = (values == values.astype(np.float32)) | ~np.isfinite(values)
    return _TOLERANCES[8] if not coarse.all() or (values == np.round(values)).all() else _TOLERANCES[4]


def _is_bfloat16(values: NDArray[Any]) -> bool:
    """Whether these are float32 whose lower halves are empty, as numbers are that were bfloat16."""
    if values.dtype.itemsize != 4 or not values.size:
        return False
    return not (np.ascontiguousarray(values, dtype=np.float32).view(np.uint32) & 0xFFFF).any()


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """Rows sorted by their projection; equal rows form a group.

    order: (n,) rows in the order of their projections; group: (n,) group of each sorted row; first: (g,) index in
    `order` where each group starts.
    """

    order: NDArray[np.intp]
    group: NDArray[np.intp]
    first: NDArray[np.intp]
    projection: FloatArray

    @property
    def representatives(self) -> NDArray[np.intp]:
        """(g,) one row of each group."""
        return self.order[self.first]


def group_rows(values: FloatArray, direction: FloatArray) -> GroupedRows:
    """values (n, d), direction (d,). Rows with a gap or an infinity must have been removed."""
    projection = values @ direction
    order = np.argsort(projection, kind="stable")
    new = np.ones(len(order), dtype=bool)
    if len(order) > 1:
        new[1:] = (values[order[1:]] != values[order[:-1]]).any(axis=1)
    first = np.flatnonzero(new)
    return GroupedRows(order, np.cumsum(new) - 1, first, projection[order[first]])


def direction_of(values: FloatArray) -> FloatArray:
    """(d,) random, each column scaled to size 1. The fixed seed affects speed and never the result."""
    size = np.abs(values).max(axis=0)
    weights = np.random.Generator(np.random.PCG64(20)).uniform(0.5, 1.5, values.shape[1])
    return np.asarray(weights / np.where(size > 0, size, 1.0))


def equal_pairs(lines: FloatArray, view: TableView, tolerance: float) -> tuple[NDArray[np.intp], GroupedRows]:
    """(pairs, 2): row i of `lines` equals distinct row g of the view; and the view's rows, grouped. All finite."""
    direction, sorted_rows = _sorted(view)
    # Each column may differ by its tolerance, and the sum of the projection is rounded too.
    allowed = tolerance * (np.abs(lines) + view.slack)
    reach = (allowed + 1e-14 * np.abs(lines) * len(direction)) @ direction
    projections = lines @ direction
    low = np.searchsorted(sorted_rows.projection, projections - reach, side="left")
    high = np.searchsorted(sorted_rows.projection, projections + reach, side="right")
    counts = high - low
    counts[np.cumsum(counts) > _MOST_PAIRS] = 0  # only if a coarse tolerance makes everything alike
    return _verify_pairs(lines, view.values[sorted_rows.representatives], allowed, low, counts), sorted_rows


def _sorted(view: TableView) -> tuple[FloatArray, GroupedRows]:
    """A direction and the view's rows along it, for all the arrays that are compared with it."""
    if view not in _SORTED:
        direction = direction_of(view.values)
        _SORTED[view] = direction, group_rows(view.values, direction)
    return _SORTED[view]


def _finite(view: TableView) -> tuple[TableView, NDArray[np.bool_]]:
    """The rows of the view without gaps and infinities, and which they are."""
    if view not in _FINITE:
        finite = np.asarray(np.isfinite(view.values).all(axis=1))
        kept = view if finite.all() else TableView(view.description, view.values[finite], view.slack)
        # A view that refers to itself would stay for ever.
        _FINITE[view] = (None if kept is view else kept), finite
    kept_view, finite = _FINITE[view]
    return view if kept_view is None else kept_view, finite


_SORTED: WeakKeyDictionary[TableView, tuple[FloatArray, GroupedRows]] = WeakKeyDictionary()
_ACCIDENT: WeakKeyDictionary[TableView, dict[float, float]] = WeakKeyDictionary()
_FINITE: WeakKeyDictionary[TableView, tuple[TableView | None, NDArray[np.bool_]]] = WeakKeyDictionary()


def _verify_pairs(
    lines: FloatArray, rows: FloatArray, allowed: FloatArray, low: NDArray[np.intp], counts: NDArray[np.intp]
) -> NDArray[np.intp]:
    i = np.repeat(np.arange(len(lines)), counts)
    group_start = np.repeat(np.cumsum(counts) - counts, counts)
    g = np.repeat(low, counts) + np.arange(len(i)) - group_start
    keep = np.zeros(len(i), dtype=bool)
    step = max(1, _PAIRS_AT_ONCE // lines.shape[1])
    for start_of_block in range(0, len(i), step):
        block = slice(start_of_block, start_of_block + step)
        keep[block] = (np.abs(lines[i[block]] - rows[g[block]]) <= allowed[i[block]]).all(axis=1)
    return np.column_stack([i[keep], g[keep]])


def log_accident(
    view: TableView, sorted_rows: GroupedRows, tolerance: float, columns: FloatArray | None = None
) -> float:
    """log Σ_g Π_j share_j: the log probability that a row of independent columns is a row of the view.

    columns: (m, d) whose columns the row's values are drawn from; by default the table's own.
    """
    distinct_rows = view.values[sorted_rows.representatives]
    source = view.values if columns is None else columns
    log_share = np.zeros(len(distinct_rows))
    for j in range(view.width):
        # Sorted needles are several times faster than the same ones in the order of the rows.
        order = np.argsort(distinct_rows[:, j])
        wanted, column = distinct_rows[order, j], np.sort(source[:, j])
        allowed = tolerance * (np.abs(wanted) + view.slack[j])
        count = np.searchsorted(column, wanted + allowed, "right") - np.searchsorted(column, wanted - allowed, "left")
        log_share[order] += np.log(np.maximum(count, 1) / len(column))
    return float(logsumexp(log_share))


def match(
    lines: NDArray[Any],
    view: TableView,
    numbers: NDArray[np.intp],
    tolerance: float,
    log_tries: float = 0.0,
    log_ways: float = np.inf,
) -> Match | None:
    """How rows `lines` (m, d) match the view's rows (n, d); numbers: (n,) numbers of those rows. None if none does.

    log_tries: logarithm of the number of comparisons to choose from; each could match by accident.
    log_ways: finite if columns were identified by their values; then without the choices of columns. Each of those was
    made by looking at one column, so they cost nothing against rows that recombine the file's own columns.
    """
    lines = np.asarray(lines, dtype=np.float64)
    view, finite = _finite(view)
    numbers = numbers[finite]
    lines = lines[np.isfinite(lines).all(axis=1)]
    if not len(lines) or not len(view.values):
        return None
    lines = lines[group_rows(lines, direction_of(lines)).representatives]
    pairs, rows = equal_pairs(lines, view, tolerance)
    if not len(pairs):
        return None
    matched = len(np.unique(pairs[:, 0]))
    chance = len(lines) * float(np.exp(_log_chance(lines, view, rows, tolerance, (log_tries, log_ways))))
    matching_groups, size = np.unique(pairs[:, 1]), np.diff(np.append(rows.first, len(rows.order)))
    is_matching = np.isin(rows.group, matching_groups)
    is_unique = is_matching & (size[rows.group] == 1)
    exact = bool((lines[pairs[:, 0]] == view.values[rows.representatives[pairs[:, 1]]]).all())
    return Match(
        matched=matched,
        total=len(lines),
        rows=_sorted_numbers(numbers, rows.order[is_matching]),
        unique_rows=_sorted_numbers(numbers, rows.order[is_unique]),
        view=view.description,
        columns=view.width,
        distinct=len(rows.first),
        by_accident=chance,
        exact=exact,
        beyond_accident=bool(pdtrc(matched - 1, chance) < ACCIDENT),
    )


def _log_chance(
    lines: FloatArray, view: TableView, rows: GroupedRows, tolerance: float, log_tries: tuple[float, float]
) -> float:
    """Against the table's own columns or the file's, whichever is less likely; using two doubles the probability."""
    known = _ACCIDENT.setdefault(view, {})
    if tolerance not in known:
        known[tolerance] = log_accident(view, rows, tolerance)
    by_table = known[tolerance] + log_tries[0]
    if np.isinf(log_tries[1]):
        return min(0.0, by_table)
    by_file = log_accident(view, rows, tolerance, columns=lines) + log_tries[1]
    return min(0.0, min(by_table, by_file) + float(np.log(2)))


def _sorted_numbers(numbers: NDArray[np.intp], chosen: NDArray[np.intp]) -> tuple[int, ...]:
    return tuple(sorted(int(number) for number in numbers[chosen]))


def assign_columns(lines: FloatArray, pool: TableView, tolerance: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Columns of `lines`, and the columns of the pool that hold their values, each used once.

    If nothing says which column is which, a sample of each column's values is looked up in every column of the pool:
    the best one wins if it holds a tenth of them. Columns with few values look alike and are ignored.
    """
    budget = 2**22 // max(1, lines.shape[1] * pool.width)
    sample = lines[np.linspace(0, len(lines) - 1, min(len(lines), 64, max(4, budget))).astype(np.intp)]
    share = np.zeros((pool.width, lines.shape[1]))
    for k in range(pool.width):
        column = np.unique(pool.values[:, k])
        if len(column) >= 10:
            allowed = tolerance * (np.abs(sample) + pool.slack[k])
            is_held = np.searchsorted(column, sample + allowed, "right") > np.searchsorted(
                column, sample - allowed, "left"
            )
            share[k] = is_held.mean(axis=0)
    varied = [len(np.unique(column)) >= min(10, (len(lines) + 1) // 2) for column in lines.T]
    share[:, ~np.array(varied)] = 0.0
    best = share.argmax(axis=0)
    strength = share[best, np.arange(lines.shape[1])]
    # The strongest claim on a column of the pool wins.
    order = np.argsort(-strength, kind="stable")
    _, first = np.unique(best[order], return_index=True)
    columns = np.sort(order[first])
    columns = columns[strength[columns] >= 0.1]
    return columns, best[columns]
