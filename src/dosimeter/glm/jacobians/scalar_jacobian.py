"""How the released weights move with each row's data, for losses with one margin: the Jacobian in factored form.

Eq. 18 with a frozen map x̃ = P z + const from the unknown quantities z (m,) to the model's columns:

    Jᵢ = -ωᵢ H⁻¹ [ aᵢ x̃ᵢ (Pᵀw)ᵀ + rᵢ P ,  -cᵢ x̃ᵢ ]            (p, m + 1)

P is the identity without its intercept row for a plain table, 1/scale with a scaler, unit/scale for readings in another
unit. With H⁻¹ = A Aᵀ and W the whitening of the noise, F = W A:

    whitened J = -ω F [ a z (Pᵀw)ᵀ + r AᵀP , -c z ],   z = Aᵀx̃

so a row enters only through z and no array larger than (n, p) is made. Derivations: docs/explanation/fisher.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.engine import rows_per_block
from dosimeter.glm.jacobians.dense_jacobian import stacked_mask_norm, stacked_norm
from dosimeter.glm.linalg.certified_eigenvalue import largest_eigenvalue
from dosimeter.glm.linalg.inverse_hessian import Factor, gram, times
from dosimeter.glm.linalg.secular import largest_eigenvalues, row_eigenvalues
from dosimeter.glm.linalg.sparse_table import Table

CACHE = 1 << 20
"""Bytes of a block of rows: it and its temporaries stay in a core's cache, where an entrywise pass is cheapest."""

TAME = 30.0
"""Condition numbers whose fourth power times the rounding unit is below 1e-9."""

FEW, SMALL = 44, 900_000
"""Up to this many columns a Gram matrix is cheapest as products of this many terms: OpenBLAS packs above 1e6."""

CANCELLED = 1e-6
"""A square that lost more than this share of its terms is recomputed in norm form."""


