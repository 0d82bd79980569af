"""Partitions: which rows of a table each client holds, as one index array per client. Seeded by an argument.

A partition is public where it is simulated; in life it is what the clients happen to have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dosimeter.core.arrays import Index
from dosimeter.core.checks import number, whole
from dosimeter.core.density import as_generator
from dosimeter.core.errors import Refusal

Clients = tuple[Index, ...]
_TRIES = 1000


def two_shards(labels: Any, clients: int, rng: np.random.Generator, *, points: int = 600, shards: int = 2) -> Clients:
    """The paper's: rows sorted by label, cut into shards of points/shards rows, `shards` of them for each client.

    The shards of the sorted table are dealt at random, and dealt anew as often as K · points passes n: then rows are
    repeated over clients, never twice within one client, and every row is held by as many clients as any other, give
    or take one. Rows that do not fill a last shard are left out.

    >>> clients = two_shards(np.repeat([0, 1, 2], 4), 3, np.random.default_rng(0), points=4)
    >>> [len(rows) for rows in clients], sorted(np.concatenate(clients).tolist()) == list(range(12))
    ([4, 4, 4], True)
    """
    y, source = _labels(labels), as_generator(rng)
    size = whole("points", points, 1, len(y)) / whole("shards", shards, 1, points)
    if not size.is_integer():
        raise Refusal(f"points={points!r} do not divide into shards={shards!r}")
    cut = np.argsort(y, kind="stable")[: len(y) // int(size) * int(size)].reshape(-1, int(size))
    wanted = whole("clients", clients, 1, 1 << 30) * int(shards)
    if len(cut) < shards:
        raise Refusal(f"{len(y)} rows make {len(cut)} shards of {int(size)}, a client needs {shards}")
    dealt = np.concatenate([source.permutation(len(cut)) for _ in range(-(-wanted // len(cut)))])
    hands = _without_pairs(dealt[:wanted], int(shards), source).reshape(-1, int(shards))
    return tuple(cut[hand].ravel() for hand in hands)


def _without_pairs(dealt: Index, shards: int, rng: np.random.Generator) -> Index:
    """The same with no shard twice in one hand: a hand that spans two dealings may have met one again."""
    for _ in range(_TRIES):
        hands = np.sort(dealt.reshape(-1, shards), axis=1)
        twice = np.flatnonzero((hands[:, 1:] == hands[:, :-1]).any(axis=1))
        if not len(twice):
            return dealt
        for hand in twice:
            i, j = hand * shards + rng.integers(shards), rng.integers(len(dealt))
            dealt[i], dealt[j] = dealt[j], dealt[i]
    raise Refusal("no way was found to deal the shards so that no client has one twice: give more or smaller shards")


def iid(rows: int, clients: int, rng: np.random.Generator, *, points: int | None = None) -> Clients:
    """Rows at random. Without `points` every row goes to one client, sizes equal give or take one.

    With `points` each client holds so many different rows, from a shuffled table that is dealt anew as often as needed.

    >>> [len(rows) for rows in iid(10, 3, np.random.default_rng(0))]
    [4, 3, 3]
    """
    n, K, source = whole("rows", rows, 1, 1 << 40), whole("clients", clients, 1, 1 << 30), as_generator(rng)
    if points is None:
        if n < K:
            raise Refusal(f"{n} rows for {K} clients: somebody would have none; give points= to repeat rows")
        return tuple(np.array_split(source.permutation(n), K))
    m = whole("points", points, 1, n)
    per_deal = n // m
    deals = (source.permutation(n)[: per_deal * m].reshape(per_deal, m) for _ in range(-(-K // per_deal)))
    return tuple(np.concatenate(list(deals))[:K])


def dirichlet(labels: Any, clients: int, rng: np.random.Generator, *, concentration: float, least: int = 1) -> Clients:
    """Each label's rows split among the clients in Dirichlet(α, ..., α) shares; every row goes to one client.

    Small α: clients with few labels and unequal sizes; large α: nearly IID. Drawn again until everybody has `least`
    rows, which makes the law conditional on that.
    """
    y, source = _labels(labels), as_generator(rng)
    K, alpha = whole("clients", clients, 1, len(y)), number("concentration", concentration, 0, 1e9)
    whole("least", least, 1, len(y))
    order = np.argsort(y, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(y[order])) + 1)
    for _ in range(_TRIES):
        owner = np.empty(len(y), dtype=np.intp)
        for group in groups:
            ends = np.round(np.cumsum(source.dirichlet(np.full(K, alpha))) * len(group)).astype(np.intp)
            owner[source.permutation(group)] = np.searchsorted(ends[:-1], np.arange(len(group)), side="right")
        if np.bincount(owner, minlength=K).min() >= least:
            return _by_owner(owner, K)
    raise Refusal(
        f"in {_TRIES} draws somebody always had fewer than {least} rows: raise concentration={concentration:g}, "
        f"or take fewer than {K} clients"
    )


def by_column(values: Any) -> tuple[Clients, tuple[Any, ...]]:
    """One client for each value of a column (a hospital's id): the rows of each, and the values, in rising order.

    >>> clients, names = by_column(["b", "a", "b"])
    >>> [rows.tolist() for rows in clients], names
    ([[1], [0, 2]], ('a', 'b'))
    """
    column = np.asarray(values)
    if column.ndim != 1 or not column.size:
        raise Refusal(f"a column of clients has one value for each row, not shape {column.shape}")
    if column.dtype.kind == "f" and not np.isfinite(column).all():
        raise Refusal("the column of clients has missing values: say whose these rows are, or leave them out")
    names, owner = np.unique(column, return_inverse=True)
    return _by_owner(owner, len(names)), tuple(names.tolist())


def classes_of(labels: Any, clients: Sequence[Index]) -> Index:
    """(K,) how many different labels each client holds."""
    y = _labels(labels)
    return np.array([len(np.unique(y[rows])) for rows in clients], dtype=np.intp)


def _by_owner(owner: Index, clients: int) -> Clients:
    order = np.argsort(owner, kind="stable")
    return tuple(np.split(order, np.cumsum(np.bincount(owner, minlength=clients))[:-1]))


def _labels(labels: Any) -> Any:
    y = np.asarray(labels)
    if y.ndim != 1 or not y.size:
        raise Refusal(f"labels are one for each row, not of shape {y.shape}")
    return y
