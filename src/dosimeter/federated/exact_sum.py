"""Totals: sums of clipped updates without any rounding, so that their order tells nothing and C is C.

A float64 sum moves by more than its largest term when one term is taken out, through the rounding of all the others.
Each contribution is therefore cut, towards zero, to a whole number of steps; the sum of whole numbers below 2^53 is
exact in whatever order and by whatever chunks it is taken. Cutting towards zero never raises a norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.federated import client_messages as arrivals
from dosimeter.federated.client_messages import AcceptedUpdates, MessageCounts
from dosimeter.federated.state import State

Observer = Callable[[AcceptedUpdates], None]
"""Sees what was accepted, as it was sent: for `diagnostics` and `individual`. What it learns is internal."""


def step_of(bound: float, clients: int) -> float:
    """The step: a power of two such that contributions of all `clients`, each at most `bound`, sum below 2^53 steps.

    Public: it depends on C and K alone. For K = 10,000 it is 2^-36 C or smaller.

    >>> step_of(1.0, 1), step_of(1.0, 1000) == 2.0**-41
    (4.440892098500626e-16, True)
    """
    # bound < 2^e and K <= 2^b, so K · bound / 2^(e + b - 52) < 2^52.
    exponent = math.frexp(bound)[1]
    bits = max(int(clients) - 1, 0).bit_length()
    return math.ldexp(1.0, exponent + bits - 52)


def cut(rows: FloatArray, step: float) -> FloatArray:
    """rows/step cut towards zero, in place: whole numbers. 1/step is a power of two, so the product is exact."""
    with np.errstate(under="ignore"):
        rows *= 1.0 / step
    return np.trunc(rows, out=rows)


def gathered(
    state: State, clients: int, messages: Iterable[Any], tally: MessageCounts, observe: Observer | None = None
) -> tuple[FloatArray, float]:
    """(d,) exact sum of the clipped updates of the open round, and the sum of the centred bits. Not noised: internal.

    One client more or fewer among the messages moves the first by at most C in the 2-norm, the second by ½.
    """
    d, C = state.model.size, state.clip
    step = step_of(C, clients)
    total, bits = np.zeros(d), 0.0
    for who, clipped, sent in arrivals.read(messages, state.participants, d, C, state.round, tally):
        good = clipped.accepted
        total += cut(clipped.rows, step).sum(axis=0)
        within = clipped.norms[good] <= C
        bits += float(within.sum()) - 0.5 * len(within)
        if observe is not None:
            observe(AcceptedUpdates(state.round, C, who[good], sent[good], clipped.norms[good]))
    return total * step, bits
