"""The Jacobian of weights with noise shaped by the Hessian, N(0, c H⁻ᵖ), and below it that of the covariance itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.engine import rows_per_block
from dosimeter.core.errors import CannotMeasure
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.jacobians.dense_jacobian import DenseJacobian, Rows
from dosimeter.glm.jacobians.scalar_jacobian import ScalarJacobian
from dosimeter.glm.jacobians.screening import Near
from dosimeter.glm.linalg.secular import largest_eigenvalues

WORK = 5e12
"""Multiplications above which a reading of many rows together is refused; about ten minutes on two cores."""

ENTRIES = 1 << 27
"""Matrix entries above which it is refused too: 1 GiB."""


@dataclass(frozen=True, eq=False)
class Spectrum:
    """H = U diag(λ) Uᵀ through A = U diag(λ^-½) Rᵀ, H⁻¹ = A Aᵀ: no inverse is computed."""

    U: FloatArray
    """(p, p) eigenvectors of H."""
    roots: FloatArray
    """(p,) λ^-½, descending."""
    R: FloatArray
    """(p, p) maps the factor's coordinates Aᵀx̃ to λ^-½ Uᵀx̃."""

    @classmethod
    def of(cls, fit: Fit) -> Spectrum:
        """From a fit with a single margin."""
        U, roots, turn = np.linalg.svd(fit.factor.matrix)
        return cls(U, roots, turn.T)

    def powers(self, p: float) -> FloatArray:
        """(p,) λ^-p."""
        return np.asarray(self.roots ** (2 * p))

    def divided(self, p: float) -> FloatArray:
        """(p, p) sinh(p t/2)/sinh(t/2) with t = log λₐ/λ_b: |divided difference of λ^-p| over √(λₐλ_b)^-(p+1).

        In t no two powers are subtracted, so nearly equal eigenvalues need no special case except the limit p itself.
        """
        half = np.log(np.divide.outer(self.roots, self.roots))
        near = np.abs(half) < 1e-4
        safe = np.where(near, 1.0, half)
        return np.where(near, p * (1 + (p * p - 1) * half**2 / 6), np.sinh(p * safe) / np.sinh(safe))


