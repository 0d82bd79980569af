"""Several parties, section 4.1 of [Zari22]: each sends its own components, or all of them only a part of one sum.

A party has fewer rows than all together, and components of few rows tell more. The other protocol sends each party's
second moment with noise on it; only the components of the sum come out. `noisy_moment` is a party's part of it,
`join` the aggregator's; `aggregate` plays both with any protection, to compare.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dosimeter import noise_addition as sampling
from dosimeter.core.arrays import FloatArray
from dosimeter.core.density import as_generator
from dosimeter.core.dose import EventDose
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Noise
from dosimeter.core.release import Release
from dosimeter.pca.accounting import cost
from dosimeter.pca.bounds import Bounds, Box
from dosimeter.pca.components import Components, as_rows, components, components_of, second_moment
from dosimeter.pca.mechanisms import Mechanism
from dosimeter.pca.membership import MembershipByComponents, attack
from dosimeter.pca.null_distribution import Generator
from dosimeter.pca.release import about_mean, release
from dosimeter.pca.sensitivity import Sensitivity

Protect = Callable[[FloatArray, int], FloatArray]
"""What a party does to its second moment (d, d) of n rows before it is sent; symmetric in, symmetric out."""


@dataclass(frozen=True, eq=False)
class InterceptionAttack:
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
) -> InterceptionAttack:
    """Every party sends the components of its own rows (n_p, d); each message is caught and attacked by itself."""
    if not len(parts):
        raise Refusal("there are no parties")
    return InterceptionAttack(
        tuple(attack(components_of(part, centred=centred), part, strangers, rng, trials=trials) for part in parts)
    )


def by_parties(
    X: ArrayLike, strangers: ArrayLike, counts: Sequence[int], rng: Generator, *, trials: int = 99
) -> dict[int, InterceptionAttack]:
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


@dataclass(frozen=True, eq=False)
class NoisyMoment:
    """What one party sends: its noisy second moment and public constants. Nothing else of its rows is in it."""

    release: Release
    """`second_moment` (d, d), `mean` (d,) if it was noised, the public `centre` (d,) and bounds, how they were made."""
    n_samples: int
    """N_p, public."""
    scales: FloatArray
    """(d, d) of the noise on each entry, public."""
    mechanism: Mechanism
    dose: EventDose
    """What it costs the party's rows, or people, also against the aggregator."""
    sensitivity: Sensitivity
    """What one row, or person, can move: public."""
    mean_scale: float = 0.0
    """Of the noise on each entry of the mean; 0 where none is sent."""

    @property
    def delta(self) -> float:
        """δ of the party's own budget."""
        return self.mechanism.budget_delta

    @property
    def epsilon(self) -> float:
        """ε at `delta`, an upper bound."""
        return self.epsilon_at(self.delta)

    def epsilon_at(self, delta: float) -> float:
        """ε at another δ, an upper bound."""
        return cost(self.mechanism, self.scales, self.sensitivity, self.n_samples, delta, self.mean_scale)

    @property
    def variances(self) -> FloatArray:
        """(d, d) of the noise on each entry."""
        return np.asarray(self.mechanism.law(1.0).variance * self.scales**2)  # type: ignore[call-arg]

    @property
    def mean_variance(self) -> float:
        """Of the noise on each entry of the mean."""
        return float(self.mechanism.law(1.0).variance * self.mean_scale**2)  # type: ignore[call-arg]

    def __repr__(self) -> str:
        return f"<NoisyMoment of {self.n_samples} rows (public), {self.mechanism}, {self.dose.adjacency}>"


@dataclass(frozen=True, eq=False)
class AggregatedComponents:
    """The parties' noisy second moments summed, Σ N_p Ã_p / Σ N_p: post-processing, at no further cost."""

    components: Components
    second_moment: FloatArray
    """(d, d)."""
    variances: FloatArray
    """(d, d) of its noise, Σ (N_p/N)² of the parties': public."""
    messages: tuple[NoisyMoment, ...]

    @property
    def delta(self) -> float:
        """The largest δ of the parties' budgets: what `epsilon` is read at."""
        return max(message.delta for message in self.messages)

    @property
    def epsilon(self) -> float:
        """ε at `delta`, the largest of the parties': a unit is with one party, else it pays the sum of its parties."""
        return self.epsilon_at(self.delta)

    def epsilon_at(self, delta: float) -> float:
        """ε at another δ, the largest of the parties'."""
        return max(message.epsilon_at(delta) for message in self.messages)

    @property
    def simulation(self) -> bool:
        """Whether some party drew from a seed: not for release."""
        return any(message.release.recipe.simulation for message in self.messages)

    def __repr__(self) -> str:
        words = ", simulation, not for release" if self.simulation else ""
        n = sum(message.n_samples for message in self.messages)
        return f"<Joined: {len(self.messages)} parties, {n} rows (public), each with noise of its own{words}>"


