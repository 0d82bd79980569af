"""Clients' messages, read as untrusted input. At most one update per sampled client counts; the rest is refused.

A refused client is treated as one that never answered: nothing is added on its behalf, and the round continues. What a
client claims about itself (a weight, a number of examples) is never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.federated.clip import ClippedUpdates, clip_rows, is_number_type

ANY_ROUND = -1


class ClientUpdate(NamedTuple):
    """One client's message.

    Parameters
    ----------
    client : int
        Its number, 0 to K - 1.
    update : (d,) array
        float32 or float64.
    round : int, default any
        The round it belongs to; messages of another round are refused.
    weight : object
        Whatever the client claims; never used.

    Examples
    --------
    >>> ClientUpdate(3, np.zeros(2)).client
    3
    """

    client: Any
    update: Any
    round: int = ANY_ROUND
    weight: Any = None


class UpdateBatch(NamedTuple):
    """Updates of several clients trained together: a trusted form, for simulation and for an engine.

    Parameters
    ----------
    clients : (c,) array of int
        Their numbers.
    updates : (c, d) array
        float32 or float64.

    Examples
    --------
    >>> UpdateBatch(np.array([0, 2]), np.zeros((2, 5))).updates.shape
    (2, 5)
    """

    clients: Any
    updates: Any


class AcceptedUpdates(NamedTuple):
    """A batch of accepted updates as they were sent. Internal."""

    round: int
    clip: float
    clients: Index
    """(c,)."""
    updates: Any
    """(c, d) as sent."""
    norms: FloatArray
    """(c,) upper bounds of their norms, before clipping."""


@dataclass
class MessageCounts:
    """Number of accepted and refused messages of one round. Internal."""

    accepted: int = 0
    refused: int = 0


def read(
    messages: Iterable[Any], participants: Index, size: int, bound: float, this_round: int, counts: MessageCounts
) -> Iterator[tuple[Index, ClippedUpdates, Any]]:
    """For each message or batch: clients (c,), clipped updates, and updates as sent (c, d). Updates `counts`."""
    waiting = {int(k) for k in participants}
    for message in messages:
        clients, updates = _clients_and_updates(message, size, this_round)
        admitted = [_admit(k, waiting) for k in clients]
        counts.refused += max(1, len(admitted)) - sum(admitted)
        if not any(admitted):
            continue
        if not all(admitted):
            keep = np.flatnonzero(admitted)
            clients, updates = [clients[i] for i in keep], updates[keep]
        clipped = clip_rows(updates, bound)
        accepted = int(clipped.accepted.sum())
        counts.accepted += accepted
        counts.refused += len(clients) - accepted
        yield np.asarray(clients, dtype=np.intp), clipped, updates


def _admit(client: Any, waiting: set[int]) -> bool:
    """True if this client was sampled and has not answered yet."""
    if not _is_whole(client) or int(client) not in waiting:
        return False
    waiting.remove(int(client))
    return True


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


_NO_UPDATES: tuple[list[Any], FloatArray] = ([], np.zeros((0, 0)))


def _clients_and_updates(message: Any, size: int, this_round: int) -> tuple[list[Any], Any]:
    """(clients, (c, d) array); empty if the message is not an update of this round."""
    if isinstance(message, UpdateBatch):
        clients, updates = list(np.atleast_1d(np.asarray(message.clients))), message.updates
        return (clients, updates) if _fits(updates, (len(clients), size)) else _NO_UPDATES
    if not isinstance(message, tuple) or not 2 <= len(message) <= 4:
        return _NO_UPDATES
    message_of_one = ClientUpdate(*message)
    if not _is_whole(message_of_one.round) or int(message_of_one.round) not in (ANY_ROUND, this_round):
        return _NO_UPDATES
    # Anything but an array is not even converted: conversion could run the sender's code.
    return (
        ([message_of_one.client], message_of_one.update[None]) if _fits(message_of_one.update, (size,)) else _NO_UPDATES
    )


def _fits(array: Any, shape: tuple[int, ...]) -> bool:
    return type(array) is np.ndarray and array.shape == shape and is_number_type(array.dtype)
