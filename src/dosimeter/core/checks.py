"""Checks of numeric arguments, with the text of the refusal in one place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option


def number(name: str, value: Any, low: float, high: float, *, strictly: bool = True) -> float:
    """The value as a float, refused outside (low, high]; with strictly=False, outside [low, high].

    >>> number("delta", 1e-5, 0, 1)
    1e-05
    """
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not real or not (low < value if strictly else low <= value) or not value <= high or not math.isfinite(value):
        raise Refusal(f"{name}={value!r}: must be a number in {'(' if strictly else '['}{low:g}, {high:g}]")
    return float(value)


def whole(name: str, value: Any, low: int, high: int) -> int:
    """The value as an int, refused outside [low, high]; 5.0 is accepted.

    >>> whole("rounds", 5.0, 1, 10)
    5
    """
    checked = number(name, value, low, high, strictly=False)
    if not checked.is_integer():
        raise Refusal(f"{name}={value!r}: must be a whole number in [{low}, {high}]")
    return int(checked)


def positive(name: str, value: float) -> float:
    """An option that is a finite number above zero."""
    if not (math.isfinite(value) and value > 0):
        raise Refusal(f"{option(name, float(value))}: give a finite number above 0")
    return value


def not_negative(name: str, value: float) -> float:
    """An option that is a finite number, zero allowed."""
    if not (math.isfinite(value) and value >= 0):
        raise Refusal(f"{option(name, float(value))}: give a finite number, 0 or above")
    return value
