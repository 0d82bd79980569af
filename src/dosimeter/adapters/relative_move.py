"""How far figures at given coefficients are from those at the exact minimum, and how far they may be."""

from __future__ import annotations

import numpy as np

from dosimeter.core.arrays import FloatArray

ACCEPTED = 0.01
"""The largest relative change of a row's figure within which the figure is exact."""

HIDDEN = 0.05
"""The same without labels, for figures of at least a tenth of the highest. A label's part of a figure hardly depends on
the coefficients: if it dominates, the first bound alone would accept another table."""

NOISED = (
    "weights that already carry noise, such as those in a file of `fix`, are not a minimum: `fix` reported their dose"
)


def relative_move(before: FloatArray, after: FloatArray, floor: float) -> float:
    """Largest |before - after| / after; figures below `floor` times the highest are raised to it."""
    top = float(after.max())
    if top == 0.0:  # nothing leaks: any change is infinitely large
        return 0.0 if not before.any() else float("inf")
    return float(np.max(np.abs(before - after) / np.maximum(after, floor * top)))
