"""A task: a table divided among clients, what they train on it, and the rows on which the model is scored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.checks import number
from dosimeter.core.errors import Refusal
from dosimeter.federated.local_training import LocalSGD, gather_rows, slots
from dosimeter.federated.networks import Learner, Score
from dosimeter.federated.partition import Clients

_STARTS, _HOLDS_OUT = 3, 4
"""Purpose of a draw, as part of its seed."""


@dataclass(frozen=True, eq=False)
class Task:
    """Everything that a simulation trains and scores. Private throughout: it holds the rows of all clients.

    Parameters
    ----------
    learner : Network or TorchLearner
        What clients train.
    local : LocalSGD
        How they train it.
    X : (n, p) array
        Rows, stored as float32.
    y : (n,) array
        Labels 0, 1, ...; numbers if the learner is a regression, stored as float32.
    clients : tuple of index arrays
        Rows of each client.
    X_test, y_test : arrays
        Rows and labels for the score.
    held_out : tuple of index arrays, default ()
        Rows of each client that nothing is trained on, for its own score; see `hold_out`.
    declared_clients : int, default 0
        K if it is larger than the number of clients with rows here; the others never answer. 0: as many as have rows.

    Raises
    ------
    Refusal
        If shapes, labels or row indices do not fit together, or the learner does not take such rows.

    Examples
    --------
    >>> from dosimeter.federated.networks import Network
    >>> X, y = np.eye(4), [0, 1, 0, 1]
    >>> task = Task(Network((4, 2)), LocalSGD(1, 0.5, batch=2), X, y, ([0, 1], [2, 3]), X, y)
    >>> task
    <Task of 2 clients with 2 to 2 rows, 10 parameters, 4 test rows>
    >>> task.updates(task.start(seed=1), [0], seed=1).round(3).tolist()[0][:4]      # ±rate · weight · (1 - p)
    [0.125, -0.125, -0.125, 0.125]
    """

    learner: Learner
    local: LocalSGD
    X: Any
    y: Any
    clients: Clients
    X_test: Any
    y_test: Any
    held_out: Clients = ()
    declared_clients: int = 0

    def __post_init__(self) -> None:
        for name in ("X", "X_test"):
            object.__setattr__(self, name, _rows(name, getattr(self, name)))
        for name, table in (("y", self.X), ("y_test", self.X_test)):
            object.__setattr__(self, name, labels_of(name, getattr(self, name), len(table)))
        for name in ("clients", "held_out"):
            parts = tuple(np.asarray(rows, dtype=np.intp) for rows in getattr(self, name))
            object.__setattr__(self, name, parts)
            _refuse_bad_parts(parts, len(self.X))
        if not self.clients or (self.held_out and len(self.held_out) != len(self.clients)):
            raise Refusal(
                f"{len(self.clients)} clients have rows and {len(self.held_out)} held-out rows: give both for each"
            )
        if self.declared_clients and self.declared_clients < len(self.clients):
            raise Refusal(f"{len(self.clients)} clients have rows, more than declared_clients={self.declared_clients}")
        self.learner.check(self.X.shape[1], classes_in(self.y, self.y_test))

    @property
    def client_count(self) -> int:
        """K."""
        return self.declared_clients or len(self.clients)

    def start(self, seed: int) -> FloatArray:
        """(d,) the public model before the first round."""
        return start_model(self.learner, seed)

    def updates(self, model: Any, clients: Any, *, seed: int, t: int = 0) -> Any:
        """(c, d) float32: what these clients, (c,), would send in round t."""
        positions = slots([self.clients[k] for k in clients], self.local, seed, t, clients)
        return self.learner.updates(model, gather_rows(self.X, self.y, positions), self.local, self.local.rate_at(t))

    def score(self, model: Any) -> Score:
        """Accuracy and loss of the model on the test rows."""
        return self.learner.score(model, self.X_test, self.y_test)

    def hold_out(self, share: float, seed: int) -> Task:
        """This task with a share of each client's rows, at least one, held out of all training.

        Refused if a row belongs to several clients: one would hold it out and another train on it.
        """
        number("share", share, 0, np.nextafter(1, 0))
        everything = np.concatenate(self.clients)
        if len(np.unique(everything)) < len(everything):
            raise Refusal("some rows belong to several clients: a row held out by one would be trained on by another")
        kept, held = [], []
        for k, rows in enumerate(self.clients):
            out = max(1, round(share * len(rows)))
            if out == len(rows):
                raise Refusal(f"client {k} has {len(rows)} rows: holding out {share:g} of them leaves none to train on")
            shuffled = np.random.default_rng([seed, _HOLDS_OUT, k]).permutation(rows)
            held.append(np.sort(shuffled[:out]))
            kept.append(np.sort(shuffled[out:]))
        return replace(self, clients=tuple(kept), held_out=tuple(held))

    def __repr__(self) -> str:
        sizes = [len(rows) for rows in self.clients]
        return (
            f"<Task of {len(sizes)} clients with {min(sizes)} to {max(sizes)} rows, {self.learner.size} parameters, "
            f"{len(self.X_test)} test rows>"
        )


def start_model(learner: Learner, seed: int) -> FloatArray:
    """(d,) the public model before the first round of a training with this public seed."""
    return learner.start(np.random.default_rng([seed, _STARTS]))


def _rows(name: str, table: Any) -> Any:
    X = np.ascontiguousarray(table, dtype=np.float32)
    if X.ndim != 2 or not X.size or not np.isfinite(X).all():
        raise Refusal(f"{name} must be (n, p), finite and not empty, not of shape {X.shape}")
    return X


def labels_of(name: str, labels: Any, rows: int) -> Any:
    """(rows,) classes as whole numbers, or numbers as float32; refuses anything else."""
    y = np.asarray(labels)
    if y.shape == (rows,) and y.dtype.kind == "f" and np.isfinite(y).all():
        return np.ascontiguousarray(y, dtype=np.float32)
    if y.shape != (rows,) or y.dtype.kind not in "iu" or y.min() < 0:
        raise Refusal(f"{name} must be {rows} whole numbers 0, 1, ..., not {y.dtype} of shape {y.shape}")
    return np.ascontiguousarray(y, dtype=np.intp)


def classes_in(*labels: Any) -> int:
    """The number of classes that the labels need; 0 if they are numbers."""
    if any(y.dtype.kind == "f" for y in labels):
        return 0
    return int(max(y.max() for y in labels)) + 1


def _refuse_bad_parts(parts: Clients, n: int) -> None:
    for k, rows in enumerate(parts):
        if rows.ndim != 1 or not len(rows) or rows.min() < 0 or rows.max() >= n:
            raise Refusal(f"client {k} has no rows, or row numbers outside the table of {n} rows")
