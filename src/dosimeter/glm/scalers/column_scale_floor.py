"""What scales of a sparse table's columns leave at any noise: each column has one divisor, and nothing is shifted.

Folded into raw units a weight is k(w + noise). One unknown x of a column moves log k by g, and no other column's. So
with c the information of the noise about a scale (docs/explanation/scaler.md)

    one cell √c |g|,   a row √c max |g|,   rows of a person √c max over columns of ‖g‖₂, of a tied column |Σ g|.

g is stored as a sparse part and a constant for each column, since a mean moves with the zeros too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.glm.jacobians.dense_jacobian import DenseJacobian, Rows
from dosimeter.glm.linalg.sparse_table import Table
from dosimeter.glm.scalers.scaler_floor import FloorJacobian

FIRST = 64
"""Columns with the largest constants that are looked at one by one."""


@dataclass(frozen=True, eq=False)
class ColumnScaleMoves:
    """How each unknown of a sparse table moves the log of its column's scale.

    Examples
    --------
    >>> counts = sparse.csr_array(np.array([[0.0, 2.0], [4.0, 1.0]]))
    >>> ColumnScaleMoves.of_deviations(counts).written_out(slice(None))
    array([[ 0.25, -1.  ],
           [-0.25,  1.  ]])
    >>> ColumnScaleMoves.of_magnitudes(counts).written_out(slice(None))
    array([[ 0.  , -0.5 ],
           [-0.25,  0.  ]])
    """

    values: Table
    """(n, m) what is not `constant`."""
    constant: FloatArray
    """(m,) of every row."""
    additive: Mask
    """(m,) whether moves of several rows add: of deviations, not of extremes, which the rows of a person share."""

    @classmethod
    def of_deviations(cls, counts: Table) -> ColumnScaleMoves:
        """k = 1/deviation: (mean - x) / (n variance); 0 for a column that does not vary."""
        n = counts.shape[0]
        mean = np.asarray(counts.sum(axis=0), dtype=np.float64).ravel() / n
        squares = np.asarray(counts.multiply(counts).sum(axis=0), dtype=np.float64).ravel() / n
        variance = squares - mean**2
        varies = variance > 1e-15 * squares
        size = np.where(varies, 1.0 / (n * np.where(varies, variance, 1.0)), 0.0)
        return cls(sparse.csr_array(counts.multiply(-size[None, :])), mean * size, np.ones(len(mean), dtype=bool))

    @classmethod
    def of_magnitudes(cls, counts: Table) -> ColumnScaleMoves:
        """k = 1/max |x|: -sign(x)/max |x| where it is reached."""
        entries = sparse.coo_array(counts)
        largest = np.asarray(abs(counts).max(axis=0).toarray(), dtype=np.float64).ravel()
        reached = (np.abs(entries.data) == largest[entries.col]) & (entries.data != 0.0)
        places = entries.row[reached], entries.col[reached]
        values = -np.sign(entries.data[reached]) / largest[places[1]]
        m = counts.shape[1]
        return cls(sparse.csr_array((values, places), shape=counts.shape), np.zeros(m), np.zeros(m, dtype=bool))

    @classmethod
    def beside(cls, parts: Sequence[ColumnScaleMoves]) -> ColumnScaleMoves:
        """Several groups of columns."""
        values = sparse.csr_array(sparse.hstack([part.values for part in parts]))
        constant = np.concatenate([part.constant for part in parts])
        return cls(values, constant, np.concatenate([part.additive for part in parts]))

    @classmethod
    def nothing(cls, n: int, m: int) -> ColumnScaleMoves:
        """Of columns that no scaler of the table has touched."""
        return cls(sparse.csr_array((n, m)), np.zeros(m), np.zeros(m, dtype=bool))

    def in_units(self, unit: FloatArray) -> ColumnScaleMoves:
        """The same for one unit (m,) of each unknown."""
        return replace(
            self, values=sparse.csr_array(self.values.multiply(unit[None, :])), constant=self.constant * unit
        )

    def instead_of(self, earlier: ColumnScaleMoves, own: Mask) -> ColumnScaleMoves:
        """These for the columns own (m,), and earlier ones for the others."""
        rest = earlier.in_units((~own).astype(np.float64))
        values = sparse.csr_array(self.values + rest.values)
        return ColumnScaleMoves(
            values, np.where(own, self.constant, rest.constant), np.where(own, self.additive, rest.additive)
        )

    def among(self, columns: Index) -> ColumnScaleMoves:
        """Some of the columns."""
        kept = sparse.csr_array(sparse.csc_array(self.values)[:, columns])
        return ColumnScaleMoves(kept, self.constant[columns], self.additive[columns])

    def written_out(self, rows: Rows) -> FloatArray:
        """(k, m)."""
        return np.asarray(self.values[rows].toarray() + self.constant)


@dataclass(frozen=True, eq=False)
class ColumnScaleFloor(DenseJacobian):
    """The part of a figure that no noise removes, of a sparse table behind scales of its own columns."""

    moves: ColumnScaleMoves
    information: float
    """About one log-scale: of the noise, times the outputs."""
    target_width: int = 1
    others: FloorJacobian | None = None
    """Of other columns, which the same row has."""

    @property
    def n(self) -> int:  # type: ignore[override]
        return int(self.moves.values.shape[0])

    @property
    def m(self) -> int:  # type: ignore[override]
        return int(self.moves.values.shape[1])

    @property
    def width(self) -> int:  # type: ignore[override]
        return self.m + (0 if self.others is None else self.others.width)

    def dense(self, rows: Rows) -> FloatArray:
        own = self.moves.written_out(rows) * np.sqrt(self.information)
        out = np.zeros((len(own), self.width, self.m + self.target_width))
        each = np.arange(self.m)
        out[:, each, each] = own
        if self.others is not None:
            out[:, self.m :] = self.others.dense(rows)
        return out

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,) the largest cell: columns are separate."""
        return self.norms_together(np.arange(self.n, dtype=np.intp)[:, None], columns, include_target, columns[:0])

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(g,) ||J|| of g groups of k rows each, rows (g, k): of each column alone, the largest."""
        own = np.zeros(len(rows))
        for unknowns, shared in ((columns, False), (tied[tied < self.m], True)):
            if len(unknowns):
                np.maximum(own, _largest_column(self.moves.among(unknowns), rows, shared), out=own)
        out = np.sqrt(self.information * own)
        if self.others is None:
            return out
        return np.maximum(out, self.others.norms_together(rows, columns, include_target, tied))

    def together(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> float:
        """||J|| of some rows' unknowns together."""
        index = np.arange(self.n, dtype=np.intp)[rows]
        return float(self.norms_together(index[None], columns, include_target, tied)[0])


