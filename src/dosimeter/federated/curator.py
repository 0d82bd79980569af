"""The curator: asks a random cohort, clips what comes, adds noise to the sum, and pays for every round beforehand.

The recipe is public and frozen; the state is a value that goes in and comes out. In production every draw takes bits of
the operating system; with a generator it is a simulation, and the state says so. docs/federated.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.checks import number
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Gaussian
from dosimeter.core.release import Recipe, Release
from dosimeter.federated import budget as budgets
from dosimeter.federated.accountant import booked, rounds_of
from dosimeter.federated.adaptive_clipping import ClipRule, QuantileClip, noisy_share
from dosimeter.federated.budget import BudgetSpent, EpsilonFigure, PrivacyBudget
from dosimeter.federated.client_dose import ClientDose
from dosimeter.federated.client_messages import MessageCounts
from dosimeter.federated.client_sampling import Cohort
from dosimeter.federated.exact_sum import Observer, gathered
from dosimeter.federated.schedule import RoundParameters, Schedule
from dosimeter.federated.state import RoundRecord, State
from dosimeter.noise_addition import noisy, simulate
from dosimeter.noise_addition.bits import fresh
from dosimeter.noise_addition.simulation import seeded

Generator = np.random.Generator


@dataclass(frozen=True)
class Curator:
    """The recipe of a training in which no single client can be made out.

    >>> from dosimeter.federated import PrivacyBudget, Constant, Poisson, QuantileClip, Sent
    >>> curator = Curator(Poisson(1000), Constant(220, 1.26), PrivacyBudget(8.0, 1e-5), QuantileClip())
    >>> state = curator.open_round(curator.start(np.zeros(3)))           # paid for before anybody is asked
    >>> state = curator.close_round(state, (Sent(k, np.ones(3)) for k in state.participants))
    >>> state.round, state.spent[0].rounds, state.model.shape
    (1, 1, (3,))
    """

    cohort: Cohort
    schedule: Schedule
    budget: PrivacyBudget
    clip: ClipRule = field(default_factory=QuantileClip)
    momentum: float = 0.0
    """The server's: v <- βv + Δ̄."""
    step: float = 1.0
    """The server's: w <- w + step·v."""

    accounted: ClassVar[str] = "privacy loss distributions"

    def __post_init__(self) -> None:
        number("momentum", self.momentum, 0, np.nextafter(1, 0), strictly=False)
        number("step", self.step, 0, 1e6)
        self._checked_terms(0)

    def start(self, model: Any) -> State:
        """The state before the first round; `model` is public, (d,)."""
        return State.of(model, self.clip.start, self.cohort)

    def would_cost(self, state: State) -> tuple[bool, float]:
        """Whether the next round stays within the budget, and δ at the budget's ε with it."""
        state.refuse_other_cohort(self.cohort)
        m, z = self._checked_terms(state.round)
        return budgets.within(booked(state.spent, m, z), self.cohort, self.budget)

    def open_round(self, state: State, rng: Generator | None = None) -> State:
        """The state with a cohort drawn and the round paid for; `BudgetSpent` where it would pass the budget.

        Keep the returned state before anybody is asked: from then on no crash can forget the cost.
        """
        state.refuse_other_cohort(self.cohort)
        if state.is_open:
            raise Refusal(f"round {state.round} is open: close it or abandon it first")
        m, z = self._checked_terms(state.round)
        if not budgets.affordable(booked(state.spent, m, z), self.cohort, self.budget):
            raise BudgetSpent(self.budget, self.would_cost(state)[1], rounds_of(state.spent))
        asked = self.cohort.draw(m, fresh() if rng is None else seeded(rng))
        return state.opened(asked, m, z, simulation=rng is not None)

    def close_round(
        self, state: State, messages: Iterable[Any], rng: Generator | None = None, observe: Observer | None = None
    ) -> State:
        """The state after the round: noise on the sum of what was clipped, divided by the *expected* number.

        messages: `Sent` or `Block`, in any order; whatever is missing or refused counts as zeros. Noise and divisor
        follow the declared m and never the arrivals. Keep the returned state before its model leaves.
        """
        state.refuse_other_cohort(self.cohort)
        m, z = state.open_terms
        C, tally = state.clip, MessageCounts()
        total, bits = gathered(state, self.cohort.clients, messages, tally, observe)
        update = drawn(total, self.clip.noise_on_sum(z, m) * C, rng) / m
        share = 0.5
        if (sigma := self.clip.noise_on_bits(z, m)) > 0:
            share = noisy_share(drawn(np.array([bits]), sigma, rng)[0], m)
        velocity = self.momentum * state.velocity + update
        entry = RoundRecord(m, z, C, share, len(state.participants), tally.accepted, tally.refused, False)
        return state.closed(
            entry,
            model=state.model + self.step * velocity,
            velocity=velocity,
            clip=self.clip.moved(C, share),
            simulation=state.simulation or rng is not None,
        )

    def abandon_round(self, state: State) -> State:
        """The state with the open round given up: it stays paid for, and nothing else changes."""
        m, z = state.open_terms
        return state.closed(RoundRecord(m, z, state.clip, 0.5, len(state.participants), 0, 0, True))

    def figure(self, state: State, *, quick: bool = False) -> EpsilonFigure:
        """ε at the budget's δ of all rounds opened so far."""
        state.refuse_other_cohort(self.cohort)
        return budgets.figure(state.spent, self.cohort, self.budget.delta, quick=quick)

    def dose(self, state: State) -> ClientDose:
        """The composed event of all rounds opened so far."""
        state.refuse_other_cohort(self.cohort)
        return ClientDose.of(state.spent, self.cohort)

    def release(self, state: State) -> Release:
        """The model as it may leave, with the recipe that accounting needs."""
        if state.is_open:
            raise Refusal(f"round {state.round} is open: close it or abandon it before the model leaves")
        found = self.figure(state)
        settings: dict[str, str | int | float | bool | None] = {
            "clients": self.cohort.clients,
            "rounds": found.rounds,
            "sampling": self.cohort.in_words,
            "epsilon": found.epsilon,
            "delta": found.delta,
            "adjacency": found.adjacency,
            "unit": found.unit,
        }
        noise = "; ".join(f"{s.rounds} rounds of m={s.per_round:g}, z={s.noise:g}" for s in state.spent) or "no round"
        return Release({"model": state.model}, Recipe("federated model", noise, settings, simulation=state.simulation))

    def _checked_terms(self, t: int) -> RoundParameters:
        terms = self.schedule.terms(t)
        self.cohort.rate(terms.per_round)
        self.clip.noise_on_sum(terms.noise, terms.per_round)
        return terms


def drawn(values: FloatArray, sigma: float, rng: Generator | None) -> FloatArray:
    """values + N(0, σ²) through the sampling room: bits of the operating system, or of a generator in simulation."""
    return noisy(values, Gaussian(sigma)) if rng is None else simulate(values, Gaussian(sigma), rng)
