"""Options that must be numbers of a certain kind."""

from __future__ import annotations

import math

from dosimeter.core.errors import Refusal


def positive(option: str, value: float) -> float:
    """A finite number above zero."""
    if not (math.isfinite(value) and value > 0):
        raise Refusal(f"{option} {value:g}: give a finite number above 0")
    return value


def not_negative(option: str, value: float) -> float:
    """A finite number, zero allowed."""
    if not (math.isfinite(value) and value >= 0):
        raise Refusal(f"{option} {value:g}: give a finite number, 0 or above")
    return value
