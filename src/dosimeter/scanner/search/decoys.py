"""How many of a table's values would be in these bytes by accident: measured with values that are not the table's.

A decoy is a number of the same column's size and digits that the table does not hold. If the bytes have nothing to do
with the table, its values and the decoys are equally likely to be found, so among T distinct numbers found, the
table's own are a binomial number with probability M / (M + D), for M values and D decoys.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from dosimeter.core.arrays import FloatArray
from dosimeter.scanner.search.cells import Cells, is_plain

_MOST_DECOYS = 1 << 19
_MOST_PER_CELL = 63
_DECIMALS = 10
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


def decoys(cells: Cells, per_cell: int) -> Cells:
    """A table of decoys: the columns that hold telling values, `per_cell` rows for each of the table's, at most."""
    columns = [j for j in cells.word_columns.tolist() if cells.telling[:, j].any()]
    rng = np.random.Generator(np.random.PCG64(_SEED))
    distinct = [np.unique(cells.values[cells.telling[:, j], j]) for j in columns]
    total = sum(map(len, distinct))
    if not total:
        return Cells((), np.empty((0, 0)))
    known = np.unique(cells.values)
    share = min(min(per_cell, _MOST_PER_CELL), _MOST_DECOYS / total)
    pieces = [_of_column(values, max(1, int(len(values) * share)), known, rng) for values in distinct]
    flat = np.concatenate(pieces)
    return Cells(("decoy",), flat[:, None])


def _of_column(values: FloatArray, count: int, known: FloatArray, rng: np.random.Generator) -> FloatArray:
    """count numbers near those of a column, with its number of decimals, that are not in the table."""
    source = rng.choice(values, size=count)
    places = next((p for p in range(_DECIMALS) if (np.round(values, p) == values).all()), None)
    if places is None:
        moved = source * (1 + rng.uniform(1e-6, 1e-2, count) * rng.choice([-1, 1], count))
    else:
        reach = max(50.0, float(np.ptp(values)) * 10.0**places)
        steps = np.rint(rng.uniform(1, reach, count)) * rng.choice([-1, 1], count)
        moved = np.round(source + steps / 10.0**places, places)
    moved = np.unique(moved[~is_plain(moved) & (moved != np.rint(moved))]) if places != 0 else np.unique(moved)
    return np.asarray(moved[~np.isin(moved, known)])


def decoys_per_cell(found: int) -> int:
    """As many as make a verdict possible: with K for each value, r values found alone have probability (K + 1)^-r."""
    return 1 if found >= 64 else _MOST_PER_CELL
