"""Personalisation: each client continues to train the private model on its own rows.

A client's own model never leaves the client, so it costs no privacy. It is scored on rows that were held out of all
training from the start (`Task.hold_out`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import Refusal
from dosimeter.federated.local_training import LocalSGD
from dosimeter.federated.task import Task


@dataclass(frozen=True, eq=False)
class PersonalisationResult:
    """Accuracy on each client's own held-out rows. Internal: values of single clients, not noised.

    Parameters
    ----------
    clients : (k,) array of int
        Their numbers.
    before : (k,) array
        The private model as received.
    after : (k,) array
        The client's own model, trained from the private one.
    local_only : (k,) array
        A model that the client trained from the public start, without the others.

    Examples
    --------
    >>> PersonalisationResult(np.array([0]), np.array([0.8]), np.array([0.9]), np.array([0.7]))
    <Personal models of 1 clients, mean accuracy before 0.8000, after 0.9000, local_only 0.7000; internal>
    """

    clients: Index
    before: FloatArray
    after: FloatArray
    local_only: FloatArray

    def __repr__(self) -> str:
        means = (f"{name} {getattr(self, name).mean():.4f}" for name in ("before", "after", "local_only"))
        return f"<Personal models of {len(self.clients)} clients, mean accuracy {', '.join(means)}; internal>"


def personalise(
    task: Task, model: Any, *, seed: int, local: LocalSGD | None = None, clients: Sequence[int] | None = None
) -> PersonalisationResult:
    """Train each client's own model from the private one, and score it on the client's held-out rows.

    Parameters
    ----------
    task : Task
        Rows, with some held out (`Task.hold_out`).
    model : (d,) array
        The private model.
    seed : int
        Seed of the shuffles and of the public start.
    local : LocalSGD, optional
        The clients' training; `task.local` by default.
    clients : sequence of int, optional
        Numbers of the clients; all by default.

    Returns
    -------
    PersonalisationResult

    Raises
    ------
    Refusal
        If no rows are held out, or a client number is outside 0 to K - 1.

    Examples
    --------
    >>> from dosimeter import federated
    >>> X, y = np.repeat(np.eye(2), 8, axis=0), np.tile([0, 1], 8)
    >>> clients = (np.arange(0, 16, 2), np.arange(1, 16, 2))                    # one label each
    >>> task = federated.Task(federated.Network((2, 2)), LocalSGD(2, 1.0, batch=2), X, y, clients, X, y)
    >>> personalise(task.hold_out(0.25, seed=1), np.zeros(6), seed=1).after.tolist()
    [1.0, 1.0]
    """
    if not task.held_out:
        raise Refusal("no rows were held out: call Task.hold_out before the federated training")
    chosen = np.arange(len(task.clients)) if clients is None else np.asarray(clients, dtype=np.intp)
    if not len(chosen) or chosen.min() < 0 or chosen.max() >= len(task.clients):
        raise Refusal(f"clients must be numbers from 0 to {len(task.clients) - 1}")
    personal_task = replace(task, local=local or task.local)
    private_model, start = np.asarray(model, dtype=np.float64), task.start(seed)
    before = [_client_accuracy(personal_task, private_model, k) for k in chosen]
    return PersonalisationResult(
        chosen,
        np.array(before),
        _accuracies_after_training(personal_task, private_model, chosen, seed),
        _accuracies_after_training(personal_task, start, chosen, seed),
    )


def _accuracies_after_training(task: Task, model: FloatArray, clients: Index, seed: int) -> FloatArray:
    """(k,) accuracies after each client's training from the model."""
    accuracies: list[float] = []
    for first in range(0, len(clients), task.learner.clients_per_batch):
        batch = clients[first : first + task.learner.clients_per_batch]
        updates = task.updates(model, batch, seed=seed)
        accuracies += [_client_accuracy(task, model + update, k) for k, update in zip(batch, updates, strict=True)]
    return np.array(accuracies)


def _client_accuracy(task: Task, model: Any, client: int) -> float:
    rows = task.held_out[client]
    return task.learner.score(model, task.X[rows], task.y[rows]).accuracy
