"""A client's own training: how often it goes over its rows, in which batches; and the batches of several clients.

Lines 12 to 16 of Algorithm 1 of [Geyer19]: the rows are shuffled and sliced into batches once a round, and every epoch
takes the same batches in the same order. What is shuffled depends on the seed, the round and the client alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dosimeter.core.arrays import Index
from dosimeter.core.checks import number, whole
from dosimeter.core.errors import Refusal

_SHUFFLES = 2
"""What the draws are for, as part of their seed; 0 and 1 are the rounds' own."""


@dataclass(frozen=True)
class LocalSGD:
    """Gradient descent on one client: E epochs in batches of `batch` rows, or in `batches` batches of equal size.

    >>> LocalSGD(4, 0.1, batches=10).sizes(600).tolist() == [60] * 10
    True
    >>> LocalSGD(1, 0.1, batch=4).sizes(10).tolist(), LocalSGD(1, 0.1, batches=3).sizes(10).tolist()
    ([4, 4, 2], [4, 3, 3])
    """

    epochs: int
    rate: float
    batch: int = 0
    batches: int = 0
    decay: float = 1.0
    """The rate of round t is rate · decay^t."""

    def __post_init__(self) -> None:
        whole("epochs", self.epochs, 1, 1 << 20)
        number("rate", self.rate, 0, 1e6)
        number("decay", self.decay, 0, 1)
        if (self.batch > 0) == (self.batches > 0):
            raise Refusal(f"batch={self.batch!r}, batches={self.batches!r}: give the rows of a batch or their number")
        whole("batch or batches", max(self.batch, self.batches), 1, 1 << 30)

    def rate_at(self, t: int) -> float:
        """The learning rate of round t."""
        return float(self.rate * self.decay**t)

    def sizes(self, rows: int) -> Index:
        """(steps,) rows in each batch of a client with so many rows; the longer ones first, none empty."""
        if self.batch:
            full, rest = divmod(rows, self.batch)
            return np.array([self.batch] * full + [rest] * (rest > 0), dtype=np.intp)
        batches = min(self.batches, rows)
        return np.array([rows // batches + (j < rows % batches) for j in range(batches)], dtype=np.intp)


class BatchedRows(NamedTuple):
    """The rows of c clients in batches, in the order in which they are taken; padded where clients have fewer."""

    X: Any
    """(c, steps, b, p)."""
    y: Any
    """(c, steps, b) labels."""
    weight: Any
    """(c, steps, b) of a row in its batch's loss: one over the batch's rows, 0 where padded."""


class Slots(NamedTuple):
    """Which row stands where in a `BatchedRows`."""

    rows: Index
    """(c, steps, b) into the table; the client's first row where padded."""
    weight: Any
    """(c, steps, b) float32."""


def slots(own: Sequence[Index], local: LocalSGD, seed: int, t: int, clients: Any) -> Slots:
    """The batches of these clients in round t; `own` are the rows of each, shuffled by (seed, t, client) alone.

    >>> rows, weight = slots([np.array([7, 8, 9])], LocalSGD(1, 0.1, batch=2), 1, 0, [5])
    >>> sorted(rows.ravel().tolist()), weight.tolist()               # three rows and one that does not count
    ([7, 7, 8, 9], [[[0.5, 0.5], [1.0, 0.0]]])
    """
    sizes = [local.sizes(len(rows)) for rows in own]
    shape = len(own), max(map(len, sizes)), max(int(s.max()) for s in sizes)
    found, weight = np.empty(shape, dtype=np.intp), np.zeros(shape, dtype=np.float32)
    for k, (rows, size, client) in enumerate(zip(own, sizes, clients, strict=True)):
        shuffled = rows[np.random.default_rng([seed, _SHUFFLES, t, client]).permutation(len(rows))]
        taken = np.arange(shape[2]) < np.concatenate([size, np.zeros(shape[1] - len(size), dtype=np.intp)])[:, None]
        found[k] = rows[0]
        found[k][taken] = shuffled
        weight[k, : len(size)] = taken[: len(size)] / size[:, None]
    return Slots(found, weight)


def stacked(X: Any, y: Any, where: Slots) -> BatchedRows:
    """The rows themselves, gathered from the table X (n, p), y (n,)."""
    c, steps, b = where.rows.shape
    # mode="clip" lets numpy write straight into the result; the rows were checked when the task was made.
    gathered = np.take(X, where.rows.ravel(), axis=0, mode="clip").reshape(c, steps, b, X.shape[1])
    return BatchedRows(gathered, np.take(y, where.rows, mode="clip"), where.weight)
