"""Whether hits stand in the file as rows of the table do, or as its columns.

A hit is a place that holds a value of the table. Hits that follow each other closely and can all be cells of one row
form a chain; a row counts if its chain is the longest at some hit. The expected number of chains by accident is taken
with the hits as they are and their order at random: after a hit, the next one is a cell of the same row with at most
the probability that two cells of a column are equal, so H hits start H m c^(L-1) chains of length L, with m the mean
number of rows that share a value and c the largest such probability.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import pdtrc

from dosimeter.core.arrays import Index
from dosimeter.scanner.search.cells import Cells
from dosimeter.scanner.search.locate import sorted_unique

_GAP = 64
"""Bytes between two hits of one chain: a flag and a count may stand between two measurements."""
_MOST_SHARED = 16
_MOST_LINKS = 1 << 23
_LENGTHS = range(3, 13)
_MOST_REFERENCES = 3
"""Columns that the others are compared with: of a table that is stored by columns, all are in one order."""
_MOST_PAIRS = 1 << 16
_FEWEST_ALIKE, _FEWEST_FOLLOWING, _NEAR = 3, 12, 3
_ROWS = 1 << 31


@dataclass(frozen=True, eq=False)
class Hits:
    """Places of one encoding that hold values of the table, in order.

    offset: (h,); end: (h,) where the value ends; cell, first: the cells with that value, as in `CellNeedles`;
    needle: (h,) which value it is.
    """

    offset: Index
    end: Index
    needle: Index
    cell: Index
    first: Index

    def expanded(self, chosen: Index) -> tuple[Index, Index]:
        """(position in `chosen`, cell) of every cell that each of the chosen hits could be."""
        needle = self.needle[chosen]
        counts = self.first[needle + 1] - self.first[needle]
        position = np.repeat(np.arange(len(chosen)), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return position, self.cell[np.repeat(self.first[needle], counts) + within]


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Rows (from 0) that stand in the file in one piece, the shortest chain that counts, and the accident."""

    rows: Index
    length: int
    expected: float
    probability: float
    columns: Index
    """Columns that stand in the file one value after the other."""
    column_rows: Index
    """Rows of which two and more of those columns hold a cell, if these columns stand in one order."""


def arrangement(hits: Hits, cells: Cells, level: float) -> Arrangement:
    """The rows and columns among the hits; rows only if as many chains occur by accident with less than `level`."""
    chosen = _linkable(hits)
    nothing = np.empty(0, np.intp)
    if len(chosen) < 2:
        return Arrangement(nothing, 0, 0.0, 1.0, nothing, nothing)
    near = hits.offset[chosen][1:] - hits.end[chosen][:-1] <= _GAP
    position, cell = hits.expanded(chosen)
    row, column = np.divmod(cell, max(1, cells.d))
    chain_rows, chain_lengths = _chains(position, row, column, near)
    length, expected, probability = _accident(chain_lengths, len(chosen), len(position), cells, level)
    rows = np.unique(chain_rows[chain_lengths >= length]) if probability < level else nothing
    in_run = _in_column_runs(position, column, near)
    aligned = rows_in_one_order(hits.offset[chosen][position[in_run]], row[in_run], column[in_run])
    return Arrangement(rows, length, expected, probability, np.unique(column[in_run]), aligned)


def _linkable(hits: Hits) -> Index:
    """Hits whose value few rows share; fewer rows if there were too many to follow."""
    counts = hits.first[hits.needle + 1] - hits.first[hits.needle]
    most = _MOST_SHARED
    while most > 1 and counts[counts <= most].sum() > _MOST_LINKS:
        most //= 2
    return np.flatnonzero(counts <= most)[:_MOST_LINKS]


def _chains(position: Index, row: Index, column: Index, near: NDArray[np.bool_]) -> tuple[Index, NDArray[np.intp]]:
    """(row, length) of the chains of two and more hits that are the longest at some hit of theirs."""
    order = np.lexsort((position, row))
    p, r, c = position[order], row[order], column[order]
    follows = np.zeros(len(p), dtype=bool)
    if len(p) > 1:
        follows[1:] = (
            (r[1:] == r[:-1]) & (p[1:] == p[:-1] + 1) & (c[1:] != c[:-1]) & near[p[:-1].clip(0, len(near) - 1)]
        )
    start = np.flatnonzero(~follows)
    length = np.diff(np.append(start, len(p)))
    of_entry = np.repeat(length, length)
    longest = np.zeros(len(near) + 1, dtype=np.intp)
    np.maximum.at(longest, p, of_entry)
    wins = np.add.reduceat((of_entry == longest[p]).astype(np.intp), start) > 0 if len(start) else start > 0
    kept = wins & (length >= 2)
    return r[start[kept]], length[kept]


