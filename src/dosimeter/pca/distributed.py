"""Components of the rows of several parties, section 4.1 of [Zari22]: each sends a noisy part of one common sum.

Each party sends its second moment with noise on it, and only the components of the sum are published. `noisy_moment` is
the party's part, `join` the aggregator's. `aggregate` plays both with any protection, for comparison. Parties that send
their own components instead are attacked in `pca/interception.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dosimeter import noise_addition
from dosimeter.core.arrays import FloatArray
from dosimeter.core.dose import EventDose
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Noise
from dosimeter.core.release import Release
from dosimeter.pca.accounting import cost
from dosimeter.pca.bounds import Bounds, Box
from dosimeter.pca.components import Components, as_rows, components, second_moment
from dosimeter.pca.mechanism import Mechanism
from dosimeter.pca.null_distribution import Generator
from dosimeter.pca.release import components_about_mean, release
from dosimeter.pca.sensitivity import Sensitivity

Protect = Callable[[FloatArray, int], FloatArray]
"""What a party does to its second moment (d, d) of n rows before sending it; symmetric in, symmetric out."""


def aggregate(parts: Sequence[ArrayLike], protect: Protect, centre: ArrayLike | None = None) -> Components:
    """Components of the parties' protected second moments, Σ n_p Ã_p / Σ n_p with Ã_p = protect(A_p, n_p).

    Parameters
    ----------
    parts : sequence of array_like
        The rows (n_p, d) of each party; the numbers of rows are public.
    protect : callable
        (A_p, n_p) -> Ã_p, symmetric. Each Ã_p is as private as `protect` makes it, also against the aggregator.
    centre : array_like of shape (d,), optional
        One public point for all A_p; default 0. Parties that subtract their own means lose the variation between
        parties, and would have to send their means too.

    Returns
    -------
    Components
        What a reader of the aggregator's answer sees. The sum's noise has variance Σ (n_p/N)² σ_p².

    Raises
    ------
    Refusal
        If there are no parties, or their columns differ.

    Examples
    --------
    >>> aggregate([[[1.0, 0.0]], [[3.0, 0.0]]], no_protection).values.tolist()
    [5.0, 0.0]
    """
    if not len(parts):
        raise Refusal("there are no parties")
    sizes = [len(as_rows(part)) for part in parts]
    protected = [protect(second_moment(part, centre), n) for part, n in zip(parts, sizes, strict=True)]
    if any(S.shape != protected[0].shape for S in protected):
        raise Refusal(f"the parties must have the same columns, not {sorted({S.shape[0] for S in protected})}")
    total: FloatArray = sum(n * S for S, n in zip(protected[1:], sizes[1:], strict=True)) + sizes[0] * protected[0]
    return components(total / sum(sizes), centre)


@dataclass(frozen=True, eq=False)
class NoisyMoment:
    """What one party sends: its noisy second moment and public constants, and nothing else about its rows.

    Examples
    --------
    >>> from dosimeter.pca.mechanisms import AnalyticGaussian
    >>> noisy_moment(np.eye(3), AnalyticGaussian(1.0, 1e-6), bounds=Bounds(-1.0, 1.0)).n_samples
    3
    """

    release: Release
    """`second_moment` (d, d), `mean` (d,) if it was noised, the public `centre` (d,) and bounds, and the recipe."""
    n_samples: int
    """N_p, public."""
    scales: FloatArray
    """(d, d) scale of the noise on each entry, public."""
    mechanism: Mechanism
    dose: EventDose
    """The privacy cost to the party's rows, or people, also against the aggregator."""
    sensitivity: Sensitivity
    """The most that one row, or person, can move: public."""
    mean_scale: float = 0.0
    """Scale of the noise on each entry of the mean; 0 if none is sent."""

    @property
    def delta(self) -> float:
        """δ of the party's budget."""
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
        """(d, d) variance of the noise on each entry."""
        return np.asarray(self.mechanism.law(1.0).variance * self.scales**2)  # type: ignore[call-arg]

    @property
    def mean_variance(self) -> float:
        """Variance of the noise on each entry of the mean."""
        return float(self.mechanism.law(1.0).variance * self.mean_scale**2)  # type: ignore[call-arg]

    def __repr__(self) -> str:
        return f"<NoisyMoment of {self.n_samples} rows (public), {self.mechanism}, {self.dose.adjacency}>"


