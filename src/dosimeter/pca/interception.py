"""The attack on components that parties send one by one, section 4.1 of [Zari22].

A party has fewer rows than all parties together, and components of few rows leak more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dosimeter.core.arrays import FloatArray
from dosimeter.core.density import as_generator
from dosimeter.core.errors import Refusal
from dosimeter.pca.components import as_rows, components_of
from dosimeter.pca.membership import MembershipByComponents, attack
from dosimeter.pca.null_distribution import Generator


@dataclass(frozen=True, eq=False)
class InterceptionAttack:
    """The membership attack on each party's components, one result per party. Internal: it uses the parties' rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> members, strangers = rng.normal(size=(40, 6)), rng.normal(size=(40, 6))
    >>> intercept_each(share_out(members, 2, rng), strangers, rng, trials=19).maxima.shape
    (2,)
    """

    parties: tuple[MembershipByComponents, ...]
    """One result per party, in the parties' order."""

    @property
    def maxima(self) -> FloatArray:
        """(parties,) largest AUC over k against each party; compare it with `by_chance`."""
        return np.array([p.maximum for p in self.parties])

    @property
    def by_chance(self) -> FloatArray:
        """(parties,) mean of the same maximum when membership is random; higher for smaller parties."""
        return np.array([p.null.bias for p in self.parties])

    @property
    def above_chance(self) -> int:
        """Number of parties whose members the attack detects at the 5 % level, each party tested alone."""
        return sum(p.beats_chance for p in self.parties)

    def __repr__(self) -> str:
        return (
            f"<InterceptionAttack on {len(self.parties)} parties: largest AUC {self.maxima.mean():.4g} on average, "
            f"by chance {self.by_chance.mean():.4g}, {self.above_chance} above chance, lower bound>"
        )


def share_out(X: ArrayLike, parties: int, rng: Generator) -> list[FloatArray]:
    """Split rows among parties at random; their sizes differ by at most one.

    Parameters
    ----------
    X : array_like of shape (N, d)
        All rows.
    parties : int
        Number of parties, from 1 to N // 2.
    rng : numpy.random.Generator
        Shuffles the rows.

    Returns
    -------
    list of ndarray
        The rows of each party, in their original order.

    Raises
    ------
    Refusal
        If a party would get fewer than two rows.

    Examples
    --------
    >>> [len(p) for p in share_out(np.zeros((7, 2)), 3, np.random.default_rng(0))]
    [3, 2, 2]
    """
    table = as_rows(X)
    if not 1 <= parties <= len(table) // 2:
        raise Refusal(
            f"{len(table)} rows can be split among 1 to {len(table) // 2} parties of two rows or more, not {parties}"
        )
    return [table[np.sort(part)] for part in np.array_split(as_generator(rng).permutation(len(table)), parties)]


def intercept_each(
    parts: Sequence[ArrayLike], strangers: ArrayLike, rng: Generator, *, centred: bool = True, trials: int = 99
) -> InterceptionAttack:
    """Attack every party's components separately, as if each message was intercepted.

    Parameters
    ----------
    parts : sequence of array_like
        The rows (n_p, d) of each party.
    strangers : array_like of shape (s, d)
        Rows that no party has.
    rng : numpy.random.Generator
        Permutes membership for the null distribution. A simulation; nothing is released.
    centred : bool, default True
        Whether each party subtracts its mean.
    trials : int, default 99
        Permutations per party.

    Returns
    -------
    InterceptionAttack

    Raises
    ------
    Refusal
        If there are no parties, or too few rows for an interval.

    Notes
    -----
    Section 4.1 of [Zari22].

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> parts, strangers = [rng.normal(size=(20, 6)) for _ in range(3)], rng.normal(size=(40, 6))
    >>> len(intercept_each(parts, strangers, rng, trials=19).parties)
    3
    """
    if not len(parts):
        raise Refusal("there are no parties")
    return InterceptionAttack(
        tuple(attack(components_of(part, centred=centred), part, strangers, rng, trials=trials) for part in parts)
    )


def intercept_by_party_count(
    X: ArrayLike, strangers: ArrayLike, counts: Sequence[int], rng: Generator, *, trials: int = 99
) -> dict[int, InterceptionAttack]:
    """Attack the same rows split among more and more parties: leakage by interception against the number of parties.

    Parameters
    ----------
    X : array_like of shape (N, d)
        All rows.
    strangers : array_like of shape (s, d)
        Rows that no party has.
    counts : sequence of int
        Numbers of parties.
    rng : numpy.random.Generator
        Splits the rows and permutes membership.
    trials : int, default 99
        Permutations per party.

    Returns
    -------
    dict of int to InterceptionAttack
        One attack per count.

    Raises
    ------
    Refusal
        As in `share_out` and `intercept_each`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, strangers = rng.normal(size=(40, 6)), rng.normal(size=(40, 6))
    >>> list(intercept_by_party_count(X, strangers, [1, 4], rng, trials=19))
    [1, 4]
    """
    return {count: intercept_each(share_out(X, count, rng), strangers, rng, trials=trials) for count in counts}