def noisy_moment(
    X: ArrayLike,
    mechanism: Mechanism,
    *,
    bounds: Bounds,
    person: Sequence[Hashable] | None = None,
    n_samples: int | None = None,
    rng: Generator | None = None,
) -> NoisyMoment:
    """A party's part: rows X (n_p, d) held to the common public bounds, noise on their second moment, both sent.

    With `mechanism.mean_share` a noisy mean is sent too, from the same budget. person, n_samples: as in `release`; N_p
    is public. rng: a simulation, not for release; without it
    the bits come from the operating system. The guarantee is that of the mechanism, whatever the other parties do.

    >>> from dosimeter.pca.mechanisms import AnalyticGaussian
    >>> sent = [noisy_moment(np.eye(3), AnalyticGaussian(1.0, 1e-6), bounds=Bounds(-1.0, 1.0)) for _ in range(2)]
    >>> join(sent)
    <Joined: 2 parties, 6 rows (public), each with noise of its own>
    """
    made = release(X, mechanism, bounds=bounds, person=person, n_samples=n_samples, rng=rng)
    # Not `made` itself: it knows the share of clipped rows, which is the party's own.
    return NoisyMoment(
        made.release, made.n_samples, made.scales, mechanism, made.dose, made.sensitivity, made.mean_scale
    )


def join(messages: Sequence[NoisyMoment]) -> AggregatedComponents:
    """The aggregator's part: components of Σ N_p Ã_p / Σ N_p, about the parties' mean where all of them send one."""
    if not len(messages):
        raise Refusal("there are no parties")
    first = messages[0]
    centre = first.release.values["centre"]
    for message in messages:
        _refuse_unlike(message, first)
    shares = np.array([message.n_samples for message in messages]) / sum(message.n_samples for message in messages)
    moments = np.array([message.release.values["second_moment"] for message in messages])
    total = np.einsum("p,pij->ij", shares, moments)
    variances = np.einsum("p,pij->ij", shares**2, np.array([message.variances for message in messages]))
    if not first.mean_scale:
        return AggregatedComponents(components(total, centre), total, variances, tuple(messages))
    means = np.array([message.release.values["mean"] - centre for message in messages])
    variance = float(shares**2 @ np.array([message.mean_variance for message in messages]))
    found = about_mean(total, shares @ means, variance, _box(first))
    return AggregatedComponents(found, total, variances, tuple(messages))


def _refuse_unlike(message: NoisyMoment, first: NoisyMoment) -> None:
    """Parties whose messages do not make one table, or whose guarantees are not of one kind."""
    mine, theirs = message.release, first.release
    if not np.array_equal(mine.values["centre"], theirs.values["centre"]):
        raise Refusal("the parties must have the same columns about the same public centre: agree on the bounds")
    free = np.empty(0)
    alike = (np.array_equal(mine.values.get(end, free), theirs.values.get(end, free)) for end in ("lower", "upper"))
    if not all(alike) or mine.recipe.settings["row_norm"] != theirs.recipe.settings["row_norm"]:
        raise Refusal("the parties must clip to the same bounds and row norm: agree on them first")
    if message.dose.adjacency != first.dose.adjacency or message.dose.unit != first.dose.unit:
        raise Refusal("the parties must declare the same neighbours and unit: unlike guarantees do not mix")
    if (message.mean_scale > 0) != (first.mean_scale > 0):
        raise Refusal("either all parties send a noisy mean or none does: agree on mean_share")


def _box(message: NoisyMoment) -> Box:
    """The public bounds that came with a message."""
    values, norm = message.release.values, message.release.recipe.settings["row_norm"]
    free = np.full(len(values["centre"]), np.inf)
    bound = math.inf if norm is None else float(norm)
    return Box(values.get("lower", -free), values.get("upper", free), values["centre"], bound)


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
