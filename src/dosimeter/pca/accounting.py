"""The privacy cost of a noisy second moment: ε of noise of given scales, whatever formula they came from."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.by_law import ByLaw
from dosimeter.core.noise import Gaussian, Laplace
from dosimeter.pca.calibration import check_budget, gaussian_epsilon, laplace_epsilon
from dosimeter.pca.mechanism import Mechanism
from dosimeter.pca.sensitivity import REPLACE, Sensitivity

_LEVELS = 32
"""Number of distinct ratios of sensitivity to scale; more are rounded up to a ladder of this many rungs."""


def cost(
    mechanism: Mechanism, scales: FloatArray, moves: Sensitivity, N: int, delta: float, mean_scale: float = 0.0
) -> float:
    """ε at δ, an upper bound, of noise of these scales (d, d) on A = Σ zzᵀ / N; infinite if an entry has none.

    mean_scale: of the noise on each entry of the mean, if it is released from the same rows; else 0.

    >>> from dosimeter.pca.bounds import Bounds
    >>> from dosimeter.pca.mechanism import true_sensitivity
    >>> from dosimeter.pca.published_mechanisms import AnalyzeGauss
    >>> box, mechanism = Bounds(row_norm=1.0).over(4), AnalyzeGauss(0.9, 1e-3)
    >>> round(cost(mechanism, mechanism.scales(box, 100), true_sensitivity(mechanism, box, 100), 100, 1e-3), 3)
    0.845
    """
    check_budget(1.0, delta)
    return _ACCOUNTING[mechanism.law].cost(_NoiseScales(scales, mean_scale, moves, N), delta)


def event(mechanism: Mechanism, scales: FloatArray, moves: Sensitivity, N: int, mean_scale: float = 0.0) -> Any:
    """The same as an event of dp-accounting, where a multiplier is the scale over one row's contribution.

    A replaced row is one removed and one added, so a multiplier of m then means a move of 2/m scales. A mean from the
    same rows is composed with the second moment.
    """
    from dp_accounting import dp_event  # imported late: it takes a second

    parts = _ACCOUNTING[mechanism.law].events(_NoiseScales(scales, mean_scale, moves, N), mechanism.budget_delta)
    if not parts:
        return dp_event.NoOpDpEvent()
    return parts[0] if len(parts) == 1 else dp_event.ComposedDpEvent(parts)


@dataclass(frozen=True, eq=False)
class _NoiseScales:
    """The noise on a release, and the sensitivity it must hide."""

    scales: FloatArray
    mean_scale: float
    moved: Sensitivity
    N: int

    @property
    def units(self) -> float:
        """Rows' contributions that a replaced row moves in dp-accounting's convention."""
        return 2.0 if self.moved.neighbours == REPLACE else 1.0

    @property
    def gaussian(self) -> list[float]:
        """Sensitivity over deviation, of the second moment and of the mean, without those that cannot move."""
        pairs = [(self.moved.l2, float(self.scales.min()))]
        if self.mean_scale > 0:
            pairs.append((self.moved.mean_l2, self.mean_scale))
        return [math.inf if width == 0 else size / (self.N * width) for size, width in pairs if size > 0]

    @property
    def laplace_mean(self) -> dict[float, int]:
        """{r: 1} of the mean as one query, or nothing."""
        size = self.moved.mean_l1
        return {size / (self.N * self.mean_scale): 1} if self.mean_scale > 0 and size > 0 else {}


def _gaussian_cost(noise: _NoiseScales, delta: float) -> float:
    moves = noise.gaussian
    if not moves:
        return 0.0  # no column can vary: all tables within the bounds are the same
    if delta == 0 or max(moves) == math.inf:
        return math.inf
    return gaussian_epsilon(1 / math.hypot(*moves), delta)


def _gaussian_events(noise: _NoiseScales, delta: float) -> list[Any]:
    from dp_accounting import dp_event

    if math.inf in noise.gaussian:
        return [dp_event.NonPrivateDpEvent()]
    return [dp_event.GaussianDpEvent(noise.units / move) for move in noise.gaussian]


def _laplace_cost(noise: _NoiseScales, delta: float) -> float:
    ratios = _ratios(noise.scales, noise.moved, noise.N)
    mean = noise.laplace_mean
    if max(ratios, default=0.0) == math.inf:
        return math.inf
    if not ratios:
        return laplace_epsilon(mean, delta)
    joint = _one_query(noise)
    # Two bounds of each: all losses composed, and the mean's largest loss added to the others at the same δ.
    return min(
        min(laplace_epsilon(_add_counts(entries, mean), delta), laplace_epsilon(entries, delta) + sum(mean))
        for entries in (ratios, joint)
    )


def _laplace_events(noise: _NoiseScales, delta: float) -> list[Any]:
    from dp_accounting import dp_event

    ratios = _ratios(noise.scales, noise.moved, noise.N)
    if max(ratios, default=0.0) == math.inf:
        return [dp_event.NonPrivateDpEvent()]
    groups: list[Any] = []
    if ratios:
        joint = _one_query(noise)
        # If they are equal, use one query per entry: the same guarantee at δ = 0 and a better one above it.
        if laplace_epsilon(joint, delta) < 0.999 * laplace_epsilon(ratios, delta):
            groups = [dp_event.LaplaceDpEvent(noise.units / r) for r in joint]
        else:
            groups = [
                dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(noise.units / r), k) for r, k in ratios.items()
            ]
    return [*groups, *(dp_event.LaplaceDpEvent(noise.units / r) for r in noise.laplace_mean)]


def _add_counts(some: dict[float, int], others: dict[float, int]) -> dict[float, int]:
    return {r: some.get(r, 0) + others.get(r, 0) for r in {**some, **others}}


@dataclass(frozen=True)
class _Accounting:
    """How noise of one law is accounted."""

    cost: Callable[[_NoiseScales, float], float]
    events: Callable[[_NoiseScales, float], list[Any]]


_ACCOUNTING: ByLaw[_Accounting] = ByLaw(
    "noise on a second moment is not accounted here",
    {Gaussian: _Accounting(_gaussian_cost, _gaussian_events), Laplace: _Accounting(_laplace_cost, _laplace_events)},
)


def _one_query(noise: _NoiseScales) -> dict[float, int]:
    return {_joint(noise.scales, noise.moved, noise.N): 1}


def _joint(scales: FloatArray, moves: Sensitivity, N: int) -> float:
    """Δ₁ over the smallest scale: the most that all entries together cost, as one query."""
    smallest = float(scales[scales > 0].min())
    return moves.l1 / (N * smallest)


def _ratios(scales: FloatArray, moves: Sensitivity, N: int) -> dict[float, int]:
    """{r: number of entries}, r their sensitivity over their scale, rounded up to at most 32 values."""
    lower = np.tril_indices(len(scales))
    change, width = moves.entries[lower] / N, scales[lower]
    varies = change > 0
    if (width[varies] == 0).any():
        return {math.inf: 1}
    if not varies.any():
        return {}
    # Ratios that differ only by rounding become one, the larger: up to twelve digits of log r.
    r = np.exp(np.ceil(np.log(change[varies] / width[varies]) * 1e12) / 1e12)
    values = np.unique(r)
    rungs = values if len(values) <= _LEVELS else np.geomspace(values[0], values[-1], _LEVELS)
    rungs[-1] = values[-1]
    rung_index = np.searchsorted(rungs, r)
    return {float(rungs[i]): int(k) for i, k in zip(*np.unique(rung_index, return_counts=True), strict=True)}
