"""Slopes of a step by differences of its output, all rows at once, with two step sizes that must agree.

Central differences D(h) have an error in h². Richardson's R(h) = (4 D(h/2) - D(h)) / 3 has one in h⁴; R(h) and R(h/2)
must agree to 1e-6, or smaller steps are tried on the rows where they do not. At a bend they agree on the mean of both
slopes, whatever the step; there forward and backward differences stay apart, where they come together as h elsewhere.
On such a row both sides are read by themselves and the steeper one counts. At a jump nothing agrees: it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.adapters.steps.calls import StepFailure
from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import CannotMeasure

AGREE = 1e-6
"""Largest relative difference of the slopes from two step sizes."""

SMALL = 1e-3
"""Slopes below this share of the largest of their output are compared with that share."""

STEPS = (2e-2, 2.5e-3, 3e-4, 4e-5, 5e-6, 6e-7, 8e-8, 1e-8, 1.2e-9)
"""Step sizes, in spreads of the input, tried one after the other: next to a pole the spread is a poor unit."""

NOTHING = 1e-11
"""Slopes below this share of an output's size per spread of the input are rounding."""

BEND = 0.7
"""Forward and backward differences come together by a half as the step is halved; at a bend they do not."""

FAILURES = 64
"""Refusals of a step after which it is not asked about parts of the rows any more."""

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Differences:
    """Slopes (n, outputs, inputs), and the largest relative difference between the two step sizes."""

    slopes: FloatArray
    error: float
    largest: dict[int, FloatArray]
    """Input -> (outputs,) the largest slope of each output."""
    bends: int = 0
    """Rows at a bend, where the steeper side was taken."""


def slopes_by_differences(
    name: str,
    evaluate: Callable[[Sequence[NDArray[Any]]], FloatArray],
    columns: Sequence[NDArray[Any]],
    inputs: Sequence[int],
    scales: FloatArray,
    largest: dict[int, FloatArray] | None = None,
) -> Differences:
    """Slopes of `evaluate`, columns (n,) each -> (n, outputs), by the chosen inputs; scales: one for each column.

    largest: of all rows, if these are some of them; without it the error and `largest` alone are computed, and no
    array of all inputs is made.
    """
    each, worst, bends, steepest = [], 0.0, 0, dict(largest or {})
    for j in inputs:
        slopes, error, at_bend = _of_input(name, evaluate, columns, j, float(scales[j]), steepest.get(j))
        worst, bends = max(worst, error), bends + at_bend
        steepest.setdefault(j, np.abs(slopes).max(axis=0))
        if largest is not None:
            each.append(slopes)
    return Differences(np.stack(each, axis=2) if each else np.empty((len(columns[0]), 0, 0)), worst, steepest, bends)


