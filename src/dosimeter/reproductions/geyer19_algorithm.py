"""Algorithm 1 of [Geyer19] as published, to reproduce it. Its guarantee is not what it accounts for.

A fixed number of clients, clipped at the median of their norms, noise σS on the sum, the moments accountant before each
round. Every figure has the standing "unaccounted" and lists what it leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.notion import Standing
from dosimeter.federated import client_messages
from dosimeter.federated.accountant import add_rounds, rounds_of
from dosimeter.federated.budget import BudgetSpent, EpsilonFigure, PrivacyBudget, remarks
from dosimeter.federated.client_dose import ClientDose
from dosimeter.federated.client_messages import AcceptedUpdates, MessageCounts
from dosimeter.federated.client_sampling import FixedSizeSampling
from dosimeter.federated.clip import clip_rows
from dosimeter.federated.curator import Generator, add_gaussian_noise
from dosimeter.federated.exact_sum import Observer
from dosimeter.federated.schedule import Schedule
from dosimeter.federated.state import RoundRecord, State
from dosimeter.noise_addition.bits import fresh_bits
from dosimeter.noise_addition.simulation import seeded_bits
from dosimeter.reproductions import geyer19_moments as moments

NOT_COVERED = (
    "the clip is the median of the sampled norms, taken without noise: one client can move it, "
    "and with it the noise and the contributions of all clients",
    "exactly m of the K clients are sampled, but the accountant assumes independent sampling with one client more or "
    "fewer: with a fixed number a client is replaced by another, which moves the sum by twice the clip",
)
_LEAST, _MOST = 1e-60, 1e60


@dataclass(frozen=True)
class GeyerAlgorithm1:
    """The recipe of Algorithm 1, with the methods and the state of `Curator`.

    Parameters
    ----------
    cohort : FixedSizeSampling
        The K clients.
    schedule : Schedule
        m_t and σ_t.
    budget : PrivacyBudget
        ε, and Q for δ.

    Raises
    ------
    Refusal
        If the cohort is not of fixed size.

    Examples
    --------
    >>> from dosimeter.federated import ClientUpdate, Constant, FixedSizeSampling, PrivacyBudget
    >>> recipe = GeyerAlgorithm1(FixedSizeSampling(100), Constant(30, 1.0), PrivacyBudget(8.0, 1e-3))
    >>> state = recipe.open_round(recipe.start(np.zeros(2)))
    >>> state = recipe.close_round(state, (ClientUpdate(k, np.array([3.0, 4.0])) for k in state.participants))
    >>> round(state.history[0].clip, 6), recipe.figure(state).standing.value
    (5.0, 'unaccounted')
    """

    cohort: FixedSizeSampling
    schedule: Schedule
    budget: PrivacyBudget

    accounting_method: ClassVar[str] = "moments accountant, orders up to 32"

    def __post_init__(self) -> None:
        if not isinstance(self.cohort, FixedSizeSampling):
            raise Refusal(f"Algorithm 1 samples a fixed number of clients: use FixedSizeSampling, not {self.cohort!r}")

    def start(self, model: Any) -> State:
        """The state before the first round; `model` is public, (d,)."""
        return State.of(model, 1.0, self.cohort)

    def next_round_cost(self, state: State) -> tuple[bool, float]:
        """Lines 4 and 5: True if the next round stays within Q, and the accountant's δ including it."""
        state.refuse_other_cohort(self.cohort)
        m, z = self.schedule.parameters(state.round)
        delta = moments.delta(add_rounds(state.spent, m, z), self.cohort, self.budget.epsilon)
        return delta <= self.budget.delta, delta

    def open_round(self, state: State, rng: Generator | None = None) -> State:
        """Line 6: m_t clients sampled, after the accountant's check; `BudgetSpent` if δ would exceed Q."""
        if state.is_open:
            raise Refusal(f"round {state.round} is open: close it or abandon it first")
        affordable, would_be = self.next_round_cost(state)
        if not affordable:
            raise BudgetSpent(self.budget, would_be, rounds_of(state.spent))
        m, z = self.schedule.parameters(state.round)
        sampled = self.cohort.draw(m, fresh_bits() if rng is None else seeded_bits(rng))
        return state.with_open_round(sampled, m, z, simulation=rng is not None)

    def close_round(
        self, state: State, messages: Iterable[Any], rng: Generator | None = None, observe: Observer | None = None
    ) -> State:
        """Lines 9 and 10: S the median norm, w <- w + (Σ Δ_k/max(1, ‖Δ_k‖/S) + N(0, S²σ²))/m_t."""
        state.refuse_other_cohort(self.cohort)
        m, z = state.open_parameters
        counts, batches = MessageCounts(), []
        for clients, clipped, updates in client_messages.read(
            messages, state.participants, state.model.size, _MOST, state.round, counts
        ):
            accepted = clipped.accepted
            batches.append(
                AcceptedUpdates(state.round, _MOST, clients[accepted], updates[accepted], clipped.norms[accepted])
            )
            if observe is not None:
                observe(batches[-1])
        S = _median(batches)
        total = sum((clip_rows(batch.updates, S).rows.sum(axis=0) for batch in batches), np.zeros(state.model.size))
        model = state.model + add_gaussian_noise(total, z * S, rng) / m
        entry = RoundRecord(m, z, S, 0.5, len(state.participants), counts.accepted, counts.refused, False)
        return state.with_closed_round(entry, model=model, clip=S, simulation=state.simulation or rng is not None)

    def abandon_round(self, state: State) -> State:
        """The state with the open round cancelled; it stays paid for."""
        m, z = state.open_parameters
        return state.with_closed_round(RoundRecord(m, z, state.clip, 0.5, len(state.participants), 0, 0, True))

    def figure(self, state: State, *, quick: bool = False) -> EpsilonFigure:
        """The published figure: ε of the budget, δ by the moments accountant, and what it does not cover."""
        return EpsilonFigure(
            epsilon=self.budget.epsilon,
            delta=moments.delta(state.spent, self.cohort, self.budget.epsilon),
            rounds=rounds_of(state.spent),
            adjacency="add-or-remove-one",
            standing=Standing.UNACCOUNTED,
            method=self.accounting_method,
            not_covered=NOT_COVERED,
            remarks=remarks(self.cohort, self.budget.delta),
        )

    def dose(self, state: State) -> ClientDose:
        """The rounds as samples of fixed size, replace-one; still unaccounted, because the median is."""
        return ClientDose.of(state.spent, self.cohort, Standing.UNACCOUNTED)


def _median(batches: list[AcceptedUpdates]) -> float:
    """S, limited to valid bounds: a median of 0 would clip everything away, and the noise with it."""
    norms: FloatArray = np.concatenate([batch.norms for batch in batches]) if batches else np.zeros(1)
    return float(np.clip(np.median(norms), _LEAST, _MOST))
