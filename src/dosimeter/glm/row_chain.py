"""Maps of rows as a chain of operations: scales of columns, division by a row's norm, a fixed matrix.

For counts of words and what vectorizers make of them. A row's map has as many entries as the vocabulary squared, so it
is never written out: a chain is applied to vectors, forwards and transposed. Dividing a row z by its norm s gives

    x = z/s,    dx/dz = (I − x s'ᵀ)/s,    s' = x for l2, sign z for l1 (1 at zero: a count can only grow),

which is its scale and a part of rank one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.glm.sparse_table import Table, is_sparse


class Operation(Protocol):
    """One step: its derivative at some rows, as a function of vectors."""

    def take(self, rows: Index) -> Operation:
        """The same for some of the rows."""

    def times(self, z: FloatArray) -> FloatArray:
        """(k, out) the derivative of each row times z (k, in)."""

    def transposed(self, z: FloatArray) -> FloatArray:
        """(k, in) its transpose times z (k, out)."""


@dataclass(frozen=True, eq=False)
class ColumnScales:
    """Each column times a constant."""

    unit: FloatArray
    """(d,)."""

    def take(self, rows: Index) -> ColumnScales:
        return self

    def times(self, z: FloatArray) -> FloatArray:
        return z * self.unit

    transposed = times


@dataclass(frozen=True, eq=False)
class RowNorms:
    """Each row divided by its norm s."""

    x: Table
    """(n, d) the rows after it."""
    scale: FloatArray
    """(n,) 1/s."""
    slope: Table
    """(n, d) ds/dz, less `base`."""
    base: float = 0.0
    """ds/dz of a cell that is not stored in `slope`."""

    def take(self, rows: Index) -> RowNorms:
        return RowNorms(self.x[rows], self.scale[rows], self.slope[rows], self.base)

    def times(self, z: FloatArray) -> FloatArray:
        along = row_products(self.slope, z) + (self.base * z.sum(axis=1) if self.base else 0.0)
        return np.asarray(self.scale[:, None] * (z - scaled_rows(self.x, along)))

    def transposed(self, z: FloatArray) -> FloatArray:
        along = row_products(self.x, z)
        moved = scaled_rows(self.slope, along) + (self.base * along[:, None] if self.base else 0.0)
        return np.asarray(self.scale[:, None] * (z - moved))


@dataclass(frozen=True, eq=False)
class FixedMatrix:
    """A matrix that all rows share."""

    matrix: Table
    """(out, in)."""

    def take(self, rows: Index) -> FixedMatrix:
        return self

    def times(self, z: FloatArray) -> FloatArray:
        return np.asarray(z @ self.matrix.T)

    def transposed(self, z: FloatArray) -> FloatArray:
        return np.asarray(z @ self.matrix)


def row_products(X: Table, z: FloatArray) -> FloatArray:
    """(k,) x·z of each row, X and z (k, d)."""
    if is_sparse(X):
        return np.asarray(X.multiply(z).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("kd,kd->k", X, z))


def scaled_rows(X: Table, weight: FloatArray) -> FloatArray:
    """(k, d) each row times a number, written out."""
    return np.asarray((sparse.diags_array(weight) @ X).toarray() if is_sparse(X) else weight[:, None] * X)


@dataclass(frozen=True, eq=False)
class RowChain:
    """A part of a `RowMap`: operations between some unknowns and some columns of X.

    Parameters
    ----------
    columns : array of int, shape (c,)
        The columns of X that it makes.
    unknowns : array of int, shape (j,)
        Its unknowns.
    operations : tuple
        From all its inputs to `columns`, in turn.
    kept : array of int, shape (j,)
        Which of the inputs these unknowns are.
    units : array of shape (inputs,)
        How much of an input one unit of its unknown is.
    complete : bool, default True
        Whether all inputs are unknowns.
    """

    columns: Index
    unknowns: Index
    operations: tuple[Any, ...]
    kept: Index
    units: FloatArray
    complete: bool = True

    @classmethod
    def of(cls, columns: Index, unknowns: Index, operations: Sequence[Any]) -> RowChain:
        """All inputs are unknowns, in their own units."""
        every = np.arange(len(unknowns), dtype=np.intp)
        return cls(columns, unknowns, tuple(operations), every, np.ones(len(unknowns)))

    def narrow(self, position_of: dict[int, int]) -> RowChain:
        """Only some of the unknowns, at their new positions."""
        chosen = np.array([e for e, u in enumerate(self.unknowns.tolist()) if u in position_of], dtype=np.intp)
        places = np.array([position_of[u] for u in self.unknowns[chosen].tolist()], dtype=np.intp)
        complete = self.complete and len(chosen) == len(self.unknowns)
        return replace(self, unknowns=places, kept=self.kept[chosen], complete=complete)

    def in_units(self, units: FloatArray) -> RowChain:
        """Unknowns measured in units (m,)."""
        scaled = self.units.copy()
        scaled[self.kept] *= units[self.unknowns]
        return replace(self, units=scaled)

    def take(self, rows: Index) -> RowChain:
        """The same for a block of rows."""
        return replace(self, operations=tuple(operation.take(rows) for operation in self.operations))

    def times(self, x: FloatArray) -> FloatArray:
        """(k, c) its columns of P x, x (k, j); of a block of rows."""
        z = np.zeros((len(x), len(self.units)))
        z[:, self.kept] = x * self.units[self.kept]
        for operation in self.operations:
            z = operation.times(z)
        return z

    def transposed(self, z: FloatArray) -> FloatArray:
        """(k, j) its unknowns of Pᵀz, z (k, c); of a block of rows."""
        for operation in reversed(self.operations):
            z = operation.transposed(z)
        return np.asarray(z[:, self.kept] * self.units[self.kept])

    def root(self, rows: Index) -> FloatArray:
        """(k, c, c) R with R Rᵀ = P Pᵀ; for few columns."""
        out, c = np.empty((len(rows), len(self.columns), len(self.columns))), len(self.columns)
        for k, row in enumerate(rows.tolist()):
            one = self.take(np.full(c, row, dtype=np.intp))
            P = one.transposed(np.eye(c))  # (c, j), row by row of P
            out[k] = np.linalg.qr(P.T, mode="r").T if P.shape[1] >= c else np.pad(P, ((0, 0), (0, c - P.shape[1])))
        return out

    def equals(self, other: RowChain) -> bool:
        """Whether it is the same object in the same units."""
        return self.operations is other.operations and np.array_equal(self.units, other.units)