class _Line:
    """The step along one input: outputs with that input moved by h, rows chosen."""

    def __init__(self, evaluate: Callable[..., FloatArray], columns: Sequence[NDArray[Any]], j: int) -> None:
        self.evaluate, self.columns, self.j = evaluate, columns, j

    def at(self, rows: Index, h: float) -> FloatArray | None:
        """(k, outputs), nan in rows that the step does not accept when they are moved; None if it accepts hardly any.

        A step may refuse all rows because of one, such as a spline beyond its last knot: halves are tried, up to
        FAILURES refusals.
        """
        pieces, failures = [rows], 0
        results: list[tuple[Index, FloatArray]] = []
        while pieces:
            piece = pieces.pop()
            parts = [column[piece] for column in self.columns]
            parts[self.j] = parts[self.j] + h
            try:
                results.append((piece, self.evaluate(parts)))
            except StepFailure:
                failures += 1
                if failures > FAILURES:
                    return None
                if len(piece) > 1:
                    pieces += [piece[: len(piece) // 2], piece[len(piece) // 2 :]]
        if not results:
            return None
        out = np.full((len(rows), results[0][1].shape[1]), np.nan)
        for piece, values in results:
            out[np.searchsorted(rows, piece)] = values
        return out

    def moved(self, rows: Index, h: float) -> FloatArray:
        """(k,) by how much the input really moves: x + h is rounded."""
        x = self.columns[self.j][rows]
        return np.asarray((x + h) - x)


def _of_input(
    name: str,
    evaluate: Callable[..., FloatArray],
    columns: Sequence[NDArray[Any]],
    j: int,
    scale: float,
    largest: FloatArray | None,
) -> tuple[FloatArray, float, int]:
    line, open_rows = _Line(evaluate, columns, j), np.arange(len(columns[j]), dtype=np.intp)
    here = evaluate(list(columns))
    sizes = Sizes(here, scale, largest)
    slopes, error = np.zeros_like(here), np.full(len(here), np.inf)
    for share in STEPS:
        pair = _central(line, open_rows, share * scale, here, sizes)
        open_rows = _accept(pair, open_rows, slopes, error, sizes)
        if not len(open_rows):
            break
    bends = len(open_rows)
    if bends:
        _one_sided(name, line, open_rows, slopes, error, here, j, sizes)
    return slopes, float(error.max(initial=0.0)), bends


class Sizes:
    """What a difference of slopes is compared with, output by output."""

    def __init__(self, here: FloatArray, scale: float, largest: FloatArray | None) -> None:
        self.scale = scale
        self.output = np.abs(np.where(np.isfinite(here), here, 0.0)).max(axis=0, initial=0.0)
        """(outputs,) the largest value."""
        self.slope = np.zeros(here.shape[1]) if largest is None else largest
        """(outputs,) the largest slope, as far as it is known."""

    def see(self, slopes: FloatArray) -> None:
        """Slopes (k, outputs) that may be larger than those known."""
        finite = np.where(np.isfinite(slopes), np.abs(slopes), 0.0)
        self.slope = np.maximum(self.slope, finite.max(axis=0, initial=0.0))

    def relative(self, apart: FloatArray, slopes: FloatArray) -> FloatArray:
        """(k, outputs) differences of slopes, relative; zero for those that are rounding."""
        size = np.maximum(np.abs(slopes), SMALL * self.slope)
        small = apart <= NOTHING * self.output / self.scale
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(small, 0.0, apart / np.where(size > 0.0, size, EPS))


def _central(
    line: _Line, rows: Index, h: float, here: FloatArray, sizes: Sizes
) -> tuple[FloatArray, FloatArray] | None:
    """R(h) and R(h/2) of some rows; at a bend the second is not a number."""
    D, apart = [], []
    for step in (h, h / 2, h / 4):
        above, below = line.at(rows, step), line.at(rows, -step)
        if above is None or below is None:
            return None
        up, down = line.moved(rows, step)[:, None], line.moved(rows, -step)[:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            D.append((above - below) / (up - down))
            apart.append(np.abs((above - here[rows]) / up - (below - here[rows]) / down))
    first, second = (4 * D[1] - D[0]) / 3, (4 * D[2] - D[1]) / 3
    # A second difference loses more to rounding than a first.
    seen = apart[2] > 64 * EPS * sizes.output / h
    bend = seen & (apart[2] > BEND * apart[1]) & (sizes.relative(apart[2], second) > AGREE)
    return first, np.where(bend, np.nan, second)


def _accept(
    pair: tuple[FloatArray, FloatArray] | None, rows: Index, slopes: FloatArray, error: FloatArray, sizes: Sizes
) -> Index:
    """Write the slopes of the rows on which both agree; the others are returned."""
    if pair is None:
        return rows
    coarse, fine = pair
    finite = np.isfinite(coarse).all(axis=1) & np.isfinite(fine).all(axis=1)
    for _ in range(2):  # the largest slope is known from the rows that agree without it
        with np.errstate(invalid="ignore"):
            relative = np.where(finite, sizes.relative(np.abs(coarse - fine), fine).max(axis=1, initial=0.0), np.inf)
        good = relative <= AGREE
        sizes.see(fine[good])
    slopes[rows[good]], error[rows[good]] = fine[good], relative[good]
    return rows[~good]


def _one_sided(
    name: str,
    line: _Line,
    rows: Index,
    slopes: FloatArray,
    error: FloatArray,
    here: FloatArray,
    j: int,
    sizes: Sizes,
) -> None:
    """Slopes at bends, or at the edge of the domain: each side by itself, the steeper one is written."""
    sides = []
    for sign in (1.0, -1.0):
        side, side_error = np.zeros_like(here), np.full(len(here), np.inf)
        open_rows, outside = rows, np.zeros(len(here), dtype=bool)
        for share in STEPS[1:]:
            pair = _forward(line, open_rows, sign * share * sizes.scale, here)
            if pair is None or not np.isfinite(pair[1]).all(axis=1).any():
                outside[open_rows] = True
                continue
            outside[open_rows] = ~np.isfinite(pair[1]).all(axis=1)
            open_rows = _accept(pair, open_rows, side, side_error, sizes)
            if not len(open_rows):
                break
        sides.append((side, side_error, outside))
    (right, right_error, right_out), (left, left_error, left_out) = sides
    usable_right = np.isfinite(right_error[rows]) | right_out[rows]
    usable_left = np.isfinite(left_error[rows]) | left_out[rows]
    none = ~(np.isfinite(right_error[rows]) | np.isfinite(left_error[rows]))
    bad = none | ~usable_right | ~usable_left
    if bad.any():
        raise CannotMeasure(
            f"{name} before the model has no derivative in row {int(rows[int(np.argmax(bad))])} (from 0), by its input "
            f"{j}: differences of two sizes do not agree to {AGREE:g}; use a step that is smooth there"
        )
    size = np.where(sizes.slope > 0.0, sizes.slope, 1.0)
    is_right = np.sum((right[rows] / size) ** 2, axis=1) >= np.sum((left[rows] / size) ** 2, axis=1)
    slopes[rows] = np.where(is_right[:, None], right[rows], left[rows])
    error[rows] = np.where(
        np.isfinite(right_error[rows]) & is_right, right_error[rows], np.minimum(left_error[rows], right_error[rows])
    )


def _forward(line: _Line, rows: Index, h: float, here: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """One-sided differences with an error in h², of two sizes."""
    F = []
    for step in (h, h / 2, h / 4):
        there = line.at(rows, step)
        if there is None:
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            F.append((there - here[rows]) / line.moved(rows, step)[:, None])
    first, second = 2 * F[1] - F[0], 2 * F[2] - F[1]
    return first, (4 * second - first) / 3
