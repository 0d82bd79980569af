"""Tables that differ from the fitted one in one row each, for softmax: docs/explanation/attacks.md, 2.

The same as `RowChanges` with K' margins: a row enters as U = Bᵀ(I ⊗ x̃), q numbers for each margin, and the change adds
V C Vᵀ with V = [U, E], E = Bᵀ(I ⊗ (x̃' - x̃)), of rank 2K'.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.glm.attacks.row_changes import CACHE, parts, weighted
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.losses.softmax import Softmax

SHARED = ("loss", "inner")


@dataclass(frozen=True, eq=False)
class SoftmaxRowChanges:
    """N tables in which one row (ω, x, y) has become (ω', x', y)."""

    loss: Softmax
    inner: FloatArray
    """(K', p, q) of the fit, by class: B = (I ⊗ A) inner."""
    z: FloatArray
    """(N, p) Aᵀx̃."""
    e: FloatArray
    """(N, p) Aᵀ(x̃' - x̃)."""
    y: FloatArray
    """(N,)."""
    margin: FloatArray
    """(N, K')."""
    margin_change: FloatArray
    """(N, K')."""
    residual: FloatArray
    """(N, K') of the row before the change."""
    old_weight: FloatArray
    """(N,) ω."""
    new_weight: FloatArray
    """(N,) ω'; 0 removes the row."""

    @property
    def width(self) -> int:
        """Numbers held for one changed table: V."""
        classes, _, q = self.inner.shape
        return int(2 * classes * q)

    def part(self, some: slice | Index) -> SoftmaxRowChanges:
        """Some of the N."""
        arrays = {f.name: getattr(self, f.name)[some] for f in fields(self) if f.name not in SHARED}
        return replace(self, **arrays)

    @property
    def definiteness(self) -> FloatArray:
        """(N,) the least eigenvalue of H' in the metric of H: 0 if the change leaves the weights undetermined.

        Not the determinant, which is small where several directions lose a part each.
        """
        least = [np.linalg.eigvals(part._matrix(part._directions())).real.min(axis=1) for part in self._parts()]
        return np.concatenate([np.ones(0), *least])

    def step(self) -> FloatArray:
        """(N, q) c of one Newton step on the changed table."""
        steps = [part._step() for part in self._parts()]
        return np.concatenate([np.zeros((0, self.inner.shape[2])), *steps])

    def gradient(self, c: FloatArray, fit: Fit, Z: FloatArray) -> FloatArray:
        """(N, q) of the changed tables' eq. 13 at w + B c; Z (n, p) = X̃ A.

        The fitted table's own is c + Σ ω U (ρ(m + t) - ρ(m) - S t), t = Uᵀc, as for a single margin.
        """
        classes, p, q = self.inner.shape
        N = len(c)
        move = (c @ self.inner.reshape(-1, q).T).reshape(N * classes, p)
        total = np.zeros((N, classes, p))
        for part in parts(len(Z), N * len(self.loss.contrast), CACHE):
            rows = Z[part]
            t = (rows @ move.T).reshape(len(rows), N, classes)
            after = (fit.margin[part, None] + t).reshape(-1, classes)
            bend = self.loss.residual(after, np.repeat(fit.y[part], N)).reshape(t.shape)
            bend -= fit.residual[part, None] + t @ fit.curvature[part]
            total += np.tensordot(weighted(fit.sample_weight[part], bend), rows, axes=([0], [0]))
        V = self._directions()
        residual_before, residual_after = self._residuals(c, V)
        after = weighted(self.new_weight, residual_after)
        along = np.hstack([after - weighted(self.old_weight, residual_before), after])
        own = total.reshape(N, -1) @ self.inner.reshape(-1, q)
        return np.asarray(c + own + np.einsum("nk,nkq->nq", along, V))

    def chord(self, g: FloatArray) -> FloatArray:
        """(N, q) (1 + V C Vᵀ)⁻¹ g: the Newton direction with the corrected Hessian at the fitted weights."""
        V = self._directions()
        along = self._coupling() @ np.einsum("nkq,nq->nk", V, g)[:, :, None]
        return np.asarray(g - np.einsum("nk,nkq->nq", np.linalg.solve(self._matrix(V), along)[:, :, 0], V))

    def _parts(self) -> list[SoftmaxRowChanges]:
        return [self.part(some) for some in parts(len(self.z), self.width)]

    def _directions(self) -> FloatArray:
        """(N, 2K', q) Vᵀ."""
        return np.concatenate([np.tensordot(v, self.inner, axes=([1], [1])) for v in (self.z, self.e)], axis=1)

    def _coupling(self) -> FloatArray:
        """(N, 2K', 2K') C = [[ω'S' - ωS, ω'S'], [ω'S', ω'S']]."""
        before = weighted(self.old_weight, self.loss.curvature(self.margin, self.y))
        after = weighted(self.new_weight, self.loss.curvature(self.margin + self.margin_change, self.y))
        return np.block([[after - before, after], [after, after]])

    def _matrix(self, V: FloatArray) -> FloatArray:
        """(N, 2K', 2K') 1 + C G, G = VᵀV."""
        return np.asarray(np.eye(V.shape[1]) + self._coupling() @ (V @ V.transpose(0, 2, 1)))

    def _step(self) -> FloatArray:
        V = self._directions()
        before, after = self._residuals(np.zeros((len(self.z), V.shape[2])), V)
        gained = weighted(self.new_weight, after)
        lost = (self.new_weight - self.old_weight)[:, None] * self.residual
        along = np.hstack([lost + weighted(self.new_weight, after - before), gained])
        c = -np.einsum("nk,nkq->nq", np.linalg.solve(self._matrix(V), along[:, :, None])[:, :, 0], V)
        # Pivoting may mix a rounding error into a row that does not change.
        return np.where(self._changed()[:, None], c, 0.0)

    def _changed(self) -> Mask:
        return np.asarray((self.e != 0.0).any(axis=1) | (self.old_weight != self.new_weight))

    def _residuals(self, c: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(N, K') ρ of the row before and after its change, at w + B c."""
        moved = np.einsum("nkq,nq->nk", V, c)
        classes = moved.shape[1] // 2
        margin, change = self.margin + moved[:, :classes], self.margin_change + moved[:, classes:]
        return self.loss.residual(margin, self.y), self.loss.residual(margin + change, self.y)
