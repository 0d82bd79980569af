"""Which fold of a cross-validation a person is in: by a public rule, the same in memory and over blocks.

Up to `MANY` people are shuffled by a public seed and assigned in turn. Of more people nothing is shuffled: the number
of a person's first row decides, so that a block of rows needs no other. Of every `folds` consecutive numbers each fold
has one, in an order that a hash of their quotient chooses; so folds of rows are equally large, and no period of the
table falls into one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import Index
from dosimeter.core.errors import Refusal

FOLDS = 5
MANY = 1 << 16
"""People above which nothing is shuffled."""
TOO_FEW = "cross-validation needs at least two people: with one there is nobody left to learn from"


@dataclass(frozen=True, eq=False)
class FoldRule:
    """The fold of each person from the number of their first row.

    >>> FoldRule.of(np.array([0, 3, 4])).folds_of(np.array([4, 0])).tolist()
    [1, 2]
    """

    folds: int
    """Number of folds."""
    first: NDArray[np.int64] | None = None
    """First rows of all people, ascending, if they are few."""
    assigned: Index | None = None
    """Their folds."""

    @classmethod
    def of(cls, first: NDArray[np.int64] | int, folds: int = FOLDS) -> FoldRule:
        """From the first rows of all people, ascending, or from their number if they are more than MANY."""
        people = first if isinstance(first, int) else len(first)
        if people < 2:
            raise Refusal(TOO_FEW)
        folds = min(folds, people)
        if people > MANY or isinstance(first, int):
            return cls(folds)
        return cls(folds, np.asarray(first, dtype=np.int64), shuffled(people, folds))

    def folds_of(self, first: NDArray[np.int64]) -> Index:
        """(k,) the folds of people with these first rows."""
        if self.first is None or self.assigned is None:
            return by_number(first, self.folds)
        return np.asarray(self.assigned[np.searchsorted(self.first, first)])


def shuffled(people: int, folds: int) -> Index:
    """(people,) the fold of each by a shuffle with a public seed."""
    return np.asarray(np.random.Generator(np.random.PCG64(0)).permutation(people) % folds, dtype=np.intp)


def by_number(numbers: NDArray[Any], folds: int) -> Index:
    """(k,) the fold of each number: a hash of number // folds orders the folds of these `folds` numbers.

    >>> by_number(np.arange(6), 3).reshape(2, 3).tolist()
    [[0, 2, 1], [2, 1, 0]]
    """
    orders = np.array(list(permutations(range(folds))), dtype=np.intp)
    quotient, rest = np.divmod(np.asarray(numbers, dtype=np.uint64), np.uint64(folds))
    chosen = (mixed(quotient) % np.uint64(len(orders))).astype(np.intp)
    return np.asarray(orders[chosen, rest.astype(np.intp)])


def mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64: every bit of the input changes half of those of the result."""
    z = x + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))
