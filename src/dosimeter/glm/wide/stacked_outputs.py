"""Models of one margin on one sparse table, released together: upper bounds from the Jacobian of each.

The outputs' Jacobians stand on top of each other, so ||J||² <= Σ ||Jₖ||², and a single cell has the equality. With a
target whose unknowns move output k along Tₖ, output k alone has the unit |Tₖ| of its own target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.glm.jacobians.dense_jacobian import Rows
from dosimeter.glm.wide.normalised_rows import Unwritten


@dataclass(frozen=True, eq=False)
class StackedOutputs(Unwritten):
    """The protocol `Jacobian` as upper bounds; `row_bracket` holds the lower ones too."""

    parts: tuple[Any, ...]
    """One Jacobian for each output."""
    target_width: int
    """Unknowns of the joint target."""

    @property
    def n(self) -> int:
        return int(self.parts[0].n)

    @property
    def m(self) -> int:
        return int(self.parts[0].m)

    def _tied(self, tied: Index) -> Index:
        """The joint target is the one target of each output."""
        columns = tied[tied < self.m]
        return np.append(columns, [self.m] if len(columns) < len(tied) else []).astype(np.intp)

    def row_bracket(self, columns: Index, include_target: bool) -> tuple[FloatArray, FloatArray]:
        """(n,), (n,) the cells of the output that leaks most, and an upper bound."""
        lower = np.zeros(self.n)
        for part in self.parts if len(columns) else ():
            bracket = getattr(part, "row_bracket", None)
            low = part.row_norms(columns, False) if bracket is None else bracket(columns, False)[0]
            lower = np.maximum(lower, low)
        return lower, self.row_norms(columns, include_target)

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,) upper bounds."""
        return _root(part.row_norms(columns, include_target) for part in self.parts)

    def target_norms(self) -> FloatArray:
        """(n,) upper bounds."""
        return _root(part.target_norms() for part in self.parts)

    def target_steps(self, vertices: FloatArray, shared: list[Index] | None) -> FloatArray:
        """(n,) or (groups,) upper bounds of the largest step between two classes at the vertices (K, K)."""
        apart = vertices[:, None, :] - vertices[None, :, :]
        norms = float(np.sqrt(np.max(np.sum(apart**2, axis=2)))) * self.target_norms()
        return norms if shared is None else np.array([norms[rows].sum() for rows in shared])

    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, j) exact where the outputs are."""
        return _root(part.cell_norms(columns) for part in self.parts)

    def cells_of(self, rows: Index) -> FloatArray:
        """(k, m) every cell of some rows, exact where the outputs are."""
        return _root(_cells(part, rows) for part in self.parts)

    def column_norms(self) -> FloatArray:
        """(m,) upper bounds."""
        return _root(part.column_norms() for part in self.parts)

    def together(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> float:
        """An upper bound."""
        shared = self._tied(tied)
        return float(_root(np.array(part.together(rows, columns, include_target, shared)) for part in self.parts))

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(g,) upper bounds."""
        shared = self._tied(tied)
        return _root(part.norms_together(rows, columns, include_target, shared) for part in self.parts)


def _root(norms: Any) -> FloatArray:
    """√Σ of squares of arrays of one shape."""
    return np.asarray(np.sqrt(sum(np.square(values) for values in norms)))


def _cells(part: Any, rows: Index) -> FloatArray:
    if hasattr(part, "cell_bracket"):
        return np.asarray(part.cell_bracket(rows)[1])
    if hasattr(part, "cells_of"):
        return np.asarray(part.cells_of(rows))
    return np.asarray(np.linalg.norm(part.dense(rows)[:, :, : part.m], axis=1))
