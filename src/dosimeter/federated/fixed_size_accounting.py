"""Privacy cost of exactly m of K clients: privacy loss distribution and Rényi divergence under replacement of one.

If the sample contains client i, replacing it moves the sum by up to 2C; otherwise nothing moves. With q = m/K and
μ = 2/z the hockey-stick divergence of one round at e^ε >= 1 is at most q·H_α(N(μ, 1) ‖ N(0, 1)) with
α = 1 + (e^ε - 1)/q, by advanced joint convexity [Balle18]; for e^ε < 1 it follows by symmetry. dp-accounting's
pessimistic connect-the-dots turns that curve into a distribution, which composes
(docs/explanation/federated.md, Fixed size).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure

_NEGLIGIBLE = 1e-18
_MOST_POINTS = 1 << 24


def hockey_stick(epsilon: FloatArray, q: float, z: float) -> FloatArray:
    """δ(ε) of one round, exact for the bound above; same shape as ε, of any sign.

    >>> hockey_stick(np.array([0.0]), 1.0, 2.0).round(6)           # q = 1: 2Φ(μ/2) - 1 with μ = 1
    array([0.382925])
    """
    eps = np.asarray(epsilon, dtype=np.float64)
    e = np.abs(eps)
    mu = 2.0 / z
    log_alpha = e + np.log1p(-(1 - q) * np.exp(-e)) - np.log(q)  # log(1 + (e^ε - 1)/q), no overflow
    above = q * (ndtr(mu / 2 - log_alpha / mu) - np.exp(log_alpha + log_ndtr(-mu / 2 - log_alpha / mu)))
    above = np.clip(above, 0.0, 1.0)
    return np.asarray(np.where(eps >= 0, above, -np.expm1(-e) + np.exp(-e) * above))


def loss_distribution(q: float, z: float, grid: float) -> Any:
    """dp-accounting's `PrivacyLossDistribution` of one round, pessimistic on the grid."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld

    top = _grid_steps(q, z, grid)
    points = np.arange(-top, top + 1)
    deltas = np.minimum.accumulate(hockey_stick(np.asarray(points * grid, dtype=np.float64), q, z))
    return pld.PrivacyLossDistribution(pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(grid, -top, top, deltas))


def _grid_steps(q: float, z: float, grid: float) -> int:
    """Number of grid steps beyond which δ is below 1e-18."""
    top = 1
    while hockey_stick(np.array([top * grid]), q, z)[0] > _NEGLIGIBLE:
        top *= 2
        if top > _MOST_POINTS:
            raise CannotMeasure(f"z={z:g} is too small for a finite ε with samples of fixed size: increase the noise")
    return top


def renyi_event(clients: int, m: int, z: float) -> Any:
    """dp-accounting's event of one round for its RDP accountant under REPLACE_ONE, with the multiplier it expects."""
    from dp_accounting import GaussianDpEvent, SampledWithoutReplacementDpEvent

    return SampledWithoutReplacementDpEvent(clients, m, GaussianDpEvent(z * multiplier_factor()))


@lru_cache(maxsize=1)
def multiplier_factor() -> float:
    """Factor that dp-accounting's RDP accountant needs on z = σ/C under REPLACE_ONE: ½ in 0.6, 1 once that is fixed.

    `GaussianDpEvent` is documented as σ/C, and replacing a client moves a sum by 2C; version 0.6 assumes it moves by
    C. The factor is measured at q = 1, where the divergence is α(2/z)²/2, so that a fixed version is not corrected too.
    """
    from dp_accounting import GaussianDpEvent, NeighboringRelation, SampledWithoutReplacementDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant([2.0], NeighboringRelation.REPLACE_ONE)
    accountant.compose(SampledWithoutReplacementDpEvent(1, 1, GaussianDpEvent(1.0)))
    reported, truth = float(accountant.rdp[0]), 2.0 * 2.0**2 / 2
    factor = np.sqrt(reported / truth)
    if not np.isclose(factor, 0.5) and not np.isclose(factor, 1.0):
        raise CannotMeasure(
            f"dp-accounting gives a Rényi divergence of {reported:g} for a plain Gaussian where {truth:g} is right: "
            "install version 0.6"
        )
    return 0.5 if factor < 0.75 else 1.0
