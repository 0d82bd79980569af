"""The price of a noisy second moment: what noise of given scales costs, whichever formula the scales came from."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dosimeter.core.noise import Gaussian
from dosimeter.core.notion import FloatArray
from dosimeter.pca.mechanisms import Mechanism
from dosimeter.pca.scales import check_budget, gaussian_epsilon, laplace_epsilon
from dosimeter.pca.sensitivity import REPLACE, Sensitivity

_LEVELS = 32
"""Different ratios of sensitivity to scale that are told apart; more are rounded up to a ladder of as many rungs."""


def cost(mechanism: Mechanism, scales: FloatArray, moved: Sensitivity, N: int, delta: float) -> float:
    """ε at δ, an upper bound, of noise of these scales (d, d) on A = Σ zzᵀ / N; infinite where an entry has none.

    >>> from dosimeter.pca.clipping import Bounds
    >>> from dosimeter.pca.mechanisms import AnalyzeGauss, true_sensitivity
    >>> box, told = Bounds(row_norm=1.0).over(4), AnalyzeGauss(0.9, 1e-3)
    >>> round(cost(told, told.scales(box, 100), true_sensitivity(told, box, 100), 100, 1e-3), 3)
    0.845
    """
    check_budget(1.0, delta)
    if mechanism.law is Gaussian:
        if moved.l2 == 0:
            return 0.0  # no column can vary: all tables within the bounds are one
        return math.inf if delta == 0 else gaussian_epsilon(float(scales.min()) * N / moved.l2, delta)
    ratios = _ratios(scales, moved, N)
    if not ratios:
        return 0.0
    if max(ratios) == math.inf:
        return math.inf
    entry_by_entry = laplace_epsilon(ratios, delta)
    return min(entry_by_entry, laplace_epsilon({_joint(scales, moved, N): 1}, delta))


def event(mechanism: Mechanism, scales: FloatArray, moved: Sensitivity, N: int) -> Any:
    """The same as an event of dp-accounting, where a multiplier is the scale over what one row contributes.

    A replaced row is one less and one more, so a multiplier of m then stands for a move of 2/m scales.
    """
    from dp_accounting import dp_event  # late: a second of import

    rows = 2.0 if moved.neighbours == REPLACE else 1.0
    if mechanism.law is Gaussian:
        if moved.l2 == 0:
            return dp_event.NoOpDpEvent()
        return dp_event.GaussianDpEvent(rows * float(scales.min()) * N / moved.l2)
    ratios = _ratios(scales, moved, N)
    if not ratios:
        return dp_event.NoOpDpEvent()
    if max(ratios) == math.inf:
        return dp_event.NonPrivateDpEvent()
    joint, delta = _joint(scales, moved, N), mechanism.budget_delta
    # Where they are equal the entries one by one: the same guarantee at δ = 0 and a better one above it.
    if laplace_epsilon({joint: 1}, delta) < 0.999 * laplace_epsilon(ratios, delta):
        return dp_event.LaplaceDpEvent(rows / joint)
    groups = [dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(rows / r), k) for r, k in ratios.items()]
    return groups[0] if len(groups) == 1 else dp_event.ComposedDpEvent(groups)


def _joint(scales: FloatArray, moved: Sensitivity, N: int) -> float:
    """Δ₁ over the least scale: what all entries together cost at most, as one query."""
    least = float(scales[scales > 0].min())
    return moved.l1 / (N * least)


def _ratios(scales: FloatArray, moved: Sensitivity, N: int) -> dict[float, int]:
    """{r: how many entries}, r their sensitivity over their scale, rounded up to at most 32 values."""
    lower = np.tril_indices(len(scales))
    change, width = moved.entries[lower] / N, scales[lower]
    varies = change > 0
    if (width[varies] == 0).any():
        return {math.inf: 1}
    if not varies.any():
        return {}
    # Ratios that differ by rounding alone are one, the larger: up to twelve digits of log r.
    r = np.exp(np.ceil(np.log(change[varies] / width[varies]) * 1e12) / 1e12)
    values = np.unique(r)
    rungs = values if len(values) <= _LEVELS else np.geomspace(values[0], values[-1], _LEVELS)
    rungs[-1] = values[-1]
    place = np.searchsorted(rungs, r)
    return {float(rungs[i]): int(k) for i, k in zip(*np.unique(place, return_counts=True), strict=True)}
