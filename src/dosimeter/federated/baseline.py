"""Baselines without privacy: federated averaging, and clients that train alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.checks import whole
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.notion import Standing
from dosimeter.federated import client_messages
from dosimeter.federated.accountant import rounds_of
from dosimeter.federated.budget import EpsilonFigure
from dosimeter.federated.client_messages import AcceptedUpdates, MessageCounts
from dosimeter.federated.client_sampling import FixedSizeSampling
from dosimeter.federated.curator import Generator
from dosimeter.federated.exact_sum import Observer
from dosimeter.federated.state import RoundRecord, State
from dosimeter.federated.task import Task
from dosimeter.noise_addition.simulation import seeded_bits

_NO_CLIP = 1e60
"""A bound that clips nothing."""


@dataclass(frozen=True)
class FedAvgBaseline:
    """Federated averaging: the mean update of m of the K clients, neither clipped nor noised. It protects nobody.

    It has the methods and the state of a `Curator`, for simulations only: it refuses to draw for release.

    Parameters
    ----------
    clients : int
        K.
    per_round : int
        m, the clients in each round.

    Raises
    ------
    Refusal
        If m is not a whole number from 1 to K.

    Examples
    --------
    >>> averaging = FedAvgBaseline(10, 2)
    >>> state = averaging.open_round(averaging.start(np.zeros(2)), np.random.default_rng(0))
    >>> messages = [(int(k), np.array([1.0, j])) for j, k in enumerate(state.participants)]
    >>> averaging.close_round(state, messages).model.tolist(), averaging.figure(state).epsilon
    ([1.0, 0.5], inf)
    """

    clients: int
    per_round: int

    accounting_method: ClassVar[str] = "nothing is hidden"

    def __post_init__(self) -> None:
        FixedSizeSampling(self.clients).rate(self.per_round)

    def start(self, model: Any) -> State:
        """The state before the first round."""
        return State.of(model, _NO_CLIP)

    def open_round(self, state: State, rng: Generator | None = None) -> State:
        """The state with m clients sampled."""
        if rng is None:
            raise Refusal("averaging without noise is for simulation only: pass rng")
        if state.is_open:
            raise Refusal(f"round {state.round} is open: close it first")
        sampled = FixedSizeSampling(self.clients).draw(self.per_round, seeded_bits(rng))
        return state.with_open_round(sampled, self.per_round, 0.0, simulation=True)

    def close_round(
        self, state: State, messages: Iterable[Any], rng: Generator | None = None, observe: Observer | None = None
    ) -> State:
        """The state with the mean of the accepted updates added to the model."""
        counts, total = MessageCounts(), np.zeros(state.model.size)
        for clients, clipped, updates in client_messages.read(
            messages, state.participants, state.model.size, _NO_CLIP, state.round, counts
        ):
            accepted = clipped.accepted
            total += clipped.rows.sum(axis=0)
            if observe is not None:
                observe(
                    AcceptedUpdates(
                        state.round, _NO_CLIP, clients[accepted], updates[accepted], clipped.norms[accepted]
                    )
                )
        entry = RoundRecord(
            self.per_round, 0.0, state.clip, 0.5, len(state.participants), counts.accepted, counts.refused, False
        )
        return state.with_closed_round(entry, model=state.model + total / max(1, counts.accepted))

    def figure(self, state: State, *, quick: bool = False) -> EpsilonFigure:
        """ε = ∞ once a round is open."""
        return EpsilonFigure(
            epsilon=float("inf") if state.spent else 0.0,
            delta=0.0,
            rounds=rounds_of(state.spent),
            adjacency="add-or-remove-one",
            standing=Standing.EXACT,
            method=self.accounting_method,
        )


def local_only_accuracy(
    task: Task, *, seed: int, epochs: int | None = None, clients: Sequence[int] | None = None
) -> FloatArray:
    """Accuracy on the test rows of models that clients train on their own rows only. Internal.

    Parameters
    ----------
    task : Task
        The rows of each client, and the test rows.
    seed : int
        Seed of the start model and the shuffles.
    epochs : int, optional
        Epochs of that training; `task.local.epochs` by default.
    clients : sequence of int, optional
        Numbers of the clients; all by default.

    Returns
    -------
    (k,) array
        One accuracy per client. Not noised: do not publish.

    Raises
    ------
    CannotMeasure
        If a client number is outside 0 to K - 1.

    Examples
    --------
    >>> from dosimeter import federated
    >>> X, y = np.repeat(np.eye(2), 4, axis=0), np.repeat([0, 1], 4)
    >>> local = federated.LocalSGD(5, 1.0, batch=4)
    >>> task = federated.Task(federated.Network((2, 2)), local, X, y, ([0, 1, 4, 5], [2, 3, 6, 7]), X, y)
    >>> local_only_accuracy(task, seed=1).tolist()
    [1.0, 1.0]
    """
    chosen = np.arange(len(task.clients)) if clients is None else np.asarray(clients, dtype=np.intp)
    if not len(chosen) or chosen.min() < 0 or chosen.max() >= len(task.clients):
        raise CannotMeasure(f"clients must be numbers from 0 to {len(task.clients) - 1}")
    times = task.local.epochs if epochs is None else whole("epochs", epochs, 1, 1 << 20)
    longer = replace(task, local=replace(task.local, epochs=times))
    model = task.start(seed)
    accuracies = []
    for first in range(0, len(chosen), longer.learner.clients_per_batch):
        batch = chosen[first : first + longer.learner.clients_per_batch]
        accuracies += [longer.score(model + update).accuracy for update in longer.updates(model, batch, seed=seed)]
    return np.array(accuracies)
