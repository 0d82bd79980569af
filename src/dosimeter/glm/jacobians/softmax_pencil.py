"""JᵀJ of a softmax row or group of rows, as a small matrix and a bounded rest: docs/explanation/softmax.md.

For row i, with G = VᵀP, B = AᵀP and Q = NᵀN,

    Eᵢ = (I ⊗ zᵢ) Θᵢ + ρᵢ ⊗ B,      Θᵢ = [SᵢG, -ωᵢCᵀ],      JᵀJ = EᵀQE

Θᵢ vanishes outside the row space of G and the column space of C, which all rows share: 2K' directions U. On them JᵀJ is
written out; outside only Σ ρₖρₗ BᵀQₖₗB is left, which is at most |ρ|² ‖(I ⊗ B)ᵀQ(I ⊗ B)‖. Groups of rows have K'
directions for each row; unknowns that a group shares are one further set of columns, with Σρᵢ in the place of ρ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.glm.jacobians.softmax_response import Response
from dosimeter.glm.linalg.certified_eigenvalue import Apply, upper_bound


@dataclass(frozen=True, eq=False)
class ColumnSet:
    """Columns that are unknown in the same way: one value per row, or one per group."""

    B: FloatArray
    """(p, m) AᵀP."""
    G: FloatArray
    """(K', m) VᵀP."""
    shared: bool
    """Whether one value counts for all rows of a group."""

    @cached_property
    def U(self) -> FloatArray:
        """(m, s) an orthonormal basis of the row space of G."""
        return np.asarray(np.linalg.qr(self.G.T)[0])


@dataclass(frozen=True, eq=False)
class GroupBatch:
    """The rows of g groups of k rows each."""

    Z: FloatArray
    """(g, k, p)."""
    S: FloatArray
    """(g, k, K', K') ω times the curvature."""
    rho: FloatArray
    """(g, k, K') ω times the residual."""
    labels: FloatArray
    """(g, k, K', K) ωCᵀ, or Lᵀ if classes have weights."""


@dataclass(frozen=True, eq=False)
class Pencil:
    """[[A, F], [Fᵀ, M₂₂]] of g groups, 0 ⪯ M₂₂ ⪯ beta."""

    A: FloatArray
    """(g, s, s)."""
    F: FloatArray
    """(g, s, k)."""
    beta: FloatArray
    """(g,)."""
    parts: FloatArray
    """(g,) the size of the terms that were added: rounding is relative to it."""
    apply: Apply
    """M₂₂ times vectors, through Q."""
    R: FloatArray
    """(g, κ, κ) with κ = k K'."""
    Y: FloatArray
    """(g, κ, k) how the two terms of E meet; all unknown columns side by side."""


@dataclass(frozen=True, eq=False)
class Unknowns:
    """A selection of unknowns, the same for every group: what does not depend on the rows."""

    response: Response
    sets: tuple[ColumnSet, ...]
    """Columns per row, columns per group, or both, or none."""
    C: FloatArray
    """(K, K') contrast times the target's unit."""
    targets: tuple[bool, ...]
    """For each kind of target among the unknowns whether it is shared by a group; empty if targets are known."""

    @cached_property
    def target_basis(self) -> FloatArray:
        """(K, s) an orthonormal basis U of the column space of C, which all steps between classes lie in."""
        return np.asarray(np.linalg.qr(self.C)[0])

    @cached_property
    def all_columns(self) -> FloatArray:
        """(p, m) B of all sets side by side."""
        return np.hstack([s.B for s in self.sets]) if self.sets else np.zeros((self.response.p, 0))

    @cached_property
    def column_length(self) -> float:
        """‖B‖₂."""
        return float(np.linalg.norm(self.all_columns, 2)) if self.all_columns.size else 0.0

    @cached_property
    def between_basis(self) -> list[list[FloatArray]]:
        """[a][b] (K'², s, m): (B_bᵀ Q_kl B_a U_a)ᵀ for pairs of classes (k of b, l of a)."""
        return [
            [
                np.ascontiguousarray(self.response.between(b.B, a.B @ a.U).transpose(0, 1, 3, 2)).reshape(
                    self.response.classes**2, -1, b.B.shape[1]
                )
                for b in self.sets
            ]
            for a in self.sets
        ]

    @cached_property
    def pair_sums(self) -> FloatArray:
        """(K'(K' + 1)/2, m(m + 1)/2) packed triangles of BᵀQ_kkB, and of BᵀQ_klB + BᵀQ_lkB for k < l; for one set."""
        (columns,) = self.sets
        K, B = self.response.classes, columns.B
        triangle = np.tril_indices(B.shape[1])
        out = np.empty((K * (K + 1) // 2, len(triangle[0])))
        for position, (k, other) in enumerate(zip(*np.triu_indices(K), strict=True)):
            block = B.T @ (self.response.blocks[other, k] @ B)
            out[position] = (block if k == other else block + block.T)[triangle]
        return out

    @cached_property
    def column_bound(self) -> float:
        """c >= ‖(I ⊗ B)ᵀ Q (I ⊗ B)‖₂."""
        K, B = self.response.classes, self.all_columns
        if not B.size:
            return 0.0
        whole = np.empty((K, B.shape[1], K, B.shape[1]))
        for k in range(K):
            for other in range(k, K):
                whole[k, :, other] = B.T @ (self.response.blocks[other, k] @ B)
                whole[other, :, k] = whole[k, :, other].T
        return upper_bound(whole.reshape(K * B.shape[1], -1))

    def gamma(self, rho: FloatArray) -> FloatArray:
        """(g, m(m + 1)/2) Γ(ρ) = Σ ρₖρₗ BᵀQₖₗB of single rows rho (g, K'), as packed triangles."""
        k, other = np.triu_indices(self.response.classes)
        return np.asarray((rho[:, k] * rho[:, other]) @ self.pair_sums)

    def pencil(self, rows: GroupBatch) -> Pencil:
        """The matrices of some groups."""
        (g, k, _), K = rows.Z.shape, self.response.classes
        by_set = [rows.rho.sum(axis=1, keepdims=True) if s.shared else rows.rho for s in self.sets]
        rho = np.concatenate([*by_set, np.empty((g, 0, K))], axis=1)
        R, t = self.response.of_rows(rows.Z, rho)
        R = R.reshape(g, k * K, k * K)
        phi, first, Ys, YUs = [], 0, [], []
        for s, own in zip(self.sets, by_set, strict=True):
            Y = t[:, :, :, first : first + own.shape[1]] @ s.B
            Ys.append(Y.reshape(g, k * K, -1))
            YUs.append((Y @ s.U).reshape(g, k * K, -1))
            phi.append(_spread(rows.S @ (s.G @ s.U), s.shared))
            first += own.shape[1]
        for shared in self.targets:
            phi.append(_spread(-rows.labels @ self.target_basis, shared))
            YUs.append(np.zeros((g, k * K, phi[-1].shape[2])))
        nothing = np.empty((g, k * K, 0))
        Phi, Y, YU = (np.concatenate([*part, nothing], axis=2) for part in (phi, Ys, YUs))
        A = Phi.transpose(0, 2, 1) @ (R @ Phi)
        side = Phi.transpose(0, 2, 1) @ YU
        A += side + side.transpose(0, 2, 1)
        F = Phi.transpose(0, 2, 1) @ Y
        self._add_gamma(A, F, by_set)
        F = self.outside(F)
        spread = np.linalg.eigvalsh(rho.transpose(0, 2, 1) @ rho)[:, -1] if rho.shape[1] else np.zeros(g)
        squares = np.einsum("gip,gip->gi", rows.Z, rows.Z)
        steepness = np.square(Phi).reshape(g, k, -1).sum(axis=2)
        parts = (
            self.response.size
            * (np.sqrt(np.sum(squares * steepness, axis=1)) + np.sqrt(spread) * self.column_length) ** 2
        )
        beta = self.column_bound * spread if self.sets else np.zeros(g)

        def apply(index: Index, x: FloatArray) -> FloatArray:
            return self._apply([own[index] for own in by_set], x)

        return Pencil(A, F, beta, parts, apply, R, Y)

    def _add_gamma(self, A: FloatArray, F: FloatArray, by_set: list[FloatArray]) -> None:
        """Adds Γ between all sets: UᵀΓU to A, UᵀΓ to F."""
        g, row = len(A), 0
        for a, (column_set, own) in enumerate(zip(self.sets, by_set, strict=True)):
            s, height, column, place = column_set.U.shape[1], 0, 0, 0
            for b, (other, theirs) in enumerate(zip(self.sets, by_set, strict=True)):
                pairs = np.einsum("gbk,gal->gabkl", theirs, own).reshape(-1, self.response.classes**2)
                m, table = other.B.shape[1], self.between_basis[a][b]
                block = (pairs @ table.reshape(len(table), -1)).reshape(g, own.shape[1], theirs.shape[1], s, m)
                height, width = own.shape[1] * s, theirs.shape[1] * m
                F[:, row : row + height, column : column + width] += block.transpose(0, 1, 3, 2, 4).reshape(
                    g, height, width
                )
                inside = theirs.shape[1] * other.U.shape[1]
                A[:, row : row + height, place : place + inside] += (
                    (block @ other.U).transpose(0, 1, 3, 2, 4).reshape(g, height, inside)
                )
                column, place = column + width, place + inside
            row += height

    def _pieces(self, width: int) -> list[tuple[ColumnSet, slice]]:
        """Where the columns of each set are in a vector of all blocks; a set per row has several blocks."""
        shared = sum(s.B.shape[1] for s in self.sets if s.shared)
        out, start = [], 0
        for s in self.sets:
            stop = start + (s.B.shape[1] if s.shared else width - shared)
            out.append((s, slice(start, stop)))
            start = stop
        return out

    def outside(self, F: FloatArray) -> FloatArray:
        """F (..., k) without its part along U."""
        for s, place in self._pieces(F.shape[-1]):
            part = F[..., place].reshape(*F.shape[:-1], -1, s.B.shape[1])
            F[..., place] -= ((part @ s.U) @ s.U.T).reshape(*F.shape[:-1], -1)
        return F

    def _apply(self, by_set: list[FloatArray], x: FloatArray) -> FloatArray:
        """M₂₂ x of vectors (g, k) outside U."""
        e: FloatArray | float = 0.0
        pieces = self._pieces(x.shape[1])
        for (s, place), own in zip(pieces, by_set, strict=True):
            images = x[:, place].reshape(len(x), own.shape[1], -1) @ s.B.T
            e = e + own.transpose(0, 2, 1) @ images
        image = self.response.times(np.asarray(e))
        out = np.concatenate(
            [((own @ image) @ s.B).reshape(len(x), -1) for (s, _), own in zip(pieces, by_set, strict=True)], axis=1
        )
        return self.outside(out)


def _spread(coefficients: FloatArray, shared: bool) -> FloatArray:
    """(g, k, K', s) of each row -> (g, kK', ks) block after block, or (g, kK', s) if the unknowns are shared."""
    g, k, K, s = coefficients.shape
    if shared:
        return coefficients.reshape(g, k * K, s)
    out = np.zeros((g, k, K, k, s))
    each = np.arange(k)
    out[:, each, :, each] = coefficients.transpose(1, 0, 2, 3)
    return out.reshape(g, k * K, k * s)
