"""Amounts: what the ledger adds. Whole nano-units of the additive coordinate (η², μ², nats), never rounded down.

Whole numbers make a total that does not depend on the order of its terms and that no small term can fail to raise.
A float sum has neither property: 1.0 + 1e-17 is 1.0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dosimeter.core.errors import Refusal

NANO = 10**9
MOST = 2**63 - 1
"""The largest amount, and the largest total: what both databases hold in one integer column."""

_LEAST = float(np.finfo(np.float64).tiny)


def amount_of(value: Any) -> int:
    """The least whole number of nano-units that is not below `value`, a float in the additive coordinate.

    >>> amount_of(0.09), amount_of(1e-30), amount_of(0.0)
    (90000000, 1, 0)
    """
    x = float(value)
    if math.isnan(x):
        raise Refusal("a dose of nan cannot be booked: check the reading it was made from")
    if x < 0:
        raise Refusal(f"a dose of {x!r} cannot be booked: a dose is never negative")
    if math.isinf(x):
        raise Refusal("an unbounded dose cannot be booked: the release is exact for somebody; add noise first")
    if 0 < x < _LEAST:
        raise Refusal(f"a dose of {x!r} cannot be booked: it is below the normal numbers and may have lost its digits")
    numerator, denominator = x.as_integer_ratio()
    amount = -(-numerator * NANO // denominator)
    if amount > MOST:
        raise Refusal(f"a dose of {x:.4g} is beyond what the ledger counts ({MOST / NANO:.3g}): add noise first")
    return amount


def amounts_of(values: Any) -> tuple[int, ...]:
    """`amount_of` of each, (k,)."""
    return tuple(amount_of(x) for x in np.asarray(values, dtype=np.float64).tolist())


def checked_total(total: int) -> int:
    """A total that still fits, or a refusal."""
    if total > MOST:
        raise Refusal(f"a total of {total / NANO:.4g} is beyond what the ledger counts ({MOST / NANO:.3g})")
    return total
