"""Jacobians about the unknowns behind maps that differ from row to row: Jᵢ = Jᵢ(columns) Pᵢ, see `row_maps.py`.

Readings of one row at a time never write out more than a block of rows. Unknowns whose map is the same on every row are
read as without maps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, singledispatch
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.glm.jacobians.category_steps import few_columns, step_norms
from dosimeter.glm.jacobians.dense_jacobian import (
    DenseJacobian,
    Jacobian,
    Rows,
    largest_singular_values,
)
from dosimeter.glm.jacobians.farthest_levels import largest_distances
from dosimeter.glm.jacobians.leakage import Leakage
from dosimeter.glm.jacobians.scalar_jacobian import ScalarJacobian
from dosimeter.glm.jacobians.softmax_jacobian import SoftmaxJacobian
from dosimeter.glm.row_maps.map_parts import checked
from dosimeter.glm.row_maps.mapped_norms import SMALL, mapped_cell_norms, mapped_row_norms
from dosimeter.glm.row_maps.row_maps import BLOCK, RowMap


@dataclass(frozen=True, eq=False)
class MappedJacobian(DenseJacobian):
    """A Jacobian about the unknowns behind maps that differ from row to row."""

    inner: Jacobian
    """About the columns of X."""
    maps: RowMap

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.inner.n

    @property
    def m(self) -> int:  # type: ignore[override]
        return self.maps.m

    @property
    def target_width(self) -> int:  # type: ignore[override]
        return self.inner.target_width

    @cached_property
    def width(self) -> int:  # type: ignore[override]
        if isinstance(self.inner, ScalarJacobian):
            return len(self.inner.F)
        return int(self.inner.dense(np.array([0], dtype=np.intp)).shape[1])

    @property
    def floor(self) -> MappedJacobian:
        """What a fitted scaler leaves at any noise; only if the inner Jacobian has it."""
        inner: Any = self.inner
        return replace(self, inner=inner.floor)

    def _blocks(self, rows: Index) -> Iterator[slice]:
        """Positions in `rows`, as many as keep the inner Jacobians and the maps within a block's memory."""
        q, own = self.width, self.m + self.target_width
        inner = 0 if isinstance(self.inner, ScalarJacobian) else self.maps.d + self.target_width
        step = max(1, BLOCK // (8 * q * (inner + 2 * own) + 2 * self.maps.row_bytes))
        return (slice(i, min(i + step, len(rows))) for i in range(0, len(rows), step))

    def dense(self, rows: Rows) -> FloatArray:
        index = np.arange(self.n, dtype=np.intp)[rows]
        out = np.empty((len(index), self.width, self.m + self.target_width))
        for s in self._blocks(index):
            out[s] = mapped_block(self.inner, self.maps, index[s])
        return out

    def narrow(self, columns: Index) -> Jacobian:
        """The same about some unknowns and the target; without a map if theirs is the same on every row."""
        maps = self.maps.narrow(columns)
        return replace(self, maps=maps) if len(maps.varying) else with_constant_map(self.inner, maps.constant)

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,)."""
        few = self._same_norms(columns)
        if not isinstance(few, MappedJacobian):
            return few.row_norms(np.arange(len(columns), dtype=np.intp), include_target)
        if isinstance(self.inner, ScalarJacobian) and min(self.width, few.m + 1) > SMALL:
            return few._norms_by_products(self.inner, include_target)
        return DenseJacobian.row_norms(few, np.arange(few.m, dtype=np.intp), include_target)

    def _norms_by_products(self, inner: ScalarJacobian, include_target: bool) -> FloatArray:
        """(n,) without Jacobians written out, but for rows that have not converged."""
        out, lost = mapped_row_norms(inner, self.maps, include_target)
        rows = np.flatnonzero(lost).astype(np.intp)
        pick = self._picked(np.arange(self.m, dtype=np.intp), include_target)
        for s in self._blocks(rows):
            out[rows[s]] = largest_singular_values(self.dense(rows[s])[:, :, pick])
        return out

    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, k)."""
        out, varies = np.empty((self.n, len(columns))), np.isin(columns, self.maps.varying)
        for mask in (varies, ~varies):
            if mask.any():
                few, every = self.narrow(columns[mask]), np.arange(int(mask.sum()), dtype=np.intp)
                out[:, mask] = few._cells(every) if isinstance(few, MappedJacobian) else few.cell_norms(every)
        return out

    def _cells(self, every: Index) -> FloatArray:
        if isinstance(self.inner, ScalarJacobian) and not (self.maps.levels or self.maps.chains):
            return mapped_cell_norms(self.inner, self.maps)
        return DenseJacobian.cell_norms(self, every)

    def target_norms(self) -> FloatArray:
        """(n,)."""
        return self.inner.target_norms()

    def column_norms(self) -> FloatArray:
        """(m,)."""
        out, varies = np.empty(self.m), np.isin(np.arange(self.m), self.maps.varying)
        # As many unknowns at a time as keep their (q, q) matrices within a block's memory; no others are written out.
        at_once = max(1, 2 * BLOCK // (8 * self.width**2))
        for mask in (varies, ~varies):
            chosen = np.flatnonzero(mask).astype(np.intp)
            for first in range(0, len(chosen), at_once):
                part = chosen[first : first + at_once]
                few = self.narrow(part)
                dense = isinstance(few, MappedJacobian)
                out[part] = DenseJacobian.column_norms(few) if dense else few.column_norms()  # type: ignore[arg-type]
        return out

    def outer(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(q, q) J Jᵀ of some rows' unknowns together: of those on each row, and of those that all rows share."""
        M = np.zeros((self.width, self.width))
        if len(columns) or include_target:
            few = self._same_norms(columns)
            every = np.arange(few.m, dtype=np.intp)
            dense = isinstance(few, MappedJacobian)
            take: Any = DenseJacobian.outer if dense else type(few).outer
            M = M + take(few, rows, every, include_target, _none())
        if len(tied):
            shared, positions = self._shared(tied)
            take = DenseJacobian.outer if isinstance(shared, MappedJacobian) else type(shared).outer
            M = M + take(shared, rows, _none(), False, positions)
        return np.asarray(M)

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(g,) ||J|| of g groups of k rows each, rows (g, k)."""
        free, (shared, positions), k = self._same_norms(columns), self._shared(tied), rows.shape[1]
        width = free.m + self.target_width + (shared.m + self.target_width if len(tied) else 0)
        step, out = max(1, 2 * BLOCK // (8 * self.width * width * k)), np.empty(len(rows))
        for i in range(0, len(rows), step):
            part = rows[i : i + step]
            J = free.dense(part.ravel())[:, :, : free.m + (self.target_width if include_target else 0)]
            parts = [J.reshape(len(part), k, *J.shape[1:]).transpose(0, 2, 1, 3).reshape(len(part), J.shape[1], -1)]
            if len(tied):
                T = shared.dense(part.ravel())[:, :, positions]
                parts.append(T.reshape(len(part), k, *T.shape[1:]).sum(axis=1))
            out[i : i + step] = largest_singular_values(np.concatenate(parts, axis=2))
        return out

    def _same_norms(self, columns: Index) -> Jacobian:
        """A Jacobian about these unknowns and the target, or about fewer with the same J Jᵀ on every row."""
        few = self.narrow(columns)
        return replace(few, maps=few.maps.compressed()) if isinstance(few, MappedJacobian) else few

    def _shared(self, tied: Index) -> tuple[Jacobian, Index]:
        """A Jacobian about the tied unknowns, and their positions in it."""
        own = tied[tied < self.m]
        labels = tied[tied >= self.m] - self.m + len(own)
        return self.narrow(own), np.concatenate([np.arange(len(own)), labels]).astype(np.intp)


def _none() -> Index:
    return np.empty(0, dtype=np.intp)


@singledispatch
def mapped_block(jacobian: Any, maps: RowMap, rows: Index) -> FloatArray:
    """(k, q, m + target_width) the Jacobians of some rows behind their maps."""
    J = jacobian.dense(rows)
    own = maps.pull_back(np.ascontiguousarray(J[:, :, : maps.d]), rows)
    return np.concatenate([own, J[:, :, maps.d :]], axis=2)


@mapped_block.register
def _(jacobian: ScalarJacobian, maps: RowMap, rows: Index) -> FloatArray:
    """-ωF [ a z (Pᵢᵀw)ᵀ + r AᵀPᵢ , -c z ]: no Jacobian of the columns of X is written out."""
    U = jacobian.moves(jacobian.X[rows])
    a, r, c = jacobian.a[rows], jacobian.r[rows], jacobian.c[rows]
    g = maps.pull_back(jacobian.g[None, :], rows)
    out = np.empty((len(U), U.shape[1], maps.m + 1))
    out[:, :, :-1] = -(a[:, None] * U)[:, :, None] * g - r[:, None, None] * maps.pull_back(jacobian.b, rows)
    out[:, :, -1] = c[:, None] * U
    return out


@singledispatch
def with_constant_map(jacobian: Any, P: FloatArray) -> Jacobian:
    """A Jacobian about the columns of X as one about the unknowns of a map P (d, m) that all rows share."""
    return MappedJacobian(jacobian, RowMap(P))


@with_constant_map.register
def _(jacobian: ScalarJacobian, P: FloatArray) -> Jacobian:
    return replace(jacobian, P=jacobian.P @ P, g=P.T @ jacobian.g)


@with_constant_map.register
def _(jacobian: SoftmaxJacobian, P: FloatArray) -> Jacobian:
    return replace(jacobian, P=jacobian.P @ P)


@few_columns.register
def _(jacobian: MappedJacobian, columns: Index) -> tuple[Jacobian, Index]:
    return jacobian.narrow(columns), np.arange(len(columns), dtype=np.intp)


@step_norms.register
def _(jacobian: MappedJacobian, columns: Index, vertices: FloatArray) -> FloatArray:
    """The levels' own images; a category whose map is the same on every row is read as without maps."""
    if (columns >= jacobian.m).any():
        return step_norms(jacobian.inner, columns - jacobian.m + jacobian.maps.d, vertices)
    few = jacobian.narrow(columns)
    if not isinstance(few, MappedJacobian):
        return step_norms(few, np.arange(len(columns), dtype=np.intp), vertices)
    if len(few.maps.levels) != 1 or len(few.maps.slopes) or np.any(few.maps.constant):
        plain: Any = step_norms.dispatch(object)
        return np.asarray(plain(few, np.arange(len(columns), dtype=np.intp), vertices))
    (levels,), every = few.maps.levels, np.arange(jacobian.n, dtype=np.intp)
    out = np.empty(jacobian.n)
    for s in few._blocks(every):
        J = jacobian.inner.dense(every[s])[:, :, levels.columns]
        points = J @ checked(levels.values(every[s]), every[s])
        out[s] = largest_distances(points - points.mean(axis=2, keepdims=True))
    return out


def with_row_map(leak: Leakage, maps: RowMap) -> Leakage:
    """A leakage about the columns of X as one about the unknowns behind the maps."""
    return replace(leak, jacobian=MappedJacobian(leak.jacobian, maps))
