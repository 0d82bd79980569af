"""The whitened Jacobian of a softmax model, without writing it out.

Parameters class after class, S' the curvature, ρ the residual, H⁻¹ = (I ⊗ A) inner innerᵀ (I ⊗ A)ᵀ, and
N = W (I ⊗ A) inner innerᵀ (q, q) with W the whitening of the noise:

    Jᵢ = -ωᵢ N [ (S'VᵀP) ⊗ z + ρ ⊗ AᵀP ,  -Cᵀ ⊗ z ],   z = Aᵀx̃            (q, m + K)

The target is the vector of K class indicators. Every reading comes from Q = NᵀN in products with many rows at once; a
row whose figure would lose digits to cancellation is written out instead. Derivations: docs/explanation/softmax.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.linalg.blas import dspmv

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.progress import track
from dosimeter.glm.jacobians.category_steps import few_columns, largest_gram_distances, step_norms
from dosimeter.glm.jacobians.dense_jacobian import (
    DenseJacobian,
    Jacobian,
    Rows,
    stacked_mask_norm,
    stacked_norm,
)
from dosimeter.glm.jacobians.softmax_pencil import ColumnSet, GroupBatch, Pencil, Unknowns
from dosimeter.glm.jacobians.softmax_response import Response
from dosimeter.glm.jacobians.softmax_sums import mask_sum, row_slices, row_sums
from dosimeter.glm.linalg.certified_eigenvalue import enclosed_eigenvalues, largest_eigenvalue
from dosimeter.glm.linalg.inverse_hessian import Factor

SMALL = 4096
"""Entries of a Jacobian up to which it is written out: numpy's cost per call exceeds that of the arithmetic."""

LOST = 1e6
"""A square smaller than its terms by more than this has lost too many digits: it is taken from the Jacobian itself."""

MEMORY = 96 << 20
"""Bytes of temporaries of a block of rows."""

STEPS = 24
"""Vectors that an enclosure may take; all eigenvalues of a row's matrix cost about as much."""

