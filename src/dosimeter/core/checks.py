"""Checks of numeric arguments, with the text of the refusal in one place."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text


def number(name: str, value: Any, low: float, high: float, *, strictly: bool = True) -> float:
    """The value as a float, refused outside (low, high]; with strictly=False, outside [low, high].

    >>> number("delta", 1e-5, 0, 1)
    1e-05
    """
    inside = _is_real(value) and math.isfinite(value) and (low < value if strictly else low <= value) and value <= high
    if not inside:
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
    if not (_is_real(value) and math.isfinite(value) and value > 0):
        raise Refusal(f"{_shown(name, value)}: give a finite number above 0")
    return value


def not_negative(name: str, value: float) -> float:
    """An option that is a finite number, zero allowed."""
    if not (_is_real(value) and math.isfinite(value) and value >= 0):
        raise Refusal(f"{_shown(name, value)}: give a finite number, 0 or above")
    return value


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def _shown(name: str, value: Any) -> str:
    return option(name, float(value) if _is_real(value) else safe_text(value))
