"""Algorithm 1 of [Geyer19] as it was published, to reproduce it. What it promises is not what it accounts for.

A fixed number of clients, clipped at the median of their norms, noise σS on the sum, the moments accountant asked
before each round. Every figure of it has the standing "unaccounted" and says in words what it leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.notion import Standing
from dosimeter.federated import client_messages as arrivals
from dosimeter.federated.accountant import booked, rounds_of
from dosimeter.federated.budget import BudgetSpent, EpsilonFigure, PrivacyBudget, remarks
from dosimeter.federated.client_dose import ClientDose
from dosimeter.federated.client_messages import AcceptedUpdates, MessageCounts
from dosimeter.federated.client_sampling import FixedSizeSampling
from dosimeter.federated.clip import clip_rows
from dosimeter.federated.curator import Generator, drawn
from dosimeter.federated.exact_sum import Observer
from dosimeter.federated.schedule import Schedule
from dosimeter.federated.state import RoundRecord, State
from dosimeter.noise_addition.bits import fresh
from dosimeter.noise_addition.simulation import seeded
from dosimeter.reproduce import geyer19_moments as moments

UNCOVERED = (
    "the clip is the median of the sampled norms, taken without noise: one client can move it, "
    "and with it the noise and everybody's contribution",
    "exactly m of the K clients are asked, while the accountant prices independent sampling with one client more or "
    "fewer: with a fixed number a client is replaced by another, which moves the sum by twice the clip",
)
_LEAST, _MOST = 1e-60, 1e60


@dataclass(frozen=True)
class GeyerAlgorithm1:
    """The recipe of Algorithm 1; the same two steps and the same state as `Curator`.

    >>> from dosimeter.federated import PrivacyBudget, Constant, FixedSizeSampling, Sent
    >>> recipe = GeyerAlgorithm1(FixedSizeSampling(100), Constant(30, 1.0), PrivacyBudget(8.0, 1e-3))
    >>> state = recipe.open_round(recipe.start(np.zeros(2)))
    >>> state = recipe.close_round(state, (Sent(k, np.array([3.0, 4.0])) for k in state.participants))
    >>> round(state.history[0].clip, 6), recipe.figure(state).standing.value
    (5.0, 'unaccounted')
    """

    cohort: FixedSizeSampling
    schedule: Schedule
    budget: PrivacyBudget
    """ε, and Q for δ."""

    accounted: ClassVar[str] = "moments accountant, orders up to 32"

    def __post_init__(self) -> None:
        if not isinstance(self.cohort, FixedSizeSampling):
            raise Refusal(f"Algorithm 1 asks a fixed number of clients: FixedSize, not {self.cohort!r}")

    def start(self, model: Any) -> State:
        """The state before the first round; `model` is public, (d,)."""
        return State.of(model, 1.0, self.cohort)

    def would_cost(self, state: State) -> tuple[bool, float]:
        """Lines 4 and 5: whether the next round stays within Q, and the accountant's δ with it."""
        state.refuse_other_cohort(self.cohort)
        m, z = self.schedule.terms(state.round)
        found = moments.delta(booked(state.spent, m, z), self.cohort, self.budget.epsilon)
        return found <= self.budget.delta, found

    def open_round(self, state: State, rng: Generator | None = None) -> State:
        """Line 6: m_t clients drawn, after the accountant was asked; `BudgetSpent` where δ would pass Q."""
        if state.is_open:
            raise Refusal(f"round {state.round} is open: close it or abandon it first")
        fine, would_be = self.would_cost(state)
        if not fine:
            raise BudgetSpent(self.budget, would_be, rounds_of(state.spent))
        m, z = self.schedule.terms(state.round)
        asked = self.cohort.draw(m, fresh() if rng is None else seeded(rng))
        return state.opened(asked, m, z, simulation=rng is not None)

    def close_round(
        self, state: State, messages: Iterable[Any], rng: Generator | None = None, observe: Observer | None = None
    ) -> State:
        """Lines 9 and 10: S the median norm, w <- w + (Σ Δ_k/max(1, ‖Δ_k‖/S) + N(0, S²σ²))/m_t."""
        state.refuse_other_cohort(self.cohort)
        m, z = state.open_terms
        tally, seen = MessageCounts(), []
        for clients, clipped, sent in arrivals.read(
            messages, state.participants, state.model.size, _MOST, state.round, tally
        ):
            good = clipped.accepted
            seen.append(AcceptedUpdates(state.round, _MOST, clients[good], sent[good], clipped.norms[good]))
            if observe is not None:
                observe(seen[-1])
        S = _median(seen)
        total = sum((clip_rows(s.updates, S).rows.sum(axis=0) for s in seen), np.zeros(state.model.size))
        model = state.model + drawn(total, z * S, rng) / m
        entry = RoundRecord(m, z, S, 0.5, len(state.participants), tally.accepted, tally.refused, False)
        return state.closed(entry, model=model, clip=S, simulation=state.simulation or rng is not None)

    def abandon_round(self, state: State) -> State:
        """The state with the open round given up, and paid for."""
        m, z = state.open_terms
        return state.closed(RoundRecord(m, z, state.clip, 0.5, len(state.participants), 0, 0, True))

    def figure(self, state: State, *, quick: bool = False) -> EpsilonFigure:
        """The published figure: ε of the budget, δ by the moments accountant, and what it does not cover."""
        return EpsilonFigure(
            epsilon=self.budget.epsilon,
            delta=moments.delta(state.spent, self.cohort, self.budget.epsilon),
            rounds=rounds_of(state.spent),
            adjacency="add-or-remove-one",
            standing=Standing.UNACCOUNTED,
            how=self.accounted,
            uncovered=UNCOVERED,
            remarks=remarks(self.cohort, self.budget.delta),
        )

    def dose(self, state: State) -> ClientDose:
        """The rounds as samples of fixed size, replace-one; unaccounted still, as the median is."""
        return ClientDose.of(state.spent, self.cohort, Standing.UNACCOUNTED)


def _median(seen: list[AcceptedUpdates]) -> float:
    """S, kept within what can be clipped at: a median of 0 clips everything away, and the noise with it."""
    norms: FloatArray = np.concatenate([s.norms for s in seen]) if seen else np.zeros(1)
    return float(np.clip(np.median(norms), _LEAST, _MOST))
