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
from dosimeter.glm.linalg.sparse_table import Table, is_sparse


class RowOperation(Protocol):
    """One step: its derivative at some rows, as a function of vectors."""

    def take(self, rows: Index) -> RowOperation:
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
        values, vectors = np.linalg.eigh(self.gram(rows))
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])

    def gram(self, rows: Index) -> FloatArray:
        """(k, c, c) P Pᵀ: up to the first matrix L from L Δ²Lᵀ, which all rows share, after it by products."""
        first = next((k for k, op in enumerate(self.operations) if isinstance(op, FixedMatrix)), None)
        form = None if first is None else before_matrix(self.operations[:first], self.units)
        if first is None or form is None:
            return self._written_gram(rows)
        L = self.operations[first].matrix
        gram = _matrix_gram(L, form, rows)
        for operation in self.operations[first + 1 :]:
            gram = np.stack([_both_sides(operation, row, part) for row, part in zip(rows.tolist(), gram, strict=True)])
        return gram

    def _written_gram(self, rows: Index) -> FloatArray:
        c = len(self.columns)
        out = np.empty((len(rows), c, c))
        for k, row in enumerate(rows.tolist()):
            P = self.take(np.full(c, row, dtype=np.intp)).transposed(np.eye(c))
            out[k] = P @ P.T
        return out

    def equals(self, other: RowChain) -> bool:
        """Whether it is the same object in the same units."""
        return self.operations is other.operations and np.array_equal(self.units, other.units)


def _both_sides(operation: Any, row: int, gram: FloatArray) -> FloatArray:
    """N G Nᵀ of one row's derivative N, G (c, c)."""
    half = operation.take(np.full(len(gram), row, dtype=np.intp)).times(gram)  # G Nᵀ
    return np.asarray(operation.take(np.full(half.shape[1], row, dtype=np.intp)).times(half.T))


@dataclass(frozen=True, eq=False)
class NormForm:
    """τ (I − x nᵀ) diag(δ) of every row: scales of columns around at most one norm."""

    unit: FloatArray
    """(m,) δ."""
    x: Table | None
    """(n, m) the rows after it; None without a norm."""
    scale: FloatArray | None
    """(n,) τ."""
    normal: Table | None
    """(n, m) n, less `base`."""
    base: FloatArray
    """(m,) the part of n that all rows share."""
    most: float
    """max|e| max|δ| of the scales after and before the norm."""


def before_matrix(operations: Sequence[Any], units: FloatArray) -> NormForm | None:
    """The operations in this form; None if they are others."""
    before, after, norm = units.copy(), np.ones(len(units)), None
    for operation in operations:
        if isinstance(operation, ColumnScales) and norm is None:
            before *= operation.unit
        elif isinstance(operation, ColumnScales):
            after *= operation.unit
        elif isinstance(operation, RowNorms) and norm is None:
            norm = operation
        else:
            return None
    if not (after != 0).all():
        return None
    most = float(np.abs(before).max() * np.abs(after).max())
    if norm is None:
        return NormForm(before * after, None, None, None, np.zeros(len(units)), most)
    x, normal = (by_columns(part, factor) for part, factor in ((norm.x, after), (norm.slope, 1.0 / after)))
    return NormForm(before * after, x, norm.scale, normal, norm.base / after, most)


def by_columns(X: Table, factor: FloatArray) -> Table:
    """X with each column times a number."""
    return sparse.csr_array(X.multiply(factor[None, :])) if is_sparse(X) else X * factor


def _matrix_gram(L: Table, form: NormForm, rows: Index) -> FloatArray:
    """(k, c, c) τ² [ L Δ²Lᵀ − Lx (LΔ²n)ᵀ − LΔ²n (Lx)ᵀ + |Δn|² Lx (Lx)ᵀ ]."""
    squared = form.unit**2
    L = np.asarray(L.toarray() if is_sparse(L) else L)
    shared = (L * squared) @ L.T
    if form.x is None or form.normal is None or form.scale is None:
        return np.repeat(shared[None], len(rows), axis=0)
    normal = form.normal[rows]
    moved = np.asarray(by_columns(normal, squared) @ L.T) + (squared * form.base) @ L.T
    image = np.asarray(form.x[rows] @ L.T)
    sizes = np.asarray((normal * normal) @ squared)
    sizes = sizes + 2.0 * np.asarray(normal @ (squared * form.base)) + float(squared @ form.base**2)
    cross = image[:, :, None] * moved[:, None, :]
    out = shared - cross - cross.transpose(0, 2, 1) + sizes[:, None, None] * image[:, :, None] * image[:, None, :]
    return np.asarray((form.scale[rows] ** 2)[:, None, None] * out)