_NONE = np.empty(0, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class SoftmaxJacobian(DenseJacobian):
    """The whitened Jacobian of every row; figures are singular values."""

    X: FloatArray
    factor: Factor
    """A (p, p)."""
    response: Response
    """N (k, q), see the top of the file, and Q."""
    P: FloatArray
    """(p, m)."""
    V: FloatArray
    """(p, K') parameters."""
    C: FloatArray
    """(K, K') contrast times the target's unit."""
    S: FloatArray
    """(n, K', K') ω times the curvature."""
    rho: FloatArray
    """(n, K') ω times the residual."""
    weight: FloatArray
    """(n,) ω."""
    y: FloatArray
    """(n,) the classes: they identify the table."""
    target_unit: float
    label_moves: FloatArray | None = field(default=None, kw_only=True)
    """(n, K', K) Lᵢᵀ in the place of ωᵢCᵀ, if classes have weights (`losses/label_weights.py`)."""

    def labels(self, rows: Rows) -> FloatArray:
        """(k, K', K) ωᵢCᵀ, or Lᵢᵀ."""
        return self.weight[rows, None, None] * self.C.T if self.label_moves is None else self.label_moves[rows]

    @cached_property
    def label_sizes(self) -> FloatArray:
        """(n,) norms of these."""
        if self.label_moves is None:
            return np.asarray(self.weight * float(np.linalg.norm(self.C, 2)))
        return np.asarray(np.linalg.norm(self.label_moves, 2, axis=(1, 2)))

    @property
    def n(self) -> int:  # type: ignore[override]
        return len(self.weight)

    @property
    def m(self) -> int:  # type: ignore[override]
        return int(self.P.shape[1])

    @property
    def target_width(self) -> int:  # type: ignore[override]
        return len(self.C)

    @property
    def N(self) -> FloatArray:
        """(k, q)."""
        return self.response.N

    @property
    def width(self) -> int:  # type: ignore[override]
        return len(self.N)

    @cached_property
    def B(self) -> FloatArray:
        """(p, m) AᵀP."""
        return self.factor.columns(self.P)

    @cached_property
    def G(self) -> FloatArray:
        """(K', m) VᵀP."""
        return self.V.T @ self.P

    @property
    def small(self) -> bool:
        """Whether writing Jacobians out is the cheapest way."""
        return self.width * (self.m + self.target_width) <= SMALL

    def dense(self, rows: Rows) -> FloatArray:
        """(k, q, m + K) written out: the oracle of everything below, and the way of rows that cancel."""
        S, rho = self.S[rows], self.rho[rows]
        (p, K), k = self.V.shape, len(self.N)
        by_class = self.N.reshape(k, K, p)
        Z = self.factor.rows(self.X[rows])
        Nz = np.einsum("kcp,np->nkc", by_class, Z, optimize=True)
        J = np.empty((len(Z), k, self.m + len(self.C)))
        J[:, :, : self.m] = -(Nz @ (S @ self.G))
        J[:, :, : self.m] -= np.tensordot(rho, (by_class @ self.B).transpose(1, 0, 2), axes=1)
        J[:, :, self.m :] = Nz @ self.labels(rows)
        return J

    def _blocks(self, n: int, numbers: int) -> Iterator[slice]:
        """Slices of n rows or groups that need that many numbers each."""
        step = max(1, MEMORY // (8 * numbers))
        return track([slice(i, min(i + step, n)) for i in range(0, n, step)])

    def _group_rows(self, rows: Index) -> GroupBatch:
        Z = self.factor.rows(self.X[rows.ravel()]).reshape(*rows.shape, -1)
        return GroupBatch(Z, self.S[rows], self.rho[rows], self.labels(rows))

    # --- norms of rows and of groups of a few rows ------------------------------------------------------------------

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,) largest singular value over the chosen unknowns, to a relative 1e-10."""
        if self.small:
            return super().row_norms(columns, include_target)
        if not len(columns):
            return self.target_norms() if include_target else np.zeros(self.n)
        if len(columns) == 1 and not include_target:
            return self.cell_norms(columns)[:, 0]
        return self._norms(np.arange(self.n, dtype=np.intp)[:, None], columns, include_target, _NONE)

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(g,) ||J|| of g groups of k rows each, rows (g, k)."""
        if self.small:
            return super().norms_together(rows, columns, include_target, tied)
        return self._norms(rows, columns, include_target, tied)

    def _unknowns(self, columns: Index, include_target: bool, tied: Index) -> Unknowns:
        shared_columns = tied[tied < self.m]
        sets = [
            ColumnSet(np.ascontiguousarray(self.B[:, some]), np.ascontiguousarray(self.G[:, some]), shared)
            for some, shared in ((columns, False), (shared_columns, True))
            if len(some)
        ]
        targets = ((False,) if include_target else ()) + ((True,) if (tied >= self.m).any() else ())
        return Unknowns(self.response, tuple(sets), self.C, targets)

    def _norms(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        unknowns, k = self._unknowns(columns, include_target, tied), rows.shape[1]
        p, K = self.V.shape
        width = k * len(columns) + len(tied)
        numbers = 2 * k * K * (k + bool(len(tied))) * p + k * K * width + 3 * 2 * (k + bool(len(tied))) * K * width
        out = np.empty(len(rows))
        for s in self._blocks(len(rows), numbers):
            pencil = unknowns.pencil(self._group_rows(rows[s]))
            squares, solved = enclosed_eigenvalues(pencil.A, pencil.F, pencil.beta, None, 0)
            out[s] = np.sqrt(squares)
            rest = np.flatnonzero(~solved)
            if len(rest) and k == 1 and not len(tied):
                out[s][rest] = self._single_rows(unknowns, pencil, rows[s, 0], rest)
                solved[:] = True
            elif len(rest):
                part = _part(pencil, rest)
                squares, solved[rest] = enclosed_eigenvalues(part.A, part.F, part.beta, part.apply, STEPS)
                out[s][rest] = np.sqrt(squares)
            # Nothing may be taken from a sum whose terms cancel.
            lost = np.flatnonzero(~solved | (pencil.parts > LOST * out[s] ** 2))
            if len(lost):
                out[s][lost] = super().norms_together(rows[s][lost], columns, include_target, tied)
        return out

    def _single_rows(self, unknowns: Unknowns, pencil: Pencil, rows: Index, rest: Index) -> FloatArray:
        """Norms of the rows `rest` of a block, for which Γ(ρ) is written out."""
        m = pencil.Y.shape[2]
        out, step = np.empty(len(rest)), max(1, MEMORY // (4 * m * (m + 1)))
        for i in range(0, len(rest), step):
            some = rest[i : i + step]
            part, gamma = _part(pencil, some), unknowns.gamma(self.rho[rows[some]])

            def apply(index: Index, x: FloatArray, gamma: FloatArray = gamma) -> FloatArray:
                images = np.stack([dspmv(m, 1.0, gamma[g], v) for g, v in zip(index, x, strict=True)])
                return unknowns.outside(images)

            squares, solved = enclosed_eigenvalues(part.A, part.F, part.beta, apply, STEPS)
            hard = np.flatnonzero(~solved)
            if len(hard):
                squares[hard] = self._all_eigenvalues(unknowns, part, gamma, rows[some], hard)
            out[i : i + step] = np.sqrt(squares)
        return out

    def _all_eigenvalues(
        self, unknowns: Unknowns, pencil: Pencil, gamma: FloatArray, rows: Index, hard: Index
    ) -> FloatArray:
        """λ₁ of JᵀJ of the rows at positions `hard`, written out, from all of its eigenvalues."""
        (columns,) = unknowns.sets
        out = np.empty(len(hard))
        for position, i in enumerate(hard):
            Theta = self.S[rows[i]] @ columns.G
            if unknowns.targets:
                Theta = np.hstack([Theta, -self.labels(rows[[i]])[0]])
            Y = np.zeros_like(Theta)
            Y[:, : pencil.Y.shape[2]] = pencil.Y[i]
            M = Theta.T @ (0.5 * (pencil.R[i] @ Theta) + Y)
            M = M + M.T
            M[np.tril_indices(pencil.Y.shape[2])] += gamma[i]  # eigvalsh reads the lower triangle only
            out[position] = max(0.0, float(np.linalg.eigvalsh(M)[-1]))
        return out

    # --- one unknown of one row --------------------------------------------------------------------------------------

    def target_norms(self) -> FloatArray:
        """(n,) ||N (I ⊗ z) Lᵀ||."""
        if self.small:
            return super().row_norms(_NONE, include_target=True)
        out = np.empty(self.n)
        scale = self.response.size * self.label_sizes**2
        for s in self._blocks(self.n, 4 * len(self.V)):
            Z = self.factor.rows(self.X[s])
            L = self.labels(s)
            forms = L.transpose(0, 2, 1) @ self.response.label_forms(Z) @ L
            squares = np.maximum(np.linalg.eigvalsh(forms)[:, -1], 0.0)
            out[s] = np.sqrt(squares)
            lost = s.start + np.flatnonzero(scale[s] * np.einsum("np,np->n", Z, Z) > LOST * squares)
            for i in lost:
                out[i] = np.linalg.norm(self._label_moves(i), 2)
        return out

    def _label_moves(self, row: int) -> FloatArray:
        """(q, K) N (I ⊗ z) Lᵀ of one row."""
        (p, K), z = self.V.shape, self.factor.rows(self.X[row : row + 1])[0]
        return np.asarray((self.N.reshape(len(self.N), K, p) @ z) @ self.labels(np.array([row]))[0])

    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, k) ||N (S'gⱼ ⊗ z + ρ ⊗ bⱼ)|| for each row and each of the unknowns."""
        if self.small or not len(columns):
            return super().cell_norms(columns)
        G, B, (p, K) = self.G[:, columns], np.ascontiguousarray(self.B[:, columns]), self.V.shape
        lengths = self._diagonal(B)
        out = np.empty((self.n, len(columns)))
        for s in self._blocks(self.n, 2 * K * p + 4 * K * len(columns)):
            rows = np.arange(s.start, s.stop, dtype=np.intp)[:, None]
            block = self._group_rows(rows)
            R, t = self.response.of_rows(block.Z, block.rho)
            R, Y = R[:, 0, :, 0], t[:, 0, :, 0] @ B
            slopes, rho = block.S[:, 0] @ G, block.rho[:, 0]
            steep = np.einsum("nkj,nkj->nj", slopes, R @ slopes)
            apart = (rho[:, :, None] * rho[:, None, :]).reshape(len(rho), -1) @ lengths
            squares = steep + 2.0 * np.einsum("nkj,nkj->nj", slopes, Y) + apart
            lost = squares * LOST <= steep + apart
            lost &= steep + apart > 0.0
            out[s] = np.sqrt(np.maximum(squares, 0.0))
            for i, j in np.argwhere(lost):
                out[s.start + i, j] = self._cell(block.Z[i, 0], slopes[i, :, j], rho[i], B[:, j])
        return out

    def _diagonal(self, B: FloatArray) -> FloatArray:
        """(K'², m) bⱼᵀ Q_kl bⱼ."""
        K = self.response.classes
        out = np.empty((K, K, B.shape[1]))
        for k in range(K):
            for other in range(K):
                out[k, other] = np.einsum("pj,pj->j", B, self.response.blocks[other, k] @ B)
        return out.reshape(K * K, -1)

    def _cell(self, z: FloatArray, slope: FloatArray, rho: FloatArray, b: FloatArray) -> float:
        """The norm of one column of a Jacobian, from the column."""
        return float(np.linalg.norm(self.N @ (np.outer(slope, z) + np.outer(rho, b)).ravel()))

    def image_distances(self, points: FloatArray) -> FloatArray:
        """(n,) the largest ||J (x - x')|| of two points (k, m + K) in the coordinates of a row's unknowns."""
        k, m, (p, K) = len(points), self.m, self.V.shape
        slopes, moves, indicators = self.G @ points[:, :m].T, self.B @ points[:, :m].T, points[:, m:].T
        between = self.response.between(moves, moves).reshape(K * K, -1)
        out = np.empty(self.n)
        for s in self._blocks(self.n, 2 * K * p + 2 * K * k + 3 * k * k):
            rows = np.arange(s.start, s.stop, dtype=np.intp)
            block = self._group_rows(rows[:, None])
            R, t = self.response.of_rows(block.Z, block.rho)
            R, Y = R[:, 0, :, 0], t[:, 0, :, 0] @ moves
            Theta, rho = block.S[:, 0] @ slopes - block.labels[:, 0] @ indicators, block.rho[:, 0]
            steep = Theta.transpose(0, 2, 1) @ (R @ Theta)
            cross = Theta.transpose(0, 2, 1) @ Y
            apart = ((rho[:, :, None] * rho[:, None, :]).reshape(len(rho), -1) @ between).reshape(-1, k, k)
            out[s] = largest_gram_distances(steep + cross + cross.transpose(0, 2, 1) + apart)
            terms = np.einsum("nkk->nk", steep + apart).max(axis=1)
            for i in np.flatnonzero(terms > LOST * np.square(out[s])):
                images = self.dense(rows[[i]])[0] @ points.T
                out[rows[i]] = largest_gram_distances((images.T @ images)[None])[0]
        return out

    # --- many rows together ------------------------------------------------------------------------------------------

    def column_norms(self) -> FloatArray:
        """(m,) each unknown over all rows: a Gram matrix of (rows, q) for each, O(n q²)."""
        if self.small:
            return super().column_norms()
        out = np.empty(self.m)
        for j in track(range(self.m)):
            total = np.zeros((self.width, self.width))
            for s in row_slices(self.n, 2 * self.N.shape[1]):
                Z, slopes = self.factor.rows(self.X[s]), self.S[s] @ self.G[:, j]
                moves = slopes[:, :, None] * Z[:, None, :] + self.rho[s][:, :, None] * self.B[:, j]
                moves = moves.reshape(len(Z), -1) @ self.N.T
                total += moves.T @ moves
            out[j] = np.sqrt(largest_eigenvalue(total))
        return out

    def outer(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(q, q) J Jᵀ of some rows' unknowns together; the Jacobians of `tied` unknowns add over the rows."""
        if self.small:
            return super().outer(rows, columns, include_target, tied)
        total = np.zeros((self.N.shape[1], self.N.shape[1]))
        row_sums(self, rows, columns, include_target, tied, total)
        return self._sandwich(total)

    def outer_mask(self, mask: Mask) -> FloatArray:
        """(q, q) J Jᵀ of any set of cells; mask (n, m + 1), the last column for the target."""
        if self.small:
            return super().outer_mask(mask)
        total = np.zeros((self.N.shape[1], self.N.shape[1]))
        mask_sum(self, mask, total)
        return self._sandwich(total)

    def _sandwich(self, total: FloatArray) -> FloatArray:
        product = self.N @ total
        return np.asarray(product @ self.N.T)

    def together(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> float:
        """||J|| of some rows' unknowns together."""
        if self.small:
            return super().together(rows, columns, include_target, tied)
        index = np.arange(self.n, dtype=np.intp)[rows]
        total = np.zeros((self.N.shape[1], self.N.shape[1]))
        size = row_sums(self, rows, columns, include_target, tied, total)
        square = largest_eigenvalue(self._sandwich(total))
        if self.response.size * size <= LOST * square:
            return float(np.sqrt(square))
        return stacked_norm(self, index, columns, include_target, tied)

    def together_mask(self, mask: Mask) -> float:
        """||J|| of any set of cells."""
        if self.small:
            return super().together_mask(mask)
        total = np.zeros((self.N.shape[1], self.N.shape[1]))
        size = mask_sum(self, mask, total)
        square = largest_eigenvalue(self._sandwich(total))
        return float(np.sqrt(square)) if self.response.size * size <= LOST * square else stacked_mask_norm(self, mask)


def _part(pencil: Pencil, some: Index) -> Pencil:
    """The pencil of some of its groups."""

    def apply(index: Index, x: FloatArray) -> FloatArray:
        return pencil.apply(some[index], x)

    A, F, beta, parts, R, Y = (v[some] for v in (pencil.A, pencil.F, pencil.beta, pencil.parts, pencil.R, pencil.Y))
    return Pencil(A, F, beta, parts, apply, R, Y)


@few_columns.register
def _(jacobian: SoftmaxJacobian, columns: Index) -> tuple[Jacobian, Index]:
    narrow = replace(jacobian, P=np.ascontiguousarray(jacobian.P[:, columns]))
    return narrow, np.arange(len(columns), dtype=np.intp)


@step_norms.register
def _(jacobian: SoftmaxJacobian, columns: Index, vertices: FloatArray) -> FloatArray:
    """The images of the levels have inner products V JᵀJ Vᵀ, and JᵀJ of a few unknowns is small."""
    is_target = bool((columns >= jacobian.m).all())
    if len(columns) == 1 and not is_target:
        return np.asarray(jacobian.cell_norms(columns)[:, 0] * np.ptp(vertices[:, 0]))
    narrow = few_columns(jacobian, columns[columns < jacobian.m])[0]
    points = np.zeros((len(vertices), narrow.m + jacobian.target_width))
    points[:, columns - jacobian.m if is_target else slice(narrow.m)] = vertices
    if not isinstance(narrow, SoftmaxJacobian):
        raise TypeError("some columns of a softmax Jacobian are one again")
    return narrow.image_distances(points)
