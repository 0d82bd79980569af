"""What linear functions A w' of noised weights w' leak, instead of the weights themselves (Gaussian noise)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Gaussian
from dosimeter.glm.jacobians.scalar_jacobian import ScalarJacobian


def map_jacobian(jacobian: Any, noise: Any, A: Any) -> tuple[ScalarJacobian, int]:
    """The Jacobian of A w', whitened by (AΣAᵀ)⁺, and the number of functions; noise: None for an exact release."""
    if not isinstance(jacobian, ScalarJacobian) or noise is None:
        raise CannotMeasure("post-processing can be measured for one noised release with a single margin only")
    A = np.atleast_2d(np.asarray(A, dtype=np.float64))
    p = len(jacobian.P)
    if A.shape[1] != p or not np.isfinite(A).all():
        raise Refusal(f"A needs {p} finite columns, one for each released weight, not shape {A.shape}")
    if type(noise) is Gaussian:
        root = noise.sigma * np.eye(p)
    elif type(noise) is CorrelatedGaussian:
        root = noise.cholesky
    else:
        raise CannotMeasure(f"a linear image of {noise} has no closed form; the leakage of w' bounds it")
    size = np.linalg.norm(A @ root, axis=1)
    if not size.any():
        raise Refusal("A is zero, so nothing would be released")
    # Scale each function to unit noise: scaling a function does not change what it reveals.
    A = A[size > 0] / size[size > 0, None]
    U, s, _ = np.linalg.svd(A @ root, full_matrices=False)
    keep = s > 1e-13 * s[0]
    if (s[keep] < 1e-8 * s[0]).any():
        raise Refusal("the functions in A are nearly dependent, and float64 cannot count them: drop one")
    F = (U[:, keep] / s[keep]).T @ A @ jacobian.factor.matrix
    return replace(jacobian, F=F), len(A)
