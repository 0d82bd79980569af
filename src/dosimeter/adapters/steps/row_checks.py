"""Checks of a step of unknown kind: does it repeat, does it treat rows one by one, does it jump."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.adapters.steps.calls import StepFailure
from dosimeter.adapters.steps.run import step_name
from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import CannotMeasure

Evaluate = Callable[[Sequence[NDArray[Any]]], NDArray[Any]]
"""Columns (k,) each -> outputs (k, ...)."""

ROUNDING = 1e-9
"""Outputs of the same row may differ by this share of the largest: products round by the size of a block."""

PATHS, POINTS = 8, 257
"""Jumps are looked for on straight lines through this many rows, from the least to the largest value of a column."""

HALVINGS = 45
"""After so many halvings an interval is a rounding error wide: a change that is still there is a jump."""


def refuse_mixing(step: Any, evaluate: Evaluate, columns: Sequence[NDArray[Any]], values: NDArray[Any]) -> None:
    """Refuse a step whose output for a row depends on the other rows, or on the call."""
    n = len(values)
    if not _same(evaluate(columns), values, values):
        raise CannotMeasure(
            f"{step_name(step)} before the model gives another output each time it is called: a step must be a fixed "
            "function of the row"
        )
    orders = [np.arange(n)[::-1], np.arange(0, n, 2), np.arange(1, n, 2), np.arange(n // 2, n), np.array([n // 3])]
    for rows in orders:
        if not len(rows):
            continue
        try:
            part = evaluate([column[rows] for column in columns])
        except StepFailure as failure:
            raise CannotMeasure(f"{failure}; it did so when it was given other rows") from None
        if part.shape[1:] != values.shape[1:] or not _same(part, values[rows], values):
            raise CannotMeasure(
                f"{step_name(step)} before the model mixes rows: its output for a row changes with the other rows, so "
                "one person's cells move other people's columns; use a step that treats rows one by one"
            )


def _same(part: NDArray[Any], expected: NDArray[Any], values: NDArray[Any]) -> bool:
    if part.shape != expected.shape or part.dtype.kind != expected.dtype.kind:
        return False
    if part.dtype.kind == "O":
        return bool((part == expected).all())
    size = np.abs(values).max(axis=0, initial=0.0)
    both_nan = np.isnan(part) & np.isnan(expected)
    return bool((both_nan | (np.abs(part - expected) <= ROUNDING * size)).all())


def jumping_inputs(evaluate: Evaluate, columns: Sequence[NDArray[Any]], inputs: Sequence[int]) -> list[int]:
    """The inputs along which an output jumps, somewhere between their least and their largest value."""
    return [j for j in inputs if _jumps(evaluate, columns, j)]


def _jumps(evaluate: Evaluate, columns: Sequence[NDArray[Any]], j: int) -> bool:
    column = np.asarray(columns[j], dtype=np.float64)
    low, high = float(column.min()), float(column.max())
    if low == high:
        return False
    rows = np.unique(np.linspace(0, len(column) - 1, PATHS).astype(np.intp))
    # Not the round values themselves: a jump at one would fall between two points all the same.
    grid = low + (high - low) * np.linspace(0.0, 1.0, POINTS)
    values = _along(evaluate, columns, j, np.repeat(rows, POINTS), np.tile(grid, len(rows)))
    if values is None:
        return False
    values = values.reshape(len(rows), POINTS, -1)
    changes = np.abs(np.diff(values, axis=1))
    changes = np.where(np.isfinite(changes), changes, 0.0)
    size = np.nanmax(np.abs(values), axis=(0, 1), initial=0.0)
    largest = changes.max(axis=1)  # (rows, outputs)
    found = np.argwhere(largest > 1e-7 * size)
    if not len(found):
        return False
    path, output = found[:, 0], found[:, 1]
    k = changes.argmax(axis=1)[path, output]
    return _still_there(evaluate, columns, j, rows[path], output, grid[k], grid[k + 1], largest[path, output])


def _still_there(
    evaluate: Evaluate,
    columns: Sequence[NDArray[Any]],
    j: int,
    rows: Index,
    output: Index,
    a: FloatArray,
    b: FloatArray,
    change: FloatArray,
) -> bool:
    """Whether a change between a and b is still there when the interval is halved again and again."""
    each = np.arange(len(rows))
    for _ in range(HALVINGS):
        middle = 0.5 * (a + b)
        points = np.concatenate([a, middle, b])
        values = _along(evaluate, columns, j, np.tile(rows, 3), points)
        if values is None:
            return False
        at = values.reshape(3, len(rows), -1)[:, each, output]
        left, right = np.abs(at[1] - at[0]), np.abs(at[2] - at[1])
        if not ((left > 0.25 * change) | (right > 0.25 * change)).any():
            return False
        a, b = np.where(left >= right, a, middle), np.where(left >= right, middle, b)
    return True


def _along(
    evaluate: Evaluate, columns: Sequence[NDArray[Any]], j: int, rows: Index, points: FloatArray
) -> FloatArray | None:
    """Outputs of rows whose input j is set to points; None if the step does not accept them."""
    parts = [column[rows] for column in columns]
    parts[j] = points
    try:
        return np.asarray(evaluate(parts), dtype=np.float64)
    except (StepFailure, ValueError):
        return None
