"""The constants of a fit folded into its noised weights: the released numbers as exact sums, and what they multiply.

The scaler is folded before anything is rounded (`noise_addition.linear_map`), so a released file holds neither its
exact means and deviations nor the grid of a rounding. Each level of a category has a weight, and these sum to 0: an
unknown level counts as the mean of the known ones. With declared bounds the released model sees numbers scaled by them,
and an unlisted label counts as the level that it was fitted as.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.text import safe_text
from dosimeter.noise_addition.linear_map import Row
from dosimeter.tables.column_encoding import CategoryColumn, NumberColumn
from dosimeter.tables.encoding import TableEncoding
from dosimeter.tables.sklearn_export import export_order
from dosimeter.tables.table import Table

FARTHEST = 1e8
"""Deviations from 0 at which a column's mean may lie: rounding the weight moves a prediction by 2^-41 of that."""


def fold(encoding: TableEncoding) -> list[Row]:
    """The released numbers as sums over the weights of the design and its intercept: numbers, levels, the intercept.

    A number's weight is w/scale, and the intercept takes up -w·centre/scale; with bounds, both are for the number
    scaled to -1 and 1 at them. A level's weight is that of its corner of the simplex. Exact: fractions of the
    float64 constants.
    """
    rows: list[Row] = []
    intercept = {len(encoding.names): Fraction(1)}
    for source in _sources(encoding):
        if isinstance(source, NumberColumn):
            (j,) = encoding.block(source.name)
            middle, half = _public(source)
            scale, offset = Fraction(source.scale), middle - Fraction(source.centre)
            if not abs(offset) <= FARTHEST * scale:
                shown = f"column {safe_text(source.name)} varies by {source.scale:.3g} around {source.centre:.3g}"
                raise Refusal(f"{shown}: subtract a fixed number, 40 bits of its weight are not precise enough")
            rows.append({j: half / scale})
            if offset:
                intercept[j] = offset / scale
        else:
            corners, others = _corners(encoding, source), source.others
            if others is not None:
                away = corners.pop(others)
                intercept |= away
                corners = [_subtract(corner, away) for corner in corners]
            rows += corners
    return [*rows, intercept]


def model_inputs(encoding: TableEncoding, table: Table) -> FloatArray:
    """(n, weights) what the released model sees of a table, in the order of `fold`."""
    parts = []
    for source in _sources(encoding):
        if isinstance(source, NumberColumn):
            values = source.values(table)[:, None]
            middle, half = (float(v) for v in _public(source))
            parts.append(values if source.bounds is None else (values - middle) / half)
        else:
            each = replace(source, indicators=True).design(table)
            parts.append(each if source.others is None else np.delete(each, source.others, axis=1))
    return np.concatenate(parts, axis=1)


def _sources(encoding: TableEncoding) -> list[NumberColumn | CategoryColumn]:
    sources: list[NumberColumn | CategoryColumn] = []
    for source in export_order(encoding):
        if not isinstance(source, NumberColumn | CategoryColumn):
            raise CannotMeasure(f"column {safe_text(source.name)} is not encoded for a fit: it has no centre and scale")
        sources.append(source)
    return sources


def _public(number: NumberColumn) -> tuple[Fraction, Fraction]:
    """(middle, half width) of the bounds: the released model sees (u - middle)/half. (0, 1) without bounds."""
    if number.bounds is None:
        return Fraction(0), Fraction(1)
    low, high = (Fraction(end) for end in number.bounds)
    return (low + high) / 2, (high - low) / 2


def _corners(encoding: TableEncoding, label: CategoryColumn) -> list[dict[int, Fraction]]:
    """The weight of each level as a sum over the weights of the simplex's coordinates."""
    block = encoding.block(label.name)
    return [{j: Fraction(v) for j, v in zip(block, row, strict=True) if v} for row in label.vertices.tolist()]


def _subtract(row: Row, other: Row) -> dict[int, Fraction]:
    difference = {j: row.get(j, Fraction(0)) - other.get(j, Fraction(0)) for j in {**row, **other}}
    return {j: a for j, a in difference.items() if a}
