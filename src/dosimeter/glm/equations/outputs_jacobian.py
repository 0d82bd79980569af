"""The whitened Jacobian of several scalar outputs on one table, one upon another.

    J_i = [ J_i1 ; ... ; J_iK ],   J_ib = -ω F_b [ a_b z_b (Pᵀw_b)ᵀ + r_b A_bᵀP ,  -c_b z_b T_b ]       (K p, m + t)

Each part is factored as in `jacobians/scalar_jacobian.py`, so nothing larger than (p, p) is inverted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.noise import Noise
from dosimeter.glm.jacobians.dense_jacobian import DenseJacobian, Rows, largest_singular_values
from dosimeter.glm.jacobians.scalar_jacobian import ScalarJacobian


@dataclass(frozen=True, eq=False)
class OutputsJacobian(DenseJacobian):
    """The outputs' Jacobians one upon another: each is factored, so no block larger than (p, p) is inverted."""

    parts: tuple[ScalarJacobian, ...]
    """One per output, each with its own target as its last unknown."""
    T: FloatArray
    """(K, t) dY/d(target), times the unit."""
    y: FloatArray
    """The targets: they identify the table."""
    labels: FloatArray | None = None
    """(n, K, t) what stands for -c_b T_b if classes have weights (`losses/label_weights.py`), times the unit."""

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.parts[0].n

    @property
    def m(self) -> int:  # type: ignore[override]
        return self.parts[0].m

    @property
    def target_width(self) -> int:  # type: ignore[override]
        return int(self.T.shape[1])

    @property
    def width(self) -> int:  # type: ignore[override]
        return sum(len(part.F) for part in self.parts)

    def dense(self, rows: Rows) -> FloatArray:
        stacked = []
        for b, (part, moves) in enumerate(zip(self.parts, self.T, strict=True)):
            J = part.dense(rows)
            target = J[:, :, -1:] * moves
            if self.labels is not None:
                target = part.moves(part.X[rows])[:, :, None] * self.labels[rows, b][:, None, :]
            stacked.append(np.concatenate([J[:, :, :-1], target], axis=2))
        return np.concatenate(stacked, axis=1)

    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, k): the squares of the outputs add."""
        return np.asarray(np.sqrt(sum(part.cell_norms(columns) ** 2 for part in self.parts)))

    def target_norms(self) -> FloatArray:
        """(n,) the norm of diag(|u_b|) T."""
        if self.labels is not None:
            sizes = np.column_stack([np.linalg.norm(part.moves(part.X), axis=1) for part in self.parts])
            return largest_singular_values(sizes[:, :, None] * self.labels)
        lengths = np.column_stack([part.target_norms() for part in self.parts])
        return largest_singular_values(lengths[:, :, None] * self.T)


@dataclass(frozen=True, eq=False)
class WhitenedOutputs(OutputsJacobian):
    """The same under noise that is correlated between outputs: the squares no longer add."""

    noise: Noise = field(kw_only=True)

    def dense(self, rows: Rows) -> FloatArray:
        return np.asarray(self.noise.whiten(super().dense(rows)))

    cell_norms = DenseJacobian.cell_norms
    target_norms = DenseJacobian.target_norms
