"""Arrivals: what clients sent, read with suspicion. At most one update per sampled client counts; the rest is refused.

A refused client is treated as one who never answered: nothing is added on its behalf, and the round goes on. What a
client claims about itself (a weight, a number of examples) is not read at all.
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
    """One client's message. `weight` is whatever it claims, and is never used."""

    client: Any
    update: Any
    round: int = ANY_ROUND
    weight: Any = None


class UpdateBatch(NamedTuple):
    """Updates of several clients, trained together: a trusted form, for simulation and for an engine."""

    clients: Any
    """(c,) their numbers."""
    updates: Any
    """(c, d) float32 or float64."""


class AcceptedUpdates(NamedTuple):
    """A block of accepted updates as they were sent. Internal."""

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
    """What happened to the messages of one round. Internal."""

    accepted: int = 0
    refused: int = 0


def read(
    messages: Iterable[Any], participants: Index, size: int, bound: float, this_round: int, tally: MessageCounts
) -> Iterator[tuple[Index, ClippedUpdates, Any]]:
    """For each message or block: clients (c,), their clipped updates, and the updates as sent (c, d); counted."""
    waiting = {int(k) for k in participants}
    for message in messages:
        clients, block = _as_block(message, size, this_round)
        fresh = [_admit(k, waiting) for k in clients]
        tally.refused += max(1, len(fresh)) - sum(fresh)
        if not any(fresh):
            continue
        if not all(fresh):
            keep = np.flatnonzero(fresh)
            clients, block = [clients[i] for i in keep], block[keep]
        clipped = clip_rows(block, bound)
        good = int(clipped.accepted.sum())
        tally.accepted += good
        tally.refused += len(clients) - good
        yield np.asarray(clients, dtype=np.intp), clipped, block


def _admit(client: Any, waiting: set[int]) -> bool:
    """Whether this client was sampled and has not been heard yet."""
    if not _is_whole(client) or int(client) not in waiting:
        return False
    waiting.remove(int(client))
    return True


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


_NOTHING: tuple[list[Any], FloatArray] = ([], np.zeros((0, 0)))


def _as_block(message: Any, size: int, this_round: int) -> tuple[list[Any], Any]:
    """(clients, (c, d) array), empty where the message has not the form of an update of this round."""
    if isinstance(message, UpdateBatch):
        clients, block = list(np.atleast_1d(np.asarray(message.clients))), message.updates
        return (clients, block) if _fits(block, (len(clients), size)) else _NOTHING
    if not isinstance(message, tuple) or not 2 <= len(message) <= 4:
        return _NOTHING
    sent = ClientUpdate(*message)
    if not _is_whole(sent.round) or int(sent.round) not in (ANY_ROUND, this_round):
        return _NOTHING
    # Anything but an array is not even converted: the conversion would run the sender's code.
    return ([sent.client], sent.update[None]) if _fits(sent.update, (size,)) else _NOTHING


def _fits(array: Any, shape: tuple[int, ...]) -> bool:
    return type(array) is np.ndarray and array.shape == shape and is_number_type(array.dtype)
