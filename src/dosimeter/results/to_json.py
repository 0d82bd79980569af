"""Facts as JSON can hold them."""

from __future__ import annotations

import math
from typing import Any


def plain(value: Any) -> Any:
    """JSON has no infinity: it becomes the word "unbounded"; numpy scalars become plain ones, tuples lists.

    >>> plain({"highest": float("inf"), "widths": (4, 2)})
    {'highest': 'unbounded', 'widths': [4, 2]}
    """
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        value = value.item()
    if isinstance(value, float) and math.isinf(value):
        return "unbounded"
    return value
