"""Which lines of one array are rows of another, up to rounding, and how many would be so by accident.

Rows are compared through one random projection: rows that agree in every column agree in it too, so a sorted list and
a binary search leave a handful of candidates each, which are then compared column by column. A hash of rounded numbers
would lose pairs that lie on two sides of a rounding edge; a KD-tree grows slow with the number of columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, pdtrc

from dosimeter.core.arrays import FloatArray
from dosimeter.scan.finding import Match
from dosimeter.scan.table_views import TableView

_TOLERANCES = {8: 1e-9, 4: 2e-6, 2: 2e-3}
_PAIRS_AT_ONCE = 2**22
_MOST_PAIRS = 2**26
ACCIDENT = 1e-6
"""A match counts as found when as many would occur by accident with less than this probability."""


def tolerance_of(values: NDArray[Any]) -> float:
    """Relative: what a number loses when it is scaled and stored in this kind.

    A model that was fitted on float32 may keep its numbers as float64: they are then no finer than before.
    """
    if values.dtype.kind != "f" or values.dtype.itemsize not in _TOLERANCES:
        return _TOLERANCES[8]
    if values.dtype.itemsize < 8:
        return _TOLERANCES[values.dtype.itemsize]
    with np.errstate(over="ignore"):
        coarse = (values == values.astype(np.float32)) | ~np.isfinite(values)
    return _TOLERANCES[8] if not coarse.all() or (values == np.round(values)).all() else _TOLERANCES[4]


@dataclass(frozen=True, eq=False)
class Grouped:
    """Rows sorted by their projection and grouped where they are equal.

    order: (n,) rows in the order of their projections; group: (n,) of the sorted rows; first: (g,) places in `order`
    where each group begins.
    """

    order: NDArray[np.intp]
    group: NDArray[np.intp]
    first: NDArray[np.intp]
    projection: FloatArray

    @property
    def representatives(self) -> NDArray[np.intp]:
        """(g,) one row of each group."""
        return self.order[self.first]


def grouped(values: FloatArray, direction: FloatArray) -> Grouped:
    """values (n, d), direction (d,). Rows with a gap or an infinity must have been left out."""
    projection = values @ direction
    order = np.argsort(projection, kind="stable")
    new = np.ones(len(order), dtype=bool)
    if len(order) > 1:
        new[1:] = (values[order[1:]] != values[order[:-1]]).any(axis=1)
    first = np.flatnonzero(new)
    return Grouped(order, np.cumsum(new) - 1, first, projection[order[first]])


def direction_of(values: FloatArray) -> FloatArray:
    """(d,) random, each column brought to size 1. A fixed seed: it decides speed and never the result."""
    size = np.abs(values).max(axis=0)
    drawn = np.random.Generator(np.random.PCG64(20)).uniform(0.5, 1.5, values.shape[1])
    return np.asarray(drawn / np.where(size > 0, size, 1.0))


def equal_pairs(lines: FloatArray, view: TableView, tolerance: float) -> tuple[NDArray[np.intp], Grouped]:
    """(pairs, 2): distinct line i equals distinct row g of the view; and the view's rows grouped. All finite."""
    direction = direction_of(view.values)
    sorted_rows = grouped(view.values, direction)
    # Each column may differ by its share, and the projection's own sum is rounded as well.
    off = tolerance * (np.abs(lines) + view.slack)
    reach = (off + 1e-14 * np.abs(lines) * len(direction)) @ direction
    at = lines @ direction
    low = np.searchsorted(sorted_rows.projection, at - reach, side="left")
    high = np.searchsorted(sorted_rows.projection, at + reach, side="right")
    counts = high - low
    counts[np.cumsum(counts) > _MOST_PAIRS] = 0  # only where a coarse tolerance makes everything alike
    return _verified(lines, view.values[sorted_rows.representatives], off, low, counts), sorted_rows


