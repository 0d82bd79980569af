"""Numbers as given: read once, with the words of the refusal in one place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dosimeter.core.errors import Refusal


def number(name: str, value: Any, low: float, high: float, *, strictly: bool = True) -> float:
    """The value as a float, in (low, high] or, not `strictly`, in [low, high]; or a refusal.

    >>> number("delta", 1e-5, 0, 1)
    1e-05
    """
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not real or not (low < value if strictly else low <= value) or not value <= high or not math.isfinite(value):
        raise Refusal(f"{name}={value!r}: must be a number in {'(' if strictly else '['}{low:g}, {high:g}]")
    return float(value)


def whole(name: str, value: Any, low: int, high: int) -> int:
    """The value as an int in [low, high], or a refusal; 5.0 is whole.

    >>> whole("rounds", 5.0, 1, 10)
    5
    """
    found = number(name, value, low, high, strictly=False)
    if not found.is_integer():
        raise Refusal(f"{name}={value!r}: must be a whole number in [{low}, {high}]")
    return int(found)
