"""A Jacobian about the first of its columns: the last ones are constants of the model, such as liblinear's ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.glm.jacobians.dense_jacobian import Rows
from dosimeter.glm.wide.bounded_jacobian import BoundedJacobian
from dosimeter.glm.wide.normalised_rows import Unwritten


@dataclass(frozen=True, eq=False)
class FirstUnknowns(Unwritten):
    """The protocol `Jacobian` about the columns 0 .. m − 1 of another one, on the routes of wide tables.

    Bounds of whole rows stay those of all columns: more unknowns never lower a figure.
    """

    inner: Any
    m: int

    @property
    def n(self) -> int:
        return int(self.inner.n)

    @property
    def target_width(self) -> int:
        return 1

    @property
    def row_bracket(self) -> Any:
        """Only if the inner Jacobian has bounds."""
        bounds = self.inner.row_bracket
        return lambda columns, include_target: bounds(self._columns(columns), include_target)

    @property
    def cell_bracket(self) -> Any:
        """Only if the inner Jacobian has bounds."""
        bounds = self.inner.cell_bracket
        return lambda rows: tuple(part[:, : self.m] for part in bounds(rows))

    def _columns(self, columns: Index) -> Index:
        """All columns where a row's bound is of all of them."""
        whole = len(columns) == self.m and isinstance(self.inner, BoundedJacobian)
        return np.arange(self.inner.m, dtype=np.intp) if whole else columns

    def _tied(self, tied: Index) -> Index:
        return np.where(tied >= self.m, tied - self.m + self.inner.m, tied).astype(np.intp)

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        return np.asarray(self.inner.row_norms(self._columns(columns), include_target))

    def cell_norms(self, columns: Index) -> FloatArray:
        return np.asarray(self.inner.cell_norms(columns))

    def cells_of(self, rows: Index) -> FloatArray:
        return np.asarray(self.inner.cells_of(rows)[:, : self.m])

    def target_norms(self) -> FloatArray:
        return np.asarray(self.inner.target_norms())

    def column_norms(self) -> FloatArray:
        return np.asarray(self.inner.column_norms()[: self.m])

    def together(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> float:
        return float(self.inner.together(rows, self._columns(columns), include_target, self._tied(tied)))

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        return np.asarray(self.inner.norms_together(rows, self._columns(columns), include_target, self._tied(tied)))
