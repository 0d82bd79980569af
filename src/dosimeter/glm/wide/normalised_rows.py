"""The Jacobian about counts behind a norm, for losses with one margin: exact through one (p, p) decomposition.

A chain of column scales and one division by the row's norm is, on each row, Mᵢ = τ (I − x nᵀ) Δ with Δ = diag(δ) that
all rows share. The whitened Jacobian of a row is J = a u wᵀ + r B about its columns, so

    J M = τ [ r BΔ + a u (Δw)ᵀ − q (Δn)ᵀ ],        q = r Bx + a (x·w) u,
    J M Mᵀ Jᵀ + c² u uᵀ = τ² r² BΔ²Bᵀ + W Σ Wᵀ,     W = [ BΔ²w, BΔ²n, u, q ]   (p, 4).

One decomposition of BΔ²Bᵀ serves all rows, and a row's figure is the largest eigenvalue of a diagonal with a part of
rank four (`linalg/signature.py`). Rows of one person add up: the first terms to one, the others to a part of
rank 4 k.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.progress import track
from dosimeter.glm.jacobians.dense_jacobian import Rows
from dosimeter.glm.jacobians.scalar_jacobian import CANCELLED, ScalarJacobian
from dosimeter.glm.linalg.signature import largest_by_counting
from dosimeter.glm.linalg.sparse_table import Table, dense_rows, row_squares
from dosimeter.glm.row_maps.row_chain import RowChain, before_matrix, by_columns
from dosimeter.glm.row_maps.row_maps import RowMap

BLOCK = 16 << 20
"""Bytes of the vectors of a block of rows."""


@dataclass(frozen=True, eq=False)
class NormalisedMap:
    """τ (I − x nᵀ) diag(δ) of every row, onto the first m columns of the table."""

    x: Table
    """(n, m) these columns of the table."""

    unit: FloatArray
    """(m,) δ."""
    scale: FloatArray
    """(n,) τ."""
    normal: Table
    """(n, m) n, less `base`."""
    base: FloatArray
    """(m,) the part of n that all rows share; zero for l2."""
    bound: FloatArray
    """(n,) at least ||M|| of each row, for l2: τ max|e| max|δ| of the scales after and before the norm."""

    def normals(self, rows: Rows) -> FloatArray:
        """(k, m) n of some rows, written out."""
        return dense_rows(self.normal, rows) + self.base


def normalised_map(maps: RowMap, X: Table) -> NormalisedMap | None:
    """The map in this form; None if it is not one chain of scales around one norm, onto the first columns."""
    if maps.has_constant or maps.slopes or maps.levels or len(maps.chains) != 1:
        return None
    chain: RowChain = maps.chains[0]
    every = np.arange(maps.m)
    in_order = all(np.array_equal(part, every) for part in (chain.columns, chain.unknowns, chain.kept))
    if not (chain.complete and in_order):
        return None
    form = before_matrix(chain.operations, chain.units)
    if form is None or form.scale is None:
        return None
    return NormalisedMap(X[:, : maps.m], form.unit, form.scale, form.normal, form.base, form.scale * form.most)


class Unwritten:
    """Readings that a Jacobian about counts does not have."""

    def column_norms(self) -> FloatArray:
        refuse("one word over all rows")

    def dense(self, rows: Rows) -> FloatArray:
        refuse("the Jacobian of a row, written out,")

    def outer(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        refuse("the matrix J Jᵀ")

    def outer_mask(self, mask: Mask) -> FloatArray:
        refuse("the matrix J Jᵀ")

    def together_mask(self, mask: Mask) -> float:
        refuse("an arbitrary set of cells")


@dataclass(frozen=True, eq=False)
class NormalisedJacobian(Unwritten):
    """The protocol `Jacobian` about all unknowns of a row, and cells of some rows."""

    inner: ScalarJacobian
    """About the columns of X, without a map."""
    maps: NormalisedMap

    @property
    def n(self) -> int:
        return self.inner.n

    @property
    def m(self) -> int:
        return len(self.maps.unit)

    @property
    def target_width(self) -> int:
        return 1

    @property
    def w(self) -> FloatArray:
        """(m,) the coefficients of these columns."""
        return self.inner.g[: self.m]

    @cached_property
    def _b(self) -> FloatArray:
        """B (p, m)."""
        return self.inner.b[:, : self.m]

    @cached_property
    def _axes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """D (p,), BᵀQ (m, p) and FᵀQ (p, p) of the decomposition BΔ²Bᵀ = Q D Qᵀ."""
        scaled = self._b * self.maps.unit
        D, Q = np.linalg.eigh(scaled @ scaled.T)
        return np.maximum(D, 0.0), self._b.T @ Q, self.inner.F.T @ Q

    @cached_property
    def _gw(self) -> FloatArray:
        """(m,) δ²w."""
        return self.maps.unit**2 * self.w

    def _vectors(self, rows: Index) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """u, Bx, BΔ²n (k, p) in the axes of BΔ²Bᵀ, and Δw·Δn and |Δn|² (k,)."""
        _, BQ, FQ = self._axes
        maps = self.maps
        squared = maps.unit**2
        U = self.inner.factor.rows(self.inner.X[rows], FQ)
        Bx = np.asarray(maps.x[rows] @ BQ)
        stored = maps.normal[rows]
        k = np.asarray(by_columns(stored, squared) @ BQ) + (squared * maps.base) @ BQ
        along = np.asarray(stored @ self._gw) + float(maps.base @ self._gw)
        norms = row_squares(by_columns(stored, maps.unit))
        norms = norms + 2 * np.asarray(stored @ (squared * maps.base)) + float(squared @ maps.base**2)
        return U, Bx, k, along, norms

    def _parts(self, rows: Index, include_target: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
        """τ²r² (k,), W (k, p, 4) and Σ (k, 4, 4) of some rows."""
        jacobian, tau = self.inner, self.maps.scale[rows]
        a, r, c = jacobian.a[rows], jacobian.r[rows], jacobian.c[rows]
        U, Bx, normal, along, norms = self._vectors(rows)
        x_w = np.asarray(self.maps.x[rows] @ self.w)
        q = r[:, None] * Bx + (a * x_w)[:, None] * U
        v = np.broadcast_to(self._axes[1].T @ self._gw, U.shape)
        W, core = np.stack([v, normal, U, q], axis=2), np.zeros((len(U), 4, 4))
        core[:, 0, 2] = core[:, 2, 0] = r * a
        core[:, 1, 3] = core[:, 3, 1] = -r
        core[:, 2, 2] = a * a * float(self._gw @ self.w)
        core[:, 2, 3] = core[:, 3, 2] = -a * along
        core[:, 3, 3] = norms
        core *= (tau * tau)[:, None, None]
        if include_target:
            core[:, 2, 2] += c * c
        return (tau * r) ** 2, W, core

    def _blocks(self, rows: Index, width: int = 4) -> list[Index]:
        step = max(1, BLOCK // (8 * 3 * width * len(self.inner.F)))
        return [rows[i : i + step] for i in range(0, len(rows), step)]

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,) ||J|| of each row over all unknowns and, if included, the target."""
        if not len(columns):
            return self.target_norms()
        self._need_all(columns)
        out, D = np.zeros(self.n), self._axes[0]
        for rows in track(self._blocks(np.arange(self.n, dtype=np.intp))):
            level, W, core = self._parts(rows, include_target)
            out[rows] = largest_by_counting(level[:, None] * D, W, core)
        return np.sqrt(out)

    def target_norms(self) -> FloatArray:
        return self.inner.target_norms()

    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, j) of some unknowns on every row."""
        out = np.empty((self.n, len(columns)))
        for rows in self._blocks(np.arange(self.n, dtype=np.intp), 1 + len(columns) // max(1, len(self.inner.F))):
            out[rows] = self._cells(rows, columns)
        return out

    def cells_of(self, rows: Index) -> FloatArray:
        """(k, m) every cell of some rows."""
        return self._cells(rows, np.arange(self.m, dtype=np.intp))

    def _cells(self, rows: Index, columns: Index) -> FloatArray:
        """τ δⱼ |α u + r bⱼ + β Bx| with α = a (wⱼ − nⱼ x·w) and β = −r nⱼ; where squares cancel, from the vectors."""
        jacobian, maps = self.inner, self.maps
        _, BQ, FQ = self._axes
        a, r, b = jacobian.a[rows], jacobian.r[rows], BQ[columns].T
        U, Bx = jacobian.factor.rows(jacobian.X[rows], FQ), np.asarray(maps.x[rows] @ BQ)
        x_w, normal = np.asarray(maps.x[rows] @ self.w), maps.normals(rows)[:, columns]
        alpha = a[:, None] * (self.w[columns] - normal * x_w[:, None])
        beta, uu, xx, ux = -r[:, None] * normal, *(np.einsum("kp,kp->k", f, g) for f, g in ((U, U), (Bx, Bx), (U, Bx)))
        bb = np.einsum("pj,pj->j", b, b)
        positive = alpha**2 * uu[:, None] + np.outer(r * r, bb) + beta**2 * xx[:, None]
        mixed = alpha * r[:, None] * (U @ b) + alpha * beta * ux[:, None] + beta * r[:, None] * (Bx @ b)
        squares = positive + 2.0 * mixed
        lost = squares <= CANCELLED * positive
        for i, j in zip(*np.nonzero(lost), strict=True):
            move = alpha[i, j] * U[i] + r[i] * b[:, j] + beta[i, j] * Bx[i]
            squares[i, j] = move @ move
        return np.asarray(maps.scale[rows][:, None] * np.abs(maps.unit[columns]) * np.sqrt(np.maximum(squares, 0.0)))

    # --- many rows together -----------------------------------------------------------------------------------

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(g,) ||J|| of g groups of k rows each, rows (g, k)."""
        return np.array([self.together(group, columns, include_target, tied) for group in track(rows)])

    def together(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> float:
        """||J|| of some rows' unknowns together; a tied target is one unknown of all rows."""
        index = np.arange(self.n, dtype=np.intp)[rows]
        if len(columns):
            self._need_all(columns)
        if (tied < self.m).any():
            refuse("a count that is one value on several rows")
        D, p = self._axes[0], len(self.inner.F)
        shared = self._target_sum(index) if len(tied) else np.zeros(p)
        if not len(columns):
            _, _, FQ = self._axes
            U = self.inner.factor.rows(self.inner.X[index], FQ) * self.inner.c[index][:, None]
            return float(np.linalg.norm(np.vstack([U[: len(index) * include_target], shared]), 2))
        if 4 * len(index) < p // 2:
            level, W, core = self._parts(index, include_target)
            t = 4 * len(index)
            stacked, joint = np.zeros((1, p, t + 1)), np.zeros((1, t + 1, t + 1))
            stacked[0, :, :t] = W.transpose(1, 0, 2).reshape(p, t)
            stacked[0, :, t] = shared
            for k in range(len(index)):
                joint[0, 4 * k : 4 * k + 4, 4 * k : 4 * k + 4] = core[k]
            joint[0, t, t] = 1.0
            return float(np.sqrt(largest_by_counting(level.sum() * D[None], stacked, joint)[0]))
        K = np.outer(shared, shared)
        for block in self._blocks(index):
            level, W, core = self._parts(block, include_target)
            flat = (W @ core).transpose(1, 0, 2).reshape(p, -1)
            K += flat @ W.transpose(1, 0, 2).reshape(p, -1).T
            K[np.diag_indices(p)] += level.sum() * D
        return float(np.sqrt(max(0.0, float(np.linalg.eigvalsh(0.5 * (K + K.T))[-1]))))

    def _target_sum(self, rows: Index) -> FloatArray:
        """(p,) Σ c u."""
        return np.asarray(self.inner.c[rows] @ self.inner.factor.rows(self.inner.X[rows], self._axes[2]))

    def _need_all(self, columns: Index) -> None:
        if len(columns) != self.m:
            refuse("a figure of some of the counts together")


def refuse(what: Any) -> NoReturn:
    """Refuse a reading that is not available about counts behind a norm."""
    raise CannotMeasure(f"{what} is not available for counts behind a norm: read rows, persons, or cells of some rows")
