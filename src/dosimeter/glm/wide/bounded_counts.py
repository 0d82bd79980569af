"""Upper bounds about counts behind a norm, where a row's map is not part of an exact route.

With M = τ E (I − x xᵀ) Δ of a division by the l2 norm between two column scales, ||J M|| <= ||J|| τ max|e| max|δ|, J
about the columns of the table; for groups of rows with the largest factor among them. A figure is never too small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.glm.jacobians.dense_jacobian import Jacobian, Rows
from dosimeter.glm.linalg.sparse_table import row_squares
from dosimeter.glm.wide.normalised_rows import NormalisedMap, Unwritten


@dataclass(frozen=True, eq=False)
class BoundedCounts(Unwritten):
    """The protocol `Jacobian` as upper bounds; `row_bracket` holds the lower ones too."""

    inner: Jacobian
    """About the columns of X, in units of one."""
    factor: FloatArray
    """(n,) at least ||M|| of each row."""
    maps: NormalisedMap

    @property
    def n(self) -> int:
        return self.inner.n

    @property
    def m(self) -> int:
        return self.inner.m

    @property
    def target_width(self) -> int:
        return self.inner.target_width

    def target_steps(self, vertices: FloatArray, shared: list[Index] | None) -> FloatArray:
        """Steps between several classes, as in the inner Jacobian."""
        return np.asarray(self.inner.target_steps(vertices, shared))  # type: ignore[attr-defined]

    def row_bracket(self, columns: Index, include_target: bool) -> tuple[FloatArray, FloatArray]:
        """(n,), (n,) what the target alone leaks, and an upper bound."""
        upper, none = self.row_norms(columns, include_target), np.empty(0, dtype=np.intp)
        if not include_target:
            return np.zeros(self.n), upper
        bracket = getattr(self.inner, "row_bracket", None)
        return (self.inner.target_norms() if bracket is None else np.asarray(bracket(none, True)[0])), upper

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,) upper bounds."""
        if not len(columns):
            return self.inner.target_norms()
        own = self.factor * self.inner.row_norms(columns, False)
        return np.asarray(np.hypot(own, self.inner.target_norms()) if include_target else own)

    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, j) upper bounds: of a row's cells together."""
        every = np.arange(self.m, dtype=np.intp)
        return np.repeat(self.row_norms(every, False)[:, None], len(columns), axis=1)

    def cells_of(self, rows: Index) -> FloatArray:
        """(k, m) upper bounds τ |δⱼ| (||J eⱼ|| + |nⱼ| ||J|| |x|): close for words that do not occur."""
        maps, inner = self.maps, self.inner
        bracket = getattr(inner, "cell_bracket", None)
        plain = inner.cells_of(rows) if bracket is None else bracket(rows)[1]  # type: ignore[attr-defined]
        whole = inner.row_norms(np.arange(self.m, dtype=np.intp), False)[rows] * np.sqrt(row_squares(maps.x[rows]))
        cells = plain + np.abs(maps.normals(rows)) * whole[:, None]
        return np.asarray(maps.scale[rows][:, None] * np.abs(maps.unit) * cells)

    def target_norms(self) -> FloatArray:
        return self.inner.target_norms()

    def together(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> float:
        """An upper bound: about the columns, times the largest factor, or one if that is more."""
        index = np.arange(self.n, dtype=np.intp)[rows]
        return max(1.0, float(self.factor[index].max())) * self.inner.together(index, columns, include_target, tied)

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(g,) upper bounds."""
        most = np.maximum(1.0, self.factor[rows].max(axis=1))
        return np.asarray(most * self.inner.norms_together(rows, columns, include_target, tied))
