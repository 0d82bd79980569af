"""Amounts: the whole numbers that the ledger adds, in nano-units of the additive coordinate (η², μ², nats), rounded up.

A total of whole numbers does not depend on the order of its terms, and every term raises it. A float sum has neither
property: 1.0 + 1e-17 is 1.0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dosimeter.core.errors import Refusal

NANO = 10**9
MOST = 2**63 - 1
"""The largest amount and the largest total: the limit of an integer column in both databases."""

_LEAST = float(np.finfo(np.float64).tiny)


def amount_of(value: Any) -> int:
    """`value`, a float in the additive coordinate, in nano-units, rounded up to a whole number.

    >>> amount_of(0.09), amount_of(1e-30), amount_of(0.0)
    (90000000, 1, 0)
    """
    x = float(value)
    if math.isnan(x):
        raise Refusal("a dose of nan cannot be booked: check the figure it was computed from")
    if x < 0:
        raise Refusal(f"a dose of {x!r} cannot be booked: a dose is never negative")
    if math.isinf(x):
        raise Refusal("an unbounded dose cannot be booked: a value is released exactly; add noise first")
    if 0 < x < _LEAST:
        raise Refusal(f"a dose of {x!r} cannot be booked: below the normal float64 numbers digits are lost")
    numerator, denominator = x.as_integer_ratio()
    amount = -(-numerator * NANO // denominator)
    if amount > MOST:
        raise Refusal(f"a dose of {x:.4g} is above the largest dose of a ledger ({MOST / NANO:.3g}): add noise first")
    return amount


def amounts_of(values: Any) -> tuple[int, ...]:
    """`amount_of` of each, (k,)."""
    return tuple(amount_of(x) for x in np.asarray(values, dtype=np.float64).tolist())


def check_total(total: int) -> int:
    """The total, refused if it is too large for the ledger."""
    if total > MOST:
        raise Refusal(f"a total of {total / NANO:.4g} is above the largest total of a ledger ({MOST / NANO:.3g})")
    return total
