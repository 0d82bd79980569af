"""The Jacobian of a sparse table that has no more columns than rows: (p, p) matrices, and rows a block at a time.

A category of thousands of levels is the usual reason. Nothing of the order p³ is done for a row or a person: one
decomposition of the b of most unknowns serves them all, and a group adds a part of low rank (docs/explanation/wide.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.engine import rows_per_block
from dosimeter.core.progress import track
from dosimeter.glm.jacobians.dense_jacobian import Rows
from dosimeter.glm.jacobians.precision import EPS
from dosimeter.glm.jacobians.scalar_jacobian import ScalarJacobian, _cells
from dosimeter.glm.linalg.certified_eigenvalue import largest_eigenvalue, norm_estimate
from dosimeter.glm.linalg.inverse_hessian import gram, times
from dosimeter.glm.linalg.secular import largest_eigenvalues
from dosimeter.glm.linalg.signature import largest_by_counting
from dosimeter.glm.linalg.sparse_table import Table, weighted_gram

LOW_RANK = 64
"""Unknowns, of those that a group's rows share or of those they do not, that are a part of low rank."""
LOST = 1e-12
"""An eigenvalue of b bᵀ below this share of the largest may be rounding."""
LOST_IN_GRAM = 1e-10
"""Relative error of a largest eigenvalue that a sum over sparse rows may have."""
GROUPS = 16 << 20
"""Bytes of the low-rank parts of groups at a time."""


class Axes(NamedTuple):
    """Of b bᵀ = Q D Qᵀ for some unknowns."""

    columns: Index
    D: FloatArray
    """(q,) descending."""
    Q: FloatArray
    rows: FloatArray
    """(p, q) A Fᵀ Q: what a row of the table is multiplied by."""


