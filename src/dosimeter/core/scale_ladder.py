"""The public ladder: a scale chosen from the data is rounded up to a rung before it is used or shown.

The rungs are 2^(k/2) for whole k, in the unit of the released value: ..., ½, √½, 1, √2, 2, ... The anchor 1 is a
constant, so the ladder itself reveals nothing. A rung still reveals between which two rungs the exact scale was;
`SCALE_NOT_COVERED` says so.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from dosimeter.core.errors import Refusal

SCALE_NOT_COVERED = "the scale was chosen from the data: the choice itself is not covered"
"""An entry of `not_covered` for everything that uses a calibrated scale."""

LEAST_RUNG, MOST_RUNG = -996, 996
"""2^±498 is the last whole power within the scales that `core.noise` accepts, 1e-150 to 1e150."""


def rung(k: int) -> float:
    """2^(k/2), the k-th rung: exactly a power of two for even k, the nearest float to √½ times one for odd k.

    >>> [rung(k) for k in (-2, 0, 2)], round(rung(1), 6)
    ([0.5, 1.0, 2.0], 1.414214)
    """
    if isinstance(k, bool) or not isinstance(k, int) or not LEAST_RUNG <= k <= MOST_RUNG:
        raise Refusal(f"rungs are numbered from {LEAST_RUNG} to {MOST_RUNG}, not {k!r}")
    half, odd = divmod(k, 2)
    return math.ldexp(math.sqrt(0.5), half + 1) if odd else math.ldexp(1.0, half)


def rung_above(scale: Any) -> int:
    """The least k with scale <= 2^(k/2). Computed without a logarithm, so that a rung maps to itself.

    >>> rung_above(0.75), rung_above(1.0), rung_above(1.1)
    (0, 0, 1)
    """
    if isinstance(scale, bool) or not isinstance(scale, Real) or not 0 < float(scale) < math.inf:
        raise Refusal(f"a scale must be a finite number > 0, not {scale!r}")
    mantissa, power = math.frexp(float(scale))  # scale = mantissa · 2^power, mantissa in [½, 1)
    k = 2 * power - (2 if mantissa == 0.5 else 1 if mantissa <= math.sqrt(0.5) else 0)
    if not LEAST_RUNG <= k <= MOST_RUNG:
        raise Refusal(
            f"the scale {scale:g} is outside the ladder, 2^{LEAST_RUNG // 2} to 2^{MOST_RUNG // 2}: use another unit"
        )
    return k


def round_up(scale: Any) -> float:
    """The scale rounded up to the next rung.

    >>> round_up(0.3), round_up(0.5), round_up(0.6) == 0.5**0.5
    (0.3535533905932738, 0.5, True)
    """
    return rung(rung_above(scale))
