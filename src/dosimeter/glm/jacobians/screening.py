"""The highest row or group of a Jacobian that is slow to write out, from bounds around one that is not.

Each row's Jacobian is that of a base plus a change of norm at most `slack`, with more rows stacked below it. So its
norm lies between two bounds that cost little. Rows are written out in the order of their upper bounds, until the next
bound is below the best norm: the result is exact, and few rows are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.glm.jacobians.dense_jacobian import Jacobian

FIRST = 256
"""Rows or groups that are written out first; each further part is twice as large."""
ROUNDING = 1e-9
"""Bounds and norms that differ by less are not distinguished."""


@dataclass(frozen=True, eq=False)
class Near:
    """Bounds on the rows of a Jacobian, for one set of unknowns."""

    base: Jacobian | None
    """None: a base that is zero."""
    slack: FloatArray
    """(n,) how far the upper part of a row's Jacobian is from the base's, at most."""
    below: FloatArray
    """(n,) about the norm of the rows stacked below."""
    below_slack: FloatArray
    """(n,) how far from it, at most."""

    def rows(self, rows: Index, columns: Index, include_target: bool) -> tuple[FloatArray, FloatArray]:
        """(k,) lower and (k,) upper bounds of the norms of some rows."""
        base = np.zeros(len(rows)) if self.base is None else self.base.row_norms(columns, include_target)[rows]
        slack, below, error = self.slack[rows], self.below[rows], self.below_slack[rows]
        return np.maximum(base - slack, below - error), np.hypot(base + slack, below + error)

    def groups(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> tuple[FloatArray, FloatArray]:
        """(g,) the same of groups of k rows each, rows (g, k): a unit move of tied unknowns moves all k rows."""
        base = np.zeros(len(rows))
        if self.base is not None:
            base = self.base.norms_together(rows, columns, include_target, tied)
        together = np.sqrt(rows.shape[1]) if len(tied) else 1.0
        slack = together * np.linalg.norm(self.slack[rows], axis=1)
        below = together * np.linalg.norm((self.below + self.below_slack)[rows], axis=1)
        return base - slack, np.hypot(base + slack, below)


@runtime_checkable
class Screened(Jacobian, Protocol):
    """A Jacobian with such bounds."""

    def near(self, columns: Index) -> Near: ...
    def norms_of(self, rows: Index, columns: Index, include_target: bool) -> FloatArray: ...


def highest_of(bounds: tuple[FloatArray, FloatArray], norms: Callable[[Index], FloatArray]) -> float:
    """The largest norm of items with these lower and upper bounds; norms: positions -> their norms."""
    lower, upper = bounds
    order = np.argsort(-upper, kind="stable").astype(np.intp)
    least, best, first, size = float(lower.max()), 0.0, 0, FIRST
    while first < len(order) and upper[order[first]] >= (1 - ROUNDING) * max(least, best):
        best = max(best, float(norms(order[first : first + size]).max()))
        first, size = first + size, 2 * size
    return best


def highest_of_groups(
    jacobian: Screened, near: Near, row_sets: Index, free: Index, include_target: bool, tied: Index, *, large: int
) -> float:
    """The largest ||J|| of groups of rows, row_sets (g, k); groups of more than `large` rows are few, and computed."""
    if row_sets.shape[1] > large:
        return max(jacobian.together(rows, free, include_target, tied) for rows in row_sets)
    return highest_of(
        near.groups(row_sets, free, include_target, tied),
        lambda some: jacobian.norms_together(row_sets[some], free, include_target, tied),
    )
