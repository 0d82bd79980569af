"""Several parties, section 4.1 of [Zari22]: each sends its own components, or all of them only a part of one sum.

A party has fewer rows than all together, and components of few rows tell more. The other protocol sends each party's
second moment with noise on it; only the components of the sum come out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dosimeter import sampling
from dosimeter.core.density import as_generator
from dosimeter.core.noise import Noise
from dosimeter.core.notion import FloatArray
from dosimeter.core.refusal import Refusal
from dosimeter.pca.components import Components, as_rows, components, components_of, second_moment
from dosimeter.pca.membership import MembershipByComponents, attack
from dosimeter.pca.null_band import Generator

Protect = Callable[[FloatArray, int], FloatArray]
"""What a party does to its second moment (d, d) of n rows before it is sent; symmetric in, symmetric out."""


@dataclass(frozen=True, eq=False)
class Interceptions:
    """The attack on each party's components, one by one."""

    parties: tuple[MembershipByComponents, ...]

    @property
    def maxima(self) -> FloatArray:
        """(parties,) largest AUC over k against each party; read it beside `by_chance`."""
        return np.array([p.maximum for p in self.parties])

    @property
    def by_chance(self) -> FloatArray:
        """(parties,) mean of the same figure when membership is dealt at random: smaller parties, higher."""
        return np.array([p.null.bias for p in self.parties])

    @property
    def told_apart(self) -> int:
        """How many parties' members stand out of chance at the 5 % level, each party tested alone."""
        return sum(p.beats_chance for p in self.parties)

    def __repr__(self) -> str:
        return (
            f"<Interceptions of {len(self.parties)} parties: largest AUC {self.maxima.mean():.4g} on average, "
            f"by chance {self.by_chance.mean():.4g}, {self.told_apart} told apart, lower bound>"
        )


def share_out(X: ArrayLike, parties: int, rng: Generator) -> list[FloatArray]:
    """The rows (N, d) dealt to so many parties at random, their sizes differing by one at most.

    >>> [len(p) for p in share_out(np.zeros((7, 2)), 3, np.random.default_rng(0))]
    [3, 2, 2]
    """
    table = as_rows(X)
    if not 1 <= parties <= len(table) // 2:
        raise Refusal(
            f"{len(table)} rows can be shared by 1 to {len(table) // 2} parties, two rows each, not {parties}"
        )
    return [table[np.sort(part)] for part in np.array_split(as_generator(rng).permutation(len(table)), parties)]


def intercept_each(
    parts: Sequence[ArrayLike], strangers: ArrayLike, rng: Generator, *, centred: bool = True, trials: int = 99
) -> Interceptions:
    """Every party sends the components of its own rows (n_p, d); each message is caught and attacked by itself."""
    if not len(parts):
        raise Refusal("there are no parties")
    return Interceptions(
        tuple(attack(components_of(part, centred=centred), part, strangers, rng, trials=trials) for part in parts)
    )


def by_parties(
    X: ArrayLike, strangers: ArrayLike, counts: Sequence[int], rng: Generator, *, trials: int = 99
) -> dict[int, Interceptions]:
    """The same rows shared by more and more parties: what interception tells against their number."""
    return {count: intercept_each(share_out(X, count, rng), strangers, rng, trials=trials) for count in counts}


def aggregate(parts: Sequence[ArrayLike], protect: Protect, centre: ArrayLike | None = None) -> Components:
    """Components of Σ n_p Ã_p / Σ n_p, Ã_p = protect(A_p, n_p): what one sees who sees the aggregator's answer alone.

    Every A_p is about the same public `centre` (0 without one): parties that subtract their own means lose what lies
    between them, and send their means besides. Numbers of rows are public. Each Ã_p is as private as `protect` makes
    it, also against the aggregator; the sum's noise has variance Σ (n_p/N)² σ_p².
    """
    if not len(parts):
        raise Refusal("there are no parties")
    sizes = [len(as_rows(part)) for part in parts]
    sent = [protect(second_moment(part, centre), n) for part, n in zip(parts, sizes, strict=True)]
    if any(S.shape != sent[0].shape for S in sent):
        raise Refusal(f"the parties must have the same columns, not {sorted({S.shape[0] for S in sent})}")
    total: FloatArray = sum(n * S for S, n in zip(sent[1:], sizes[1:], strict=True)) + sizes[0] * sent[0]
    return components(total / sum(sizes), centre)


def simulated(noise: Noise, rng: Generator) -> Protect:
    """Independent noise on one triangle, mirrored. Simulation, not for release: whoever has the seed has the matrix.

    >>> from dosimeter.core.noise import Gaussian
    >>> S = simulated(Gaussian(0.1), np.random.default_rng(0))(np.eye(3), 10)
    >>> bool((S == S.T).all()), bool((S == np.eye(3)).any())
    (True, False)
    """

    def protect(A: FloatArray, n: int) -> FloatArray:
        lower = np.tril_indices(len(A))
        S = np.zeros_like(A)
        S[lower] = sampling.simulate(A[lower], noise, rng)
        return np.asarray(S + np.tril(S, -1).T)

    return protect


def unprotected(A: FloatArray, n: int) -> FloatArray:
    """Sent as it is: safe only where nobody, the aggregator included, sees a single party's matrix."""
    return A
