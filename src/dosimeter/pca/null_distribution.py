"""The attack's null distribution: AUC by k, and its maximum, when membership is assigned at random.

The largest AUC over many k is above ½ by chance alone. Here the labels "member" and "stranger" are permuted among the
same rows, many times. Given the components and the residuals of these rows, that is the exact distribution under the
hypothesis that the two groups are exchangeable; for two groups of strangers it is true. If people have several rows,
people are exchangeable rather than rows, so labels are permuted among people: `groups` says whose each row is.
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
from dosimeter.pca.reconstruction import Residuals

Generator = np.random.Generator
_LAST_BIT = np.uint64(1)


@dataclass(frozen=True, eq=False)
class NullBand:
    """AUC of groups assigned at random among the rows.

    Examples
    --------
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
        """Mean of the largest AUC: its value when nothing leaks, instead of ½."""
        return float(self.maxima.mean())

    def high(self, level: float = 0.95) -> float:
        """The quantile of the largest AUC at this level."""
        if not 0 < level < 1:
            raise Refusal(f"level must be between 0 and 1, not {level}")
        return float(np.quantile(self.maxima, level, method="higher"))

    def high_at(self, k: int, level: float = 0.95) -> float:
        """The same for one k, fixed in advance."""
        if not 0 <= k < self.auc.shape[1]:
            raise Refusal(f"k must be between 0 and {self.auc.shape[1] - 1}, not {k}")
        return float(np.quantile(self.auc[:, k], level, method="higher"))

    def p_value(self, maximum: float) -> float:
        """Probability of a largest AUC this high for exchangeable groups, (1 + hits)/(1 + trials): never 0."""
        return float((1 + np.sum(self.maxima >= maximum)) / (1 + len(self.maxima)))

    def __repr__(self) -> str:
        return (
            f"<NullBand of {len(self.auc)} permutations: largest AUC {self.bias:.4g} on average, "
            f"95% below {self.high():.4g}>"
        )


def null_band(
    components: Components | ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    rng: Generator,
    trials: int = 199,
    *,
    groups: Sequence[Hashable] | None = None,
) -> NullBand:
    """The null distribution for groups of the sizes of `first` and `second`, assigned at random among all rows.

    Parameters
    ----------
    components : Components or array_like of shape (d, k)
        Components, or intercepted vectors as columns.
    first, second : array_like of shape (m, d) and (s, d)
        Two groups of strangers give the distribution for people who are not in the table; members and strangers give
        the permutation test.
    rng : numpy.random.Generator
        Permutes the groups. A simulation; nothing is released.
    trials : int, default 199
        Permutations.
    groups : sequence of hashable of length m + s, optional
        Whose each row is, `first` before `second`. Default: each row is another person.

    Returns
    -------
    NullBand

    Raises
    ------
    Refusal
        If trials is below 1, or a person is in both groups.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> null_band(np.eye(3), rng.normal(size=(9, 3)), rng.normal(size=(9, 3)), rng, trials=19).auc.shape
    (19, 4)
    """
    residuals = Residuals.of(components, (first, second))
    permuted = permute_membership(People.of(groups, *(len(g) for g in residuals.groups)), rng, trials)
    auc = np.empty((trials, residuals.rank + 1))
    for k, S in residuals.by_block():
        auc[:, k : k + len(S)] = permutation_auc(np.array([midranks(row) for row in S]), permuted)
    return NullBand(auc)


@dataclass(frozen=True, eq=False)
class People:
    """Whose the rows are.

    >>> People.of(["ann", "ann", "bob", "cem"], 3, 1).person_of_row.tolist()
    [0, 0, 1, 2]
    """

    person_of_row: Index
    """(rows,) the person of each row, numbered in order of appearance: members first."""
    members: int
    """Number of people who are members."""

    @classmethod
    def of(cls, groups: Sequence[Hashable] | None, members: int, strangers: int) -> People:
        """From the owner of each row, `members` rows before `strangers` rows; a person on both sides is refused."""
        if groups is None:
            return cls(np.arange(members + strangers), members)
        if len(groups) != members + strangers:
            raise Refusal(f"groups must name the person of each of {members + strangers} rows, not of {len(groups)}")
        number: dict[Hashable, int] = {}
        person_of_row = np.array([number.setdefault(name, len(number)) for name in groups], dtype=np.intp)
        first = int(person_of_row[:members].max()) + 1
        if (person_of_row[members:] < first).any():
            raise Refusal("a person has rows among both members and strangers: split the rows by person")
        return cls(person_of_row, first)

    @property
    def count(self) -> int:
        """Number of people."""
        return int(self.person_of_row.max()) + 1

    @property
    def choosing_half(self) -> Mask:
        """(rows,) mask of the rows on which k is chosen: those of the first, third, ... person on either side."""
        is_member = self.person_of_row < self.members
        return np.asarray(np.where(is_member, self.person_of_row, self.person_of_row - self.members) % 2 == 0)


def permute_membership(people: People, rng: Generator, trials: int) -> Mask:
    """(rows, trials) mask of the rows labelled "member" in each trial; as many people as there are members."""
    if trials < 1:
        raise Refusal(f"at least one trial is needed, not {trials}")
    shuffle: Callable[[int], FloatArray] = as_generator(rng).permutation
    return np.stack([(shuffle(people.count) < people.members)[people.person_of_row] for _ in range(trials)], axis=1)


def permutation_auc(ranks: FloatArray, permuted: Mask) -> FloatArray:
    """(trials, b) AUC of small residuals from midranks (b, rows): one product for all trials and all k of a block."""
    members = permuted.sum(axis=0).astype(np.float64)
    sums = ranks @ permuted.astype(np.float64)
    return np.asarray((1 - (sums - members * (members + 1) / 2) / (members * (len(permuted) - members))).T)


def midranks(row: FloatArray) -> FloatArray:
    """(n,) rank of each number from 1; equal numbers share their mean rank.

    >>> midranks(np.array([0.3, 0.1, 0.3, 0.2])).tolist()
    [3.5, 1.0, 3.5, 2.0]
    """
    order = np.argsort(row)
    ranked = row[order]
    ranks = np.empty(len(row))
    is_new = ranked[1:] != ranked[:-1]
    if is_new.all():
        ranks[order] = np.arange(1.0, len(row) + 1)
        return ranks
    starts = np.flatnonzero(np.concatenate([[True], is_new]))
    ends = np.append(starts[1:], len(row))
    ranks[order] = np.repeat((starts + 1 + ends) / 2, ends - starts)
    return ranks


def auc_of_small_residuals(row: FloatArray, members: int) -> float:
    """AUC of the rule "a small residual is a member's": the first `members` numbers against the rest, ties count ½.

    Numbers >= 0 sort like their bits. So the last bit can carry the group through one plain sort, a third faster than a
    sort that returns its order. If two neighbours agree in the other 63 bits, ranks decide.

    >>> auc_of_small_residuals(np.array([1.0, 2.0, 2.0, 3.0]), 2)
    0.875
    """
    others = len(row) - members
    keys = row.view(np.uint64) | _LAST_BIT
    keys[members:] ^= _LAST_BIT
    keys.sort()
    high_bits = keys >> _LAST_BIT
    if (high_bits[1:] == high_bits[:-1]).any():
        total = float(midranks(row)[:members].sum())
    else:
        total = float(np.flatnonzero(keys & _LAST_BIT).sum() + members)
    return 1 - (total - members * (members + 1) / 2) / (members * others)
