"""Newton's method on a penalised partial likelihood, in coordinates in which its Hessian is close to the identity.

w = T v with T from the weighted table at w = 0 (`linalg/inverse_hessian.py`); a row enters as z = Tᵀx.
Rows are sorted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from dosimeter.core.arrays import FloatArray
from dosimeter.core.engine import LocalEngine
from dosimeter.core.errors import Refusal
from dosimeter.glm.cox.cox_table import CoxTable
from dosimeter.glm.cox.partial_likelihood import LikelihoodState, hessian, state_at
from dosimeter.glm.fitting.existence import FAR
from dosimeter.glm.fitting.newton import ROUNDING, SETTLED, STEPS
from dosimeter.glm.linalg.inverse_hessian import inverse_factor


@dataclass(frozen=True, eq=False)
class CoxNewton:
    """The objective in coordinates v, w = T v; rows sorted."""

    table: CoxTable
    T: FloatArray
    Z: FloatArray
    """(n, p) centred T."""
    ridge: FloatArray
    """Tᵀ Λ T, (p, p)."""

    def coordinates(self, w: Any) -> FloatArray:
        """v (p,) of weights."""
        weights = np.asarray(w, dtype=np.float64)
        if weights.shape != (len(self.T),) or not np.isfinite(weights).all():
            raise Refusal(f"weights must be finite and of shape {(len(self.T),)}, not {weights.shape}")
        return np.asarray(np.linalg.solve(self.T, weights))

    def at(self, v: FloatArray) -> tuple[float, LikelihoodState]:
        """The objective and the state of the partial likelihood."""
        state = state_at(self.table.risk, self.table.offset + self.Z @ v)
        return state.value + 0.5 * float(v @ self.ridge @ v), state

    def minimise(self, v: FloatArray) -> tuple[FloatArray, int]:
        """Newton with step halving until no row's margin moves any more."""
        value, state = self.at(v)
        if not np.isfinite(value):
            v = np.zeros_like(v)
            value, state = self.at(v)
        least, stalled, checked = np.inf, 0, False
        for step in range(1, STEPS + 1):
            if not checked and np.ptp(self.Z @ v) > FAR:
                self.table.refuse_monotone(self.Z, self.T)
                checked = True
            move = self._newton_step(state, v)
            size = float(np.max(np.abs(self.Z @ move) / (1.0 + np.abs(self.Z @ v))))
            stalled = stalled + 1 if size > 0.9 * least else 0
            if size <= SETTLED or (stalled >= 3 and size <= ROUNDING):
                return v, step
            least = min(least, size)
            v, value, state = self._downhill(v, move, value)
        self.table.refuse_monotone(self.Z, self.T)
        raise Refusal(f"Newton did not converge in {STEPS} steps (margins still move by {size:.1e}): use a larger l2")

    def _newton_step(self, state: LikelihoodState, v: FloatArray) -> FloatArray:
        g = self.Z.T @ state.residual + self.ridge @ v
        try:
            return np.asarray(cho_solve(cho_factor(hessian(self.table.risk, state, self.Z) + self.ridge), g))
        except np.linalg.LinAlgError:
            self.refuse_flat()

    def _downhill(self, v: FloatArray, move: FloatArray, value: float) -> tuple[FloatArray, float, LikelihoodState]:
        length = 1.0
        while length >= 1e-12:
            trial = v - length * move
            trial_value, state = self.at(trial)
            # Near the end the value no longer falls visibly: allow a rise within rounding.
            if np.isfinite(trial_value) and trial_value <= value + 1e-13 * abs(value):
                return trial, trial_value, state
            length /= 2
        self.refuse_flat()

    def refuse_flat(self) -> NoReturn:
        """Refuse a Hessian that is singular to rounding."""
        self.table.refuse_monotone(self.Z, self.T)
        raise Refusal(
            "the columns hardly vary within the risk sets, or are linearly dependent there, so the weights are not "
            "determined: drop a column or use l2 > 0"
        )


def newton_problem(table: CoxTable) -> CoxNewton:
    """Coordinates in which the weighted table at w = 0 is orthonormal."""
    at_zero = state_at(table.risk, table.offset)
    block = (table.centred, at_zero.theta * at_zero.hazard)
    factor = inverse_factor([block], table.penalty, LocalEngine())
    roots = factor.columns(np.diag(np.sqrt(table.penalty)))
    return CoxNewton(table, factor.matrix, factor.rows(table.centred), roots @ roots.T)
