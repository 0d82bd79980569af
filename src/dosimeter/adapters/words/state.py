"""Columns on their way into the model as one sparse table, and the operations between counts and columns.

Each part has unknowns of its own: the counts of one vectorizer, the columns of a sparse table, or a few columns of
numbers and categories beside a text. A step changes the table and adds an operation to every part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from dosimeter import glm
from dosimeter.adapters.features import Design, LearnedScalers
from dosimeter.adapters.words.column_values import steps_of_columns
from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import CannotMeasure
from dosimeter.glm.linalg.sparse_table import Table, is_sparse
from dosimeter.glm.row_maps.row_chain import ColumnScales, FixedMatrix, RowNorms

ROUNDING = 1e-6
"""How closely a scale must agree with the table's own: a table in float32 has seven digits."""


@dataclass(frozen=True, eq=False)
class WordPart:
    """Counts of words, or the columns of a sparse table."""

    source: str
    """The source column."""
    counts: Table
    """(n, m) the unknowns."""
    words: tuple[str, ...]
    """(m,) their names."""
    columns: Index
    """Which columns of the table depend on them."""
    operations: tuple[Any, ...] = ()
    """From the counts to these columns, in turn (`glm/row_maps/row_chain.py`)."""
    moves: glm.ColumnScaleMoves | None = None
    """How the counts move the scales of columns, if these are of this very table; None if they are not, or mixed."""

    @property
    def scales(self) -> FloatArray | None:
        """(m,) the factor of each count, if there is nothing but scales of columns."""
        unit = np.ones(self.counts.shape[1])
        for operation in self.operations:
            if not isinstance(operation, ColumnScales):
                return None
            unit = unit * operation.unit
        return unit

    def then(self, operation: Any, columns: Index | None = None) -> WordPart:
        """One more operation, onto other columns if they are given."""
        return replace(
            self,
            operations=(*self.operations, operation),
            moves=self.moves if isinstance(operation, ColumnScales) else None,
            columns=self.columns if columns is None else columns,
        )

    def selected(self, kept: Index, places: Index) -> WordPart:
        """Only the columns `kept` (positions among its own), at new places.

        Without a norm before it, the other counts have no effect at all and are no unknowns of the model."""
        unit = self.scales
        if unit is None:
            identity = sparse.eye_array(len(self.columns), format="csr")
            return self.then(FixedMatrix(identity[kept]), places)
        words = tuple(self.words[j] for j in kept.tolist())
        moves = None if self.moves is None else self.moves.among(kept)
        return WordPart(self.source, self.counts[:, kept], words, places, (ColumnScales(unit[kept]),), moves)


@dataclass(frozen=True, eq=False)
class ColumnPart:
    """Columns of numbers and categories beside a text, with one map for all rows."""

    design: Design
    columns: Index
    constant_map: FloatArray
    """(columns, m') how they depend on the unknowns of the design."""
    learned: LearnedScalers | None = None
    """Its columns behind a scaler of this very table."""

    def scaled(self, unit: FloatArray) -> ColumnPart:
        """Each column times a constant (columns,)."""
        learned = None if self.learned is None else self.learned.scaled(unit)
        return replace(self, constant_map=unit[:, None] * self.constant_map, learned=learned)


Part = WordPart | ColumnPart


