"""Checks of the arrays before any mathematics: finite, of matching shape, within a safe range of float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal

HUGE, TINY = 1e60, 1e-60
"""Fourth powers of numbers within these bounds, such as the squares of H⁻¹x, stay inside float64's range."""


def check_table(X: Any, y: Any, sample_weight: Any = None) -> tuple[FloatArray, FloatArray, FloatArray]:
    """X (n, d), y (n,), ω (n,) as float64; every fault is named with its position."""
    return sized_table(X, y, sample_weight)[:3]


def sized_table(X: Any, y: Any, sample_weight: Any = None) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """`check_table`, and the largest size of each column (d,)."""
    X = as_floats(X, "X")
    # A value that is not finite is the extreme of its column, or makes it nan: one look at them finds it.
    largest = np.maximum(X.max(axis=0), -X.min(axis=0)) if X.ndim == 2 and X.size else np.array([np.nan])
    if not np.isfinite(largest).all():
        _refuse_not_finite(X, "X")
    y = _finite_floats(y, "y")
    if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] == 0:
        raise Refusal(f"X must be a table with rows and columns, not of shape {X.shape}")
    if y.shape != (X.shape[0],):
        raise Refusal(f"y must have one value for each of the {X.shape[0]} rows, not shape {y.shape}")
    weight = np.ones(len(y)) if sample_weight is None else _finite_floats(sample_weight, "sample_weight")
    if weight.shape != y.shape:
        raise Refusal(f"sample_weight must have shape {y.shape}, not {weight.shape}")
    if (weight < 0).any():
        raise Refusal(f"sample_weight must not be negative; row {int(np.flatnonzero(weight < 0)[0])} is")
    used = weight[weight > 0]
    if not len(used):
        raise Refusal("every sample_weight is zero: there is nothing to fit")
    if used.max() > HUGE or used.min() < TINY:
        raise Refusal(
            f"sample_weight ranges from {used.min():.3g} to {used.max():.3g}: keep it between {TINY:g} and {HUGE:g}"
        )
    odd = (largest > HUGE) | ((largest > 0) & (largest < TINY))
    if odd.any():
        j = int(np.flatnonzero(odd)[0])
        raise Refusal(f"column {j} reaches {largest[j]:.3g}: rescale it (sizes from {TINY:g} to {HUGE:g} are accepted)")
    if np.abs(y).max() > HUGE:
        raise too_large_target(float(np.abs(y).max()))
    return X, y, weight, np.asarray(largest)


def too_large_target(size: float) -> Refusal:
    """The refusal of a target of this size, whose squares leave float64."""
    return Refusal(f"y reaches {size:.3g}: rescale it (sizes up to {HUGE:g} are accepted)")


def check_offset(offset: Any, n: int) -> FloatArray | None:
    """(n,) finite numbers that are added to the margins; None if there are none."""
    if offset is None:
        return None
    o = _finite_floats(offset, "offset")
    if o.shape != (n,):
        raise Refusal(f"offset must have one number for each of the {n} rows, not shape {o.shape}")
    if np.abs(o).max() > HUGE:
        raise Refusal(f"offset reaches {np.abs(o).max():.3g}: rescale it (sizes up to {HUGE:g} are accepted)")
    return o


def check_l2(l2: Any, d: int, intercept: bool, penalised_intercept: bool) -> FloatArray:
    """(p,) λ of each parameter from one number, d numbers, or d + 1 with the intercept's last."""
    if penalised_intercept and not intercept:
        raise Refusal("penalised_intercept=True needs an intercept: pass intercept=True")
    if np.ndim(l2) == 0:
        if isinstance(l2, bool) or not isinstance(l2, int | float | np.number) or not 0 <= l2 <= HUGE:
            raise Refusal(f"l2 must be a finite number >= 0 (and at most {HUGE:g}), not {l2!r}")
        return np.append(np.full(d, float(l2)), [float(l2) if penalised_intercept else 0.0] * intercept)
    values = _finite_floats(l2, "l2")
    if values.shape not in ((d,), (d + intercept,)):
        rule = f"{d} numbers, one per column" + (f", or {d + 1} with the intercept's last" if intercept else "")
        raise Refusal(f"l2 must be one number or {rule}, not shape {values.shape}")
    if not ((values >= 0) & (values <= HUGE)).all():
        j = int(np.flatnonzero(~((values >= 0) & (values <= HUGE)))[0])
        raise Refusal(f"l2 must be >= 0 (and at most {HUGE:g}); entry {j} is {values[j]:g}")
    if intercept and len(values) == d:
        if penalised_intercept:
            raise Refusal(f"penalised_intercept with an l2 per column: give {d + 1} numbers, the intercept's last")
        values = np.append(values, 0.0)
    return values


def as_floats(values: Any, name: str) -> FloatArray:
    """A C-ordered float64 array of real numbers, finite or not; no copy if it is one already."""
    if hasattr(values, "tocsr"):
        raise Refusal(f"{name} is a scipy.sparse table, which only glm.fit, fit_at and measure take: pass an array")
    try:
        array = np.asarray(values)
    except ValueError:
        raise Refusal(f"{name} has rows of different lengths: pass a rectangular table") from None
    if array.dtype.kind not in "fiub":
        raise Refusal(f"{name} must hold real numbers, not {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.float64)


def _finite_floats(values: Any, name: str) -> FloatArray:
    out = as_floats(values, name)
    _refuse_not_finite(out, name)
    return out


def _refuse_not_finite(array: FloatArray, name: str) -> None:
    if not np.isfinite(array).all():
        position = np.argwhere(~np.isfinite(array))[0]
        location = f"row {position[0]}" + (f", column {position[1]}" if len(position) > 1 else "")
        raise Refusal(f"{name} has a value that is not finite at {location}: remove or impute it")