@dataclass(frozen=True, eq=False)
class ScalarJacobian:
    """The whitened Jacobian of every row. Figures are singular values: η = ||J||₂."""

    X: FloatArray
    """(n, d) the training table."""
    factor: Factor
    """A (p, p), H⁻¹ = A Aᵀ."""
    F: FloatArray
    """(k, p) the whitened A; k = p unless only a projection of the weights is released."""
    P: FloatArray
    """(p, m) dx̃/dz."""
    g: FloatArray
    """(m,) Pᵀw: how the margin moves with each unknown."""
    a: FloatArray
    """(n,) ω times the curvature; negative on some rows of a loss that is not convex."""
    r: FloatArray
    """(n,) ω times the residual."""
    c: FloatArray
    """(n,) ω times the target's unit, and times -d²l/dm dy, of either sign, if that is not 1."""
    y: FloatArray
    """(n,) the targets: they identify the table."""
    target_unit: float

    @property
    def n(self) -> int:
        return len(self.r)

    @property
    def m(self) -> int:
        """Number of unknowns of a row, without the target."""
        return int(self.P.shape[1])

    @property
    def target_width(self) -> int:
        return 1

    @cached_property
    def b(self) -> FloatArray:
        """(k, m) F AᵀP: the move of the weights when one unknown moves by one and the residual is one."""
        return self.F @ self.factor.columns(self.P)

    def moves(self, X: Table) -> FloatArray:
        """(k, q) u = F z of rows X (k, d) of the table: how the weights move with the label."""
        return times(X, self._inverse) if self.factor.easy else self.factor.rows(X, self.F.T)

    @cached_property
    def _inverse(self) -> FloatArray:
        """(p, q) A Fᵀ, formed once: with thousands of weights it costs more than all rows."""
        return self.factor.matrix @ self.F.T

    def _slices(self) -> Iterator[slice]:
        # A fifth of a small table: malloc returns larger blocks to the system, and the next call faults them in.
        step = rows_per_block(len(self.P), min(CACHE, self.X.nbytes // 5))
        return (slice(i, min(i + step, self.n)) for i in range(0, self.n, step))

    # --- one row at a time ------------------------------------------------------------------------------------

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,) ||J|| of each row over the unknowns `columns` (positions) and, if included, the target."""
        if len(columns) == 1 and not include_target:
            return self.cell_norms(columns)[:, 0]
        # With more unknowns than weights the rest of the unknowns' basis is never used.
        Q, root, turn = np.linalg.svd(self.b[:, columns], full_matrices=len(self.b) >= len(columns))
        D = np.zeros(len(Q))
        D[: len(root)] = root**2
        v = np.zeros(len(Q))
        v[: len(root)] = root * (turn[: len(root)] @ self.g[columns])
        share = self.g[columns] @ self.g[columns]
        A = self.a**2 * share + (self.c**2 if include_target else 0.0)
        # The rest of A beyond the part that v carries; known without a subtraction if no direction is lost.
        rest = (
            (self.c**2 if include_target else np.zeros(self.n)) if len(root) == len(columns) and root[-1] > 0 else None
        )
        rotated = self.F.T @ Q
        if self.factor.easy:
            B = self.factor.matrix @ rotated
            squares = row_eigenvalues(self.X, B, D, v, self.a, self.r, A, rest)
            return np.asarray(np.sqrt(squares, out=squares))
        out = np.empty(self.n)
        for s in self._slices():
            Z = self.factor.rows(self.X[s], rotated)
            part = None if rest is None else rest[s]
            out[s] = largest_eigenvalues(D, Z, v, self.a[s], self.r[s], A[s], part)
        return np.sqrt(out)

    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, k) ||a gⱼ u + r bⱼ|| for each row and each of the unknowns, u = F z."""
        b = np.ascontiguousarray(self.b[:, columns])
        squared_lengths, g = np.einsum("pj,pj->j", b, b), self.g[columns]
        out = np.empty((self.n, len(columns)))
        for s in self._slices():
            U = self.moves(self.X[s])
            _cells(U, b, squared_lengths, g, self.a[s], self.r[s], out[s])
        return out

    def target_norms(self) -> FloatArray:
        """(n,) |c| ||u||."""
        out = np.empty(self.n)
        for s in self._slices():
            U = self.moves(self.X[s])
            out[s] = np.abs(self.c[s]) * np.sqrt(np.einsum("np,np->n", U, U))
        return out

    def dense(self, rows: Index | slice) -> FloatArray:
        """(k, p, m + 1) the Jacobians of some rows, target last, written out."""
        U = self.moves(self.X[rows])
        a, r, c = self.a[rows], self.r[rows], self.c[rows]
        out = np.empty((len(U), len(self.F), self.m + 1))
        out[:, :, :-1] = -(a[:, None] * U)[:, :, None] * self.g - r[:, None, None] * self.b
        out[:, :, -1] = c[:, None] * U
        return out

    # --- many rows together -----------------------------------------------------------------------------------

    def column_norms(self) -> FloatArray:
        """(m,) ||J|| of each unknown over all rows: gⱼ² G + gⱼ(q bⱼᵀ + bⱼ qᵀ) + ρ bⱼbⱼᵀ, the secular form again."""
        return self.column_norms_from(self.column_sums())

    def column_sums(self) -> tuple[FloatArray, FloatArray, float]:
        """Σ a² u uᵀ (k, k), Σ a r u (k,), Σ r²: what `column_norms` needs of the rows; parts of a table add up."""
        return self._moments(slice(None), self.a**2)

    def column_norms_from(self, sums: tuple[FloatArray, FloatArray, float]) -> FloatArray:
        """(m,) `column_norms` of the rows that were summed."""
        G, q, rho = sums
        D, Q = np.linalg.eigh(G)
        D, Q = np.maximum(D[::-1], 0.0), Q[:, ::-1]
        ones = np.ones(self.m)
        return np.sqrt(largest_eigenvalues(D, self.b.T @ Q, Q.T @ q, ones, self.g, rho * ones))

    def outer(self, rows: Index | slice, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(p, p) J Jᵀ of some rows' unknowns together.

        `columns` are separate unknowns on every row; `tied` are one unknown for all the rows, whose Jacobians add. The
        position m is the target.
        """
        g, b = self.g[columns], self.b[:, columns]
        weight = np.square(self.a[rows])
        weight *= g @ g
        if include_target:
            weight += np.square(self.c[rows])
        G, q, rho = self._moments(rows, weight)
        cross = np.outer(q, b @ g)
        M = G + cross + cross.T + rho * (b @ b.T)
        if len(tied):
            shared, with_target = self._apart(tied)
            s = self._weighted_sum(rows, self.a[rows])
            J = np.outer(s, self.g[shared]) + self.r[rows].sum() * self.b[:, shared]
            M = M + J @ J.T
            if with_target:
                s = self._weighted_sum(rows, self.c[rows])
                M = M + np.outer(s, s)
        return np.asarray(M)

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(g,) ||J|| of g groups of k rows each, rows (g, k); unknowns as in `outer`."""
        g, b = self.g, self.b
        side, share = b[:, columns] @ g[columns], g[columns] @ g[columns]
        spread = b[:, columns] @ b[:, columns].T
        shared, with_target = self._apart(tied)
        step = max(1, rows_per_block(len(self.F) * (len(self.F) + rows.shape[1]), 32 << 20))
        out = np.empty(len(rows))
        for i in range(0, len(rows), step):
            part = rows[i : i + step]
            flat = part.ravel()
            U = self.moves(self.X[flat]).reshape(*part.shape, -1)
            a, r, c = (v[flat].reshape(part.shape) for v in (self.a, self.r, self.c))
            weight = a * a * share + (c * c if include_target else 0.0)
            M = (weight[:, :, None] * U).transpose(0, 2, 1) @ U
            cross = np.einsum("gk,gkp->gp", a * r, U)[:, :, None] * side
            M += cross + cross.transpose(0, 2, 1) + np.sum(r * r, axis=1)[:, None, None] * spread
            if len(shared):
                J = np.einsum("gk,gkp->gp", a, U)[:, :, None] * g[shared] + r.sum(axis=1)[:, None, None] * b[:, shared]
                M += J @ J.transpose(0, 2, 1)
            if with_target:
                s = np.einsum("gk,gkp->gp", c, U)
                M += s[:, :, None] * s[:, None, :]
            out[i : i + step] = np.linalg.eigvalsh(M)[:, -1]
        return np.sqrt(np.maximum(out, 0.0))

    def outer_mask(self, mask: Mask) -> FloatArray:
        """(p, p) J Jᵀ of any set of cells: mask (n, m + 1) is true if a cell is unknown, target last."""
        cells, target_cells = mask[:, :-1].astype(float), mask[:, -1]
        weight = self.a**2 * (cells @ self.g**2) + self.c**2 * target_cells
        M = np.zeros((len(self.F), len(self.F)))
        for s in self._slices():
            U = self.moves(self.X[s])
            cross = (U.T @ (cells[s] * (self.a[s] * self.r[s])[:, None])) * self.g
            M += gram(U, weight[s]) + cross @ self.b.T + self.b @ cross.T
        return np.asarray(M + (self.b * (cells.T @ self.r**2)) @ self.b.T)

    def together(self, rows: Index | slice, columns: Index, include_target: bool, tied: Index) -> float:
        """||J|| of some rows' unknowns together; unknowns as in `outer`."""
        square = largest_eigenvalue(self.outer(rows, columns, include_target, tied))
        every = np.union1d(columns, self._apart(tied)[0]) if len(tied) else columns
        r = self.r[rows]
        # The terms of the square: if little is left of them, use the stacked Jacobian instead.
        if square > CANCELLED * float((r @ r) * np.sum(self.b[:, every] ** 2)):
            return float(np.sqrt(square))
        return stacked_norm(self, np.arange(self.n, dtype=np.intp)[rows], columns, include_target, tied)

    def _apart(self, tied: Index) -> tuple[Index, bool]:
        """Tied columns, and whether the target is tied."""
        return tied[tied < self.m], bool((tied >= self.m).any())

    def together_mask(self, mask: Mask) -> float:
        """||J|| of any set of cells; mask (n, m + 1), target last."""
        square = float(np.linalg.eigvalsh(self.outer_mask(mask))[-1])
        size = float(np.sum((self.r**2) @ mask[:, :-1] * np.sum(self.b**2, axis=0)))
        return float(np.sqrt(square)) if square > CANCELLED * size else stacked_mask_norm(self, mask)

    def _moments(self, rows: Index | slice, weight: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Σ weight u uᵀ (k, k), Σ a r u (k,), Σ r²."""
        X, r = self.X[rows], self.r[rows]
        ar = self.a[rows] * r
        # In the table's own columns the Gram matrix needs no product first, but its two outer factors then cost the
        # fourth power of the condition number; if that is not small, use u.
        plain, p = self.factor.condition <= TAME, len(self.P)
        left = self.F @ self.factor.matrix.T if plain else np.eye(len(self.F))
        width, copies = len(left.T), not plain or X.shape[1] < p
        step = rows_per_block(p, CACHE) if copies else max(1, len(X))
        G, q = np.zeros((width, width)), np.zeros(width)
        for i in range(0, len(X), step):
            block = slice(i, i + step)
            B = _with_one(X[block], p) if plain else self.moves(X[block])
            part = _second_and_first(B, weight[block], ar[block])
            G, q = G + part[0], q + part[1]
        return left @ G @ left.T, left @ q, float(r @ r)

    def _weighted_sum(self, rows: Index | slice, weight: FloatArray) -> FloatArray:
        """(p,) Σ weight u."""
        return np.asarray(weight @ self.moves(self.X[rows]))


def _second_and_first(Z: FloatArray, weight: FloatArray, first: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Zᵀ diag(weight) Z, (p, p), and Zᵀ first, (p,), the cheapest way for their size."""
    n, p = Z.shape
    step = SMALL // p**2 if p <= FEW else rows_per_block(p, CACHE)
    G, q, work = np.zeros((p, p)), np.zeros(p), np.empty((min(n, step), p))
    scale = (weight if p <= FEW else np.sqrt(weight))[:, None]
    for i in range(0, n, step):
        rows = Z[i : i + step]
        scaled = np.multiply(rows, scale[i : i + step], out=work[: len(rows)])
        G += scaled.T @ (rows if p <= FEW else scaled)
        q += first[i : i + step] @ rows
    return G, q


def _with_one(X: FloatArray, p: int) -> FloatArray:
    return X if X.shape[1] == p else np.column_stack([X, np.ones(len(X))])


def _cells(
    U: FloatArray,
    b: FloatArray,
    squared_lengths: FloatArray,
    g: FloatArray,
    a: FloatArray,
    r: FloatArray,
    out: FloatArray,
) -> None:
    """||a gⱼ u + r bⱼ|| into out (k, m): the expanded square if it does not cancel, the norm if it does."""
    np.matmul(U, b * g, out=out)
    out *= (2 * a * r)[:, None]
    # Both positive terms at once: [a²|u|², r²] (k, 2) times [g², |b|²] (2, m) is a product of inner length two.
    sides = np.column_stack([a * a * np.einsum("np,np->n", U, U), r * r])
    positive = sides @ np.vstack([g * g, squared_lengths])
    out += positive
    positive *= CANCELLED
    # If squares underflow both sides are zero; a row that does not move the weights stays zero.
    lost = (out <= positive) & ((a != 0) | (r != 0))[:, None]
    np.maximum(out, 0.0, out=out)
    np.sqrt(out, out=out)
    if lost.any():
        i, j = np.nonzero(lost)
        for k in range(0, len(i), 4096):
            rows, cols = i[k : k + 4096], j[k : k + 4096]
            difference = (a[rows] * g[cols])[:, None] * U[rows] + r[rows, None] * b.T[cols]
            largest = np.abs(difference).max(axis=1)
            shape = difference / np.where(largest > 0, largest, 1.0)[:, None]
            out[rows, cols] = largest * np.sqrt(np.einsum("np,np->n", shape, shape))
