"""A Jacobian in other units of its columns, as upper bounds of whole rows: ||J Δ|| <= ||J|| max|δ|."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.glm.jacobians.dense_jacobian import Rows
from dosimeter.glm.wide.normalised_rows import Unwritten


@dataclass(frozen=True, eq=False)
class ScaledUnknowns(Unwritten):
    """The protocol `Jacobian`; whole rows are upper bounds unless all units are equal, cells are as the inner ones."""

    inner: Any
    """About the columns, in units of one."""
    unit: FloatArray
    """(m,) how much of a column one unit of its unknown is."""

    @property
    def n(self) -> int:
        return int(self.inner.n)

    @property
    def m(self) -> int:
        return len(self.unit)

    @property
    def target_width(self) -> int:
        return int(self.inner.target_width)

    @property
    def largest(self) -> float:
        """max|δ|."""
        return float(np.abs(self.unit).max())

    def row_bracket(self, columns: Index, include_target: bool) -> tuple[FloatArray, FloatArray]:
        """(n,), (n,) with the smallest and with the largest unit."""
        none = np.empty(0, dtype=np.intp)
        bracket = getattr(self.inner, "row_bracket", None)
        low, _ = bracket(columns, False) if bracket else (self.inner.row_norms(columns, False),) * 2
        low = low * float(np.abs(self.unit[columns]).min(initial=np.inf)) if len(columns) else np.zeros(self.n)
        if include_target:
            label = bracket(none, True)[0] if bracket else self.inner.target_norms()
            low = np.maximum(low, label)
        return low, self.row_norms(columns, include_target)

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,) upper bounds."""
        if not len(columns):
            return np.asarray(self.inner.target_norms())
        own = self.largest * self.inner.row_norms(columns, False)
        return np.asarray(np.hypot(own, self.inner.target_norms()) if include_target else own)

    def target_norms(self) -> FloatArray:
        return np.asarray(self.inner.target_norms())

    def target_steps(self, vertices: FloatArray, shared: list[Index] | None) -> FloatArray:
        """Steps between several classes, as in the inner Jacobian."""
        return np.asarray(self.inner.target_steps(vertices, shared))

    def cell_norms(self, columns: Index) -> FloatArray:
        return np.asarray(self.inner.cell_norms(columns) * np.abs(self.unit[columns]))

    def cells_of(self, rows: Index) -> FloatArray:
        return np.asarray(self.inner.cells_of(rows) * np.abs(self.unit))

    def together(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> float:
        """An upper bound: in units of one, times the largest unit, or one if that is more."""
        return max(1.0, self.largest) * float(self.inner.together(rows, columns, include_target, tied))

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(g,) upper bounds."""
        return np.asarray(max(1.0, self.largest) * self.inner.norms_together(rows, columns, include_target, tied))
