"""Softmax on a sparse table with few rows or few columns: exact figures through the coordinates of its row space.

V (d, k) spans the rows, N is its complement. As for a single margin (`wide/dual.py`), the weights of all classes lie in
V and H is nλ on N, so a row's Jacobian is that of the reduced table X V, and −ρ ⊗ e/nλ for a direction e of N:

    ||J|| = max( ||J of the reduced table||, |ρ| s/nλ ),        s the whitening of isotropic noise.

For rows together the second is the largest singular value of their ρ, side by side; docs/explanation/wide.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import CannotMeasure
from dosimeter.glm.jacobians.category_steps import shared_step_norms, step_norms
from dosimeter.glm.jacobians.dense_jacobian import Rows
from dosimeter.glm.jacobians.softmax_jacobian import SoftmaxJacobian
from dosimeter.glm.linalg.row_space import RowSpace
from dosimeter.glm.wide.normalised_rows import Unwritten

COLUMNS = 2_048
"""Columns whose rows of V are held at a time."""


@dataclass(frozen=True, eq=False)
class SoftmaxDual(Unwritten):
    """The protocol `Jacobian` about all columns of a row, and cells of some rows."""

    space: RowSpace | None
    """None if the coordinates are the columns themselves."""
    inner: SoftmaxJacobian
    """The Jacobian of the reduced table; its unknowns are the coordinates in V."""
    m: int
    level: float
    """s/nλ; 0 without a penalty."""

    @property
    def n(self) -> int:
        return self.inner.n

    @property
    def target_width(self) -> int:
        return self.inner.target_width

    @property
    def outside(self) -> bool:
        """Whether N is not empty."""
        return self.space is not None and self.m > self.space.width

    @cached_property
    def _every(self) -> Index:
        return np.arange(self.inner.m, dtype=np.intp)

    def _inside(self, columns: Index) -> Index:
        """The coordinates that stand for some columns: all for all, themselves if they are columns."""
        if self.space is None or not len(columns):
            return columns
        if len(columns) < self.m:
            raise CannotMeasure(
                "a part of the columns of a sparse table with several classes is not read apart: read whole rows, or "
                "cells of some rows"
            )
        return self._every

    def _floor(self, columns: Index) -> float:
        return self.level if self.outside and len(columns) else 0.0

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,) ||J|| of each row."""
        norms = self.inner.row_norms(self._inside(columns), include_target)
        return np.asarray(np.maximum(norms, self._floor(columns) * np.linalg.norm(self.inner.rho, axis=1)))

    def target_norms(self) -> FloatArray:
        return self.inner.target_norms()

    def target_steps(self, vertices: FloatArray, shared: list[Index] | None) -> FloatArray:
        """(n,) or (groups,) the largest step between two classes at the vertices (K, K)."""
        positions = np.arange(self.inner.m, self.inner.m + self.target_width, dtype=np.intp)
        if shared is None:
            return step_norms(self.inner, positions, vertices)
        return shared_step_norms(self.inner, shared, positions, vertices)

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(g,) ||J|| of g groups of k rows each, rows (g, k)."""
        norms = self.inner.norms_together(rows, self._inside(columns), include_target, self._tied(tied))
        beside = np.linalg.svd(self.inner.rho[rows], compute_uv=False)[:, 0]
        return np.asarray(np.maximum(norms, self._floor(columns) * beside))

    def together(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> float:
        """||J|| of some rows' unknowns together."""
        norm = self.inner.together(rows, self._inside(columns), include_target, self._tied(tied))
        return max(norm, self._floor(columns) * float(np.linalg.norm(self.inner.rho[rows], 2)))

    def _tied(self, tied: Index) -> Index:
        if (tied < self.m).any() and self.space is not None:
            raise CannotMeasure("a column of a sparse table with several classes is not read as one value per person")
        return np.where(tied >= self.m, tied - self.m + self.inner.m, tied).astype(np.intp)

    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, j) of some columns on every row."""
        if self.space is None:
            return self.inner.cell_norms(columns)
        return np.concatenate([self._cells(np.array([row]), columns) for row in range(self.n)])

    def cells_of(self, rows: Index) -> FloatArray:
        """(k, m) every cell of some rows."""
        return self._cells(rows, np.arange(self.m, dtype=np.intp))

    def _cells(self, rows: Index, columns: Index) -> FloatArray:
        out = np.empty((len(rows), len(columns)))
        for position, row in enumerate(rows.tolist()):
            J = self.inner.dense(np.array([row], dtype=np.intp))[0][:, : self.inner.m]
            if self.space is None:
                out[position] = np.linalg.norm(J[:, columns], axis=0)
                continue
            # The triangle of J has the lengths of its images, with as many rows as there are coordinates.
            J = np.linalg.qr(J, mode="r") if len(J) > J.shape[1] else J
            height = self.level * float(np.linalg.norm(self.inner.rho[row]))
            for i in range(0, len(columns), COLUMNS):
                V = self.space.columns(columns[i : i + COLUMNS])
                outside = np.maximum(1.0 - np.einsum("jk,jk->j", V, V), 0.0) if self.outside else 0.0
                squares = np.sum((J @ V.T) ** 2, axis=0) + height**2 * outside
                out[position, i : i + COLUMNS] = np.sqrt(squares)
        return out

    def column_norms(self) -> FloatArray:
        """(m,) each column over all rows, where the coordinates are the columns."""
        return self.inner.column_norms() if self.space is None else super().column_norms()