@dataclass(frozen=True, eq=False)
class ShapedJacobian(DenseJacobian):
    """W (q, m + 1) of each row with WᵀW = I: the whitened Jacobian, and below it the entries of ½Σ⁻¹∂Σ as a vector.

    With z = λ^-½Uᵀx̃ and B = λ^-½UᵀP, moving unknown j by one moves Σ^-½ΣΣ^-½ by −Nⱼ,

        Nⱼ = ω s ∘ (z Bⱼᵀ + Bⱼ zᵀ) + κⱼ 1,      κⱼ = 2ω (1 − p) Σₐ πₐ zₐBₐⱼ,

    s = `Spectrum.divided`; κ is present if c follows from a given loss, π = λ^(1-p)/tr H^(1-p).
    I = JᵀΣ⁻¹J + ½ tr NⱼNₖ.
    """

    mean: ScalarJacobian
    """The part of the weights' mean, whitened by Σ."""
    R: FloatArray
    s: FloatArray
    """(p, p)."""
    pull: FloatArray
    """(p,) (1 − p) π, or zero if c is a public constant."""
    weight: FloatArray
    """(n,) ω."""
    floor: bool = False
    """Only the part of the covariance: c at infinity."""

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.mean.n

    @property
    def m(self) -> int:  # type: ignore[override]
        return self.mean.m

    @property
    def target_width(self) -> int:  # type: ignore[override]
        return 1

    @property
    def width(self) -> int:  # type: ignore[override]
        p = len(self.s)
        return p + p * (p + 1) // 2

    @cached_property
    def B(self) -> FloatArray:
        """(p, m) λ^-½UᵀP."""
        return np.asarray(self.R.T @ self.mean.factor.columns(self.mean.P))

    def _z(self, rows: Rows) -> FloatArray:
        """(k, p) ω λ^-½Uᵀx̃."""
        return self.weight[rows, None] * self.mean.factor.rows(self.mean.X[rows], self.R)

    def _location(self, rows: Rows) -> FloatArray:
        J = self.mean.dense(rows)
        return np.zeros_like(J) if self.floor else J

    def dense(self, rows: Rows) -> FloatArray:
        """(k, q, m + 1): q = p + p(p + 1)/2, each pair a <= b once."""
        Z, p = self._z(rows), len(self.s)
        a, b = np.triu_indices(p)
        out = np.zeros((len(Z), self.width, self.m + 1))
        out[:, :p] = self._location(rows)
        out[:, p:, :-1] = self.s[a, b, None] * (Z[:, a, None] * self.B[b] + Z[:, b, None] * self.B[a])
        out[:, p:, :-1][:, a == b] += (2 * (Z * self.pull) @ self.B)[:, None, :]
        out[:, p:][:, a == b] /= np.sqrt(2.0)
        return out

    @cached_property
    def plain(self) -> bool:
        """Whether s is 1 (p = 1) and c public: ½ tr NⱼNₖ is then |z|²BⱼᵀBₖ + (z·Bⱼ)(z·Bₖ)."""
        return bool((self.s == 1.0).all()) and not self.pull.any()

    def _information(self, rows: Rows, columns: Index, include_target: bool) -> FloatArray:
        """(k, m', m') I of each row, without the p(p + 1)/2 entries: Bᵀ(diag(s²z²) + diag(z) s² diag(z))B and κ."""
        J = self._location(rows)[:, :, self._picked(columns, include_target)]
        # A copy: numpy would use a rank update for the transpose of J, whose threads cost tens of times the small
        # product.
        I = J.transpose(0, 2, 1).copy() @ J
        Z, B, s2, k = self._z(rows), self.B[:, columns], self.s**2, len(columns)
        if self.plain:
            along = Z @ B
            I[:, :k, :k] += np.einsum("np,np->n", Z, Z)[:, None, None] * (B.T @ B)
            I[:, :k, :k] += along[:, :, None] * along[:, None, :]
            return np.asarray(I)
        Y = Z[:, :, None] * B
        extra = B.T @ ((Z * Z @ s2)[:, :, None] * B) + Y.transpose(0, 2, 1) @ (s2 @ Y)
        if self.pull.any():
            kappa, diagonal = 2 * (Z * self.pull) @ B, 2 * (Z * np.diag(self.s)) @ B
            cross = diagonal[:, :, None] * kappa[:, None, :]
            extra += 0.5 * (cross + cross.transpose(0, 2, 1)) + 0.5 * len(s2) * kappa[:, :, None] * kappa[:, None, :]
        I[:, :k, :k] += extra
        return np.asarray(I)

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,) √ of the largest eigenvalue of each row's information."""
        return self.norms_of(np.arange(self.n, dtype=np.intp), columns, include_target)

    def norms_of(self, rows: Index, columns: Index, include_target: bool) -> FloatArray:
        """(k,) of some rows."""
        if not len(columns):
            return self.target_norms()[rows] if include_target else np.zeros(len(rows))
        step = rows_per_block(len(self.s) * (self.m + 1), 8 << 20)
        out = np.empty(len(rows))
        for i in range(0, len(rows), step):
            part = slice(i, i + step)
            out[part] = np.linalg.eigvalsh(self._information(rows[part], columns, include_target))[:, -1]
        return np.sqrt(np.maximum(out, 0.0))

    def near(self, columns: Index) -> Near:
        """The mean's norms are a secular equation, and so is the covariance's part if p = 1; else it is bounded."""
        below, error = self._covariance_bounds(columns)
        return Near(None if self.floor else self.mean, np.zeros(self.n), below, error)

    def _covariance_bounds(self, columns: Index) -> tuple[FloatArray, FloatArray]:
        """(n,) √ of the largest ½ tr N² over unit moves of the unknowns, and how far that may be off."""
        Z, B = self._z(slice(None)), self.B[:, columns]
        lengths, turned = np.einsum("np,np->n", Z, Z), Z @ B
        if self.plain and len(columns):
            _, roots, turn = np.linalg.svd(B)
            D, zeros = np.zeros(len(columns)), np.zeros(len(columns))
            D[: len(roots)] = roots**2
            squares = largest_eigenvalues(
                D, turned @ turn.T, zeros, np.zeros(self.n), np.sqrt(lengths), np.ones(self.n)
            )
            return np.sqrt(squares), np.zeros(self.n)
        size = float(np.linalg.norm(B, 2)) if len(columns) else 0.0
        most = float(self.s.max()) * np.sqrt(lengths * size**2 + np.einsum("np,np->n", turned, turned))
        drift = np.sqrt(2.0 * len(self.s)) * np.linalg.norm((Z * self.pull) @ B, axis=1)
        return np.zeros(self.n), most + drift

    def _pair(self, first: Index, second: Index) -> FloatArray:
        """(b, m + 1, m + 1) information between the unknowns of one row and those of another, if `plain`."""
        out = self._location(first).transpose(0, 2, 1).copy() @ self._location(second)
        Z, others, m = self._z(first), self._z(second), self.m
        out[:, :m, :m] += np.einsum("np,np->n", Z, others)[:, None, None] * (self.B.T @ self.B)
        out[:, :m, :m] += (others @ self.B)[:, :, None] * (Z @ self.B)[:, None, :]
        return np.asarray(out)

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(g,) ||J|| of g groups of k rows each, rows (g, k); without the p(p + 1)/2 entries if `plain`."""
        k, width = rows.shape[1], self.m + 1
        if not self.plain or k * width > self.width:
            return super().norms_together(rows, columns, include_target, tied)
        pick = self._picked(columns, include_target)
        free = (np.arange(k)[:, None] * width + pick).ravel()
        # One unknown for all rows: its Jacobians add.
        T = np.zeros((k * width, len(free) + len(tied)))
        T[free, np.arange(len(free))] = 1.0
        for i in range(k):
            T[i * width + tied, len(free) + np.arange(len(tied))] = 1.0
        out, step = np.empty(len(rows)), rows_per_block((k * width) ** 2, 8 << 20)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            G = np.empty((len(part), k * width, k * width))
            for i in range(k):
                for j in range(k):
                    G[:, i * width : (i + 1) * width, j * width : (j + 1) * width] = self._pair(part[:, i], part[:, j])
            out[start : start + step] = np.linalg.eigvalsh(T.T @ G @ T)[:, -1]
        return np.sqrt(np.maximum(out, 0.0))

    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, k)."""
        out = np.empty((self.n, len(columns)))
        for rows in self._row_blocks():
            out[rows] = np.diagonal(self._information(rows, columns, False), axis1=1, axis2=2)
        return np.sqrt(np.maximum(out, 0.0))

    def target_norms(self) -> FloatArray:
        """(n,): a target is not in H, so only the mean depends on it."""
        return np.zeros(self.n) if self.floor else self.mean.target_norms()

    def column_norms(self) -> FloatArray:
        """(m,)."""
        self._refuse_long(self.n * self.m, matrices=self.m)
        return super().column_norms()

    def outer(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        self._refuse_long(len(np.arange(self.n)[rows]) * (len(columns) + len(tied)))
        return super().outer(rows, columns, include_target, tied)

    def outer_mask(self, mask: Mask) -> FloatArray:
        self._refuse_long(self.n * self.m)
        return super().outer_mask(mask)

    def _refuse_long(self, cells: int, matrices: int = 1) -> None:
        if cells * self.width**2 > WORK or matrices * self.width**2 > ENTRIES:
            raise CannotMeasure(
                f"{cells} cells together with a data-dependent shape of {len(self.s)} weights would take too long: "
                "measure one row at a time, or fewer rows together"
            )

    def _row_blocks(self) -> Iterable[slice]:
        step = rows_per_block(len(self.s) * (self.m + 1), 8 << 20)
        return (slice(i, min(i + step, self.n)) for i in range(0, self.n, step))
