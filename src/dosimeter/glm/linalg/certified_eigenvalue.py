"""Largest eigenvalues with a certificate, of matrices that are not decomposed: docs/explanation/softmax.md.

    M = [ A   F  ]      A (s, s) written out, F (s, k) written out, M₂₂ (k, k) only applied to vectors,
        [ Fᵀ  M₂₂]      0 ⪯ M₂₂ ⪯ β

By the Schur complement, μ > β is at least λ₁(M) if and only if A + F (μ - M₂₂)⁻¹ Fᵀ ⪯ μ. The inverse is between 1/μ and
1/(μ - β), so two small eigenvalue problems enclose λ₁. A vector x of the second space, once M₂₂x is known, moves into
the first; F shrinks with each of them like a Lanczos residual.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError, cholesky
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from dosimeter.core.arrays import FloatArray, Index, Mask

TOLERANCE = 1e-10
"""Largest relative width of an enclosure that counts as solved."""

NEAREST = 0.97
"""β over λ₁ from which on an enclosure converges too slowly to be worth its steps."""

DIRECT = 1200
"""Up to this size all eigenvalues of one matrix cost less than a search for the largest and its certificate."""

Apply = Callable[[Index, FloatArray], FloatArray]
"""(indices of some matrices (g,), one vector for each (g, k)) -> M₂₂ times the vectors (g, k)."""


def enclosed_eigenvalues(
    A: FloatArray, F: FloatArray, beta: FloatArray, apply: Apply | None, steps: int
) -> tuple[FloatArray, Mask]:
    """(g,) upper bounds of λ₁(M), and whether each is within a relative TOLERANCE of it.

    A (g, s, s), F (g, s, k), beta (g,) with 0 ⪯ M₂₂ ⪯ beta. `steps` vectors at most move into the first space.
    """
    values, solved = np.zeros(len(A)), np.zeros(len(A), dtype=bool)
    active = np.arange(len(A), dtype=np.intp)
    basis = np.empty((len(A), 0, F.shape[2]))
    lower = np.linalg.eigvalsh(A)[:, -1] if A.shape[1] else np.zeros(len(A))
    for step in range(steps + 1):
        # Without room between β and the lower bound nothing can be said; a matrix of zeros is solved as it is.
        zero = (lower <= 0.0) & (beta[active] == 0.0)
        solved[active[zero]] = True
        go = ~zero & (beta[active] < NEAREST * lower)
        active, A, F, basis, lower = active[go], A[go], F[go], basis[go], lower[go]
        if not len(active):
            break
        upper, lower, w = _enclose(A, F, beta[active], lower)
        values[active] = upper
        done = upper - lower <= TOLERANCE * upper
        solved[active[done]] = True
        go = ~done
        active, A, F, basis, lower, w = active[go], A[go], F[go], basis[go], lower[go], w[go]
        if step == steps or apply is None or not len(active):
            break
        A, F, basis = _extend(A, F, basis, w, lambda x, rows=active: apply(rows, x))  # type: ignore[misc]
    return values, solved


def _enclose(A: FloatArray, F: FloatArray, beta: FloatArray, lower: FloatArray) -> tuple[FloatArray, ...]:
    """Upper and lower bound (g,) and the vector (g, s) that attains the upper one.

    u(μ) = λ₁(A + FFᵀ/(μ - β)) falls with μ, so at any lower bound it is at least its own fixed point: an upper bound.
    In the same way λ₁(A + FFᵀ/μ) at an upper bound is a lower bound, and so is its Rayleigh quotient at any vector.
    """
    C = F @ F.transpose(0, 2, 1)
    near = 1.0 / (lower - beta)
    values, vectors = np.linalg.eigh(A + near[:, None, None] * C)
    upper, w = values[:, -1], vectors[:, :, -1]
    rest = np.einsum("gs,gst,gt->g", w, C, w)
    better = upper - rest * (near - 1.0 / upper)
    return upper, np.maximum(lower, better), w


def _extend(
    A: FloatArray, F: FloatArray, basis: FloatArray, w: FloatArray, apply: Callable[[FloatArray], FloatArray]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Move the direction wᵀF, which the upper bound depends on most, into the first space."""
    x = np.einsum("gs,gsk->gk", w, F)
    x -= np.einsum("gjk,gj->gk", basis, np.einsum("gjk,gk->gj", basis, x))
    length = np.linalg.norm(x, axis=1)
    x /= np.where(length > 0, length, 1.0)[:, None]
    image = apply(x)
    g, s = A.shape[:2]
    side = np.einsum("gsk,gk->gs", F, x)
    bigger = np.empty((g, s + 1, s + 1))
    bigger[:, :s, :s], bigger[:, :s, s], bigger[:, s, :s] = A, side, side
    bigger[:, s, s] = np.einsum("gk,gk->g", x, image)
    basis = np.concatenate([basis, x[:, None, :]], axis=1)
    image = image - np.einsum("gjk,gj->gk", basis, np.einsum("gjk,gk->gj", basis, image))
    F = np.concatenate([F - side[:, :, None] * x[:, None, :], image[:, None, :]], axis=1)
    return bigger, F, basis


def largest_eigenvalue(M: FloatArray) -> float:
    """λ₁ of one symmetric matrix (q, q) >= 0: Lanczos, certified by a Cholesky factor of λ₁(1 + TOLERANCE) - M."""
    q = len(M)
    if q > DIRECT:
        start = np.cos(1.0 + np.arange(q) ** 2 % 1013)
        try:
            value = float(eigsh(M, k=1, which="LA", v0=start, maxiter=60, return_eigenvectors=False)[0])
        except ArpackNoConvergence:
            value = 0.0
        if value > 0.0 and is_bound(M, value * (1.0 + TOLERANCE)):
            return value
    return max(0.0, float(np.linalg.eigvalsh(M)[-1]))


def upper_bound(M: FloatArray) -> float:
    """A number at least λ₁ of a symmetric matrix (q, q) >= 0, and at most a few hundredths above it."""
    q = len(M)
    if q <= DIRECT:
        return max(0.0, float(np.linalg.eigvalsh(M)[-1])) * (1.0 + q * np.finfo(float).eps)
    bound = 1.02 * norm_estimate(lambda X: M @ X, q)
    while bound > 0.0 and not is_bound(M, bound):
        bound *= 1.02
    return bound


def norm_estimate(apply: Callable[[FloatArray], FloatArray], q: int) -> float:
    """‖M‖₂ of a symmetric matrix (q, q) to a few percent, by ten steps of the power method; apply: X -> M X."""
    X = np.cos(np.outer(1.0 + np.arange(q), np.arange(1.0, 5.0)))
    for _ in range(10):
        X = apply(np.linalg.qr(X)[0])
    return float(np.linalg.norm(X, 2))


def is_bound(M: FloatArray, value: float) -> bool:
    """Whether value - M has a Cholesky factor: no eigenvalue of M is larger, up to rounding."""
    shifted = -M
    shifted[np.diag_indices(len(M))] += value
    try:
        cholesky(shifted.T, lower=True, overwrite_a=True, check_finite=False)  # .T: LAPACK's order, no copy
    except LinAlgError:
        return False
    return True
