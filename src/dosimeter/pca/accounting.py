"""The price of a noisy second moment: what noise of given scales costs, whichever formula the scales came from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Gaussian, Laplace
from dosimeter.pca.calibration import check_budget, gaussian_epsilon, laplace_epsilon
from dosimeter.pca.mechanisms import Mechanism
from dosimeter.pca.sensitivity import REPLACE, Sensitivity

_LEVELS = 32
"""Different ratios of sensitivity to scale that are told apart; more are rounded up to a ladder of as many rungs."""


def cost(
    mechanism: Mechanism, scales: FloatArray, moved: Sensitivity, N: int, delta: float, mean_scale: float = 0.0
) -> float:
    """ε at δ, an upper bound, of noise of these scales (d, d) on A = Σ zzᵀ / N; infinite where an entry has none.

    mean_scale: of the noise on each entry of the mean, where it is released from the same rows; 0 where it is not.

    >>> from dosimeter.pca.bounds import Bounds
    >>> from dosimeter.pca.mechanisms import AnalyzeGauss, true_sensitivity
    >>> box, told = Bounds(row_norm=1.0).over(4), AnalyzeGauss(0.9, 1e-3)
    >>> round(cost(told, told.scales(box, 100), true_sensitivity(told, box, 100), 100, 1e-3), 3)
    0.845
    """
    check_budget(1.0, delta)
    price = {Gaussian: _gaussian_cost, Laplace: _laplace_cost}.get(mechanism.law)
    if price is None:
        raise _no_price(mechanism)
    return price(_Widths(scales, mean_scale, moved, N), delta)


def event(mechanism: Mechanism, scales: FloatArray, moved: Sensitivity, N: int, mean_scale: float = 0.0) -> Any:
    """The same as an event of dp-accounting, where a multiplier is the scale over what one row contributes.

    A replaced row is one less and one more, so a multiplier of m then stands for a move of 2/m scales. A mean from the
    same rows is composed with the second moment.
    """
    from dp_accounting import dp_event  # late: a second of import

    parts_of = {Gaussian: _gaussian_events, Laplace: _laplace_events}.get(mechanism.law)
    if parts_of is None:
        raise _no_price(mechanism)
    parts = parts_of(_Widths(scales, mean_scale, moved, N), mechanism.budget_delta)
    if not parts:
        return dp_event.NoOpDpEvent()
    return parts[0] if len(parts) == 1 else dp_event.ComposedDpEvent(parts)


@dataclass(frozen=True, eq=False)
class _Widths:
    """The noise on a release, and what it has to hide."""

    scales: FloatArray
    mean_scale: float
    moved: Sensitivity
    N: int

    @property
    def units(self) -> float:
        """Moves of one row that a replaced one makes in dp-accounting's convention."""
        return 2.0 if self.moved.neighbours == REPLACE else 1.0

    @property
    def gaussian(self) -> list[float]:
        """Sensitivity over deviation, of the second moment and of the mean; what cannot move is left out."""
        told = [(self.moved.l2, float(self.scales.min()))]
        if self.mean_scale > 0:
            told.append((self.moved.mean_l2, self.mean_scale))
        return [math.inf if width == 0 else size / (self.N * width) for size, width in told if size > 0]

    @property
    def laplace_mean(self) -> dict[float, int]:
        """{r: 1} of the mean as one query, or nothing."""
        size = self.moved.mean_l1
        return {size / (self.N * self.mean_scale): 1} if self.mean_scale > 0 and size > 0 else {}


def _gaussian_cost(told: _Widths, delta: float) -> float:
    moves = told.gaussian
    if not moves:
        return 0.0  # no column can vary: all tables within the bounds are one
    if delta == 0 or max(moves) == math.inf:
        return math.inf
    return gaussian_epsilon(1 / math.hypot(*moves), delta)


def _gaussian_events(told: _Widths, delta: float) -> list[Any]:
    from dp_accounting import dp_event

    if math.inf in told.gaussian:
        return [dp_event.NonPrivateDpEvent()]
    return [dp_event.GaussianDpEvent(told.units / move) for move in told.gaussian]


def _laplace_cost(told: _Widths, delta: float) -> float:
    ratios = _ratios(told.scales, told.moved, told.N)
    mean = told.laplace_mean
    if max(ratios, default=0.0) == math.inf:
        return math.inf
    if not ratios:
        return laplace_epsilon(mean, delta)
    one = _one_query(told)
    # Two bounds of each: all losses composed, and the mean's largest loss on top of the others at the same δ.
    return min(
        min(laplace_epsilon(_together(each, mean), delta), laplace_epsilon(each, delta) + sum(mean))
        for each in (ratios, one)
    )


def _laplace_events(told: _Widths, delta: float) -> list[Any]:
    from dp_accounting import dp_event

    ratios = _ratios(told.scales, told.moved, told.N)
    if max(ratios, default=0.0) == math.inf:
        return [dp_event.NonPrivateDpEvent()]
    groups: list[Any] = []
    if ratios:
        one = _one_query(told)
        # Where they are equal the entries one by one: the same guarantee at δ = 0 and a better one above it.
        if laplace_epsilon(one, delta) < 0.999 * laplace_epsilon(ratios, delta):
            groups = [dp_event.LaplaceDpEvent(told.units / r) for r in one]
        else:
            groups = [
                dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(told.units / r), k) for r, k in ratios.items()
            ]
    return [*groups, *(dp_event.LaplaceDpEvent(told.units / r) for r in told.laplace_mean)]


def _together(some: dict[float, int], others: dict[float, int]) -> dict[float, int]:
    return {r: some.get(r, 0) + others.get(r, 0) for r in {**some, **others}}


def _no_price(mechanism: Mechanism) -> Refusal:
    return Refusal(
        f"{mechanism.law.__name__} noise on a second moment has no price here: use Gaussian or Laplace noise"
    )


def _one_query(told: _Widths) -> dict[float, int]:
    return {_joint(told.scales, told.moved, told.N): 1}


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
