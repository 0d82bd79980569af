"""How many of a table's values would be in these bytes by accident: measured with values that are not the table's.

A decoy is a number of the same column's size and digits that the table does not hold. If the bytes have nothing to do
with the table, its values and the decoys are equally likely to be found, so among T distinct numbers found, the
table's own are a binomial number with probability M / (M + D), for M values and D decoys.

Rounded numbers of strangers equal some of the table's, and more often in the middle of a column than at its ends. So a
decoy of a rounded value lies close to it (`step_of`), ends with the same digits, and is as likely for a stranger.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from dosimeter.core.arrays import FloatArray
from dosimeter.scanner.search.cells import Cells, decimals, is_plain, step_of

_MOST_DECOYS = 1 << 19
_MOST_PER_CELL = 20
_FARTHEST = 10
"""Steps from a rounded value to its decoys."""
_SEED = 20
"""Fixed: decoys are no secret, and a scan of the same file gives the same figure."""


@dataclass(frozen=True)
class DecoyTest:
    """found: distinct values of the table in the bytes; decoys_found: how many of the decoys are in them."""

    found: int
    values: int
    decoys_found: int
    decoys: int

    @property
    def expected(self) -> float:
        """Values that would be found by accident."""
        return self.decoys_found * self.values / self.decoys if self.decoys else float(self.found)

    @property
    def probability(self) -> float:
        """Of at least this many of the table's own among the values found, if the bytes had nothing to do with it.

        >>> DecoyTest(found=20, values=1000, decoys_found=0, decoys=1000).probability < 1e-6
        True
        """
        if not self.decoys or not self.found:
            return 1.0
        share = self.values / (self.values + self.decoys)
        return float(binom.sf(self.found - 1, self.found + self.decoys_found, share))


@dataclass(frozen=True, eq=False)
class Decoys:
    """cells: the decoys, as a table of one column; paired: (m,) the values of the table that have theirs, in order."""

    cells: Cells
    paired: FloatArray


def decoys(cells: Cells, per_value: int) -> Decoys:
    """`per_value` decoys for each distinct telling value that has that many, of all columns together."""
    columns = [j for j in cells.word_columns.tolist() if cells.telling[:, j].any()]
    rng = np.random.Generator(np.random.PCG64(_SEED))
    distinct = [np.unique(cells.values[cells.telling[:, j], j]) for j in columns]
    rounded = np.empty(0)
    for k, values in enumerate(distinct):
        if decimals(values) is not None:  # a value of two columns counts once
            distinct[k] = np.setdiff1d(values, rounded, assume_unique=True)
            rounded = np.union1d(rounded, values)
    total = sum(map(len, distinct))
    if not total:
        return Decoys(Cells((), np.empty((0, 0))), np.empty(0))
    known = np.unique(cells.values)
    share = min(per_value, _MOST_PER_CELL, _MOST_DECOYS / total)
    pieces: list[Decoys] = []
    for values in distinct:
        if len(values):
            pieces.append(_of_column(values, max(1, int(share)), known, rng))
            if decimals(values) is not None:
                known = np.union1d(known, pieces[-1].cells.values)
    flat = np.concatenate([piece.cells.values.ravel() for piece in pieces])
    if share < 1:
        flat = rng.choice(flat, size=int(len(flat) * share), replace=False)
    return Decoys(Cells(("decoy",), flat[:, None]), np.unique(np.concatenate([piece.paired for piece in pieces])))


def _of_column(values: FloatArray, each: int, known: FloatArray, rng: np.random.Generator) -> Decoys:
    """Numbers near those of a column, with its number of decimals, that are not in the table; `each` for a value.

    A value of a rounded column keeps its decoys to itself, and one whose neighbourhood has not enough of them is left
    out: so there are equally many decoys for each value where values are dense and where they are not.
    """
    places = decimals(values)
    if places is None:
        source = np.repeat(values, each)
        moved = source * (1 + rng.uniform(1e-6, 1e-2, len(source)) * rng.choice([-1, 1], len(source)))
        moved = moved[~is_plain(moved) & (moved != np.rint(moved))]
        at = np.searchsorted(known, moved).clip(0, len(known) - 1)
        return Decoys(Cells(("decoy",), moved[known[at] != moved][:, None]), values)
    step, taken = step_of(values, places), known
    owned = np.zeros(len(values), dtype=np.intp)
    moved_values, owner = [np.empty(0)], [np.empty(0, dtype=np.intp)]
    for distance in range(1, _FARTHEST + 1):
        for sign in (-1, 1):
            open_ = np.flatnonzero(owned < each)
            near = np.round(values[open_] + sign * distance * step, places)
            free = ~is_plain(near) & ((near != np.rint(near)) | (places == 0)) & ~np.isin(near, taken)
            near, first = np.unique(near[free], return_index=True)
            chosen = open_[free][first]
            owned[chosen] += 1
            moved_values.append(near)
            owner.append(chosen)
            taken = np.union1d(taken, near)
    complete = owned == each
    flat = np.concatenate(moved_values)[complete[np.concatenate(owner)]]
    return Decoys(Cells(("decoy",), flat[:, None]), values[complete])


def decoys_per_cell(found: int) -> int:
    """As many as make a verdict possible: with K for each value, r values found alone have probability (K + 1)^-r.

    Around a rounded value there are 20 within `_FARTHEST` steps.
    """
    return 1 if found >= 64 else _MOST_PER_CELL
