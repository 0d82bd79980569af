"""The pooled covariance of classes, shrunk towards a multiple of the identity, and how it moves with one row.

    Σ⁰ = Σ_k c_k S_k,   S_k = Σ_i e_ik (x_i - μ_k)(x_i - μ_k)ᵀ,        Σ = (1-s) Σ⁰ + s (tr Σ⁰/d) 1

c_k is 1/n (or 1/(n - K), without the degrees of freedom of the means), or π_k/N_k if the shares π are given; then
it moves with N_k: dc_k/de_ik = -π_k/N_k². With δ_k = x_i - μ_k,

    dΣ⁰/dx_i = Σ_k c_k e_ik (δ_k dxᵀ + dx δ_kᵀ),        dΣ⁰/de_ik = c_k δ_kδ_kᵀ + (dc_k/de_ik) S_k

(μ_k moves too, but S_k is at its minimum in μ_k.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.glm.equations.class_moments import ClassMoments
from dosimeter.glm.jacobians.dense_jacobian import Rows


@dataclass(frozen=True, eq=False, repr=False)
class PooledCovariance:
    """Σ of a table's classes."""

    classes: ClassMoments
    shares: FloatArray | None
    """(K,) π if given; None if c is 1/n or 1/(n - K)."""
    shrinkage: float
    """s."""
    unbiased: bool = False
    """Whether c is 1/(n - K)."""

    @cached_property
    def scatters(self) -> FloatArray:
        """S (K, d, d)."""
        mu, X, e = self.classes.means(), self.classes.X, self.classes.e
        centred = [(X - mu[k])[e[:, k] > 0] for k in range(len(mu))]
        return np.stack([part.T @ part for part in centred])

    @cached_property
    def factors(self) -> FloatArray:
        """c (K,)."""
        if self.shares is None:
            lost = self.classes.K if self.unbiased else 0
            return np.full(self.classes.K, 1.0 / (len(self.classes.X) - lost))
        return np.asarray(self.shares / self.classes.counts())

    @cached_property
    def falls(self) -> FloatArray:
        """(K,) -dc/de."""
        return np.zeros(self.classes.K) if self.shares is None else self.factors / self.classes.counts()

    def value(self) -> FloatArray:
        """Σ (d, d)."""
        Sigma = np.einsum("k,kij->ij", self.factors, self.scatters)
        d, s = len(Sigma), self.shrinkage
        return np.asarray((1.0 - s) * Sigma + s * np.trace(Sigma) / d * np.eye(d))

    def moves(self, means: FloatArray, rows: Rows) -> FloatArray:
        """(k, d, d, d + t) dΣ by each unknown of some rows."""
        delta, side, T = self._sides(means, rows)
        d, each = delta.shape[2], np.arange(delta.shape[2])
        out = np.zeros((len(delta), d, d, d + T.shape[1]))
        out[:, :, each, each] += side[:, :, None]
        out[:, each, :, each] += side
        squares = np.einsum("k,nki,nkj->nkij", self.factors, delta, delta) - self.falls[:, None, None] * self.scatters
        out[:, :, :, d:] = np.einsum("nkij,kt->nijt", squares, T)
        trace, s = np.einsum("niiu->nu", out), self.shrinkage
        out *= 1.0 - s
        out[:, each, each] += s / d * trace[:, None, :]
        return out

    def moves_along(self, means: FloatArray, beta: FloatArray, rows: Rows) -> FloatArray:
        """(k, K, d, d + t) dΣ β_k for directions β (K, d), without a (d, d) matrix for each unknown."""
        delta, side, T = self._sides(means, rows)
        d, each = delta.shape[2], np.arange(delta.shape[2])
        out = np.empty((len(delta), len(beta), d, d + T.shape[1]))
        out[:, :, :, :d] = side[:, None, :, None] * beta[:, None, :]
        out[:, :, each, each] += (side @ beta.T)[:, :, None]
        products = self.factors[:, None] * (delta @ beta.T)  # (n, j, k): c_j δ_j·β_k
        squares = np.einsum("njk,njd->nkjd", products, delta)
        squares -= np.einsum("j,jde,ke->kjd", self.falls, self.scatters, beta)
        out[:, :, :, d:] = np.einsum("nkjd,jt->nkdt", squares, T)
        if not self.shrinkage:
            return out
        lengths = self.factors * np.einsum("njd,njd->nj", delta, delta) - self.falls * np.einsum(
            "jdd->j", self.scatters
        )
        trace = np.concatenate([2.0 * side, lengths @ T], axis=1)
        out *= 1.0 - self.shrinkage
        out += self.shrinkage / d * beta[:, :, None] * trace[:, None, None, :]
        return out

    def _sides(self, means: FloatArray, rows: Rows) -> tuple[FloatArray, FloatArray, FloatArray]:
        """δ (k, K, d), Σ_k c_k e_k δ_k (k, d), T (K, t)."""
        delta = self.classes.deviations(means, rows)
        side = np.einsum("nk,nkd->nd", self.classes.e[rows] * self.factors, delta)
        return delta, side, self.classes.T