@dataclass(frozen=True, eq=False)
class SparseJacobian(ScalarJacobian):
    """`ScalarJacobian` with X in rows of scipy.sparse; what it writes out are blocks of u, never of x."""

    @cached_property
    def b(self) -> FloatArray:
        """(k, m) as in `ScalarJacobian`."""
        return self._inverse.T @ self.P

    @cached_property
    def _last_axes(self) -> list[Axes]:
        """The decomposition that was used last; one is kept, for its size."""
        return []

    def axes(self, columns: Index) -> Axes:
        """Of the b of these unknowns. The factor is well-conditioned, so b bᵀ loses no digit of the largest figures."""
        if not (self._last_axes and np.array_equal(self._last_axes[0].columns, columns)):
            self._last_axes.clear()
            b = self.b if len(columns) == self.m else self.b[:, columns]
            D, Q = np.linalg.eigh(b @ b.T)
            D, Q = np.maximum(D[::-1], 0.0), np.ascontiguousarray(Q[:, ::-1])
            self._last_axes.append(Axes(columns.copy(), D, Q, self._inverse @ Q))
        return self._last_axes[0]

    def along(self, beta: FloatArray) -> FloatArray:
        """(p, K) what a row of the table is multiplied by for u·β, β (q, K)."""
        return self._inverse @ beta

    def _slices(self) -> Iterator[slice]:
        step = rows_per_block(len(self.P))
        return (slice(i, min(i + step, self.n)) for i in range(0, self.n, step))

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,) ||J|| of each row over the unknowns `columns` and, if included, the target."""
        if len(columns) == 1 and not include_target:
            return self.cell_norms(columns)[:, 0]
        axes, g = self.axes(columns), self.g[columns]
        v, target = axes.Q.T @ (self.b[:, columns] @ g), self.c**2 if include_target else np.zeros(self.n)
        A, out = self.a**2 * (g @ g) + target, np.empty(self.n)
        full_rank = len(g) <= len(axes.D) and axes.D[len(g) - 1] > LOST * axes.D[0]
        for s in self._slices():
            Z = times(self.X[s], axes.rows)
            rest = target[s] if full_rank else None
            out[s] = largest_eigenvalues(axes.D, Z, v, self.a[s], self.r[s], A[s], rest)
        return np.sqrt(out)

    def cells_of(self, rows: Index) -> FloatArray:
        """(k, m) every cell of some rows."""
        U, out = self.moves(self.X[rows]), np.empty((len(rows), self.m))
        squared = np.einsum("pj,pj->j", self.b, self.b)
        _cells(U, self.b, squared, self.g, self.a[rows], self.r[rows], out)
        return out

    def frobenius(self, include_target: bool) -> FloatArray:
        """(n,) the root of the sum of the squares of a row's cells and, if included, its target."""
        share, along, total = float(self.g @ self.g), self.b @ self.g, float(np.sum(self.b**2))
        out = np.empty(self.n)
        for s in self._slices():
            U = self.moves(self.X[s])
            a, r = self.a[s], self.r[s]
            weight = a * a * share + (self.c[s] ** 2 if include_target else 0.0)
            out[s] = weight * np.einsum("np,np->n", U, U) + 2 * a * r * (U @ along) + r * r * total
        return np.sqrt(np.maximum(out, 0.0))

    # --- many rows together -----------------------------------------------------------------------------------

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(g,) ||J|| of g groups of k rows each, rows (g, k).

        With S = Σ a u and R = Σ r over the group, J Jᵀ is Σr² b bᵀ of its separate unknowns, R² b bᵀ of its shared
        ones, and terms in u, S and b g. The larger b is decomposed; all else has a low rank.
        """
        shared, with_target = self._apart(tied)
        if min(len(columns), len(shared)) > LOW_RANK or not len(columns) + len(shared):
            return super().norms_together(rows, columns, include_target, tied)
        separate = len(columns) >= len(shared)
        large, few = (columns, shared) if separate else (shared, columns)
        axes, k = self.axes(large), rows.shape[1]
        sides = [axes.Q.T @ (self.b[:, j] @ self.g[j]) for j in (columns, shared)]
        fixed = np.column_stack([*sides, axes.Q.T @ self.b[:, few]])
        lengths = [float(self.g[j] @ self.g[j]) for j in (columns, shared)]
        t, out = k + fixed.shape[1], np.empty(len(rows))
        step = max(1, GROUPS // (8 * 3 * t * len(axes.D)))
        for i in track(range(0, len(rows), step)):
            part = rows[i : i + step]
            a, r, c = (values[part] for values in (self.a, self.r, self.c))
            U = times(self.X[part.ravel()], axes.rows).reshape(*part.shape, -1)
            core = np.zeros((len(part), t, t))
            own = a * a * lengths[0] + (c * c if include_target else 0.0)
            core[:, np.arange(k), np.arange(k)] = own
            core[:, :k, :k] += lengths[1] * a[:, :, None] * a[:, None, :]
            core[:, :k, :k] += c[:, :, None] * c[:, None, :] if with_target else 0.0
            squares, total = np.sum(r * r, axis=1), r.sum(axis=1)
            for place, side in ((k, a * r), (k + 1, a * total[:, None])):
                core[:, :k, place] = core[:, place, :k] = side
            weights = (squares, total**2) if separate else (total**2, squares)
            core[:, np.arange(k + 2, t), np.arange(k + 2, t)] = weights[1][:, None]
            W = np.concatenate([U.transpose(0, 2, 1), np.broadcast_to(fixed, (len(part), *fixed.shape))], axis=2)
            out[i : i + step] = largest_by_counting(weights[0][:, None] * axes.D, W, core)
        return np.sqrt(np.maximum(out, 0.0))

    def summed(self, groups: Sequence[Index]) -> SparseJacobian:
        """One row for each group, about unknowns that its rows share: their Jacobians add. It has no target."""
        place = np.repeat(np.arange(len(groups)), [len(rows) for rows in groups])
        members = np.concatenate([np.asarray(rows, dtype=np.intp) for rows in groups])
        weight = sparse.csr_array((self.a[members], (place, members)), shape=(len(groups), self.n))
        X = weight @ self.X
        if X.shape[1] < len(self.P):
            X = sparse.hstack([X, weight.sum(axis=1)[:, None]])
        zeros = np.zeros(len(groups))
        r = zeros + np.bincount(place, weights=self.r[members], minlength=len(groups))
        return replace(self, X=sparse.csr_array(X), a=np.ones(len(groups)), r=r, c=zeros, y=zeros)

    @cached_property
    def _column_sums(self) -> tuple[FloatArray, FloatArray, float]:
        return self.column_sums()

    def column_norm(self, column: int) -> float:
        """||J|| of one unknown over all rows, as `column_norms` has it of every one."""
        G, q, rho = self._column_sums
        g, b = float(self.g[column]), self.b[:, column]
        cross = np.outer(g * q + 0.5 * rho * b, b)
        return float(np.sqrt(largest_eigenvalue(g * g * G + cross + cross.T)))

    def _moments(self, rows: Rows, weight: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        X, r, a = self.X[rows], self.r[rows], self.a[rows]
        if X.shape[0] > 2 * len(self.F) and (quick := self._gram_in_columns(X, weight)) is not None:
            return quick, self._weighted_sum(rows, a * r), float(r @ r)
        G, q, step = np.zeros((len(self.F), len(self.F))), np.zeros(len(self.F)), rows_per_block(len(self.P))
        for i in range(0, X.shape[0], step):
            s = slice(i, i + step)
            U = self.moves(X[s])
            G, q = G + gram(U, weight[s]), q + (a[s] * r[s]) @ U
        return G, q, float(r @ r)

    def _gram_in_columns(self, X: Table, weight: FloatArray) -> FloatArray | None:
        """Σ weight u uᵀ from the Gram matrix of the sparse rows; None if that would lose digits, or a weight is < 0."""
        if weight.min(initial=0.0) < 0:
            return None
        d, C = X.shape[1], np.zeros((len(self.P), len(self.P)))
        C[:d, :d] = weighted_gram(X, weight)
        C[:d, d:] = (X.T @ weight)[:, None]
        C[d:, :d], C[d:, d:] = C[:d, d:].T, weight.sum()
        G = self._inverse.T @ (C @ self._inverse)
        size = norm_estimate(lambda V: self._inverse.T @ (self._inverse @ V), len(G))
        lost = EPS * size * np.abs(C).sum(axis=1).max()
        return 0.5 * (G + G.T) if lost <= LOST_IN_GRAM * G.diagonal().max() else None

    def _weighted_sum(self, rows: Rows, weight: FloatArray) -> FloatArray:
        f = np.append(self.X[rows].T @ weight, [weight.sum()] * (len(self.P) - self.X.shape[1]))
        return np.asarray(f @ self._inverse)
