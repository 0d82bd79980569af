"""What privacy is compared with: federated averaging without it, and clients who train alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.checks import whole
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.notion import Standing
from dosimeter.federated import client_messages as arrivals
from dosimeter.federated.accountant import rounds_of
from dosimeter.federated.budget import EpsilonFigure
from dosimeter.federated.client_messages import AcceptedUpdates, MessageCounts
from dosimeter.federated.client_sampling import FixedSizeSampling
from dosimeter.federated.curator import Generator
from dosimeter.federated.exact_sum import Observer
from dosimeter.federated.state import RoundRecord, State
from dosimeter.federated.task import Task
from dosimeter.noise_addition.simulation import seeded

_NO_CLIP = 1e60
"""The bound that stands for none."""


@dataclass(frozen=True)
class FedAvgBaseline:
    """Federated averaging: the mean of what m of the K clients send, neither clipped nor noised. It hides nobody.

    The same steps and the same state as a curator; it exists in simulation only, and refuses to draw for release.

    >>> averaging = FedAvgBaseline(10, 2)
    >>> state = averaging.open_round(averaging.start(np.zeros(2)), np.random.default_rng(0))
    >>> sent = [(int(k), np.array([1.0, j])) for j, k in enumerate(state.participants)]
    >>> averaging.close_round(state, sent).model.tolist(), averaging.figure(state).epsilon
    ([1.0, 0.5], inf)
    """

    clients: int
    per_round: int

    accounted: ClassVar[str] = "nothing is hidden"

    def __post_init__(self) -> None:
        FixedSizeSampling(self.clients).rate(self.per_round)

    def start(self, model: Any) -> State:
        """The state before the first round."""
        return State.of(model, _NO_CLIP)

    def open_round(self, state: State, rng: Generator | None = None) -> State:
        """The state with m clients drawn."""
        if rng is None:
            raise Refusal("averaging without noise is a simulation: it must not be drawn for release")
        if state.is_open:
            raise Refusal(f"round {state.round} is open: close it first")
        asked = FixedSizeSampling(self.clients).draw(self.per_round, seeded(rng))
        return state.opened(asked, self.per_round, 0.0, simulation=True)

    def close_round(
        self, state: State, messages: Iterable[Any], rng: Generator | None = None, observe: Observer | None = None
    ) -> State:
        """The state with the mean of what arrived added."""
        tally, total = MessageCounts(), np.zeros(state.model.size)
        for clients, clipped, sent in arrivals.read(
            messages, state.participants, state.model.size, _NO_CLIP, state.round, tally
        ):
            good = clipped.accepted
            total += clipped.rows.sum(axis=0)
            if observe is not None:
                observe(AcceptedUpdates(state.round, _NO_CLIP, clients[good], sent[good], clipped.norms[good]))
        entry = RoundRecord(
            self.per_round, 0.0, state.clip, 0.5, len(state.participants), tally.accepted, tally.refused, False
        )
        return state.closed(entry, model=state.model + total / max(1, tally.accepted))

    def figure(self, state: State, *, quick: bool = False) -> EpsilonFigure:
        """ε = ∞ as soon as a round was opened."""
        return EpsilonFigure(
            epsilon=float("inf") if state.spent else 0.0,
            delta=0.0,
            rounds=rounds_of(state.spent),
            adjacency="add-or-remove-one",
            standing=Standing.EXACT,
            how=self.accounted,
        )


def alone(task: Task, *, seed: int, epochs: int | None = None, clients: Sequence[int] | None = None) -> FloatArray:
    """(clients,) accuracy on the test rows of each client's model that was trained on its own rows alone. Internal.

    epochs: of that training; those of `task.local` where not given.
    """
    chosen = np.arange(len(task.clients)) if clients is None else np.asarray(clients, dtype=np.intp)
    if not len(chosen) or chosen.min() < 0 or chosen.max() >= len(task.clients):
        raise CannotMeasure(f"clients must be numbers from 0 to {len(task.clients) - 1}")
    times = task.local.epochs if epochs is None else whole("epochs", epochs, 1, 1 << 20)
    own = replace(task, local=replace(task.local, epochs=times))
    model = task.start(seed)
    found = []
    for at in range(0, len(chosen), own.learner.together):
        some = chosen[at : at + own.learner.together]
        found += [own.score(model + update).accuracy for update in own.updates(model, some, seed=seed)]
    return np.array(found)
