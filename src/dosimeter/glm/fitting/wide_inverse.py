"""f ↦ H⁻¹f of a table by one matrix that is decomposed: (p, p) on the primal route, (n, n) on the dual one.

Dual: with G = diag(√ωa) X and C = nλ + G Gᵀ (n, n), (GᵀG + nλ)⁻¹ = (1 − GᵀC⁻¹G)/nλ. An unpenalised intercept borders
it: with e = √ωa and q = C⁻¹e its pivot is nλ e·q, which has no difference in it. Derivation: docs/explanation/wide.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.glm.fitting.wide_newton import WideProblem
from dosimeter.glm.linalg.certified_eigenvalue import DIRECT, norm_estimate
from dosimeter.glm.linalg.inverse_hessian import EASY, Factor
from dosimeter.glm.linalg.sparse_table import Table, weighted_gram


@dataclass(frozen=True, eq=False)
class PrimalInverse:
    """H = norms R norms with a unit diagonal in R = L Lᵀ, all (p, p)."""

    norms: FloatArray
    triangle: FloatArray

    @classmethod
    def of(cls, problem: WideProblem, weight: FloatArray) -> PrimalInverse:
        """At ω times the curvature (n,)."""
        norms, scaled = _scaled_hessian(problem, weight)
        try:
            return cls(norms, cholesky(scaled, lower=True, overwrite_a=True))
        except np.linalg.LinAlgError:
            raise Refusal(_DEPENDENT) from None

    def solve(self, f: FloatArray) -> FloatArray:
        """H⁻¹f, (p,) or (p, k)."""
        scale = self.norms if f.ndim == 1 else self.norms[:, None]
        return np.asarray(cho_solve((self.triangle, True), f / scale) / scale)

    def factor(self, problem: WideProblem, weight: FloatArray) -> Factor:
        """The factor of `linalg/inverse_hessian.py`; the Hessian was formed, so condition numbers are limited."""
        condition = self._condition(_scaled_hessian(problem, weight)[1])
        if condition > EASY:
            raise Refusal(_DEPENDENT)
        p = len(self.norms)
        mixing = solve_triangular(self.triangle, np.eye(p), lower=True, overwrite_b=True).T
        return Factor(np.diag(1.0 / self.norms), np.ascontiguousarray(mixing), condition)

    def _condition(self, scaled: FloatArray) -> float:
        """√(λ₁/λₚ) of R; of a large one an estimate that is at most a few hundredths too low, so a tenth is added."""
        if len(scaled) <= DIRECT:
            eigenvalues = np.linalg.eigvalsh(scaled)
            return float(np.sqrt(eigenvalues[-1] / eigenvalues[0])) if eigenvalues[0] > 0 else np.inf
        largest = norm_estimate(lambda X: scaled @ X, len(scaled))
        inverse = norm_estimate(lambda X: np.asarray(cho_solve((self.triangle, True), X)), len(scaled))
        return 1.1 * float(np.sqrt(largest * inverse))


_DEPENDENT = (
    "the columns of this sparse table are linearly dependent, or nearly: use l2 > 0, drop columns, or pass a dense "
    "array, whose columns may be closer to dependent"
)


def _scaled_hessian(problem: WideProblem, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Roots of the diagonal of H (p,), and H divided by them from both sides (p, p)."""
    d = problem.d
    H = np.zeros((problem.p, problem.p))
    H[:d, :d] = weighted_gram(problem.X, weight)
    H[np.arange(d), np.arange(d)] += problem.ridge
    if problem.intercept:
        H[:d, d] = H[d, :d] = problem.X.T @ weight
        H[d, d] = weight.sum()
    norms = np.sqrt(H.diagonal())
    if not (norms > 0).all():
        j = int(np.flatnonzero(~(norms > 0))[0])
        raise Refusal(f"column {j} is zero in every row, so its weight is not determined: drop it or use l2 > 0")
    H /= norms
    H /= norms[:, None]
    return norms, H


@dataclass(frozen=True, eq=False)
class DualInverse:
    """H⁻¹ through C = nλ + diag(e) X Xᵀ diag(e), (n, n), e = √(ω curvature)."""

    X: Table
    ridge: float
    intercept: bool
    e: FloatArray
    triangle: Any
    q: FloatArray
    """(n,) C⁻¹e."""

    @classmethod
    def of(cls, problem: WideProblem, gram: FloatArray, weight: FloatArray) -> DualInverse:
        """At ω times the curvature (n,); gram is X Xᵀ (n, n)."""
        e = np.sqrt(weight)
        C = gram * e
        C *= e[:, None]
        C[np.diag_indices(len(C))] += problem.ridge
        try:
            triangle = cho_factor(C, lower=True, overwrite_a=True)
        except np.linalg.LinAlgError:
            raise Refusal("the penalty is lost in the rounding of this table: rescale it or use a larger l2") from None
        return cls(problem.X, problem.ridge, problem.intercept, e, triangle, np.asarray(cho_solve(triangle, e)))

    def solve(self, f: FloatArray) -> FloatArray:
        """H⁻¹f, (p,) or (p, k)."""
        columns = f.reshape(len(f), -1)
        d = self.X.shape[1]
        e = self.e[:, None]
        image = e * (self.X @ columns[:d])
        out = np.empty_like(columns)
        out[:d] = (columns[:d] - self.X.T @ (e * cho_solve(self.triangle, image))) / self.ridge
        if self.intercept:
            constant = (columns[d] - self.q @ image) / (self.ridge * float(self.e @ self.q))
            out[:d] -= np.outer(self.X.T @ (self.e * self.q), constant)
            out[d] = constant
        return out.reshape(f.shape)
