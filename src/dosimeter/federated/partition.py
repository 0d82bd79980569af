"""Partitions: which rows of a table each client holds, as one index array per client. Seeded by an argument.

A simulated partition is public; a real one is given by the rows that clients have.
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
    """The partition of [Geyer19]: rows sorted by label and cut into shards, `shards` random ones for each client.

    Parameters
    ----------
    labels : (n,) array
        Label of each row.
    clients : int
        K.
    rng : numpy Generator
        Source of the draw.
    points : int, default 600
        Rows of each client.
    shards : int, default 2
        Shards of each client; must divide `points`.

    Returns
    -------
    tuple of K index arrays, (points,) each

    Raises
    ------
    Refusal
        If `points` is not a multiple of `shards`, or there are too few rows.

    Notes
    -----
    [Geyer19], section 4. If K · points exceeds n, all shards are dealt repeatedly: rows then repeat across clients,
    never within one, and each row is held by equally many clients, give or take one. Rows that do not fill a last shard
    are left out.

    Examples
    --------
    >>> clients = two_shards(np.repeat([0, 1, 2], 4), 3, np.random.default_rng(0), points=4)
    >>> [len(rows) for rows in clients], sorted(np.concatenate(clients).tolist()) == list(range(12))
    ([4, 4, 4], True)
    """
    y, source = _labels(labels), as_generator(rng)
    size = whole("points", points, 1, len(y)) / whole("shards", shards, 1, points)
    if not size.is_integer():
        raise Refusal(f"points={points!r} is not a multiple of shards={shards!r}")
    shard_rows = np.argsort(y, kind="stable")[: len(y) // int(size) * int(size)].reshape(-1, int(size))
    shards_needed = whole("clients", clients, 1, 1 << 30) * int(shards)
    if len(shard_rows) < shards:
        raise Refusal(f"{len(y)} rows make {len(shard_rows)} shards of {int(size)}, but a client needs {shards}")
    deals = np.concatenate([source.permutation(len(shard_rows)) for _ in range(-(-shards_needed // len(shard_rows)))])
    shards_of_clients = _without_repeats(deals[:shards_needed], int(shards), source).reshape(-1, int(shards))
    return tuple(shard_rows[own_shards].ravel() for own_shards in shards_of_clients)


def _without_repeats(deals: Index, shards: int, rng: np.random.Generator) -> Index:
    """Swap shards until no client has one twice: a client served by two deals may get the same shard again."""
    for _ in range(_TRIES):
        shards_of_clients = np.sort(deals.reshape(-1, shards), axis=1)
        clashes = np.flatnonzero((shards_of_clients[:, 1:] == shards_of_clients[:, :-1]).any(axis=1))
        if not len(clashes):
            return deals
        for client in clashes:
            i, j = client * shards + rng.integers(shards), rng.integers(len(deals))
            deals[i], deals[j] = deals[j], deals[i]
    raise Refusal("could not deal the shards without giving a client one twice: use more or smaller shards")


def iid(rows: int, clients: int, rng: np.random.Generator, *, points: int | None = None) -> Clients:
    """A random partition.

    Parameters
    ----------
    rows : int
        n.
    clients : int
        K.
    rng : numpy Generator
        Source of the draw.
    points : int, optional
        Rows of each client, drawn from a table that is shuffled as often as needed. By default each row goes to one
        client, and sizes differ by at most one.

    Returns
    -------
    tuple of K index arrays

    Raises
    ------
    Refusal
        If there are fewer rows than clients and `points` is not given.

    Examples
    --------
    >>> [len(rows) for rows in iid(10, 3, np.random.default_rng(0))]
    [4, 3, 3]
    """
    n, K, source = whole("rows", rows, 1, 1 << 40), whole("clients", clients, 1, 1 << 30), as_generator(rng)
    if points is None:
        if n < K:
            raise Refusal(f"{n} rows for {K} clients: some clients would have none; give points= to repeat rows")
        return tuple(np.array_split(source.permutation(n), K))
    m = whole("points", points, 1, n)
    per_deal = n // m
    deals = (source.permutation(n)[: per_deal * m].reshape(per_deal, m) for _ in range(-(-K // per_deal)))
    return tuple(np.concatenate(list(deals))[:K])


def dirichlet(labels: Any, clients: int, rng: np.random.Generator, *, concentration: float, least: int = 1) -> Clients:
    """Each label's rows split among the clients in Dirichlet(α, ..., α) shares; every row goes to one client.

    Parameters
    ----------
    labels : (n,) array
        Label of each row.
    clients : int
        K.
    rng : numpy Generator
        Source of the draw.
    concentration : float
        α. Small: clients with few labels and unequal sizes; large: nearly IID.
    least : int, default 1
        Rows that each client must have.

    Returns
    -------
    tuple of K index arrays

    Raises
    ------
    Refusal
        If 1000 draws leave some client with too few rows.

    Notes
    -----
    Draws are repeated until each client has `least` rows, so the distribution is conditional on that.

    Examples
    --------
    >>> clients = dirichlet(np.repeat([0, 1], 50), 4, np.random.default_rng(0), concentration=1.0)
    >>> len(clients), sum(len(rows) for rows in clients)
    (4, 100)
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
        f"in {_TRIES} draws some client always had fewer than {least} rows: raise concentration={concentration:g}, "
        f"or use fewer than {K} clients"
    )


def by_column(values: Any) -> tuple[Clients, tuple[Any, ...]]:
    """One client for each value of a column, such as a hospital's id.

    Parameters
    ----------
    values : (n,) array
        The client of each row.

    Returns
    -------
    clients : tuple of index arrays
        Rows of each client.
    names : tuple
        The values, ascending.

    Raises
    ------
    Refusal
        If the column is empty or has missing values.

    Examples
    --------
    >>> clients, names = by_column(["b", "a", "b"])
    >>> [rows.tolist() for rows in clients], names
    ([[1], [0, 2]], ('a', 'b'))
    """
    column = np.asarray(values)
    if column.ndim != 1 or not column.size:
        raise Refusal(f"the column of clients must have one value per row, not shape {column.shape}")
    if column.dtype.kind == "f" and not np.isfinite(column).all():
        raise Refusal("the column of clients has missing values: fill in the client, or leave those rows out")
    names, owner = np.unique(column, return_inverse=True)
    return _by_owner(owner, len(names)), tuple(names.tolist())


def classes_of(labels: Any, clients: Sequence[Index]) -> Index:
    """(K,) number of different labels of each client."""
    y = _labels(labels)
    return np.array([len(np.unique(y[rows])) for rows in clients], dtype=np.intp)


def _by_owner(owner: Index, clients: int) -> Clients:
    order = np.argsort(owner, kind="stable")
    return tuple(np.split(order, np.cumsum(np.bincount(owner, minlength=clients))[:-1]))


def _labels(labels: Any) -> Any:
    y = np.asarray(labels)
    if y.ndim != 1 or not y.size:
        raise Refusal(f"labels must be one per row, not of shape {y.shape}")
    return y
