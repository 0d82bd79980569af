"""Bounds from a Fisher information matrix: Cramér-Rao, [Hannun21] eq. 3 to 12, and the error of a guess with a prior.

All functions take the whitened Jacobian J (q, k) of the release about k unknowns; the information is I = JᵀJ.
If I is singular (its rank is at most q), no unbiased guess exists for a direction outside its range: the bound is
infinite. A pseudo-inverse would give a finite, wrong variance there and break eq. 12.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal

NULL = 1e-11
"""Singular values below this fraction of the largest count as zero."""


def unbiased_variance(J: FloatArray, direction: FloatArray) -> float:
    """Least variance of an unbiased guess of direction·z when all k values are unknown, eq. 5 and 11.

    >>> unbiased_variance(np.array([[1.0, 1.0]]), np.array([1.0, 0.0]))   # only the sum is released
    inf
    >>> round(unbiased_variance(np.array([[1.0, 1.0]]), np.array([1.0, 1.0])), 9)
    1.0
    """
    J, direction = np.atleast_2d(np.asarray(J, dtype=np.float64)), np.asarray(direction, dtype=np.float64)
    if not np.any(direction):
        raise Refusal("the direction is zero: there is nothing to guess")
    # Scale each column to norm one, so that the rank does not depend on the units of the columns.
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
    """Least variance for unknown j when the attacker knows all others: 1 / I_jj, the smaller side of eq. 12."""
    information = float(np.sum(np.asarray(J)[:, j] ** 2))
    return 1.0 / information if information > 0 else float("inf")


def biased_error(J: FloatArray, mean_jacobian: FloatArray, bias: FloatArray) -> float:
    """Least mean squared error of a guess with mean ψ(z), Jacobian J_ψ (k, k) and bias (k,), eq. 7 to 9.

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
    """Least root mean squared error of any guess, biased or not, under a normal prior on the unknown.

    1/√(η² + 1/τ²), van Trees [VanTrees68], with error and η² averaged over the prior of standard deviation τ. The bound
    is attained if the release is the unknown plus Gaussian noise.

    >>> [round(error_with_prior(eta), 3) for eta in (0.1, 1.0, 10.0)]
    [0.995, 0.707, 0.1]
    """
    return float(1.0 / np.hypot(eta, 1.0 / deviation)) if deviation > 0 else 0.0


def accuracy_of_two(eta: float) -> float:
    """Best accuracy of guessing between two equally likely values that are η noise deviations apart: Φ(η/2).

    Exact for Gaussian noise; η is the figure of the step from one value to the other.

    >>> [round(accuracy_of_two(eta), 2) for eta in (0.0, 1.0, 5.0)]
    [0.5, 0.69, 0.99]
    """
    return float(ndtr(eta / 2.0))


def dfil(J: FloatArray) -> float:
    """dFIL = √(tr I / k): an unbiased guess of all k unknowns has mean squared error per unknown >= 1/dFIL² [Guo22]."""
    J = np.atleast_2d(J)
    return float(np.sqrt(np.sum(J**2) / J.shape[1]))