def _verified(
    lines: FloatArray, rows: FloatArray, off: FloatArray, low: NDArray[np.intp], counts: NDArray[np.intp]
) -> NDArray[np.intp]:
    i = np.repeat(np.arange(len(lines)), counts)
    start = np.repeat(np.cumsum(counts) - counts, counts)
    g = np.repeat(low, counts) + np.arange(len(i)) - start
    keep = np.zeros(len(i), dtype=bool)
    step = max(1, _PAIRS_AT_ONCE // lines.shape[1])
    for at in range(0, len(i), step):
        block = slice(at, at + step)
        keep[block] = (np.abs(lines[i[block]] - rows[g[block]]) <= off[i[block]]).all(axis=1)
    return np.column_stack([i[keep], g[keep]])


def log_accident(view: TableView, sorted_rows: Grouped, tolerance: float, drawn: FloatArray | None = None) -> float:
    """log Σ_g Π_j share_j: the chance that a line of independent columns is a row.

    drawn: (m, d) whose columns the line's values are drawn from, by default the table's own.
    """
    chosen = view.values[sorted_rows.representatives]
    source = view.values if drawn is None else drawn
    log_share = np.zeros(len(chosen))
    for j in range(view.width):
        # Sorted needles: several times faster than the same ones in the order of the rows.
        order = np.argsort(chosen[:, j])
        wanted, column = chosen[order, j], np.sort(source[:, j])
        off = tolerance * (np.abs(wanted) + view.slack[j])
        count = np.searchsorted(column, wanted + off, "right") - np.searchsorted(column, wanted - off, "left")
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
    """What of lines (m, d) the view's rows (n, d) hold; numbers: (n,) how the rows are called. None if nothing.

    log_tries: logarithm of how many ways of comparing there were to choose from; each could have met by accident.
    log_ways: finite where the columns were told by their values, and then without the choices of columns: each was
    made by looking at one column, so they cost nothing against lines that put the file's own columns together anew.
    """
    lines = np.asarray(lines, dtype=np.float64)
    finite = np.isfinite(view.values).all(axis=1)
    if not finite.all():
        view, numbers = TableView(view.how, view.values[finite], view.slack), numbers[finite]
    lines = lines[np.isfinite(lines).all(axis=1)]
    if not len(lines) or not len(view.values):
        return None
    lines = lines[grouped(lines, direction_of(lines)).representatives]
    pairs, rows = equal_pairs(lines, view, tolerance)
    if not len(pairs):
        return None
    found = len(np.unique(pairs[:, 0]))
    chance = len(lines) * float(np.exp(_log_chance(lines, view, rows, tolerance, (log_tries, log_ways))))
    hit, size = np.unique(pairs[:, 1]), np.diff(np.append(rows.first, len(rows.order)))
    inside = np.isin(rows.group, hit)
    alone = inside & (size[rows.group] == 1)
    exact = bool((lines[pairs[:, 0]] == view.values[rows.representatives[pairs[:, 1]]]).all())
    return Match(
        found=found,
        of=len(lines),
        rows=_numbers(numbers, rows.order[inside]),
        alone=_numbers(numbers, rows.order[alone]),
        how=view.how,
        columns=view.width,
        distinct=len(rows.first),
        by_accident=chance,
        exact=exact,
        beyond_accident=bool(pdtrc(found - 1, chance) < ACCIDENT),
    )


def _log_chance(
    lines: FloatArray, view: TableView, rows: Grouped, tolerance: float, log_tries: tuple[float, float]
) -> float:
    """Against the table's own columns or against the file's, whichever is less likely; asking twice doubles it."""
    by_table = log_accident(view, rows, tolerance) + log_tries[0]
    if np.isinf(log_tries[1]):
        return min(0.0, by_table)
    by_file = log_accident(view, rows, tolerance, drawn=lines) + log_tries[1]
    return min(0.0, min(by_table, by_file) + float(np.log(2)))


def _numbers(numbers: NDArray[np.intp], chosen: NDArray[np.intp]) -> tuple[int, ...]:
    return tuple(sorted(int(one) for one in numbers[chosen]))


def assigned(lines: FloatArray, pool: TableView, tolerance: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Columns of the lines beside the columns of the pool that hold their values, each used once.

    Where nothing says which column is which, a sample of each column's values is looked up in every column of the
    pool: the best wins if it holds a tenth of them. Columns with few values look alike and decide nothing.
    """
    budget = 2**22 // max(1, lines.shape[1] * pool.width)
    sample = lines[np.linspace(0, len(lines) - 1, min(len(lines), 64, max(4, budget))).astype(np.intp)]
    share = np.zeros((pool.width, lines.shape[1]))
    for k in range(pool.width):
        column = np.unique(pool.values[:, k])
        if len(column) >= 10:
            off = tolerance * (np.abs(sample) + pool.slack[k])
            held = np.searchsorted(column, sample + off, "right") > np.searchsorted(column, sample - off, "left")
            share[k] = held.mean(axis=0)
    varied = [len(np.unique(column)) >= min(10, (len(lines) + 1) // 2) for column in lines.T]
    share[:, ~np.array(varied)] = 0.0
    best = share.argmax(axis=0)
    strength = share[best, np.arange(lines.shape[1])]
    # The strongest claim on a column of the pool stands.
    order = np.argsort(-strength, kind="stable")
    _, first = np.unique(best[order], return_index=True)
    columns = np.sort(order[first])
    columns = columns[strength[columns] >= 0.1]
    return columns, best[columns]
