"""The coordinates in which a figure of a wide table is computed, and the norm of several rows in them.

A figure names some columns, or all but some. Its coordinates are those of the reduced problem (q of them) and, for the
named columns, their parts outside the row space. In them J Jᵀ of rows R with weights a, r, c is

    ρ spread + Σ (a² share + c²) u uᵀ + ξ sideᵀ + side ξᵀ,        ρ = Σ r²,  ξ = Σ a r u,

as in docs/explanation/fisher.md, 4; every other direction of the complement has the single value ρ floor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.glm.jacobians.dense_jacobian import largest_singular_values
from dosimeter.glm.linalg.low_rank import largest_eigenvalue


@dataclass(frozen=True, eq=False)
class GroupRows:
    """The rows of a group: u (k, q) in the reduced coordinates, and their numbers (k,)."""

    U: FloatArray
    a: FloatArray
    r: FloatArray
    c: FloatArray


@dataclass(frozen=True, eq=False)
class Frame:
    """What all rows share in a figure; q' coordinates."""

    spread: FloatArray
    """(q', q') Σ b bᵀ over the columns that are separate unknowns on each row."""
    side: FloatArray
    """(q',) Σ g b over them."""
    share: float
    """Σ g² over them."""
    named: FloatArray | None
    """(q', j) their b, where few columns were named; None where all but a few are meant."""
    named_g: FloatArray
    """(j,)."""
    tied: FloatArray
    """(q', t) b of the columns that are one unknown for all rows of a group."""
    tied_g: FloatArray
    """(t,)."""
    floor: float
    """b² of the directions that are not among the coordinates, 0 if none of them is unknown."""

    @cached_property
    def axes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Eigenvalues D of the spread, largest first, eigenvectors Q, and Qᵀ side, zero where D is."""
        D, Q = np.linalg.eigh(self.spread)
        D, Q = np.maximum(D[::-1], 0.0), np.ascontiguousarray(Q[:, ::-1])
        return D, Q, np.where(4e-16 * D[0] < D, Q.T @ self.side, 0.0)

    def pad(self, U: FloatArray) -> FloatArray:
        """(k, q') rows in all coordinates: they have no part outside the row space."""
        return np.pad(U, ((0, 0), (0, len(self.side) - U.shape[1])))

    def shared(self, rows: GroupRows, with_target: bool) -> FloatArray:
        """(q', t) the Jacobians of the tied columns, and of a tied target: sums over the rows."""
        U = self.pad(rows.U)
        J = np.outer(rows.a @ U, self.tied_g) + rows.r.sum() * self.tied
        return np.column_stack([J, rows.c @ U]) if with_target else J

    def norm(self, rows: GroupRows, include_target: bool, with_target: bool) -> float:
        """||J|| of a few rows together; `with_target` if their target is tied."""
        if self.named is not None:
            return float(largest_singular_values(self._written_out(rows, include_target, with_target)[None])[0])
        D, Q, v = self.axes
        c = rows.c if include_target else np.zeros_like(rows.c)
        F, kappa, rho = _completed(self.pad(rows.U), rows.a, rows.r, c, self.share, self.side)
        F = Q.T @ np.hstack([F, self.shared(rows, with_target)])
        return float(np.sqrt(largest_eigenvalue(rho * D, F, kappa * v, rho * self.floor)))

    def _written_out(self, rows: GroupRows, include_target: bool, with_target: bool) -> FloatArray:
        """(q', unknowns) the Jacobian of rows in few columns."""
        U, b = self.pad(rows.U), np.zeros((len(self.side), 0)) if self.named is None else self.named
        blocks = (rows.a[:, None] * U)[:, :, None] * self.named_g + rows.r[:, None, None] * b
        parts = [blocks.transpose(1, 0, 2).reshape(len(b), -1), self.shared(rows, with_target)]
        return np.hstack([*parts, (rows.c[:, None] * U).T] if include_target else parts)

    def stacked_norm(self, rows: GroupRows, include_target: bool, with_target: bool) -> float:
        """||J|| of any number of rows in few columns by QR, block after block: nothing is squared."""
        R = self.shared(rows, with_target).T
        for i in range(0, len(rows.r), 256):
            s = slice(i, i + 256)
            part = GroupRows(rows.U[s], rows.a[s], rows.r[s], rows.c[s])
            J = self._written_out(part, include_target, False)[:, : len(part.r) * (len(self.named_g))]
            targets = (part.c[:, None] * self.pad(part.U)) if include_target else np.zeros((0, len(self.side)))
            R = np.asarray(np.linalg.qr(np.vstack([R, J.T, targets]), mode="r"))
        return float(np.linalg.norm(R, 2))


def _completed(
    U: FloatArray, a: FloatArray, r: FloatArray, c: FloatArray, share: float, side: FloatArray
) -> tuple[FloatArray, float, float]:
    """F (q', t), κ and ρ with J Jᵀ = ρ spread + F Fᵀ − κ² side sideᵀ, of rows U (k, q') together."""
    rho = float(r @ r)
    if share == 0.0 or rho == 0.0:
        return U.T * np.sqrt(a * a * share + c * c), 0.0, rho
    kappa, direction = float(np.sqrt(rho / share)), r / np.sqrt(rho)
    p = np.sqrt(share) * ((a * direction) @ U) + kappa * side
    # share · a(1 − r̂r̂ᵀ)a + c²: what the rows have left after the square was completed.
    left = share * (np.diag(a * a) - np.outer(a * direction, a * direction)) + np.diag(c * c)
    values, vectors = np.linalg.eigh(left)
    return np.column_stack([p, U.T @ (vectors * np.sqrt(np.maximum(values, 0.0)))]), kappa, rho
