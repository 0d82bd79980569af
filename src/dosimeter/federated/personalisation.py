"""Personalisation: the private model as a start from which each client trains for itself.

A client's own model never leaves the client, so it costs nobody any privacy; what it is scored on are rows that were
held out of all training from the beginning (`Task.hold_out`).
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
    """Accuracy on each client's own held-out rows. Internal: figures of clients, not noised."""

    clients: Index
    """(k,) their numbers."""
    before: FloatArray
    """(k,) of the private model as it came."""
    after: FloatArray
    """(k,) of the client's own model, trained from it."""
    alone: FloatArray
    """(k,) of a model that the client trained from the public start, without the others."""

    def __repr__(self) -> str:
        means = (f"{name} {getattr(self, name).mean():.4f}" for name in ("before", "after", "alone"))
        return f"<Personal models of {len(self.clients)} clients, mean accuracy {', '.join(means)}; internal>"


def personalise(
    task: Task, model: Any, *, seed: int, local: LocalSGD | None = None, clients: Sequence[int] | None = None
) -> PersonalisationResult:
    """Each client's own training from `model`, (d,), by `local` (that of the task where not given)."""
    if not task.held:
        raise Refusal("no rows were held out: make the task with hold_out before the federated training")
    chosen = np.arange(len(task.clients)) if clients is None else np.asarray(clients, dtype=np.intp)
    if not len(chosen) or chosen.min() < 0 or chosen.max() >= len(task.clients):
        raise Refusal(f"clients must be numbers from 0 to {len(task.clients) - 1}")
    own = replace(task, local=local or task.local)
    given, start = np.asarray(model, dtype=np.float64), task.start(seed)
    before = [_own_score(own, given, k) for k in chosen]
    return PersonalisationResult(
        chosen, np.array(before), _trained(own, given, chosen, seed), _trained(own, start, chosen, seed)
    )


def _trained(task: Task, model: FloatArray, clients: Index, seed: int) -> FloatArray:
    """(k,) accuracies after each client's training from the model."""
    found: list[float] = []
    for at in range(0, len(clients), task.learner.together):
        some = clients[at : at + task.learner.together]
        updates = task.updates(model, some, seed=seed)
        found += [_own_score(task, model + update, k) for k, update in zip(some, updates, strict=True)]
    return np.array(found)


def _own_score(task: Task, model: Any, client: int) -> float:
    rows = task.held[client]
    return task.learner.score(model, task.X[rows], task.y[rows]).accuracy
