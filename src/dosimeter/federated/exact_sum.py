"""Sums of clipped updates without rounding: they do not depend on the order, and one client moves them by at most C.

Removing one term from a float64 sum can change it by more than that term, because the other terms round differently.
Each contribution is therefore truncated to a whole number of steps; sums of whole numbers below 2^53 are exact in any
order and in any chunks. Truncation never raises a norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.federated import client_messages
from dosimeter.federated.client_messages import AcceptedUpdates, MessageCounts
from dosimeter.federated.state import State

Observer = Callable[[AcceptedUpdates], None]
"""Receives the accepted updates as sent, for `UpdateStatistics` and `ClientNorms`. What it sees is internal."""


def grid_step(bound: float, clients: int) -> float:
    """The step: a power of two such that contributions of all `clients`, each at most `bound`, sum below 2^53 steps.

    Public: it depends on C and K only. For K = 10,000 it is at most 2^-36 C.

    >>> grid_step(1.0, 1), grid_step(1.0, 1000) == 2.0**-41
    (4.440892098500626e-16, True)
    """
    # bound < 2^e and K <= 2^b, so K · bound / 2^(e + b - 52) < 2^52.
    exponent = math.frexp(bound)[1]
    bits = max(int(clients) - 1, 0).bit_length()
    return math.ldexp(1.0, exponent + bits - 52)


def truncate(rows: FloatArray, step: float) -> FloatArray:
    """rows/step truncated to whole numbers, in place. 1/step is a power of two, so the product is exact."""
    with np.errstate(under="ignore"):
        rows *= 1.0 / step
    return np.trunc(rows, out=rows)


def sum_updates(
    state: State, clients: int, messages: Iterable[Any], counts: MessageCounts, observe: Observer | None = None
) -> tuple[FloatArray, float]:
    """(d,) exact sum of the clipped updates of the open round, and the sum of the centred bits. Not noised: internal.

    One client more or fewer moves the first by at most C in the 2-norm, and the second by ½.
    """
    d, C = state.model.size, state.clip
    step = grid_step(C, clients)
    total, bits = np.zeros(d), 0.0
    for clients_of_batch, clipped, updates in client_messages.read(
        messages, state.participants, d, C, state.round, counts
    ):
        accepted = clipped.accepted
        total += truncate(clipped.rows, step).sum(axis=0)
        within = clipped.norms[accepted] <= C
        bits += float(within.sum()) - 0.5 * len(within)
        if observe is not None:
            observe(
                AcceptedUpdates(state.round, C, clients_of_batch[accepted], updates[accepted], clipped.norms[accepted])
            )
    return total * step, bits
