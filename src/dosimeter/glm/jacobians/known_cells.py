"""Cells that are not unknown: a cell that was filled in with a constant does not move when a person's value moves.

The Jacobian of such a cell is zero; the row's other cells and its target keep theirs. That the cell was missing is
itself information, but not a derivative, and is not covered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.errors import Refusal
from dosimeter.glm.jacobians.category_steps import step_norms
from dosimeter.glm.jacobians.dense_jacobian import DenseJacobian, Jacobian, Rows, largest_singular_values
from dosimeter.glm.jacobians.leakage import Leakage


@dataclass(frozen=True, eq=False)
class KnownCells(DenseJacobian):
    """A Jacobian in which some cells are constants; rows without one use the Jacobian itself."""

    inner: Jacobian
    known: Mask
    """(n, m) True if a cell is a constant."""

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.inner.n

    @property
    def m(self) -> int:  # type: ignore[override]
        return self.inner.m

    @property
    def target_width(self) -> int:  # type: ignore[override]
        return self.inner.target_width

    @property
    def width(self) -> int:  # type: ignore[override]
        return int(self.inner.dense(np.array([0], dtype=np.intp)).shape[1])

    def dense(self, rows: Rows) -> FloatArray:
        J = np.array(self.inner.dense(rows))
        J[:, :, : self.m] *= ~self.known[rows][:, None, :]
        return J

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,) as of the Jacobian itself, recomputed for the rows with a constant among `columns`."""
        out = np.array(self.inner.row_norms(columns, include_target))
        pick = self._picked(columns, include_target)
        with_constants = np.flatnonzero(self.known[:, columns].any(axis=1))
        step = max(1, (32 << 20) // (8 * self.width * (self.m + self.target_width)))
        for i in range(0, len(with_constants), step):
            rows = with_constants[i : i + step]
            out[rows] = largest_singular_values(self.dense(rows)[:, :, pick])
        return out

    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, k)."""
        return np.where(self.known[:, columns], 0.0, self.inner.cell_norms(columns))

    def target_norms(self) -> FloatArray:
        """(n,)."""
        return self.inner.target_norms()

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(g,) ||J|| of g groups of k rows each, rows (g, k)."""
        with_constants = self.known[rows].any(axis=(1, 2))
        out = np.zeros(len(rows))
        if not with_constants.all():
            out[~with_constants] = self.inner.norms_together(rows[~with_constants], columns, include_target, tied)
        out[with_constants] = [self.together(group, columns, include_target, tied) for group in rows[with_constants]]
        return out


@step_norms.register
def _(jacobian: KnownCells, columns: Index, vertices: FloatArray) -> FloatArray:
    known = jacobian.known[:, columns[columns < jacobian.m]]
    if (known.any(axis=1) & ~known.all(axis=1)).any():  # some coordinates of a category are constants, others are not
        plain: Any = step_norms.dispatch(object)
        return np.asarray(plain(jacobian, columns, vertices))
    return np.where(known.any(axis=1), 0.0, step_norms(jacobian.inner, columns, vertices))


def with_known(leak: Leakage, known: Any) -> Leakage:
    """The same release with some cells regarded as constants: the figures are about the others.

    Parameters
    ----------
    leak : Leakage
        The release.
    known : array_like of bool, shape (n, m)
        True for a cell that is a constant, such as an imputed one.

    Returns
    -------
    Leakage
        Internal.

    Raises
    ------
    Refusal
        If the shape is wrong.

    Examples
    --------
    >>> from dosimeter import glm, Gaussian
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> leak = glm.measure(glm.fit(X, y, glm.Squared()), X, y, Gaussian(0.5))
    >>> bool(leak.examples[1] > with_known(leak, [[False], [True], [False]]).examples[1] == leak.labels[1])
    True
    """
    mask = np.asarray(known, dtype=bool)
    if mask.shape != (leak.n, leak.m):
        raise Refusal(f"known must have shape ({leak.n}, {leak.m}), not {mask.shape}")
    return replace(leak, jacobian=KnownCells(leak.jacobian, mask)) if mask.any() else leak
