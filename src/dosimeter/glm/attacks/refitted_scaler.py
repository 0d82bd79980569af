"""One cell of a column that the table itself standardises has another value: mean, deviation, penalty and fold move.

In the fitted table's own standardised coordinates let the cell z of one row become v. The mean moves by a = (v - z)/n,
and the deviation becomes ρ with ρ² - 1 = (v - z)(v + z)/n - a². The weights are folded into raw units, so the refit is
that of the held scaler with one difference: the penalty of the feature is ρ² times as strong
(docs/explanation/attacks.md, 3). The release R = A(w + noise), unfolded by the scaler of the candidate, is
B(w + noise), B = 1 + (ρ - 1) e_f e_fᵀ + a e_0 e_fᵀ, 0 the intercept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dosimeter.core.arrays import FloatArray, Mask
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Gaussian
from dosimeter.glm.attacks.row_changes import RowChanges
from dosimeter.glm.fitting.fit import fit as refit
from dosimeter.glm.fitting.minimiser import Fit

CONSTANT = 1e-12
"""ρ² below this: the column would hold one value only."""


@dataclass(frozen=True, eq=False)
class ScalerChange:
    """Mean and deviation of a standardised feature, if one cell of it had another value. Arrays of any one shape."""

    feature: int
    shift: FloatArray
    """a: how far the mean moves, in the old deviations."""
    growth: FloatArray
    """ρ² - 1: by how much the variance grows."""

    @classmethod
    def of(cls, feature: int, old: FloatArray, new: FloatArray, n: int) -> ScalerChange:
        """old, new: the standardised value of the cell, before and after; n rows."""
        shift = (new - old) / n
        growth = (new - old) * (new + old) / n - shift**2
        if (growth + 1.0 <= CONSTANT).any():
            raise Refusal(f"with a candidate, column {feature} would hold one value only: leave it out")
        return cls(feature, shift, growth)

    @property
    def log_stretch(self) -> FloatArray:
        """log ρ, which is log |det B|."""
        return np.asarray(0.5 * np.log1p(self.growth))

    @property
    def flat(self) -> ScalerChange:
        """The same in one row."""
        return ScalerChange(self.feature, self.shift.ravel(), self.growth.ravel())

    def unfold(self, x: FloatArray) -> FloatArray:
        """B x for vectors x (..., p) whose leading axes begin with those of the changes."""
        axes = (..., *([None] * (x.ndim - 1 - self.shift.ndim)))
        out = x.copy()
        out[..., self.feature] *= np.exp(self.log_stretch)[axes]
        out[..., -1] += self.shift[axes] * x[..., self.feature]
        return out

    def restandardise(self, X: FloatArray, i: int) -> FloatArray:
        """(n, d) X, which has the new cell already, with the feature standardised anew for change i."""
        out = X.copy()
        out[:, self.feature] = (out[:, self.feature] - self.shift[i]) / np.exp(self.log_stretch[i])
        return out

    def fold_back(self, w: FloatArray, i: int) -> FloatArray:
        """(p,) B⁻¹ w: weights of the newly standardised columns in the old coordinates."""
        out = w.copy()
        out[self.feature] /= np.exp(self.log_stretch[i])
        out[-1] -= self.shift[i] * out[self.feature]
        return out


def removal_through_scaler(
    fit: Fit, X: FloatArray, row: int, scaled: Mask, noise: Gaussian
) -> tuple[FloatArray, CorrelatedGaussian]:
    """What a release without the row looks like through the scaler with it: (p,) the move of its mean, and its noise.

    Without the row, columns marked by `scaled` (d,) are standardised by the other rows; nλ and n stay. Unfolded by the
    scaler of the whole table, that release is C(w' + noise), C w = (w_f/ρ_f, w_0 - Σ a_f w_f/ρ_f).
    """
    others = np.delete(X, row, axis=0)
    mean, deviation = np.where(scaled, others.mean(axis=0), 0.0), np.where(scaled, others.std(axis=0), 1.0)
    if (deviation**2 <= CONSTANT).any():
        raise Refusal(f"without row {row} column {int(np.argmin(deviation))} holds one value only: leave it out")
    without = refit(
        (others - mean) / deviation,
        np.delete(fit.y, row),
        fit.loss,
        fit.l2 * len(X) / len(others),
        sample_weight=np.delete(fit.sample_weight, row),
        intercept=True,
        offset=None if fit.offset is None else np.delete(fit.offset, row),
    )
    C = np.diag(np.append(1.0 / deviation, 1.0))
    C[-1, :-1] = -mean / deviation
    return C @ without.w - fit.w, CorrelatedGaussian(noise.sigma**2 * (C @ C.T))


@dataclass(frozen=True, eq=False)
class RescaledChanges(RowChanges):
    """Row changes that also change the penalty of one feature: its Hessian gets κ q qᵀ, q = Aᵀe_f, κ = nλ(ρ² - 1)."""

    q: FloatArray
    """(N, p)."""
    stiffness: FloatArray
    """(N,) κ."""
    weight: FloatArray
    """(N,) w_f."""

    @classmethod
    def over(cls, changes: RowChanges, q: FloatArray, stiffness: FloatArray, weight: float) -> RescaledChanges:
        """The same row changes with the penalty's; q (p,) is that of the feature, stiffness (N,)."""
        held = {name: getattr(changes, name) for name in RowChanges.__dataclass_fields__}
        rows = np.broadcast_to(q, changes.z.shape)
        return cls(**held, q=rows, stiffness=stiffness, weight=np.full(len(stiffness), weight))

    @property
    def definiteness(self) -> FloatArray:
        """(N,) det(H')/det(H)."""
        return super().definiteness * self._room()[1]

    def step(self) -> FloatArray:
        """(N, p) c of one Newton step: the minimiser itself for the squared loss."""
        solved, _ = self._room()
        force = self.stiffness * self.weight
        return -self._correct(force[:, None] * solved - super().step())

    def gradient(self, c: FloatArray, fit: Fit, Z: FloatArray) -> FloatArray:
        """(N, p) of the changed tables' eq. 13 at w + A c, the penalty's change included."""
        force = self.stiffness * (self.weight + np.einsum("np,np->n", self.q, c))
        return np.asarray(super().gradient(c, fit, Z) + force[:, None] * self.q)

    def chord(self, g: FloatArray) -> FloatArray:
        """(N, p) the Newton direction with the corrected Hessian at the fitted weights."""
        return self._correct(super().chord(g))

    def _room(self) -> tuple[FloatArray, FloatArray]:
        """(N, p) M⁻¹q with M the Hessian without the penalty's change, and (N,) 1 + κ qᵀM⁻¹q."""
        solved = super().chord(self.q)
        return solved, 1.0 + self.stiffness * np.einsum("np,np->n", self.q, solved)

    def _correct(self, x: FloatArray) -> FloatArray:
        """(N, p) (M + κ q qᵀ)⁻¹ M x."""
        solved, room = self._room()
        along = self.stiffness * np.einsum("np,np->n", self.q, x) / room
        return np.asarray(x - along[:, None] * solved)