def _accident(lengths: NDArray[np.intp], hits: int, links: int, cells: Cells, level: float) -> tuple[int, float, float]:
    """The shortest chain that counts, the expected number of such chains, and the probability of as many."""
    collision = max((_collision(cells, j) for j in cells.word_columns), default=1.0)
    shared = links / max(1, hits)
    most = len(cells.word_columns)
    best = (max(2, most), 0.0, 1.0)
    for length in (2,) if most == 2 else _LENGTHS:
        expected = hits * shared * collision ** (length - 1)
        count = int((lengths >= length).sum())
        probability = float(pdtrc(count - 1, expected)) * len(_LENGTHS) if count else 1.0
        if probability < best[2]:
            best = (length, expected, probability)
        if probability < level:
            return length, expected, probability
    return best


def _collision(cells: Cells, j: int) -> float:
    """The probability that two cells of a column are equal, of those that are looked for."""
    _, counts = np.unique(cells.values[~cells.plain[:, j], j], return_counts=True)
    return float((counts / counts.sum()) @ (counts / counts.sum()))


def _in_column_runs(position: Index, column: Index, near: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which entries belong to runs of three or more different values of one column."""
    stride = len(near) + 2
    c, p = np.divmod(sorted_unique(column * stride + position), stride)
    follows = np.zeros(len(p), dtype=bool)
    if len(p) > 1:
        follows[1:] = (c[1:] == c[:-1]) & (p[1:] == p[:-1] + 1) & near[p[:-1].clip(0, len(near) - 1)]
    start = np.flatnonzero(~follows)
    length = np.diff(np.append(start, len(p)))
    in_run = np.repeat(length >= 3, length)
    return np.asarray(np.isin(column * stride + position, c[in_run] * stride + p[in_run]))


def rows_in_one_order(offset: Index, row: Index, column: Index) -> Index:
    """Rows of which two columns hold a cell, where these columns stand in the same order of rows.

    Columns that were sorted or shuffled one by one hold people's values and nobody's row. offset, row, column: (m,) of
    the cells that a place in the file could be.
    """
    columns = np.unique(column)
    _, place, shared = np.unique(offset, return_inverse=True, return_counts=True)
    clear = np.array([(shared[place.ravel()[column == c]] == 1).sum() for c in columns], dtype=np.intp)
    entries = {}
    for c in columns.tolist():
        mine = np.flatnonzero(column == c)
        entries[c] = mine[np.argsort(row[mine], kind="stable")]
    rows: list[Index] = []
    references = columns[np.argsort(-clear, kind="stable")][:_MOST_REFERENCES].tolist()
    for k, a in enumerate(references):
        others = set(columns.tolist()) - set(references[: k + 1])
        rows += [_rows_alike(offset, row, entries[a], entries[b]) for b in sorted(others)]
    return np.unique(np.concatenate(rows)) if rows else np.empty(0, np.intp)


def _rows_alike(offset: Index, row: Index, first: Index, second: Index) -> Index:
    """The common rows of two columns whose cells are equally far from each other, or follow each other alike.

    first, second: entries of each column, by row. None if the columns are in orders of their own.
    """
    low, high = (np.searchsorted(row[second], row[first], side) for side in ("left", "right"))
    counts = high - low
    counts[np.cumsum(counts) > _MOST_PAIRS] = 0
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    a, b = np.repeat(first, counts), second[np.repeat(low, counts) + within]
    common = np.unique(row[a])
    if not len(common):
        return common
    distance = offset[b] - offset[a]
    distances, frequency = np.unique(distance, return_counts=True)
    if frequency.max() >= max(_FEWEST_ALIKE, len(common) / 2):
        return np.unique(row[a][distance == distances[frequency.argmax()]])
    in_order = [_clear_rows(offset, row, entries) for entries in (first, second)]
    together = np.intersect1d(_followers(in_order[0]), _followers(in_order[1]))
    enough = len(together) >= max(_FEWEST_FOLLOWING, min(map(len, in_order)) / 2)
    return np.intersect1d(common, np.concatenate(in_order)) if enough else np.empty(0, np.intp)


def _clear_rows(offset: Index, row: Index, entries: Index) -> Index:
    """The rows of a column in the order of the file, where a cell can be one row's alone."""
    _, place, shared = np.unique(offset[entries], return_inverse=True, return_counts=True)
    alone = np.flatnonzero(shared[place.ravel()] == 1)
    return row[entries][alone[np.argsort(place.ravel()[alone])]]


def _followers(rows: Index) -> Index:
    """Pairs of rows, row * `_ROWS` + row, that follow each other; a column may lack some in between."""
    return np.unique(np.concatenate([rows[:-step] * _ROWS + rows[step:] for step in range(1, _NEAR + 1)]))
