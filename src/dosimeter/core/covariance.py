"""Gaussian noise with a covariance instead of a scale."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dosimeter.core.density import Array, Size, as_generator, as_jacobian
from dosimeter.core.errors import Refusal


@dataclass(frozen=True, eq=False, repr=False)
class CorrelatedGaussian:
    """Gaussian noise with a covariance, N(0, Σ), on p released values at once.

    Parameters
    ----------
    covariance : array (p, p)
        Σ, symmetric and positive definite, in the squared units of the released values.

    Attributes
    ----------
    covariance : array (p, p)
        Σ, read-only.
    cholesky : array (p, p)
        L, lower triangular with Σ = LLᵀ, read-only.

    Raises
    ------
    Refusal
        If Σ is not a finite symmetric matrix, or not positive definite to working precision: a direction without
        noise would be released exactly.

    Notes
    -----
    The Fisher information matrix of a release with Jacobian J is JᵀΣ⁻¹J, provided that Σ does not depend on the data.
    Two instances are equal if their covariances are equal bit for bit.

    Examples
    --------
    >>> CorrelatedGaussian([[4.0, 0.0], [0.0, 1.0]]).whiten([2.0, 2.0]).tolist()
    [1.0, 2.0]
    """

    covariance: Array
    cholesky: Array = field(init=False)

    regular: ClassVar[bool] = True
    log_concave: ClassVar[bool] = True

    def __init__(self, covariance: ArrayLike) -> None:
        Sigma, L = _positive_definite(covariance)
        for name, value in (("covariance", Sigma), ("cholesky", L)):
            value.flags.writeable = False
            object.__setattr__(self, name, value)

    @property
    def dimension(self) -> int:
        """p, the number of released values."""
        return int(self.covariance.shape[0])

    def whiten(self, J: ArrayLike) -> Array:
        """L⁻¹J, so that WᵀW = JᵀΣ⁻¹J. J is (p,) or (..., p, k); the result has the same shape."""
        from scipy.linalg import solve_triangular  # late: only correlated noise needs the import

        J = as_jacobian(J)
        p = self.dimension
        axis = 0 if J.ndim == 1 else J.ndim - 2
        if J.ndim == 0 or J.shape[axis] != p:
            raise Refusal(f"{self}.whiten: J must be ({p},) or (..., {p}, k), not {J.shape}")
        columns = np.moveaxis(J, axis, 0)
        W = solve_triangular(self.cholesky, columns.reshape(p, -1), lower=True, check_finite=False)
        return np.moveaxis(W.reshape(columns.shape), 0, axis)

    def draw(self, rng: np.random.Generator, size: Size = ()) -> Array:
        """Noise of shape (*size, p), for simulation only; releases are drawn by `noise_addition/`."""
        shape = (size,) if isinstance(size, int) else tuple(size)
        return np.asarray(as_generator(rng).standard_normal((*shape, self.dimension)) @ self.cholesky.T)

    def __reduce__(self) -> tuple[type[CorrelatedGaussian], tuple[Array]]:
        return CorrelatedGaussian, (self.covariance,)  # checked and made read-only again when unpickled

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CorrelatedGaussian):
            return NotImplemented
        return np.array_equal(self.covariance, other.covariance)

    def __hash__(self) -> int:
        return hash((self.dimension, self.covariance.tobytes()))

    def __repr__(self) -> str:
        p = self.dimension
        return f"CorrelatedGaussian(covariance {p} x {p}, trace={float(np.trace(self.covariance)):.6g})"


def _positive_definite(covariance: ArrayLike) -> tuple[Array, Array]:
    """A symmetric copy of the covariance and its lower Cholesky factor, both (p, p)."""
    Sigma = np.array(covariance, dtype=np.float64)
    if Sigma.ndim != 2 or Sigma.shape[0] != Sigma.shape[1] or Sigma.size == 0:
        raise Refusal(f"CorrelatedGaussian: the covariance must be (p, p), not {Sigma.shape}")
    if not np.isfinite(Sigma).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(Sigma))[0])
        raise Refusal(f"CorrelatedGaussian: the covariance has {Sigma[place]} at {place}")
    skew = np.abs(Sigma - Sigma.T)
    # 1e-10 accepts the rounding of an inverted Hessian and rejects a factor passed instead of its product.
    size = np.sqrt(np.abs(np.outer(np.diag(Sigma), np.diag(Sigma))))
    skew = np.where(size > 0, skew / np.where(size > 0, size, 1.0), np.where(skew > 0, np.inf, 0.0))
    if skew.max() > 1e-10:
        i, j = (int(k) for k in np.unravel_index(skew.argmax(), skew.shape))
        raise Refusal(f"CorrelatedGaussian: not symmetric, {Sigma[i, j]} at {(i, j)} but {Sigma[j, i]} at {(j, i)}")
    Sigma = (Sigma + Sigma.T) / 2 + 0.0  # no negative zeros: equal covariances have equal hashes
    refusal = (
        "CorrelatedGaussian: the covariance is not positive definite{}; a direction without noise is "
        "released exactly, so add variance to the diagonal"
    )
    try:
        L = np.asarray(np.linalg.cholesky(Sigma), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise Refusal(refusal.format("")) from None
    pivots = np.diag(L) ** 2 / np.diag(Sigma)
    # Beyond 1e12 the factor of a covariance in float64 has fewer than four digits in its weakest direction.
    if pivots.min() <= 1e-12:
        i = int(pivots.argmin())
        raise Refusal(refusal.format(f" to working precision (value {i} is determined by those before it)"))
    return Sigma, L
