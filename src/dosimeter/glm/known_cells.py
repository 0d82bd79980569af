"""Cells that are no unknowns: a cell that was filled in with a constant does not move when anybody's value moves.

The Jacobian of such a cell is zero; the row's other cells and its label keep theirs. What is told by the fact that
the cell was missing is no derivative and is not covered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.errors import Refusal
from dosimeter.glm.category_steps import step_norms
from dosimeter.glm.dense_jacobian import DenseJacobian, Jacobian, Rows, largest_singular_values
from dosimeter.glm.leakage import Leakage


@dataclass(frozen=True, eq=False)
class KnownCells(DenseJacobian):
    """A Jacobian in which some cells are constants; rows without one keep the route of the Jacobian itself."""

    inner: Jacobian
    known: Mask
    """(n, m) True where a cell is a constant."""

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.inner.n

    @property
    def m(self) -> int:  # type: ignore[override]
        return self.inner.m

    @property
    def label_width(self) -> int:  # type: ignore[override]
        return self.inner.label_width

    @property
    def width(self) -> int:  # type: ignore[override]
        return int(self.inner.dense(np.array([0], dtype=np.intp)).shape[1])

    def dense(self, rows: Rows) -> FloatArray:
        J = np.array(self.inner.dense(rows))
        J[:, :, : self.m] *= ~self.known[rows][:, None, :]
        return J

    def row_norms(self, columns: Index, label: bool) -> FloatArray:
        """(n,) as of the Jacobian itself, and anew for the rows with a constant among `columns`."""
        out = np.array(self.inner.row_norms(columns, label))
        pick = self._picked(columns, label)
        some = np.flatnonzero(self.known[:, columns].any(axis=1))
        step = max(1, (32 << 20) // (8 * self.width * (self.m + self.label_width)))
        for i in range(0, len(some), step):
            rows = some[i : i + step]
            out[rows] = largest_singular_values(self.dense(rows)[:, :, pick])
        return out

    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, k)."""
        return np.where(self.known[:, columns], 0.0, self.inner.cell_norms(columns))

    def label_norms(self) -> FloatArray:
        """(n,)."""
        return self.inner.label_norms()

    def norms_together(self, rows: Index, columns: Index, label: bool, tied: Index) -> FloatArray:
        """(g,) ||J|| of g groups of k rows each, rows (g, k)."""
        some = self.known[rows].any(axis=(1, 2))
        out = np.zeros(len(rows))
        if not some.all():
            out[~some] = self.inner.norms_together(rows[~some], columns, label, tied)
        out[some] = [self.together(group, columns, label, tied) for group in rows[some]]
        return out


@step_norms.register
def _(jacobian: KnownCells, columns: Index, vertices: FloatArray) -> FloatArray:
    gone = jacobian.known[:, columns[columns < jacobian.m]]
    if (gone.any(axis=1) & ~gone.all(axis=1)).any():  # some coordinates of a category are constants, others not
        plain: Any = step_norms.dispatch(object)
        return np.asarray(plain(jacobian, columns, vertices))
    return np.where(gone.any(axis=1), 0.0, step_norms(jacobian.inner, columns, vertices))


def with_known(leak: Leakage, known: Any) -> Leakage:
    """The same release where the cells of `known` (n, m) are constants: the figures are about the others.

    >>> from dosimeter import glm, Gaussian
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> leak = glm.measure(glm.fit(X, y, glm.Squared()), X, y, Gaussian(0.5))
    >>> bool(leak.examples[1] > with_known(leak, [[False], [True], [False]]).examples[1] == leak.labels[1])
    True
    """
    mask = np.asarray(known, dtype=bool)
    if mask.shape != (leak.n, leak.m):
        raise Refusal(f"`known` has shape ({leak.n}, {leak.m}), not {mask.shape}")
    return replace(leak, jacobian=KnownCells(leak.jacobian, mask)) if mask.any() else leak
