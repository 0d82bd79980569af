"""Readings of a wide table as upper bounds, from bounds of its rows: the iterative route, and a unit for each column.

Rows together: the norm of stacked Jacobians is at most the root of the sum of the squares of their norms, and a tied
unknown adds the square of the norm of its summed Jacobian, itself at most the sum of the norms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.glm.jacobians.dense_jacobian import Rows
from dosimeter.glm.wide.dual import refuse_matrix
from dosimeter.glm.wide.row_bracket import Products, Reach, bracket


class BoundedJacobian(ABC):
    """The protocol `Jacobian` with upper bounds; `row_bracket` has the lower ones too. Unwhitened until the end."""

    a: FloatArray
    """(n,) ω times the curvature."""
    r: FloatArray
    """(n,) ω times the residual."""
    c: FloatArray
    """(n,) ω times the target's unit and derivative."""
    g: FloatArray
    """(m,) how the margin moves with each unknown."""
    whitening: float
    """s."""

    @property
    def n(self) -> int:
        return len(self.r)

    @property
    def m(self) -> int:
        return len(self.g)

    @property
    def target_width(self) -> int:
        return 1

    @property
    @abstractmethod
    def reach(self) -> Reach:
        """How far one unknown can move the released values."""

    @abstractmethod
    def products(self, columns: Index) -> Products:
        """What is known of all rows with respect to some columns."""

    @abstractmethod
    def squared_targets(self) -> tuple[FloatArray, FloatArray]:
        """(n,), (n,) bounds of |u|²."""

    @abstractmethod
    def column_bounds(self, columns: Index) -> FloatArray:
        """(j,) upper bounds of ||H⁻¹Peⱼ||."""

    @abstractmethod
    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, j) upper bounds."""

    @abstractmethod
    def column_norms(self) -> FloatArray:
        """(m,) upper bounds of each column over all rows."""

    def row_bracket(self, columns: Index, include_target: bool) -> tuple[FloatArray, FloatArray]:
        """(n,), (n,) a lower and an upper bound of ||J|| over some columns and, if included, the target."""
        if not len(columns):
            low, high = self.squared_targets()
            return self.whitening * self.c * np.sqrt(low), self.whitening * self.c * np.sqrt(high)
        c = self.c if include_target else np.zeros(self.n)
        A = self.a**2 * float(self.g[columns] @ self.g[columns]) + c * c
        reach = self.reach if len(columns) == self.m else replace(self.reach, level=0.0)
        low, high = bracket(self.products(columns), A, self.a, self.r, reach)
        return self.whitening * low, self.whitening * high

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,) upper bounds."""
        if len(columns) == 1 and not include_target:
            return self.cell_norms(columns)[:, 0]
        return self.row_bracket(columns, include_target)[1]

    def target_norms(self) -> FloatArray:
        """(n,) upper bounds of c |u|."""
        return self.row_bracket(np.empty(0, dtype=np.intp), True)[1]

    def together(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> float:
        """An upper bound for some rows' unknowns together."""
        index = np.arange(self.n, dtype=np.intp)[rows]
        return float(self.norms_together(index[None], columns, include_target, tied)[0])

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(g,) upper bounds for g groups of k rows each, rows (g, k)."""
        separate = np.zeros(self.n)
        if len(columns) or include_target:
            separate = self.row_norms(columns, include_target) ** 2
        squares = separate[rows].sum(axis=1)
        lengths = np.sqrt(self.squared_targets()[1])
        shared = tied[tied < self.m]
        if len(shared):
            u = (self.a * lengths)[rows].sum(axis=1)
            r = np.abs(self.r[rows].sum(axis=1))
            sums = np.outer(u, np.abs(self.g[shared])) + np.outer(r, self.column_bounds(shared))
            squares += self.whitening**2 * np.sum(sums**2, axis=1)
        if (tied >= self.m).any():
            squares += (self.whitening * (self.c * lengths)[rows].sum(axis=1)) ** 2
        return np.asarray(np.sqrt(squares))

    def dense(self, rows: Rows) -> FloatArray:
        refuse_matrix("the Jacobian of a row, written out,")

    def outer(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        refuse_matrix("the matrix J Jᵀ")

    def outer_mask(self, mask: Mask) -> FloatArray:
        refuse_matrix("the matrix J Jᵀ")

    def together_mask(self, mask: Mask) -> float:
        refuse_matrix("an arbitrary set of cells")