@dataclass(frozen=True, eq=False)
class WordsState:
    """The table as it is now, (n, d), and its parts."""

    X: Table
    names: tuple[str, ...]
    parts: tuple[Part, ...]
    statistics: dict[str, None]
    """Statistics of the data that were used, held fixed."""
    steps: tuple[str, ...] = ()
    """Names of the steps so far."""
    remarks: tuple[str, ...] = ()

    def note(self, step: str, *statistics: str, remark: str = "") -> WordsState:
        """With a step, what it took from the data, and a remark."""
        return replace(
            self,
            statistics={**self.statistics, **dict.fromkeys(statistics)},
            steps=(*self.steps, step),
            remarks=(*self.remarks, remark) if remark else self.remarks,
        )

    def scaled_by_its_columns(self, unit: FloatArray, of_deviations: bool) -> WordsState:
        """`scaled` by 1/deviation or by 1/largest magnitude of the columns, (d,): where these are of this very table,
        a row moves them."""
        parts = tuple(_with_moves(part, unit, of_deviations) for part in self.parts)
        return replace(self, parts=parts).scaled(unit)

    def scaled(self, unit: FloatArray) -> WordsState:
        """Each column times a constant (d,)."""
        parts = tuple(
            part.then(ColumnScales(unit[part.columns]))
            if isinstance(part, WordPart)
            else part.scaled(unit[part.columns])
            for part in self.parts
        )
        X = sparse.csr_array(self.X.multiply(unit[None, :])) if is_sparse(self.X) else self.X * unit
        return replace(self, X=X, parts=parts)

    def selected(self, chosen: FloatArray) -> WordsState:
        """Only the columns that are chosen, (d,) booleans."""
        place = np.cumsum(chosen) - 1
        parts: list[Part] = []
        for part in self.parts:
            kept = np.flatnonzero(chosen[part.columns]).astype(np.intp)
            places = place[part.columns[kept]].astype(np.intp)
            if not len(kept) and (isinstance(part, ColumnPart) or part.scales is not None):
                continue
            if isinstance(part, WordPart):
                parts.append(part.selected(kept, places))
            else:
                learned = None if part.learned is None else part.learned.among(kept)
                parts.append(replace(part, columns=places, constant_map=part.constant_map[kept], learned=learned))
        where = np.flatnonzero(chosen)
        return replace(self, X=self.X[:, where], names=tuple(self.names[j] for j in where), parts=tuple(parts))

    def projected(self, matrix: Table, name: str) -> WordsState:
        """matrix · x, (k, d)."""
        every = np.arange(matrix.shape[0], dtype=np.intp)
        parts = tuple(
            part.then(FixedMatrix(matrix[:, part.columns]), every)
            if isinstance(part, WordPart)
            else replace(
                part, columns=every, constant_map=np.asarray(matrix[:, part.columns] @ part.constant_map), learned=None
            )
            for part in self.parts
        )
        X = np.asarray(self.X @ matrix.T)
        return replace(self, X=X, names=tuple(f"{name} {k}" for k in range(len(every))), parts=parts)

    def normalised(self, kind: str, step: str) -> WordsState:
        """Each row divided by its norm; a row of zeros has no derivative."""
        if len(self.parts) != 1 or not isinstance(self.parts[0], WordPart):
            raise CannotMeasure(
                f"{step} over several kinds of columns at once is not read on a sparse table: normalise the text alone"
            )
        X, part = self.X, self.parts[0]
        size = _norms(X, kind)
        if (size == 0.0).any():
            row = int(np.argmax(size == 0.0))
            raise CannotMeasure(
                f"{step} has no derivative in row {row} (from 0), which is zero in every column (no word of the "
                "vocabulary): leave the row out"
            )
        x = sparse.csr_array(sparse.diags_array(1.0 / size) @ X) if is_sparse(X) else X / size[:, None]
        slope, base = _slopes(x, kind)
        return replace(self, X=x, parts=(part.then(RowNorms(x, 1.0 / size, slope, base)),))


def _with_moves(part: Part, unit: FloatArray, of_deviations: bool) -> Part:
    """Marked where 1/unit is the statistic of its columns, before they are scaled; a later scaler hides an earlier."""
    if not isinstance(part, WordPart) or (before := part.scales) is None:
        return part
    if of_deviations:
        moves, size = glm.ColumnScaleMoves.of_deviations(part.counts), column_deviations(part.counts)
    else:
        moves = glm.ColumnScaleMoves.of_magnitudes(part.counts)
        size = np.asarray(abs(part.counts).max(axis=0).toarray(), dtype=np.float64).ravel()
    own = np.abs(size * np.abs(before) * unit[part.columns] - 1.0) <= ROUNDING
    if not of_deviations:  # the largest of two values does not move with a row
        own &= steps_of_columns(part.counts) == 0.0
    if not own.any():
        return part
    moves = moves.in_units(own.astype(np.float64))
    return replace(part, moves=moves if part.moves is None else moves.instead_of(part.moves, own))


def column_deviations(counts: Table) -> FloatArray:
    """(m,) standard deviations (1/n)."""
    n = counts.shape[0]
    mean = np.asarray(counts.sum(axis=0), dtype=np.float64).ravel() / n
    squares = np.asarray(counts.multiply(counts).sum(axis=0), dtype=np.float64).ravel() / n
    return np.asarray(np.sqrt(np.maximum(squares - mean**2, 0.0)))


def _norms(X: Table, kind: str) -> FloatArray:
    """(n,) l1, l2 or max."""
    if kind == "l2":
        squares = X.multiply(X) if is_sparse(X) else X * X
        return np.sqrt(np.asarray(squares.sum(axis=1), dtype=np.float64).ravel())
    if kind == "l1":
        return np.asarray(abs(X).sum(axis=1), dtype=np.float64).ravel()
    largest = abs(X).max(axis=1)
    return np.asarray(largest.toarray() if is_sparse(largest) else largest, dtype=np.float64).ravel()


def _slopes(x: Table, kind: str) -> tuple[Table, float]:
    """ds/dz of each row, (n, d) less a constant, and the constant: a cell of zero can only grow."""
    if kind == "l2":
        return x, 0.0
    rows = sparse.csr_array(x)
    signs = sparse.csr_array(rows.sign())
    if kind == "l1":
        below = sparse.csr_array((np.where(signs.data < 0, -2.0, 0.0), signs.indices, signs.indptr), shape=signs.shape)
        below.eliminate_zeros()
        return (below if is_sparse(x) else below.toarray()), 1.0
    place = np.asarray(abs(rows).argmax(axis=1)).ravel()
    each = np.arange(rows.shape[0])
    largest = sparse.csr_array((np.asarray(rows[each, place]).ravel(), (each, place)), shape=rows.shape)
    return (sparse.csr_array(largest.sign()) if is_sparse(x) else largest.sign().toarray()), 0.0