@dataclass(frozen=True, eq=False)
class AggregatedComponents:
    """Components of the parties' noisy second moments, Σ N_p Ã_p / Σ N_p: post-processing, at no further privacy cost.

    Examples
    --------
    >>> from dosimeter.pca.mechanisms import AnalyticGaussian
    >>> message = noisy_moment(np.eye(3), AnalyticGaussian(1.0, 1e-6), bounds=Bounds(-1.0, 1.0))
    >>> round(join([message, message]).epsilon, 6)
    1.0
    """

    components: Components
    second_moment: FloatArray
    """(d, d)."""
    variances: FloatArray
    """(d, d) variance of its noise, Σ (N_p/N)² times the parties': public."""
    messages: tuple[NoisyMoment, ...]

    @property
    def delta(self) -> float:
        """The largest δ of the parties' budgets, at which `epsilon` is read."""
        return max(message.delta for message in self.messages)

    @property
    def epsilon(self) -> float:
        """ε at `delta`, the largest of the parties', if a unit is with one party; else the unit pays the sum."""
        return self.epsilon_at(self.delta)

    def epsilon_at(self, delta: float) -> float:
        """ε at another δ, the largest of the parties'."""
        return max(message.epsilon_at(delta) for message in self.messages)

    @property
    def simulation(self) -> bool:
        """Whether a party drew its noise from a seed: not for release."""
        return any(message.release.recipe.simulation for message in self.messages)

    def __repr__(self) -> str:
        note = ", simulation, not for release" if self.simulation else ""
        n = sum(message.n_samples for message in self.messages)
        return (
            f"<AggregatedComponents of {len(self.messages)} parties, {n} rows (public), each with its own noise{note}>"
        )


def noisy_moment(
    X: ArrayLike,
    mechanism: Mechanism,
    *,
    bounds: Bounds,
    person: Sequence[Hashable] | None = None,
    n_samples: int | None = None,
    rng: Generator | None = None,
) -> NoisyMoment:
    """A party's part: clip its rows to the common public bounds and add noise to their second moment.

    Parameters
    ----------
    X : array_like of shape (n_p, d)
        The party's rows.
    mechanism : Mechanism
        Budget and noise. With `mechanism.mean_share` a noisy mean is sent too, from the same budget.
    bounds : Bounds
        Public, the same for all parties.
    person : sequence of hashable, optional
        Whose each row is, as in `release`.
    n_samples : int, optional
        N_p, public, as in `release`.
    rng : numpy.random.Generator, optional
        A simulation, not for release. Default: random bits from the operating system.

    Returns
    -------
    NoisyMoment
        With the mechanism's guarantee, whatever the other parties do.

    Raises
    ------
    Refusal
        As in `release`.

    Examples
    --------
    >>> from dosimeter.pca.mechanisms import AnalyticGaussian
    >>> messages = [noisy_moment(np.eye(3), AnalyticGaussian(1.0, 1e-6), bounds=Bounds(-1.0, 1.0)) for _ in range(2)]
    >>> join(messages)
    <AggregatedComponents of 2 parties, 6 rows (public), each with its own noise>
    """
    private_pca = release(X, mechanism, bounds=bounds, person=person, n_samples=n_samples, rng=rng)
    # Not `private_pca` itself: it knows the share of clipped rows, which is private to the party.
    return NoisyMoment(
        private_pca.release,
        private_pca.n_samples,
        private_pca.scales,
        mechanism,
        private_pca.dose,
        private_pca.sensitivity,
        private_pca.mean_scale,
    )


