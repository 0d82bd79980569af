"""Values as JSON can hold them."""

from __future__ import annotations

import math
from typing import Any

JsonObject = dict[str, Any]
"""A JSON object: plain values only."""


def to_json(value: Any) -> Any:
    """Infinity becomes the word "unbounded", numpy scalars become plain ones, tuples lists.

    >>> to_json({"highest": float("inf"), "widths": (4, 2)})
    {'highest': 'unbounded', 'widths': [4, 2]}
    """
    if isinstance(value, dict):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(v) for v in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        value = value.item()
    if isinstance(value, float) and math.isinf(value):
        return "unbounded"
    return value
