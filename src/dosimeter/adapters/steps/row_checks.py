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

HALVINGS = 50
"""After this many halvings an interval is a rounding error wide: a change that is still there is a jump."""

FINE = 1e-9
"""In spreads of the input: a move that float64 sees and float32 does not."""

JUMP = 1e-6
"""Smaller jumps, relative to the largest output, are rounding of a step that computes in float32."""


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


def refuse_rounding(
    step: Any, evaluate: Evaluate, columns: Sequence[NDArray[Any]], inputs: Sequence[int], scales: FloatArray
) -> None:
    """Refuse a step that rounds its input: small differences of its output are zero where large ones are not."""
    every = np.arange(len(columns[0]), dtype=np.intp)
    here = np.asarray(evaluate(columns), dtype=np.float64)
    size = np.abs(np.where(np.isfinite(here), here, 0.0)).max(axis=0, initial=0.0)
    for j in inputs:
        x = np.asarray(columns[j], dtype=np.float64)
        large = _along(evaluate, columns, j, every, x + 2e-2 * scales[j])
        small = _along(evaluate, columns, j, every, x + FINE * scales[j])
        if large is None or small is None:
            continue
        moved = np.abs(large - here) > 1e-5 * size
        stuck = moved & (small == here)
        if moved.any() and stuck.sum() > 0.5 * moved.sum():
            raise CannotMeasure(
                f"{step_name(step)} before the model rounds its input, as a step does that computes in float32: its "
                "differences have too few digits; compute in float64"
            )


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
    size = np.abs(np.where(np.isfinite(values), values, 0.0)).max(axis=(0, 1), initial=0.0)
    changes = np.diff(values, axis=1)
    turns = np.abs(np.diff(changes, axis=1))
    places = []
    for steep, offset in ((np.abs(changes), 0), (turns, 1)):  # a small jump on a slope is a sharp turn
        steep = np.where(np.isfinite(steep), steep, 0.0)
        path, output = np.argwhere(steep.max(axis=1) > JUMP * size).T
        k = steep.argmax(axis=1)[path, output]
        for shift in {0, offset}:
            places.append((rows[path], output, grid[k + shift], grid[k + shift + 1]))
    row, output, a, b = (np.concatenate(parts) for parts in zip(*places, strict=True))
    return len(row) > 0 and _still_there(evaluate, columns, j, row, output, a, b, JUMP * size[output])


def _still_there(
    evaluate: Evaluate,
    columns: Sequence[NDArray[Any]],
    j: int,
    rows: Index,
    output: Index,
    a: FloatArray,
    b: FloatArray,
    smallest: FloatArray,
) -> bool:
    """Whether a change between a and b is still there when the interval is halved again and again.

    The half is kept that differs more from its neighbour outside: there the change is no part of a slope.
    """
    each = np.arange(len(rows))
    for _ in range(HALVINGS):
        width = 0.5 * (b - a)
        points = np.concatenate([a - width, a, a + width, b, b + width])
        values = _along(evaluate, columns, j, np.tile(rows, 5), points)
        if values is None:
            return False
        change = np.diff(values.reshape(5, len(rows), -1)[:, each, output], axis=0)
        change = np.where(np.isfinite(change), change, 0.0)
        left = np.abs(change[1] - change[0]) >= np.abs(change[2] - change[3])
        a, b = np.where(left, a, a + width), np.where(left, a + width, b)
        remains = np.abs(np.where(left, change[1], change[2])) > smallest
        if not remains.any():
            return False
        each, rows, output, a, b, smallest = (
            part[remains] for part in (np.arange(len(rows)), rows, output, a, b, smallest)
        )
        each = np.arange(len(rows))
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