def join(messages: Sequence[NoisyMoment]) -> AggregatedComponents:
    """The aggregator's part: components of Σ N_p Ã_p / Σ N_p, about the parties' mean if all of them send one.

    Parameters
    ----------
    messages : sequence of NoisyMoment
        One per party.

    Returns
    -------
    AggregatedComponents

    Raises
    ------
    Refusal
        If there are no messages, or their bounds, units or neighbours differ.

    Examples
    --------
    >>> from dosimeter.pca.mechanisms import AnalyticGaussian
    >>> message = noisy_moment(np.eye(3), AnalyticGaussian(1.0, 1e-6), bounds=Bounds(-1.0, 1.0))
    >>> join([message, message]).components.vectors.shape
    (3, 3)
    """
    if not len(messages):
        raise Refusal("there are no parties")
    first = messages[0]
    centre = first.release.values["centre"]
    for message in messages:
        _refuse_mismatch(message, first)
    shares = np.array([message.n_samples for message in messages]) / sum(message.n_samples for message in messages)
    moments = np.array([message.release.values["second_moment"] for message in messages])
    total = np.einsum("p,pij->ij", shares, moments)
    variances = np.einsum("p,pij->ij", shares**2, np.array([message.variances for message in messages]))
    if not first.mean_scale:
        return AggregatedComponents(components(total, centre), total, variances, tuple(messages))
    means = np.array([message.release.values["mean"] - centre for message in messages])
    variance = float(shares**2 @ np.array([message.mean_variance for message in messages]))
    centred = components_about_mean(total, shares @ means, variance, _box(first))
    return AggregatedComponents(centred, total, variances, tuple(messages))


def _refuse_mismatch(message: NoisyMoment, first: NoisyMoment) -> None:
    """Refuse messages that do not describe one table, or whose guarantees differ in kind."""
    release, first_release = message.release, first.release
    if not np.array_equal(release.values["centre"], first_release.values["centre"]):
        raise Refusal("the parties must have the same columns about the same public centre: agree on the bounds")
    missing = np.empty(0)
    same_ends = (
        np.array_equal(release.values.get(end, missing), first_release.values.get(end, missing))
        for end in ("lower", "upper")
    )
    if not all(same_ends) or release.recipe.settings["row_norm"] != first_release.recipe.settings["row_norm"]:
        raise Refusal("the parties must clip to the same bounds and row norm: agree on them first")
    if message.dose.adjacency != first.dose.adjacency or message.dose.unit != first.dose.unit:
        raise Refusal(
            "the parties must declare the same neighbours and unit: different kinds of guarantee do not combine"
        )
    if (message.mean_scale > 0) != (first.mean_scale > 0):
        raise Refusal("either all parties send a noisy mean or none does: agree on mean_share")


def _box(message: NoisyMoment) -> Box:
    """The public bounds that came with a message."""
    values, norm = message.release.values, message.release.recipe.settings["row_norm"]
    unbounded = np.full(len(values["centre"]), np.inf)
    bound = math.inf if norm is None else float(norm)
    return Box(values.get("lower", -unbounded), values.get("upper", unbounded), values["centre"], bound)


def simulate_noise(noise: Noise, rng: Generator) -> Protect:
    """Independent noise on one triangle, mirrored. A simulation, not for release: the seed reveals the matrix.

    >>> from dosimeter.core.noise import Gaussian
    >>> S = simulate_noise(Gaussian(0.1), np.random.default_rng(0))(np.eye(3), 10)
    >>> bool((S == S.T).all()), bool((S == np.eye(3)).any())
    (True, False)
    """

    def protect(A: FloatArray, n: int) -> FloatArray:
        lower = np.tril_indices(len(A))
        S = np.zeros_like(A)
        S[lower] = noise_addition.simulate(A[lower], noise, rng)
        return np.asarray(S + np.tril(S, -1).T)

    return protect


def no_protection(A: FloatArray, n: int) -> FloatArray:
    """The matrix itself: safe only if nobody, including the aggregator, sees a single party's matrix."""
    return A
