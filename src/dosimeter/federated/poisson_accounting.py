"""Privacy loss distribution of one round with Poisson sampling, whole grids at a time.

A round with client i is (1 - q)·N(0, 1) + q·N(μ, 1), without it N(0, 1), with μ = 1/z. The part of one that exceeds e^ε
times the other is a multiple of the same part for two Gaussians, so both hockey-stick divergences have a closed form.
dp-accounting's `from_gaussian_mechanism` inverts the privacy loss point by point in Python, which took most of the time
of a plan. The range of the grid and the pessimistic connect-the-dots are its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr

from dosimeter.core.arrays import FloatArray


def loss_distribution(q: float, z: float, grid: float) -> Any:
    """dp-accounting's `PrivacyLossDistribution` of one round, pessimistic on the grid."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

    if q == 1:
        return pld.from_gaussian_mechanism(z, value_discretization_interval=grid)

    def masses(adjacency: Any, divergence: Any) -> Any:
        bounds = GaussianPrivacyLoss(z, sampling_prob=q, adjacency_type=adjacency).connect_dots_bounds()
        low, high = math.floor(bounds.epsilon_lower / grid), math.ceil(bounds.epsilon_upper / grid)
        deltas = np.minimum.accumulate(divergence(np.arange(low, high + 1) * grid, q, z))
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(grid, low, high, deltas)

    return pld.PrivacyLossDistribution(masses(AdjacencyType.REMOVE, with_client), masses(AdjacencyType.ADD, without))


def with_client(epsilon: FloatArray, q: float, z: float) -> FloatArray:
    """δ(ε) of the round with the client against the one without; same shape as ε, of any sign.

    >>> with_client(np.array([-2.0, 0.0]), 0.5, 1.0).round(6)           # 1 - e^-2; half of 2Φ(1/2) - 1
    array([0.864665, 0.191462])
    """
    eps = np.asarray(epsilon, dtype=np.float64)
    mixed = eps > math.log1p(-q)
    delta = -np.expm1(eps)
    e = eps[mixed]
    delta[mixed] = q * _gaussian(e + np.log1p(-(1 - q) * np.exp(-e)) - math.log(q), z)
    return np.clip(delta, 0.0, 1.0)


def without(epsilon: FloatArray, q: float, z: float) -> FloatArray:
    """δ(ε) of the round without the client against the one with it; same shape as ε, of any sign.

    >>> without(np.array([0.0, 0.7]), 0.5, 1.0).round(6)                # no loss above -log(1 - q) = 0.693
    array([0.191462, 0.      ])
    """
    eps = np.asarray(epsilon, dtype=np.float64)
    mixed = eps < -math.log1p(-q)
    delta = np.zeros_like(eps)
    e = eps[mixed]
    log_rest = np.log1p(-(1 - q) * np.exp(e))  # of 1 - e^ε(1 - q), which is positive here
    delta[mixed] = np.exp(log_rest) * _gaussian(e + math.log(q) - log_rest, z)
    return np.clip(delta, 0.0, 1.0)


def _gaussian(log_alpha: FloatArray, z: float) -> FloatArray:
    """The hockey-stick divergence of N(1/z, 1) from N(0, 1) at α."""
    mu = 1.0 / z
    beyond = np.exp(log_alpha + log_ndtr(-mu / 2 - log_alpha / mu))
    return np.asarray(ndtr(mu / 2 - log_alpha / mu) - beyond)
