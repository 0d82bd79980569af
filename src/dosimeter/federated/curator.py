"""The curator: samples clients, clips their updates, adds noise to the sum, and pays for every round in advance.

The recipe is public and frozen; the state is a value that is passed in and returned. In production every draw uses the
operating system's bits; with a generator it is a simulation, and the state says so.
Proofs: docs/explanation/federated.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.checks import number
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Gaussian
from dosimeter.core.release import Recipe, Release
from dosimeter.federated import budget as budgets
from dosimeter.federated.accountant import add_rounds, rounds_of
from dosimeter.federated.adaptive_clipping import ClipRule, QuantileClip, noisy_share
from dosimeter.federated.budget import BudgetSpent, EpsilonFigure, PrivacyBudget
from dosimeter.federated.client_dose import ClientDose
from dosimeter.federated.client_messages import MessageCounts
from dosimeter.federated.client_sampling import Cohort, PoissonSampling
from dosimeter.federated.exact_sum import Observer, grid_step, sum_updates
from dosimeter.federated.schedule import RoundParameters, Schedule
from dosimeter.federated.site_sums import RoundRequest, SiteSum, add_sums
from dosimeter.federated.state import RoundRecord, State
from dosimeter.noise_addition import add_noise, simulate
from dosimeter.noise_addition.bits import fresh_bits
from dosimeter.noise_addition.simulation import seeded_bits

Generator = np.random.Generator
UNITS = ("client", "person")


@dataclass(frozen=True)
class Curator:
    """Recipe of a federated training that protects each whole client.

    Parameters
    ----------
    cohort : PoissonSampling or FixedSizeSampling
        How clients are sampled.
    schedule : Schedule
        m and z of each round: `Constant`, `Ramp` or `ListedSchedule`.
    budget : PrivacyBudget
        (ε, δ) that the whole training never exceeds.
    clip : FixedClip or QuantileClip, default QuantileClip()
        The clipping bound C.
    momentum : float, default 0
        β of the server, v <- βv + Δ̄; in [0, 1).
    step : float, default 1
        Step of the server, w <- w + step·v.
    unit : str, default "client"
        Whom a client of the recipe stands for: "client", or "person" if patients take part through their sites.

    Raises
    ------
    Refusal
        If a parameter is out of range, or z leaves no noise for the updates beside the bits.

    Notes
    -----
    Each round: Δ̄ = (Σ clip_C(Δ_k) + N(0, (z_d C)²)) / m, with m the *expected* number of clients. This is Algorithm 1
    of [Geyer19] with Poisson sampling, a data-independent divisor and a private clip (docs/explanation/federated.md).

    Examples
    --------
    >>> from dosimeter.federated import ClientUpdate, Constant, PoissonSampling, PrivacyBudget, QuantileClip
    >>> curator = Curator(PoissonSampling(1000), Constant(220, 1.26), PrivacyBudget(8.0, 1e-5), QuantileClip())
    >>> state = curator.open_round(curator.start(np.zeros(3)))           # paid for before any client is contacted
    >>> state = curator.close_round(state, (ClientUpdate(k, np.ones(3)) for k in state.participants))
    >>> state.round, state.spent[0].rounds, state.model.shape
    (1, 1, (3,))
    """

    cohort: Cohort
    schedule: Schedule
    budget: PrivacyBudget
    clip: ClipRule = field(default_factory=QuantileClip)
    momentum: float = 0.0
    step: float = 1.0
    unit: str = "client"

    accounting_method: ClassVar[str] = "privacy loss distributions"

    def __post_init__(self) -> None:
        number("momentum", self.momentum, 0, np.nextafter(1, 0), strictly=False)
        number("step", self.step, 0, 1e6)
        if self.unit not in UNITS:
            raise Refusal(f"unit={self.unit!r}: use {' or '.join(UNITS)}")
        self._round_parameters(0)

    def start(self, model: Any) -> State:
        """The state before the first round; `model` is public, (d,)."""
        return State.of(model, self.clip.start, self.cohort)

    def next_round_cost(self, state: State) -> tuple[bool, float]:
        """True if the next round stays within the budget, and δ at the budget's ε including it."""
        state.refuse_other_cohort(self.cohort)
        m, z = self._round_parameters(state.round)
        return budgets.check_budget(add_rounds(state.spent, m, z), self.cohort, self.budget)

    def open_round(self, state: State, rng: Generator | None = None) -> State:
        """The state with clients sampled and the round paid for; `BudgetSpent` if it would exceed the budget.

        Save the returned state before contacting any client: then no crash can forget the cost.
        """
        return self._paid(state, lambda m: self.cohort.draw(m, fresh_bits() if rng is None else seeded_bits(rng)), rng)

    def _paid(self, state: State, draw: Callable[[float], Index], rng: Generator | None) -> State:
        state.refuse_other_cohort(self.cohort)
        if state.is_open:
            raise Refusal(f"round {state.round} is open: close it or abandon it first")
        m, z = self._round_parameters(state.round)
        if not budgets.is_affordable(add_rounds(state.spent, m, z), self.cohort, self.budget):
            raise BudgetSpent(self.budget, self.next_round_cost(state)[1], rounds_of(state.spent))
        return state.with_open_round(draw(m), m, z, simulation=rng is not None)

    def close_round(
        self, state: State, messages: Iterable[Any], rng: Generator | None = None, observe: Observer | None = None
    ) -> State:
        """The state after the round: noise on the sum of clipped updates, divided by the *expected* number of clients.

        messages: `ClientUpdate` or `UpdateBatch`, in any order; missing or refused ones count as zeros. Noise and
        divisor depend on the declared m, never on who answered. Save the returned state before releasing its model.
        """
        state.refuse_other_cohort(self.cohort)
        counts = MessageCounts()
        total, bits = sum_updates(state, self.cohort.clients, messages, counts, observe)
        return self._close(state, total, bits, counts, rng)

    def open_site_round(self, state: State, rng: Generator | None = None) -> State:
        """The state with a round paid for whose participants the sites draw: the coordinator never learns them.

        Each patient is a client of the recipe; `BudgetSpent` if the round would exceed the budget. Save the returned
        state before contacting any site.
        """
        if type(self.cohort) is not PoissonSampling:
            raise Refusal("sites draw patients independently of each other: use PoissonSampling")
        return self._paid(state, lambda m: np.zeros(0, dtype=np.intp), rng)

    def request(self, state: State, learning_rate: float) -> RoundRequest:
        """What the open round asks of every site; public numbers only."""
        m, _ = state.open_parameters
        rate, K = self.cohort.rate(m), self.cohort.clients
        return RoundRequest(state.round, state.model, state.clip, rate, K, learning_rate)

    def close_site_round(self, state: State, sums: Iterable[SiteSum | None], rng: Generator | None = None) -> State:
        """The state after the round: noise once on the sum of the sites' sums, divided by the *expected* m.

        sums: one for each site; None for a site that was refused or did not answer, whose patients count as absent.
        """
        state.refuse_other_cohort(self.cohort)
        answers = list(sums)
        arrived = [answer for answer in answers if answer is not None]
        total, halves = add_sums(arrived, state.model.size)
        counts = MessageCounts(len(arrived), len(answers) - len(arrived))
        return self._close(state, total * grid_step(state.clip, self.cohort.clients), halves / 2, counts, rng)

    def _close(
        self, state: State, total: FloatArray, bits: float, counts: MessageCounts, rng: Generator | None
    ) -> State:
        m, z = state.open_parameters
        C = state.clip
        update = add_gaussian_noise(total, self.clip.noise_on_sum(z, m) * C, rng) / m
        share = 0.5
        if (sigma := self.clip.noise_on_bits(z, m)) > 0:
            share = noisy_share(add_gaussian_noise(np.array([bits]), sigma, rng)[0], m)
        velocity = self.momentum * state.velocity + update
        entry = RoundRecord(m, z, C, share, len(state.participants), counts.accepted, counts.refused, False)
        return state.with_closed_round(
            entry,
            model=state.model + self.step * velocity,
            velocity=velocity,
            clip=self.clip.next_bound(C, share),
            simulation=state.simulation or rng is not None,
        )

    def abandon_round(self, state: State) -> State:
        """The state with the open round cancelled: it stays paid for, and nothing else changes."""
        m, z = state.open_parameters
        return state.with_closed_round(RoundRecord(m, z, state.clip, 0.5, len(state.participants), 0, 0, True))

    def figure(self, state: State, *, quick: bool = False) -> EpsilonFigure:
        """ε at the budget's δ of all rounds opened so far."""
        state.refuse_other_cohort(self.cohort)
        return replace(budgets.figure(state.spent, self.cohort, self.budget.delta, quick=quick), unit=self.unit)

    def dose(self, state: State) -> ClientDose:
        """The composed event of all rounds opened so far."""
        state.refuse_other_cohort(self.cohort)
        return ClientDose.of(state.spent, self.cohort, unit=self.unit)

    def release(self, state: State) -> Release:
        """The model for release, with the recipe that accounting needs."""
        if state.is_open:
            raise Refusal(f"round {state.round} is open: close it or abandon it before releasing the model")
        guarantee = self.figure(state)
        settings: dict[str, str | int | float | bool | None] = {
            "clients": self.cohort.clients,
            "rounds": guarantee.rounds,
            "sampling": self.cohort.description,
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "adjacency": guarantee.adjacency,
            "unit": guarantee.unit,
        }
        noise = "; ".join(f"{s.rounds} rounds of m={s.per_round:g}, z={s.noise:g}" for s in state.spent) or "no round"
        return Release({"model": state.model}, Recipe("federated model", noise, settings, simulation=state.simulation))

    def _round_parameters(self, t: int) -> RoundParameters:
        parameters = self.schedule.parameters(t)
        self.cohort.rate(parameters.per_round)
        self.clip.noise_on_sum(parameters.noise, parameters.per_round)
        return parameters


def add_gaussian_noise(values: FloatArray, sigma: float, rng: Generator | None) -> FloatArray:
    """values + N(0, σ²), with the operating system's bits, or with a generator in a simulation."""
    return add_noise(values, Gaussian(sigma)) if rng is None else simulate(values, Gaussian(sigma), rng)
