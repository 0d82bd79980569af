"""The Jacobian of a sparse table that has no more columns than rows: (p, p) matrices, and rows a block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.engine import rows_per_block
from dosimeter.glm.dense_jacobian import Rows
from dosimeter.glm.inverse_hessian import gram
from dosimeter.glm.scalar_jacobian import ScalarJacobian, _cells
from dosimeter.glm.secular import largest_eigenvalues


@dataclass(frozen=True, eq=False)
class SparseJacobian(ScalarJacobian):
    """`ScalarJacobian` with X in rows of scipy.sparse; what it writes out are blocks of u, never of x."""

    def _slices(self) -> Iterator[slice]:
        step = rows_per_block(len(self.P))
        return (slice(i, min(i + step, self.n)) for i in range(0, self.n, step))

    def _row_eigenvalues(
        self, B: FloatArray, D: FloatArray, v: FloatArray, A: FloatArray, rest: FloatArray | None
    ) -> FloatArray:
        out, d = np.empty(self.n), self.X.shape[1]
        for s in self._slices():
            Z = self.X[s] @ B[:d] + (B[d] if len(B) > d else 0.0)
            out[s] = largest_eigenvalues(D, Z, v, self.a[s], self.r[s], A[s], None if rest is None else rest[s])
        return out

    def cells_of(self, rows: Index) -> FloatArray:
        """(k, m) every cell of some rows."""
        U, out = self.factor.rows(self.X[rows], self.F.T), np.empty((len(rows), self.m))
        squared = np.einsum("pj,pj->j", self.b, self.b)
        _cells(U, self.b, squared, self.g, self.a[rows], self.r[rows], out)
        return out

    def frobenius(self, include_target: bool) -> FloatArray:
        """(n,) the root of the sum of the squares of a row's cells and, if included, its target."""
        share, along, total = float(self.g @ self.g), self.b @ self.g, float(np.sum(self.b**2))
        out = np.empty(self.n)
        for s in self._slices():
            U = self.factor.rows(self.X[s], self.F.T)
            a, r = self.a[s], self.r[s]
            weight = a * a * share + (self.c[s] ** 2 if include_target else 0.0)
            out[s] = weight * np.einsum("np,np->n", U, U) + 2 * a * r * (U @ along) + r * r * total
        return np.sqrt(np.maximum(out, 0.0))

    def _moments(self, rows: Rows, weight: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        X, r, a = self.X[rows], self.r[rows], self.a[rows]
        G, q, step = np.zeros((len(self.F), len(self.F))), np.zeros(len(self.F)), rows_per_block(len(self.P))
        for i in range(0, X.shape[0], step):
            s = slice(i, i + step)
            U = self.factor.rows(X[s], self.F.T)
            G, q = G + gram(U, weight[s]), q + (a[s] * r[s]) @ U
        return G, q, float(r @ r)

    def _weighted_sum(self, rows: Rows, weight: FloatArray) -> FloatArray:
        f = np.append(self.X[rows].T @ weight, [weight.sum()] * (len(self.P) - self.X.shape[1]))
        return np.asarray(self.F @ self.factor.columns(f))
