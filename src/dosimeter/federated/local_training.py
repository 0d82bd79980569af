"""A client's local training: its epochs and batches; and the batches of several clients as one array.

Lines 12 to 16 of Algorithm 1 of [Geyer19]: rows are shuffled and split into batches once a round, and every epoch takes
the same batches in the same order. The shuffle depends on the seed, the round and the client only.
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
"""Purpose of the draws, as part of their seed; 0 and 1 are taken by the rounds."""


@dataclass(frozen=True)
class LocalSGD:
    """Gradient descent on one client: E epochs in batches of `batch` rows, or in `batches` batches of equal size.

    Parameters
    ----------
    epochs : int
        E, at least 1.
    rate : float
        Learning rate of round 0.
    batch : int, default 0
        Rows of a batch. Give either `batch` or `batches`.
    batches : int, default 0
        Number of batches.
    decay : float, default 1
        The rate of round t is rate · decay^t.

    Raises
    ------
    Refusal
        If a parameter is out of range, or both or neither of `batch` and `batches` are given.

    Notes
    -----
    [Geyer19], Algorithm 1, lines 12 to 16.

    Examples
    --------
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

    def __post_init__(self) -> None:
        whole("epochs", self.epochs, 1, 1 << 20)
        number("rate", self.rate, 0, 1e6)
        number("decay", self.decay, 0, 1)
        if (self.batch > 0) == (self.batches > 0):
            raise Refusal(f"batch={self.batch!r}, batches={self.batches!r}: give exactly one of them, above 0")
        whole("batch or batches", max(self.batch, self.batches), 1, 1 << 30)

    def rate_at(self, t: int) -> float:
        """The learning rate of round t."""
        return float(self.rate * self.decay**t)

    def sizes(self, rows: int) -> Index:
        """(steps,) rows in each batch of a client with this many rows; larger batches first, none empty."""
        if self.batch:
            full, rest = divmod(rows, self.batch)
            return np.array([self.batch] * full + [rest] * (rest > 0), dtype=np.intp)
        batches = min(self.batches, rows)
        return np.array([rows // batches + (j < rows % batches) for j in range(batches)], dtype=np.intp)


class BatchedRows(NamedTuple):
    """The rows of c clients in batches, in the order in which they are used; padded for clients with fewer rows."""

    X: Any
    """(c, steps, b, p)."""
    y: Any
    """(c, steps, b) labels."""
    weight: Any
    """(c, steps, b) weight of a row in its batch's loss: 1/rows of the batch; 0 if padded."""


class Slots(NamedTuple):
    """Position of every row in a `BatchedRows`."""

    rows: Index
    """(c, steps, b) indices into the table; the client's first row if padded."""
    weight: Any
    """(c, steps, b) float32."""


def slots(rows_of_clients: Sequence[Index], local: LocalSGD, seed: int, t: int, clients: Any) -> Slots:
    """The batches of these clients in round t; `rows_of_clients` are shuffled by (seed, t, client) only.

    >>> rows, weight = slots([np.array([7, 8, 9])], LocalSGD(1, 0.1, batch=2), 1, 0, [5])
    >>> sorted(rows.ravel().tolist()), weight.tolist()               # three rows, and padding of weight 0
    ([7, 7, 8, 9], [[[0.5, 0.5], [1.0, 0.0]]])
    """
    sizes = [local.sizes(len(rows)) for rows in rows_of_clients]
    shape = len(rows_of_clients), max(map(len, sizes)), max(int(s.max()) for s in sizes)
    positions, weight = np.empty(shape, dtype=np.intp), np.zeros(shape, dtype=np.float32)
    for k, (rows, size, client) in enumerate(zip(rows_of_clients, sizes, clients, strict=True)):
        shuffled = rows[np.random.default_rng([seed, _SHUFFLES, t, client]).permutation(len(rows))]
        taken = np.arange(shape[2]) < np.concatenate([size, np.zeros(shape[1] - len(size), dtype=np.intp)])[:, None]
        positions[k] = rows[0]
        positions[k][taken] = shuffled
        weight[k, : len(size)] = taken[: len(size)] / size[:, None]
    return Slots(positions, weight)


def gather_rows(X: Any, y: Any, positions: Slots) -> BatchedRows:
    """The rows themselves, taken from the table X (n, p), y (n,)."""
    c, steps, b = positions.rows.shape
    # mode="clip" lets numpy write straight into the result; `Task` has checked the indices.
    rows = np.take(X, positions.rows.ravel(), axis=0, mode="clip").reshape(c, steps, b, X.shape[1])
    return BatchedRows(rows, np.take(y, positions.rows, mode="clip"), positions.weight)
