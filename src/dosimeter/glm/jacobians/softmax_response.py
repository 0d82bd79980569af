"""Q = NᵀN by pairs of classes: what a softmax release reveals about a change of the gradient.

A change e (q,) of the gradient, in the coordinates z of a row, moves the whitened weights by N e, so its squared length
is eᵀQe. Q is (q, q) in blocks Q_kl (p, p), one for each pair of classes. Everything a reading needs of it is a product
with z ⊗ class or with ρ ⊗ vector, taken for many rows at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.glm.linalg.certified_eigenvalue import norm_estimate


@dataclass(frozen=True, eq=False)
class Response:
    """N, and Q in blocks. One object serves every selection of unknowns."""

    N: FloatArray
    """(k, q) W H⁻¹ in the coordinates z, class after class."""
    classes: int
    """K', margins of a row."""

    @property
    def p(self) -> int:
        """Coordinates of a row."""
        return int(self.N.shape[1]) // self.classes

    @cached_property
    def blocks(self) -> FloatArray:
        """(K', K', p, p): [l, k] is Q_kl = N_kᵀN_l, so that [l] is all that class l contributes."""
        K, p = self.classes, self.p
        out = np.empty((K, K, p, p))
        for k in range(K):
            below = self.N[:, k * p :].T @ np.ascontiguousarray(self.N[:, k * p : (k + 1) * p])
            out[k, k:] = below.reshape(K - k, p, p)
            out[k + 1 :, k] = out[k, k + 1 :].transpose(0, 2, 1)
        return out

    @cached_property
    def size(self) -> float:
        """‖Q‖₂ to a few percent: rounding errors are judged by it."""
        return norm_estimate(lambda X: self.N.T @ (self.N @ X), self.N.shape[1])

    def times(self, e: FloatArray) -> FloatArray:
        """(g, K', p) Q e of vectors e (g, K', p)."""
        flat = e.reshape(len(e), -1)
        return np.stack([flat @ block.reshape(-1, self.p) for block in self.blocks], axis=1)

    def of_rows(self, Z: FloatArray, rho: FloatArray) -> tuple[FloatArray, FloatArray]:
        """R (g, k, K', k, K') and t (g, k, K', b, p) of g groups of k rows Z (g, k, p) and b residuals rho (g, b, K').

        R_ik,jl = zᵢᵀ Q_kl z_j, and t_ik,b = Σ_l ρ_bl Q_lk zᵢ: the products of the columns I ⊗ zᵢ with I ⊗ z_j and with
        ρ_b ⊗ I.
        """
        (g, k, p), K, b = Z.shape, self.classes, rho.shape[1]
        flat = np.ascontiguousarray(Z).reshape(g * k, p)
        R, t = np.empty((g, k, K, k, K)), np.zeros((g, k, K, b, p))
        for first in range(K):
            for second in range(K):
                image = (flat @ self.blocks[second, first]).reshape(g, k, p)  # zᵀ Q_first,second
                R[:, :, first, :, second] = np.einsum("gip,gjp->gij", image, Z)
                t[:, :, first] += rho[:, None, :, second, None] * image[:, :, None, :]
        return R, t

    def label_forms(self, Z: FloatArray) -> FloatArray:
        """R (n, K', K') of single rows Z (n, p), without t: half the products."""
        K = self.classes
        R = np.empty((len(Z), K, K))
        for k in range(K):
            for other in range(k, K):
                R[:, k, other] = R[:, other, k] = np.einsum("np,np->n", Z @ self.blocks[other, k], Z)
        return R

    def between(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """(K', K', m, s): leftᵀ Q_kl right for every pair of classes; left (p, m), right (p, s)."""
        K, p = self.classes, self.p
        out = np.empty((K, K, left.shape[1], right.shape[1]))
        for second in range(K):
            images = (self.blocks[second].reshape(K * p, p) @ right).reshape(K, p, -1)
            out[:, second] = left.T @ images
        return out
