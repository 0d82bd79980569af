"""The model of a consortium: the encoding from the schema, units and ties from sums over all sites.

The same `BlockModel` as of a table in blocks, built from the schema and a few totals instead of a first pass over rows.
Coordinator and sites build it from the same bytes, so both read the same figures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.noise import Density, Gaussian, Laplace
from dosimeter.engines.plausible import PublicBounds
from dosimeter.glm.losses.loss import LOSSES
from dosimeter.models.block_model import BlockModel, prepare_blocks
from dosimeter.tables.classes import typed_classes
from dosimeter.tables.consortium_schema import ConsortiumSchema
from dosimeter.tables.constant_values import NEVER, TieFacts
from dosimeter.tables.declared_bounds import Range
from dosimeter.tables.table import Kind
from dosimeter.tables.table_summary import ColumnSummary, LabelSummary, Moments, NumberSummary

LAWS: dict[str, type[Density]] = {"gaussian": Gaussian, "laplace": Laplace}
FEWEST = 2
"""Rows that a model has at least."""
MANY = 1000
"""Rows of a model that only encodes."""


@dataclass(frozen=True, eq=False)
class Totals:
    """Sums over rows that every site needs to read a dose: of one site, or of all."""

    rows: int
    means: FloatArray
    """(numbers,) of the clipped columns."""
    squares: FloatArray
    """(numbers,) Σ (u - mean)²."""
    target_mean: float
    """Of the target as a number: 0 and 1 for two classes."""
    target_squares: float
    several: bool
    """Whether a person has several rows."""
    changes: FloatArray
    """(unknowns,) 1 where a column, or the target at the end, changes within a person."""

    def __add__(self, other: Totals) -> Totals:
        columns = [mine + theirs for mine, theirs in zip(self._moments(), other._moments(), strict=True)]
        *numbers, target = columns
        return Totals(
            self.rows + other.rows,
            np.array([each.mean for each in numbers]),
            np.array([each.squares for each in numbers]),
            target.mean,
            target.squares,
            self.several or other.several,
            np.maximum(self.changes, other.changes),
        )

    def _moments(self) -> list[Moments]:
        means, squares = [*self.means.tolist(), self.target_mean], [*self.squares.tolist(), self.target_squares]
        return [Moments(self.rows, mean, square) for mean, square in zip(means, squares, strict=True)]

    def column(self, k: int) -> Moments:
        """Of the k-th number; -1 is the target."""
        return self._moments()[k]


def no_totals(schema: ConsortiumSchema) -> Totals:
    """Before anything was summed: enough to turn rows into numbers, not to read a dose."""
    k = len(schema.numbers)
    return Totals(MANY, np.zeros(k), np.ones(k), 0.5, 1.0, False, np.zeros(schema.sizes["unknowns"]))


def consortium_model(schema: ConsortiumSchema, totals: Totals, noise: Any) -> BlockModel:
    """What is fitted and measured, as `measure` has it of the joint table with the bounds of the schema."""
    summaries = {name: _summary(schema, totals, name) for name in schema.features}
    summaries[schema.target] = _target_summary(schema, totals)
    model = prepare_blocks(
        summaries,
        totals.rows,
        schema.target,
        noise=noise,
        loss=schema.loss,
        l2=schema.l2,
        declared=dict(schema.columns),
    )
    model = replace(model, person=schema.person, target_mean=totals.target_mean)
    changed = totals.changes.astype(np.int64)
    facts = TieFacts(int(totals.several), changed, np.where(changed > 0, 0, NEVER))
    return model.with_ties(facts, (), ())


def _summary(schema: ConsortiumSchema, totals: Totals, name: str) -> ColumnSummary:
    column = schema.columns[name]
    if isinstance(column, tuple):
        return _levels(column, totals.rows)
    return _number(column, totals.column(schema.numbers.index(name)))


def _target_summary(schema: ConsortiumSchema, totals: Totals) -> ColumnSummary:
    column, moments = schema.columns[schema.target], totals.column(-1)
    if isinstance(column, Range):
        return _number(column, moments)
    typed = typed_classes(column)
    if typed.dtype.kind == "O":
        return _levels(column, totals.rows)
    values = np.sort(typed.astype(np.float64))
    kind: Kind = "bool" if typed.dtype.kind == "b" else "number"
    return NumberSummary(kind, moments, moments, float(values[0]), float(values[-1]), True, values)


def _levels(levels: tuple[str, ...], rows: int) -> LabelSummary:
    """All declared levels; how many rows have each is not asked."""
    counts = np.full(len(levels), max(FEWEST, rows // len(levels)), dtype=np.int64)
    return LabelSummary(rows, tuple(sorted(levels)), counts, np.zeros(len(levels), dtype=np.int64))


def _number(column: Range, moments: Moments) -> NumberSummary:
    """The ends are the public bounds: what the smallest and the largest value are is not asked."""
    whole = float(column.lower).is_integer() and float(column.upper).is_integer()
    ends = np.array([column.lower, column.middle, column.upper])
    values = np.unique(np.round(ends)) if whole else np.unique(ends)
    return NumberSummary("number", moments, moments, column.lower, column.upper, whole, values)


def public_bounds(schema: ConsortiumSchema, model: BlockModel, totals: Totals) -> PublicBounds:
    """What sums over rows can be at most, by the schema."""
    column = schema.columns[schema.target]
    targets = (0.0, 1.0) if isinstance(column, tuple) else (column.lower, column.upper)
    sizes = []
    for name, declared in schema.features.items():
        width = len(model.design.blocks[name])
        if isinstance(declared, Range):
            half = declared.upper / 2 - declared.lower / 2
            sizes.append(max(abs(declared.lower - declared.middle), abs(declared.upper - declared.middle)) / half)
        else:
            sizes += [1.0] * width
    root = float(np.sqrt(totals.target_mean**2 + totals.target_squares / totals.rows))
    return PublicBounds(np.array([*sizes, 1.0]), targets, LOSSES[schema.loss](), root)
