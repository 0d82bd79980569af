"""An orthonormal basis V (d, k) of the row space of a wide table, without writing it out.

X Xᵀ of the rows at unit length is factored by Cholesky with pivoting; with X_P the k pivot rows at unit length and L
(k, k) their triangle, V = X_Pᵀ L⁻ᵀ. All figures of rows depend on X only through Y = X V (n, k), Y Yᵀ = X Xᵀ; columns
enter through rows of V. A penalised minimiser lies in the row space; other parameters add directions to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, solve_triangular

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.glm.linalg.sparse_table import Table, dense_columns

OUTSIDE = 1e-9
"""A part of the parameters outside the row space that is smaller than this share of them is rounding."""


@dataclass(frozen=True, eq=False)
class RowSpace:
    """V (d, k) of a table, through its pivot rows."""

    pivots: Table
    """(r, d) the pivot rows."""
    norms: FloatArray
    """(r,) their lengths."""
    triangle: FloatArray
    """L (r, r)."""
    rows: FloatArray
    """Y (n, k) = X V."""
    outside: FloatArray
    """(d, k − r): the directions of given parameters outside the row space, if there are any."""

    @classmethod
    def of(cls, X: Table, gram: FloatArray, w: FloatArray) -> RowSpace:
        """Of a table with X Xᵀ = gram, extended if w (d,), or a column of w (d, j), is not in its row space."""
        lengths = np.sqrt(gram.diagonal())
        unit = np.where(lengths > 0, lengths, 1.0)
        scaled = gram / unit
        scaled /= unit[:, None]
        factor, pivot, rank, _ = lapack.dpstrf(scaled, lower=1, overwrite_a=1)
        order = (pivot - 1).astype(np.intp)
        rank = max(1, int(rank))  # a table of zeros keeps one direction, in which it is zero
        Y = np.empty((len(gram), rank))
        Y[order] = np.tril(factor[:, :rank])
        Y *= lengths[:, None]
        keep = order[:rank]
        space = cls(X[keep], unit[keep], np.tril(factor[:rank, :rank]), Y, np.empty((X.shape[1], 0)))
        beyond = (w - space.lift(space.project(w))).reshape(len(w), -1)
        size = float(np.linalg.norm(beyond))
        if size <= OUTSIDE * float(np.linalg.norm(w)):
            return space
        directions, triangle = np.linalg.qr(beyond)
        outside = directions[:, np.abs(triangle.diagonal()) > OUTSIDE * size]
        Y = np.column_stack([Y, np.zeros((len(Y), outside.shape[1]))])
        return cls(space.pivots, space.norms, space.triangle, Y, outside)

    @property
    def width(self) -> int:
        """k."""
        return int(self.rows.shape[1])

    def project(self, f: FloatArray) -> FloatArray:
        """Vᵀf, (k,) or (k, j), of f (d,) or (d, j)."""
        inside = self._solve((self.pivots @ f).reshape(len(self.norms), -1))
        out = np.vstack([inside, self.outside.T @ f.reshape(len(f), -1)])
        return out.reshape(self.width, *f.shape[1:])

    def lift(self, t: FloatArray) -> FloatArray:
        """V t, (d,) or (d, j), of t (k,) or (k, j)."""
        r = len(self.norms)
        columns = t.reshape(len(t), -1)
        inner = solve_triangular(self.triangle, columns[:r], lower=True, trans="T") / self.norms[:, None]
        return np.asarray(self.pivots.T @ inner + self.outside @ columns[r:]).reshape(-1, *t.shape[1:])

    def columns(self, index: Index | slice) -> FloatArray:
        """(j, k): the rows of V that belong to some columns of the table."""
        inside = self._solve(dense_columns(self.pivots, index))
        return np.hstack([inside.T, self.outside[index]])

    def _solve(self, products: FloatArray) -> FloatArray:
        return np.asarray(solve_triangular(self.triangle, products / self.norms[:, None], lower=True))
