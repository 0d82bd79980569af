"""The Jacobian of weights folded into raw units by a scaler of the same table, and its part that no noise removes.

Every row's Jacobian is the frozen one, plus what the scaler adds to the mean, with the rows of the floor below it. If
the unknowns are separate (`SeparateColumns`), the floor's rows need not be written out: they add a diagonal to JᵀJ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.engine import rows_per_block
from dosimeter.glm.jacobians.category_steps import few_columns, step_norms
from dosimeter.glm.jacobians.dense_jacobian import DenseJacobian, Jacobian, Rows, largest_singular_values
from dosimeter.glm.jacobians.scalar_jacobian import CACHE, ScalarJacobian
from dosimeter.glm.jacobians.screening import Near
from dosimeter.glm.jacobians.softmax_jacobian import SoftmaxJacobian
from dosimeter.glm.scalers.scaled_rows import ScaledRows
from dosimeter.glm.scalers.scaler import Scaler
from dosimeter.glm.scalers.scaler_floor import FloorJacobian, SeparateColumns

BLOCK = 16 << 20
"""Bytes of Jacobians written out at once."""
CANCELLED = 1e-3
"""A square from sums over the rows that lost more than this share of its terms is computed from the Jacobians."""


@dataclass(frozen=True, eq=False)
class ScaledJacobian(DenseJacobian):
    """The whitened total Jacobian: the frozen one, the scaler's part of the mean, and the floor's rows below them."""

    base: Jacobian
    """With mean and deviation fixed."""
    scaler: Scaler
    moved: FloatArray
    """(q, k) what one z P of a feature adds to the whitened mean."""
    shifted: FloatArray
    """(q, k) what one P adds."""
    root: FloatArray
    """(r, 2k) of the part that is independent of the mean: see `FloorJacobian`."""
    floor: FloorJacobian
    """What remains at an infinite scale."""

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.base.n

    @property
    def m(self) -> int:  # type: ignore[override]
        return self.base.m

    @property
    def target_width(self) -> int:  # type: ignore[override]
        return self.base.target_width

    @property
    def width(self) -> int:  # type: ignore[override]
        return len(self.moved) + len(self.root)

    @cached_property
    def separate(self) -> SeparateColumns | None:
        """None if features or unknowns are coupled: the readings are then written out."""
        return SeparateColumns.of(self.scaler, self.root)

    def _mean(self, rows: Rows) -> FloatArray:
        """(b, q, m + target) the whitened Jacobian of the mean, the scaler's part included."""
        J = self.base.dense(rows)
        J = J if J.flags.owndata else J.copy()  # some bases keep theirs, and it is added to below
        Z, touched, P = self.scaler.Z[rows], self.scaler.touched, self.scaler.P
        if not len(touched):
            return J
        if self.separate is None:
            J[:, :, touched] += (Z[:, None, :] * self.moved + self.shifted) @ P[:, touched]
            return J
        features, unknowns, reach = self.separate.features, self.separate.unknowns, self.separate.reach
        moved, shifted = self.moved[:, features] * reach, self.shifted[:, features] * reach
        if moved.any():
            J[:, :, unknowns] += Z[:, None, features] * moved
        if shifted.any():
            J[:, :, unknowns] += shifted
        return J

    def dense(self, rows: Rows) -> FloatArray:
        J = self._mean(rows)
        q, touched = len(self.moved), self.scaler.touched
        out = np.empty((len(J), self.width, J.shape[2]))
        out[:, :q], out[:, q:] = J, 0.0
        if len(touched):
            out[:, q:, touched] = self.scaler.rotate_moves(rows, self.root)
        return out

    def _step(self) -> int:
        return max(1, BLOCK // (8 * self.width * (self.m + self.target_width)))

    def _blocks(self) -> Iterator[slice]:
        return (slice(i, min(i + self._step(), self.n)) for i in range(0, self.n, self._step()))

    def _is_frozen(self, columns: Index) -> bool:
        """Whether none of the unknowns moves a standardised feature: the frozen figure is then the total one."""
        return not np.isin(columns, self.scaler.touched).any()

    def _narrow(self, columns: Index) -> ScaledJacobian:
        """The same about the unknowns `columns` and the target only: a few columns cost little."""
        scaler = replace(self.scaler, P=np.ascontiguousarray(self.scaler.P[:, columns]))
        floor = replace(self.floor, scaler=scaler)
        return replace(self, base=narrow_jacobian(self.base, columns), scaler=scaler, floor=floor)

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,)."""
        if self._is_frozen(columns):
            return self.base.row_norms(columns, include_target)
        if len(columns) < self.m:
            return self._narrow(columns).row_norms(np.arange(len(columns), dtype=np.intp), include_target)
        return self.norms_of(np.arange(self.n, dtype=np.intp), columns, include_target)

    def norms_of(self, rows: Index, columns: Index, include_target: bool) -> FloatArray:
        """(k,) of some rows: from the frozen Jacobian where that is certain, written out for the rest."""
        base, separate = self.base, self.separate
        if not isinstance(base, ScalarJacobian) or separate is None or len(columns) > len(base.F):
            return self._dense_norms(rows, columns, include_target)
        moves = self.moved, self.shifted
        quick = ScaledRows.of(base, separate, self.scaler.Z, moves, columns, include_target)
        out, certified = quick.norms(rows)
        doubtful = np.flatnonzero(~certified)
        if len(doubtful):
            out[doubtful] = self._dense_norms(rows[doubtful], columns, include_target)
        return out

    def _dense_norms(self, rows: Index, columns: Index, include_target: bool) -> FloatArray:
        """(k,) of some rows, each written out."""
        pick, step = self._picked(columns, include_target), self._step()
        parts = [rows[i : i + step] for i in range(0, len(rows), step)]
        if self.separate is None or len(pick) > self.width:
            return np.concatenate([largest_singular_values(self.dense(part)[:, :, pick]) for part in parts])
        chosen, places = self.separate.among(columns)
        out = []
        for part in parts:
            G = _gram(self._mean(part), pick)
            G[:, places, places] += self.separate.squares(self.scaler.Z[part], chosen)
            out.append(_largest_root(G))
        return np.concatenate(out)

    def near(self, columns: Index) -> Near:
        """A row's norm is within |moved z + shifted| |P| of the frozen one, and the floor's rows add their square."""
        if self._is_frozen(columns):
            return Near(self.base, *np.zeros((3, self.n)))
        size = float(np.linalg.norm(self.scaler.P[:, columns], 2))
        squares = np.zeros(self.n)
        for f in range(len(self.scaler.features)):
            z, moved, shifted = self.scaler.Z[:, f], self.moved[:, f], self.shifted[:, f]
            squares += z**2 * (moved @ moved) + 2 * z * (moved @ shifted) + shifted @ shifted
        steps = np.sqrt(np.max(self.scaler.Z**2, axis=1, initial=0.0) + 1.0)
        rest = float(np.linalg.norm(self.root, 2)) * size / self.scaler.divisor * steps
        return Near(self.base, size * np.sqrt(np.maximum(squares, 0.0)), np.zeros(self.n), rest)

    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, k)."""
        mixed = np.isin(columns, self.scaler.touched)
        out = np.empty((self.n, len(columns)))
        if not mixed.all():
            out[:, ~mixed] = self.base.cell_norms(columns[~mixed])
        if mixed.any() and self.separate is not None and isinstance(self.base, ScalarJacobian):
            self._separate_cells(self.base, self.separate, columns, out)
        elif mixed.any():
            few = self._narrow(columns[mixed])
            for s in few._blocks():
                out[s, mixed] = np.linalg.norm(few.dense(s)[:, :, : few.m], axis=1)
        return out

    def _separate_cells(self, base: ScalarJacobian, separate: SeparateColumns, columns: Index, out: FloatArray) -> None:
        """‖-a gⱼ u - r bⱼ + P(z moved + shifted)‖ and the floor's square into out (n, k), the square expanded."""
        chosen, places = separate.among(columns)
        unknowns, features, reach = separate.unknowns[chosen], separate.features[chosen], separate.reach[chosen]
        g, b = base.g[unknowns], base.b[:, unknowns]
        moved, shifted = self.moved[:, features] * reach, self.shifted[:, features] * reach
        bb, mm, ss, bm, bs, ms = (
            np.einsum("pt,pt->t", x, y)
            for x, y in ((b, b), (moved, moved), (shifted, shifted), (b, moved), (b, shifted), (moved, shifted))
        )
        # The square is a sum of squares, and twice the products of its terms; those are linear in [a u, r, 1].
        squares_of = np.stack([g * g, bb, ss])
        by_r, by_z = 2.0 * g * b, np.vstack([2.0 * g * moved, 2.0 * bm, -2.0 * ms])
        alone = np.vstack([2.0 * g * shifted, 2.0 * bs, np.zeros_like(bs)])
        whole = np.array_equal(features, np.arange(self.scaler.Z.shape[1]))
        step = rows_per_block(len(base.F), CACHE)
        for i in range(0, self.n, step):
            s = slice(i, min(i + step, self.n))
            a, r, Z = base.a[s], base.r[s], self.scaler.Z[s] if whole else self.scaler.Z[s][:, features]
            left = np.ones((len(Z), len(base.F) + 2))
            np.multiply(base.moves(base.X[s]), a[:, None], out=left[:, :-2])
            left[:, -2] = r
            U, Z2 = left[:, :-2], Z * Z
            positive = np.column_stack([_dots(U, U), r * r, left[:, -1]]) @ squares_of + Z2 * mm
            squares = r[:, None] * (U @ by_r) - Z * (left @ by_z) + positive
            if shifted.any():
                squares -= left @ alone
            lost = squares <= CANCELLED * positive
            for row, t in zip(*np.nonzero(lost), strict=True) if lost.any() else ():
                change = -g[t] * U[row] - r[row] * b[:, t] + Z[row, t] * moved[:, t] + shifted[:, t]
                squares[row, t] = change @ change
            squares += Z2 * separate.by_scale[chosen] + separate.by_mean[chosen]
            out[s, places] = np.sqrt(squares, out=squares)

    def target_norms(self) -> FloatArray:
        """(n,): no target moves a scaler."""
        return self.base.target_norms()

    def column_norms(self) -> FloatArray:
        """(m,)."""
        out, touched = self.base.column_norms().copy(), self.scaler.touched
        if self.separate is not None and isinstance(self.base, ScalarJacobian):
            sums = self.feature_sums(self.base)
            out[touched], lost = self.separate_column_norms(self.base, self.separate, sums)
            touched = touched[lost]
        few = self._narrow(touched)
        total = np.zeros((len(touched), self.width, self.width))
        for s in few._blocks() if len(touched) else ():
            J = np.ascontiguousarray(few.dense(s)[:, :, : few.m].transpose(2, 1, 0))
            total += J @ J.transpose(0, 2, 1)
        if len(touched):
            out[touched] = _largest_root(total)
        return out

    def feature_sums(self, base: ScalarJacobian) -> FloatArray:
        """(q, q) Σ ssᵀ over the rows, s = [a u, r, 1, z]: what a column of separate unknowns needs; parts add up."""
        p, k = len(base.F), len(self.scaler.features)
        T = np.zeros((p + 2 + k, p + 2 + k))
        for i in range(0, self.n, step := rows_per_block(p + 2 + k, CACHE)):
            s = slice(i, min(i + step, self.n))
            U = base.moves(base.X[s])
            S = np.column_stack([base.a[s, None] * U, base.r[s], np.ones(len(U)), self.scaler.Z[s]])
            T += S.T.copy() @ S
        return T

    def separate_column_norms(
        self, base: ScalarJacobian, separate: SeparateColumns, T: FloatArray
    ) -> tuple[FloatArray, Any]:
        """(touched,) norms from `feature_sums`, a row's column being L [a u, r, 1, z], and where digits cancelled."""
        columns, p = self.scaler.touched, len(base.F)
        out, lost = np.empty(len(columns)), np.zeros(len(columns), dtype=bool)
        chosen, places = separate.among(columns)
        for t, place in zip(chosen, places, strict=True):
            j, f, reach = separate.unknowns[t], separate.features[t], separate.reach[t]
            L = np.zeros((p + 2, p + 3))
            L[:p, :p] = -base.g[j] * np.eye(p)
            L[:p, p:] = np.column_stack([-base.b[:, j], reach * self.shifted[:, f], reach * self.moved[:, f]])
            L[p, p + 2], L[p + 1, p + 1] = np.sqrt(separate.by_scale[t]), np.sqrt(separate.by_mean[t])
            kept = np.r_[: p + 2, p + 2 + f]
            part = T[np.ix_(kept, kept)]
            square = float(np.linalg.eigvalsh(L @ part @ L.T)[-1])
            lost[place] = not square > CANCELLED * float(np.sum(L**2 * np.diagonal(part)))
            out[place] = np.sqrt(max(square, 0.0))
        return out, lost

    def outer(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(q + r, q + r) J Jᵀ of some rows' unknowns together."""
        narrow_columns = np.union1d(columns, tied[tied < self.m]).astype(np.intp)
        if self._is_frozen(narrow_columns):
            out, q = np.zeros((self.width, self.width)), len(self.moved)
            out[:q, :q] = self.base.outer(rows, columns, include_target, tied)
            return out
        if len(narrow_columns) == self.m:
            return super().outer(rows, columns, include_target, tied)
        labels = tied[tied >= self.m] - self.m + len(narrow_columns)
        positions = np.searchsorted(narrow_columns, columns).astype(np.intp)
        tied_positions = np.concatenate([np.searchsorted(narrow_columns, tied[tied < self.m]), labels]).astype(np.intp)
        return DenseJacobian.outer(self._narrow(narrow_columns), rows, positions, include_target, tied_positions)

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(g,) ||J|| of g groups of k rows each, rows (g, k)."""
        pick, (g, k) = self._picked(columns, include_target), rows.shape
        step = max(1, BLOCK // (8 * self.width * (self.m + self.target_width) * k))
        small = self.separate is not None and k * len(pick) + len(tied) <= self.width
        out = np.empty(g)
        for i in range(0, g, step):
            part = rows[i : i + step]
            J = (self._mean if small else self.dense)(part.ravel())
            J = J.reshape(*part.shape, *J.shape[1:])
            untied = J[..., pick].transpose(0, 2, 1, 3).reshape(len(part), J.shape[2], -1)
            unknowns = np.concatenate([untied, J[..., tied].sum(axis=1)], axis=2)
            if small:
                G = _gram(unknowns, np.arange(unknowns.shape[2]))
                self._add_floor(G, self.scaler.Z[part], columns, len(pick), tied)
                out[i : i + step] = _largest_root(G)
            else:
                out[i : i + step] = largest_singular_values(unknowns)
        return out

    def _add_floor(self, G: FloatArray, Z: FloatArray, columns: Index, width: int, tied: Index) -> None:
        """Add the floor to JᵀJ (g, u, u): `width` unknowns of each of k rows, then the tied; Z (g, k, features)."""
        separate, k = self.separate, Z.shape[1]
        if separate is None:
            return
        chosen, places = separate.among(columns)
        X = Z[:, :, separate.features[chosen]]
        for i in range(k):
            for j in range(k):
                products = X[:, i] * X[:, j] * separate.by_scale[chosen] + separate.by_mean[chosen]
                G[:, i * width + places, j * width + places] += products
        chosen, places = separate.among(tied)
        sums = Z[:, :, separate.features[chosen]].sum(axis=1)
        last = k * width + places
        G[:, last, last] += sums**2 * separate.by_scale[chosen] + separate.by_mean[chosen] * k**2


def _gram(J: FloatArray, pick: Index) -> FloatArray:
    """(b, k, k) JᵀJ over the chosen unknowns."""
    chosen = J if len(pick) == J.shape[2] else J[:, :, pick]
    # A copy: numpy would use a rank update for the transpose, whose threads cost tens of times the small product.
    return np.asarray(chosen.transpose(0, 2, 1).copy() @ chosen)


def _dots(U: FloatArray, V: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("np,np->n", U, V))


def _largest_root(G: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(np.maximum(np.linalg.eigvalsh(G)[:, -1], 0.0)))


@step_norms.register
def _(jacobian: ScaledJacobian, columns: Index, vertices: FloatArray) -> FloatArray:
    """A category that no scaler touches is read from the frozen Jacobian."""
    if jacobian._is_frozen(columns):
        return step_norms(jacobian.base, columns, vertices)
    plain: Any = step_norms.dispatch(object)
    return np.asarray(plain(jacobian, columns, vertices))


@few_columns.register
def _(jacobian: ScaledJacobian, columns: Index) -> tuple[Jacobian, Index]:
    return jacobian._narrow(columns), np.arange(len(columns), dtype=np.intp)


@dataclass(frozen=True, eq=False)
class SomeColumns(DenseJacobian):
    """Some unknowns of a Jacobian that is written out anyway, and the target."""

    inner: Jacobian
    columns: Index

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.inner.n

    @property
    def m(self) -> int:  # type: ignore[override]
        return len(self.columns)

    @property
    def target_width(self) -> int:  # type: ignore[override]
        return self.inner.target_width

    @property
    def width(self) -> int:  # type: ignore[override]
        return int(self.inner.dense(np.array([0], dtype=np.intp)).shape[1])

    def dense(self, rows: Rows) -> FloatArray:
        m = self.inner.m
        return self.inner.dense(rows)[:, :, [*self.columns, *range(m, m + self.target_width)]]


def narrow_jacobian(jacobian: Jacobian, columns: Index) -> Jacobian:
    """A frozen Jacobian about some of its unknowns and the target."""
    if isinstance(jacobian, ScalarJacobian):
        return replace(jacobian, P=np.ascontiguousarray(jacobian.P[:, columns]), g=jacobian.g[columns])
    if isinstance(jacobian, SoftmaxJacobian):
        return replace(jacobian, P=np.ascontiguousarray(jacobian.P[:, columns]))
    return SomeColumns(jacobian, columns)
