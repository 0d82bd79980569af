"""The Jacobian of a fit behind scalers by any statistics of its own table: the weights move when a scaler does.

Let an unknown that moves feature f of its row by P, the scaler held fixed, also move the scaler x = k u + t, so that
k'/k = κP and t' - t k'/k = τP (`StatisticMoves`). In the coordinates of the fitted scaler every row and every query x
becomes x + κPx + τP, so the same margins have the weights v = w(1 + κP), and the intercept takes up w τP. The loss
does not change, the penalty does: v moves by

    2 nλ_f H⁻¹ e_f w_f κP,    with a penalty λ₀ on the intercept also  nλ₀ H⁻¹ (w_f e₀ + w₀ e_f) τP.

Without an intercept nothing takes up the shift, and such a fit is refused. Answers need no more than this: their noise
does not pass through the fold (docs/explanation/answers.md, 3). Weights that are folded into raw units do: they have
the rows of a floor as well, as behind mean and deviation (`fitted_scaler.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.errors import CannotMeasure
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.jacobians.dense_jacobian import DenseJacobian, Jacobian, Rows, largest_singular_values
from dosimeter.glm.jacobians.leakage import Leakage
from dosimeter.glm.scalers.fitted_scaler import intercept_part, penalty_part, with_fold
from dosimeter.glm.scalers.scaler import StatisticMoves

NO_INTERCEPT = (
    "what answers of a model without an intercept tell through a scaler that centres by this table is not derived: fit "
    "an intercept, or fit the scaler on public rows"
)


@dataclass(frozen=True, eq=False)
class StatisticJacobian(DenseJacobian):
    """The frozen Jacobian, and what the scalers add to the weights."""

    base: Jacobian
    """With the scalers held fixed."""
    moves: StatisticMoves
    by_scale: FloatArray
    """(q, k) what one κP of a feature adds."""
    by_mean: FloatArray
    """(q, k) what one τP adds."""
    root: FloatArray
    """(r, 2k) the rows below: of what is known of κP and τP beside the mean; none for answers."""

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.base.n

    @property
    def m(self) -> int:  # type: ignore[override]
        return self.base.m

    @property
    def target_width(self) -> int:  # type: ignore[override]
        return self.base.target_width

    @property
    def width(self) -> int:  # type: ignore[override]
        return len(self.by_scale) + len(self.root)

    def dense(self, rows: Rows) -> FloatArray:
        """(b, q + r, m + target): no target moves a scaler."""
        J, q, touched = self.base.dense(rows), len(self.by_scale), self.moves.touched
        out = np.zeros((len(J), self.width, J.shape[2]))
        out[:, :q] = J
        if len(touched):
            root = np.concatenate([np.concatenate([self.by_scale, self.by_mean], axis=1), self.root])
            out[:, :, touched] += self.moves.rotate_moves(rows, root)
        return out

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,) of rows that move no statistic the frozen one: an extreme or a quantile is that of few rows."""
        out = self.base.row_norms(columns, include_target)
        moving = np.flatnonzero(self.moves.Z.any(axis=1) | self.moves.by_mean.any(axis=1))
        pick, step = self._picked(columns, include_target), max(1, len(range(self.n)[next(iter(self._slices()))]))
        for i in range(0, len(moving), step):
            part = moving[i : i + step]
            out[part] = largest_singular_values(self.dense(part)[:, :, pick])
        return out

    def target_norms(self) -> FloatArray:
        """(n,) the frozen ones."""
        return self.base.target_norms()


@dataclass(frozen=True, eq=False)
class LargerOf:
    """Two Jacobians of one release, of which each reading is the larger.

    Rows that share an extreme or a quantile have one derivative on each side: outwards the statistic moves, inwards
    it stays.
    """

    outwards: Jacobian
    inwards: Jacobian

    @property
    def n(self) -> int:
        """Rows."""
        return self.outwards.n

    @property
    def m(self) -> int:
        """Unknowns of a row without the target."""
        return self.outwards.m

    @property
    def target_width(self) -> int:
        """Unknowns of a target."""
        return self.outwards.target_width

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,)."""
        return self._larger(lambda jacobian: jacobian.row_norms(columns, include_target))

    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, k)."""
        return self._larger(lambda jacobian: jacobian.cell_norms(columns))

    def target_norms(self) -> FloatArray:
        """(n,)."""
        return self._larger(lambda jacobian: jacobian.target_norms())

    def column_norms(self) -> FloatArray:
        """(m,)."""
        return self._larger(lambda jacobian: jacobian.column_norms())

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(g,)."""
        return self._larger(lambda jacobian: jacobian.norms_together(rows, columns, include_target, tied))

    def together(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> float:
        """||J||."""
        return max(j.together(rows, columns, include_target, tied) for j in (self.outwards, self.inwards))

    def together_mask(self, mask: Mask) -> float:
        """||J||."""
        return max(jacobian.together_mask(mask) for jacobian in (self.outwards, self.inwards))

    def outer(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(q, q) of the one with the larger norm."""
        return self._longer(lambda jacobian: jacobian.outer(rows, columns, include_target, tied))

    def outer_mask(self, mask: Mask) -> FloatArray:
        """(q, q) of the one with the larger norm."""
        return self._longer(lambda jacobian: jacobian.outer_mask(mask))

    def dense(self, rows: Rows) -> FloatArray:
        """(k, q, m + target) of each row the one with the larger norm."""
        out, other = self.outwards.dense(rows), self.inwards.dense(rows)
        longer = np.linalg.norm(other, 2, axis=(1, 2)) > np.linalg.norm(out, 2, axis=(1, 2))
        return np.where(longer[:, None, None], other, out)

    def _larger(self, reading: Callable[[Jacobian], FloatArray]) -> FloatArray:
        return np.maximum(reading(self.outwards), reading(self.inwards))

    def _longer(self, reading: Callable[[Jacobian], FloatArray]) -> FloatArray:
        both = [reading(jacobian) for jacobian in (self.outwards, self.inwards)]
        return max(both, key=lambda matrix: float(np.linalg.eigvalsh(matrix)[-1]))


def through_statistics(
    leak: Leakage, fit: Fit, moves: StatisticMoves, shared: Mask, *, ones_last: bool, folded: bool
) -> Leakage:
    """The leakage of the weights through scalers of the table.

    leak: with the scalers held fixed. shared (k,): whether several rows share what the scaler of a feature takes from
    the table. ones_last: whether the last weight is an intercept with a penalty. folded: whether the weights are
    released, folded into raw units with their noise; otherwise they answer.
    """
    by_scale = -fit.n * penalty_part(leak.jacobian, fit, moves)
    by_mean = np.zeros_like(by_scale)
    if ones_last:
        by_mean = -fit.n * intercept_part(leak.jacobian, fit, moves)
    elif not fit.intercept and moves.by_mean.any():
        raise CannotMeasure(NO_INTERCEPT)
    root = np.zeros((0, 2 * len(moves.features)))
    if folded:
        by_scale, by_mean, root = with_fold(leak, fit, moves, by_scale, by_mean)
    outwards = StatisticJacobian(leak.jacobian, moves, by_scale, by_mean, root)
    if not shared.any():
        return replace(leak, jacobian=outwards, members=None)
    alone = np.where(shared, 0.0, 1.0)
    inwards = replace(outwards, moves=replace(moves, Z=moves.Z * alone, by_mean=moves.by_mean * alone))
    return replace(leak, jacobian=LargerOf(outwards, inwards), members=None)
