"""What the attack shows where there is nothing to show: AUC by k, and its largest, when membership is a coin's choice.

The largest AUC over many k lies above ½ by chance alone. Here the names "member" and "stranger" are dealt anew among
the same rows, many times: the exact distribution, given the components and the residuals of these rows, under the
hypothesis that the two groups are exchangeable. With two groups of strangers the hypothesis is true. Where people have
several rows it is people who are exchangeable, and the names are dealt to them: `groups` says whose each row is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.density import as_generator
from dosimeter.core.errors import Refusal
from dosimeter.pca.components import Components
from dosimeter.pca.reconstruction import Tails

Generator = np.random.Generator
_LAST = np.uint64(1)


@dataclass(frozen=True, eq=False)
class NullBand:
    """AUC of groups that were dealt at random among the rows.

    >>> band = NullBand(np.array([[0.5, 0.52], [0.5, 0.48], [0.5, 0.51]]))
    >>> band.maxima.tolist(), band.p_value(0.53)
    ([0.52, 0.48, 0.51], 0.25)
    """

    auc: FloatArray
    """(trials, r + 1) for k = 0, 1, ..., r."""

    @property
    def maxima(self) -> FloatArray:
        """(trials,) the largest over k = 1, ..., r."""
        return np.asarray(self.auc[:, 1:].max(axis=1))

    @property
    def bias(self) -> float:
        """Mean of the largest AUC: what stands there when nothing leaks, instead of ½."""
        return float(self.maxima.mean())

    def high(self, level: float = 0.95) -> float:
        """What the largest AUC stays below in this share of the trials."""
        if not 0 < level < 1:
            raise Refusal(f"a level lies between 0 and 1, not {level}")
        return float(np.quantile(self.maxima, level, method="higher"))

    def high_at(self, k: int, level: float = 0.95) -> float:
        """The same for one k, fixed beforehand."""
        if not 0 <= k < self.auc.shape[1]:
            raise Refusal(f"k must lie between 0 and {self.auc.shape[1] - 1}, not {k}")
        return float(np.quantile(self.auc[:, k], level, method="higher"))

    def p_value(self, maximum: float) -> float:
        """Chance of a largest AUC as high as this among exchangeable groups, (1 + hits)/(1 + trials): never 0."""
        return float((1 + np.sum(self.maxima >= maximum)) / (1 + len(self.maxima)))

    def __repr__(self) -> str:
        return (
            f"<NullBand of {len(self.auc)} deals: largest AUC {self.bias:.4g} on average, 95% below {self.high():.4g}>"
        )


def null_band(
    seen: Components | ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    rng: Generator,
    trials: int = 199,
    *,
    groups: Sequence[Hashable] | None = None,
) -> NullBand:
    """The band for groups of the sizes of `first` (m, d) and `second` (s, d), dealt among all m + s rows.

    groups: (m + s) whose each row is, those of `first` before those of `second`; without it each row is somebody else.

    Two groups of strangers give it as it is for people who are not there; members and strangers give the permutation
    test. Simulation: the generator deals the groups, nothing is released.
    """
    tails = Tails.of(seen, (first, second))
    deals = deal(People.of(groups, *(len(g) for g in tails.groups)), rng, trials)
    auc = np.empty((trials, tails.rank + 1))
    for k, S in tails.by_block():
        auc[:, k : k + len(S)] = dealt_auc(np.array([midranks(row) for row in S]), deals)
    return NullBand(auc)


@dataclass(frozen=True, eq=False)
class People:
    """Whose the rows are.

    >>> People.of(["ann", "ann", "bob", "cem"], 3, 1).place.tolist()
    [0, 0, 1, 2]
    """

    place: Index
    """(rows,) the person of each row, numbered as they come: members first."""
    members: int
    """How many of the persons are members."""

    @classmethod
    def of(cls, groups: Sequence[Hashable] | None, members: int, strangers: int) -> People:
        """Of so many rows on either side; refused where somebody is on both."""
        if groups is None:
            return cls(np.arange(members + strangers), members)
        if len(groups) != members + strangers:
            raise Refusal(f"groups must say whose each of {members + strangers} rows is, not of {len(groups)}")
        number: dict[Hashable, int] = {}
        place = np.array([number.setdefault(who, len(number)) for who in groups], dtype=np.intp)
        first = int(place[:members].max()) + 1
        if (place[members:] < first).any():
            raise Refusal("somebody has rows among the members and among the strangers: part them by person")
        return cls(place, first)

    @property
    def number(self) -> int:
        """Of persons."""
        return int(self.place.max()) + 1

    @property
    def every_other(self) -> Mask:
        """(rows,) of the first, third, ... person on either side."""
        inside = self.place < self.members
        return np.asarray(np.where(inside, self.place, self.place - self.members) % 2 == 0)


def deal(people: People, rng: Generator, trials: int) -> Mask:
    """(rows, trials) whose rows are called a member's in each trial; as many persons as there are members."""
    if trials < 1:
        raise Refusal(f"at least one trial is needed, not {trials}")
    shuffle: Callable[[int], FloatArray] = as_generator(rng).permutation
    return np.stack([(shuffle(people.number) < people.members)[people.place] for _ in range(trials)], axis=1)


def dealt_auc(ranks: FloatArray, deals: Mask) -> FloatArray:
    """(trials, b) AUC of small residuals from midranks (b, rows): one product for all trials and all k of a block."""
    members = deals.sum(axis=0).astype(np.float64)
    sums = ranks @ deals.astype(np.float64)
    return np.asarray((1 - (sums - members * (members + 1) / 2) / (members * (len(deals) - members))).T)


def midranks(row: FloatArray) -> FloatArray:
    """(n,) rank of each number from 1, equal numbers sharing the mean of theirs.

    >>> midranks(np.array([0.3, 0.1, 0.3, 0.2])).tolist()
    [3.5, 1.0, 3.5, 2.0]
    """
    order = np.argsort(row)
    ranked = row[order]
    ranks = np.empty(len(row))
    fresh = ranked[1:] != ranked[:-1]
    if fresh.all():
        ranks[order] = np.arange(1.0, len(row) + 1)
        return ranks
    starts = np.flatnonzero(np.concatenate([[True], fresh]))
    ends = np.append(starts[1:], len(row))
    ranks[order] = np.repeat((starts + 1 + ends) / 2, ends - starts)
    return ranks


def small_beats(row: FloatArray, members: int) -> float:
    """AUC of "a small residual is a member's": the first `members` numbers against the rest, ties by half.

    Numbers >= 0 are in the order of their bits, so the last bit can carry the group through one plain sort, a third
    faster than one that returns its order. Where two neighbours agree in the other 63 bits, ranks decide.

    >>> small_beats(np.array([1.0, 2.0, 2.0, 3.0]), 2)
    0.875
    """
    others = len(row) - members
    keys = row.view(np.uint64) | _LAST
    keys[members:] ^= _LAST
    keys.sort()
    rest = keys >> _LAST
    if (rest[1:] == rest[:-1]).any():
        total = float(midranks(row)[:members].sum())
    else:
        total = float(np.flatnonzero(keys & _LAST).sum() + members)
    return 1 - (total - members * (members + 1) / 2) / (members * others)
