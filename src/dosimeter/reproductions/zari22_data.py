"""[Zari22] 4.2: the four tables, standardised to unit variance, and how members and strangers are drawn from them.

Section 4.2 does not say: which N, how Adult's categories become numbers (see `adult_codes`), whether rows are centred
on the members' mean (not here: columns have mean 0 over the whole table), and which image of a person.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dosimeter.core.arrays import FloatArray
from dosimeter.datasets import papers
from dosimeter.pca.bounds import Bounds, bounds_of

TRIALS = 10
"""4.2: the mean of 10 trials."""
_SEED = 20220704


@dataclass(frozen=True, eq=False)
class TableStudy:
    """One table."""

    name: str
    X: FloatArray
    """(n, d) unit variance over the whole table; a constant column is 0."""
    sizes: tuple[int, ...]
    """N in figure 1, ascending."""
    N: int
    """In figures 2 to 6; δ = 1/N."""
    trials: int = TRIALS

    @property
    def d(self) -> int:
        """Columns."""
        return int(self.X.shape[1])

    @property
    def alpha(self) -> int:
        """Distinct coefficients of A."""
        return self.d * (self.d + 1) // 2

    @property
    def delta(self) -> float:
        """5.3: δ = 1/N."""
        return 1 / self.N

    def split(self, N: int, trial: int) -> tuple[FloatArray, FloatArray, np.random.Generator]:
        """N members, as many strangers, and the generator to continue with. The same on every machine."""
        rng = np.random.Generator(np.random.PCG64([_SEED, self.d, N, trial]))
        chosen = rng.permutation(len(self.X))[: 2 * N]
        return self.X[chosen[:N]], self.X[chosen[N:]], rng

    @cached_property
    def box(self) -> Bounds:
        """5.2: [l_i, u_i] after standardising, which the paper takes from the data; columns have mean 0."""
        bounds = bounds_of(self.X)
        return Bounds(bounds.lower, bounds.upper, centre=0.0)

    @cached_property
    def ball(self) -> Bounds:
        """5.2, Analyze Gauss: the largest row has norm 1 after division, so C is that norm before it."""
        return Bounds(row_norm=float(np.linalg.norm(self.X, axis=1).max()), centre=0.0)


def standardise(table: ArrayLike) -> FloatArray:
    """Columns of mean 0 and variance 1, (n, d); a constant one is 0.

    >>> standardise([[1.0, 7.0], [3.0, 7.0]]).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    X = np.array(table, dtype=np.float64)
    X -= X.mean(axis=0)
    deviation = X.std(axis=0)
    X /= np.where(deviation > 0, deviation, 1.0)
    return X


_TABLES: dict[str, tuple[Callable[[Path], Any], tuple[int, ...], int]] = {
    "Adult": (lambda data: papers.adult_codes(data)[1], (100, 300, 1000, 5000), 1000),
    "Census": (lambda data: papers.census(data)[1], (100, 200, 500), 500),
    "LFW": (papers.lfw, (200, 500, 1000, 2000), 1000),
    "MNIST": (lambda data: papers.mnist(data)[0], (500, 1000, 2000, 5000), 1000),
}


def studies(data: Path, quick: bool = False) -> tuple[TableStudy, ...]:
    """The four tables, in the order of the figures. Quick: three trials, and N only up to that of section 5."""
    trials = 3 if quick else TRIALS
    return tuple(
        TableStudy(
            name, standardise(load(data)), tuple(size for size in sizes if not quick or size <= main), main, trials
        )
        for name, (load, sizes, main) in _TABLES.items()
    )
