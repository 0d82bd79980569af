"""What a Fisher information matrix forbids: [Hannun21] eq. 3 to 12, and what it leaves an attacker with a prior.

All functions take the whitened Jacobian J (q, k) of the release about k unknowns; the information is I = JᵀJ.
Where I is singular (it has rank <= q) a direction outside its range admits no unbiased guess at all: the bound is
infinite. A pseudo-inverse would claim a finite, wrong variance there and break eq. 12.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal

NULL = 1e-11
"""Singular values below this share of the largest count as zero."""


def unbiased_variance(J: FloatArray, direction: FloatArray) -> float:
    """The least variance of an unbiased guess of direction·z when all k unknowns are unknown together, eq. 5 and 11.

    >>> unbiased_variance(np.array([[1.0, 1.0]]), np.array([1.0, 0.0]))   # only the sum was seen
    inf
    >>> round(unbiased_variance(np.array([[1.0, 1.0]]), np.array([1.0, 1.0])), 9)
    1.0
    """
    J, direction = np.atleast_2d(np.asarray(J, dtype=np.float64)), np.asarray(direction, dtype=np.float64)
    if not np.any(direction):
        raise Refusal("the direction is zero: there is nothing to guess")
    # Columns of unlike units: in units in which each moves the release by one, the rank does not depend on them.
    size = np.linalg.norm(J, axis=0)
    if np.any(direction[size == 0]):
        return float("inf")
    J, direction = J[:, size > 0] / size[size > 0], direction[size > 0] / size[size > 0]
    _, s, Vt = np.linalg.svd(J, full_matrices=True)
    rank = int((s > NULL * s[0]).sum())
    inside, outside = Vt[:rank] @ direction, Vt[rank:] @ direction
    if np.linalg.norm(outside) > np.sqrt(NULL) * np.linalg.norm(direction):
        return float("inf")
    return float(np.sum((inside / s[:rank]) ** 2))


def known_rest_variance(J: FloatArray, j: int) -> float:
    """The least variance for unknown j when the attacker knows all the others: 1 / I_jj, the smaller side of eq. 12."""
    information = float(np.sum(np.asarray(J)[:, j] ** 2))
    return 1.0 / information if information > 0 else float("inf")


def biased_error(J: FloatArray, mean_jacobian: FloatArray, bias: FloatArray) -> float:
    """Least mean squared error of a guess whose mean ψ(z) has Jacobian J_ψ (k, k) and bias (k,), eq. 7 to 9.

    E||ẑ - z||² >= tr(J_ψ I⁻¹ J_ψᵀ) + ||bias||². The paper prints eq. 9 without the trace.

    >>> J = np.diag([1.0, 2.0])
    >>> biased_error(J, np.eye(2), np.zeros(2))
    1.25
    >>> biased_error(J, np.zeros((2, 2)), np.array([3.0, 4.0]))     # a constant guess
    25.0
    """
    rows = np.atleast_2d(np.asarray(mean_jacobian, dtype=np.float64))
    variances = (unbiased_variance(J, row) for row in rows if np.any(row))
    return float(sum(variances) + np.sum(np.asarray(bias) ** 2))


def error_with_prior(eta: float, deviation: float = 1.0) -> float:
    """Least root mean squared error of any guess, biased or not, where the unknown is normal beforehand.

    1/√(η² + 1/τ²), van Trees [VanTrees68], error and η² averaged over the prior of standard deviation τ. Attained where
    the release is the unknown plus Gaussian noise.

    >>> [round(error_with_prior(eta), 3) for eta in (0.1, 1.0, 10.0)]
    [0.995, 0.707, 0.1]
    """
    return float(1.0 / np.hypot(eta, 1.0 / deviation)) if deviation > 0 else 0.0


def accuracy_of_two(eta: float) -> float:
    """Share of right guesses of one of two equally likely values that are η apart in deviations of the noise: Φ(η/2).

    The best there is for Gaussian noise; η is that of the step from one value to the other.

    >>> [round(accuracy_of_two(eta), 2) for eta in (0.0, 1.0, 5.0)]
    [0.5, 0.69, 0.99]
    """
    return float(ndtr(eta / 2.0))


def dfil(J: FloatArray) -> float:
    """dFIL = √(tr I / k): an unbiased guess of all k unknowns has mean squared error per unknown >= 1/dFIL² [Guo22]."""
    J = np.atleast_2d(J)
    return float(np.sqrt(np.sum(J**2) / J.shape[1]))
