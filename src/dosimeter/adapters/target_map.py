"""A fixed function of the target before the fit: its derivative at each row by differences, of two values the step."""

from __future__ import annotations

import numpy as np

from dosimeter.adapters.wrappers import TargetMap
from dosimeter.core.arrays import FloatArray
from dosimeter.core.category import step_of
from dosimeter.core.errors import CannotMeasure

AGREE = 1e-6
"""Two step sizes must give the same derivative to this relative difference."""


def target_slopes(target_map: TargetMap, y: FloatArray) -> FloatArray:
    """(n,) f'(y) by central differences, two step sizes and extrapolation; of two values the chord between them.

    >>> target_slopes(np.log, np.array([1.0, 2.0, 4.0])).round(9)
    array([1.  , 0.5 , 0.25])
    >>> target_slopes(np.square, np.array([1.0, 3.0, 3.0]))
    array([4., 4., 4.])
    """
    step_between = step_of(y)
    if step_between is not None:
        low, high = target_map(np.array([y.min(), y.max()])).tolist()
        return np.full(len(y), (high - low) / step_between)
    step = 1e-3 * np.maximum(np.abs(y), 1e-3 * max(1.0, float(np.abs(y).max())))
    with np.errstate(all="ignore"):
        wide, narrow, narrower = ((target_map(y + h) - target_map(y - h)) / (2 * h) for h in (step, step / 2, step / 4))
    first, second = (4 * narrow - wide) / 3, (4 * narrower - narrow) / 3
    agrees = np.abs(first - second) <= AGREE * np.maximum(np.abs(second), 1e-12)
    if not np.all(agrees):
        row = int(np.flatnonzero(~agrees)[0])
        raise CannotMeasure(
            f"the transformer of the target has no derivative at row {row} (from 0), as far as differences show: use a "
            "smooth function"
        )
    return np.asarray(second)
