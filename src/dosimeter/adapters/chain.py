"""The frozen steps between a table and a model, run over its rows: all at once, a block at a time, level by level."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.adapters.steps import apply
from dosimeter.adapters.steps.feature import Coded, Feature, Features, Varies, matrix_of, raw_feature
from dosimeter.adapters.steps.run import Category, Log, Mode, Run
from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.category import step_of
from dosimeter.tables.column_values import text_array

AT_ONCE = 4 << 20
"""Numbers of a design that one run makes."""

KEPT = 64 << 20
"""Bytes of slopes, or of columns at every level, that are kept instead of being computed again."""


@dataclass(frozen=True, eq=False)
class Chain:
    """Steps over the columns of a table."""

    steps: tuple[Any, ...]
    names: tuple[str, ...]
    """The columns that the model was fitted on, in its order."""
    columns: Mapping[str, NDArray[Any]]
    """Name -> (n,) the columns that are read; the others are dropped by the first step."""
    n: int
    open_gaps: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    """Where a column has no value that a step must fill."""
    filled: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    """Where a column had no value, filled by any step: these cells are constants."""
    library: Any = None
    """The dataframe library of the caller's table; None for an array."""
    weights: FloatArray | None = None
    """(n,) weights of the rows; None for equal ones."""
    log: Log = field(default_factory=Log)

    @cached_property
    def two_valued(self) -> frozenset[str]:
        """Columns of two numbers."""
        numbers = {name: column for name, column in self.columns.items() if column.dtype.kind in "fb"}
        return frozenset(name for name in numbers if step_of(self.observed(name)) is not None)

    def observed(self, name: str) -> NDArray[Any]:
        """The values of a column that were not missing."""
        column = self.columns[name]
        return column[~self.filled[name]] if name in self.filled else column

    @cached_property
    def features(self) -> Features:
        """All rows behind all steps, with slopes that are the same on every row, and marks for those that are not."""
        nothing = np.zeros(self.n)
        raw = [raw_feature(name, self.columns.get(name, nothing), self.open_gaps.get(name)) for name in self.names]
        return self._behind(tuple(raw), Mode.SURVEY)

    def evaluate(self, columns: Mapping[str, NDArray[Any]]) -> FloatArray:
        """(k, d) the model's input for made-up source columns (k,), 0 for those not named."""
        k = len(next(iter(columns.values())))
        raw = tuple(raw_feature(name, columns.get(name, np.zeros(k))) for name in self.names)
        return matrix_of(self._behind(raw, Mode.VALUES))

    def slopes(self, pairs: Sequence[tuple[int, str]], rows: Index) -> FloatArray:
        """(k, pairs) d feature / d number of some rows, for pairs (position of the feature, source column)."""
        moving = {source for _, source in pairs}
        raw = tuple(self._source(name, rows, moving=name in moving) for name in self.names)
        features = self._behind(raw, Mode.SLOPES)
        out = np.empty((len(rows), len(pairs)))
        for e, (j, source) in enumerate(pairs):
            slope = features[j].slopes.get((source, None), 0.0)
            out[:, e] = np.nan if isinstance(slope, Varies) else slope
        for source in moving & set(self.filled):  # a filled cell is a constant
            for e in [e for e, (_, other) in enumerate(pairs) if other == source]:
                out[self.filled[source][rows], e] = 0.0
        return out

    def levels(self, source: str, category: Category, chosen: Index, rows: Index) -> FloatArray:
        """(k, chosen, levels) features of some rows with one source column set to each of its levels."""
        k, K = len(rows), len(category.cells)
        out = np.empty((k, len(chosen), K))
        cells = self._cells(source, category)
        at_once = max(1, AT_ONCE // max(1, k * len(self.features)))
        for first in range(0, K, at_once):
            codes = np.arange(first, min(first + at_once, K), dtype=np.intp)
            repeated = np.tile(rows, len(codes))
            coded = Coded(tuple(cells.tolist()), np.repeat(codes, k))
            raw = tuple(
                Feature(name, cells[coded.codes], raw=True, sources=frozenset({name}), coded=coded)
                if name == source
                else self._source(name, repeated, moving=False)
                for name in self.names
            )
            features = self._behind(raw, Mode.VALUES)
            for c, j in enumerate(chosen.tolist()):
                out[:, c, codes] = features[j].numbers.reshape(len(codes), k).T
        return out

    def _cells(self, source: str, category: Category) -> NDArray[Any]:
        """(K,) in the type of the column."""
        kind = self.columns[source].dtype.kind
        if kind == "O":
            return text_array([str(cell) for cell in category.cells])
        return np.array(category.cells, dtype=bool if kind == "b" else np.float64)

    def _source(self, name: str, rows: Index, moving: bool) -> Feature:
        column = self.columns.get(name)
        gaps = self.open_gaps.get(name)
        feature = raw_feature(
            name, np.zeros(len(rows)) if column is None else column[rows], None if gaps is None else gaps[rows]
        )
        return (
            feature if moving else Feature(name, feature.values, raw=True, gaps=feature.gaps, sources=feature.sources)
        )

    def _behind(self, features: Features, mode: Mode) -> Features:
        run = Run(mode, self.log, self.columns, self.filled, self.two_valued, self.library, self.weights)
        for step in self.steps:
            features = apply(step, features, run)
        return features


class KeptRows:
    """A function of rows that is computed once if it fits into memory, and in large blocks if it does not."""

    def __init__(self, compute: Callable[[Index], FloatArray], n: int, row_bytes: int) -> None:
        self.compute, self.n = compute, n
        self.block_size = max(1, KEPT // max(1, row_bytes))
        self.first, self.block = 0, np.empty(0)

    def __call__(self, rows: Index) -> FloatArray:
        if not len(rows):
            return self.compute(rows)
        first = int(rows.min()) // self.block_size * self.block_size
        if int(rows.max()) >= first + self.block_size:
            return self.compute(rows)  # rows from everywhere: their own
        if not len(self.block) or first != self.first:
            every = np.arange(first, min(first + self.block_size, self.n), dtype=np.intp)
            step = max(1, self.block_size // 16)
            parts = [self.compute(every[i : i + step]) for i in range(0, len(every), step)]
            self.first, self.block = first, np.concatenate(parts)
        return self.block[rows - first]