def _largest_column(moves: ColumnScaleMoves, rows: Index, shared: bool) -> FloatArray:
    """(g,) max over columns of Σ g², or of (Σ g)² if the rows share one unknown, from rows (g, k)."""
    groups, k = rows.shape
    members = sparse.csr_array((np.ones(rows.size), (np.repeat(np.arange(groups), k), rows.ravel())),
                               shape=(groups, moves.values.shape[0]))  # fmt: skip
    # Squares first: a sum that cancels is not stored.
    squares = sparse.coo_array(members @ moves.values.multiply(moves.values))
    sums = sparse.csr_array(members @ moves.values)
    row, column = squares.row, squares.col
    sum_of = np.asarray(sums[row, column]).ravel() if len(row) else np.zeros(0)
    constant = moves.constant[column]
    if shared:
        values = (sum_of + k * constant) ** 2 / np.where(moves.additive[column], 1.0, float(k) ** 2)
    else:
        values = np.maximum(squares.data + 2.0 * constant * sum_of + k * constant**2, 0.0)
    background: FloatArray = _largest_constant(moves.constant, sparse.csc_array(squares))
    out = np.asarray(background**2 * (k**2 if shared else k), dtype=np.float64)
    np.maximum.at(out, row, values)
    return out


def _largest_constant(constant: FloatArray, stored: sparse.csc_array) -> FloatArray:
    """(g,) the largest |constant| of a column that a group does not store; too high if it stores the first 64."""
    if not constant.any():
        return np.zeros(stored.shape[0])
    largest = np.argsort(-np.abs(constant), kind="stable")
    first = largest[:FIRST]
    free = ~(stored[:, first] != 0.0).toarray()
    rest = np.abs(constant[largest[FIRST]]) if len(largest) > FIRST else 0.0
    place = np.argmax(free, axis=1)
    return np.asarray(np.where(free.any(axis=1), np.abs(constant[first])[place], rest))
