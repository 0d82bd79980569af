"""What the arrays must be before any mathematics: finite, of matching shape, within float64's comfortable range."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.core.notion import FloatArray
from dosimeter.core.refusal import Refusal

HUGE, TINY = 1e140, 1e-140
"""Squares of numbers outside these bounds leave float64's range."""


def check_table(X: Any, y: Any, sample_weight: Any = None) -> tuple[FloatArray, FloatArray, FloatArray]:
    """X (n, d), y (n,), ω (n,) as float64; every fault is named with its place."""
    X = _real(X, "X")
    y = _real(y, "y")
    if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] == 0:
        raise Refusal(f"X must be a table with rows and columns, not of shape {X.shape}")
    if y.shape != (X.shape[0],):
        raise Refusal(f"y must have one value for each of the {X.shape[0]} rows, not shape {y.shape}")
    weight = np.ones(len(y)) if sample_weight is None else _real(sample_weight, "sample_weight")
    if weight.shape != y.shape:
        raise Refusal(f"sample_weight must have shape {y.shape}, not {weight.shape}")
    if (weight < 0).any():
        raise Refusal(f"sample_weight must not be negative; row {int(np.flatnonzero(weight < 0)[0])} is")
    if not (weight > 0).any():
        raise Refusal("every sample_weight is zero: there is nothing to fit")
    largest = np.maximum(X.max(axis=0), -X.min(axis=0))
    odd = (largest > HUGE) | ((largest > 0) & (largest < TINY))
    if odd.any():
        j = int(np.flatnonzero(odd)[0])
        raise Refusal(f"column {j} reaches {largest[j]:.3g}: rescale it so that its square fits a float64")
    if np.abs(y).max() > HUGE:
        raise Refusal(f"y reaches {np.abs(y).max():.3g}: rescale it so that its square fits a float64")
    return X, y, weight


def _real(values: Any, name: str) -> FloatArray:
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise Refusal(f"{name} must hold real numbers, not {array.dtype}")
    out = np.ascontiguousarray(array, dtype=np.float64)
    if not np.isfinite(out).all():
        place = np.argwhere(~np.isfinite(out))[0]
        where = f"row {place[0]}" + (f", column {place[1]}" if len(place) > 1 else "")
        raise Refusal(f"{name} has a value that is not finite at {where}: remove or impute it")
    return out
