"""Weights and offsets of rows that are columns of the table: a cell then moves the model twice, and one way is held."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.core.text import safe_text

HELD = "{what} is the column {name} of the table, held fixed: not covered"
HELD_SHAPE = "{what} follows from the column {name} of the table, held fixed: not covered"
DIGITS = 1e-9
"""Relative difference up to which two columns are the same."""
WEIGHTS: tuple[Callable[[FloatArray], FloatArray], ...] = (
    lambda w: w, lambda w: 1.0 / w, np.square, lambda w: 1.0 / np.square(w), np.sqrt, lambda w: 1.0 / np.sqrt(w),
)  # fmt: skip
"""What a weight is taken for, up to a factor: the column, or a variance, a deviation or a number of rows."""


def own_constants(
    named: Any, passed: FloatArray | None, problem: Any, *columns: Mapping[str, NDArray[Any]]
) -> tuple[str, ...]:
    """What is said of weights and offsets that a column of the table gives, by name or by its values.

    named: `sample_weight` as it was passed; passed: its values, or None; problem: the model's own weights and offset.

    >>> stays = np.array([1.0, 2.0, 5.0])
    >>> own_constants("stays", stays, None), own_constants(None, stays / 8, None, {"days": stays})
    (('sample_weight is the column stays of the table, held fixed: not covered',),
     ('sample_weight follows from the column days of the table, held fixed: not covered',))
    """
    weight, offset = getattr(problem, "weight", None), getattr(problem, "offset", None)
    if passed is None and weight is None and offset is None:
        return ()
    every = [(name, column) for of in columns for name, column in of.items()]
    numbers = {name: c.astype(np.float64) for name, c in reversed(every) if c.dtype.kind in "fiu" and _varies(c)}
    notes = []
    if passed is not None:
        notes += [HELD.format(what="sample_weight", name=safe_text(named))] if isinstance(named, str) else []
        notes += [] if notes else _of_weights("sample_weight", passed, numbers)
    elif weight is not None and getattr(problem, "label_weights", None) is None:
        notes += _of_weights("the model's weight of a row", np.asarray(weight), numbers)
    if offset is not None and np.ndim(offset) == 1:
        notes += _of_offset(np.asarray(offset), numbers)
    return tuple(notes)


def _of_weights(what: str, weight: FloatArray, columns: Mapping[str, FloatArray]) -> list[str]:
    for name, column in columns.items():
        if np.array_equal(column, weight):
            return [HELD.format(what=what, name=safe_text(name))]
    with np.errstate(all="ignore"):
        forms = [form(weight) for form in WEIGHTS] if _varies(weight) else []
        for name, column in columns.items():
            if any(_is_multiple(column, form) for form in forms):
                return [HELD_SHAPE.format(what=what, name=safe_text(name))]
    return []


def _of_offset(offset: FloatArray, columns: Mapping[str, FloatArray]) -> list[str]:
    """An offset, or the logarithm of an exposure, up to a constant."""
    what = "the model's offset"
    if not _varies(offset):
        return []
    with np.errstate(all="ignore"):
        for name, column in columns.items():
            if np.array_equal(column, offset):
                return [HELD.format(what=what, name=safe_text(name))]
            shift = column - offset
            if np.ptp(shift) <= DIGITS * np.ptp(offset) or _is_multiple(np.exp(offset - offset.mean()), column):
                return [HELD_SHAPE.format(what=what, name=safe_text(name))]
    return []


def _varies(values: NDArray[Any]) -> bool:
    return bool(np.ndim(values) == 1 and len(values) and (values != values[0]).any())


def _is_multiple(a: FloatArray, b: FloatArray) -> bool:
    ratio = a / b
    return bool(np.isfinite(ratio).all() and np.ptp(ratio) <= DIGITS * abs(float(ratio[0])))
