"""Scalers: (x - centre) / scale of each column, with or without clipping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtri

from dosimeter.adapters.steps.chain_rule import elementwise, steeper, stepping
from dosimeter.adapters.steps.feature import LEVELS, Feature, Features, IndicatorColumn
from dosimeter.adapters.steps.registry import Route, step
from dosimeter.adapters.steps.run import Run, require_fitted
from dosimeter.adapters.steps.statistic_moves import magnitude_moves, moments_moves, quantile_moves, range_moves
from dosimeter.core.arrays import FloatArray

_BEND = "with clip=True zero outside the range, and at its ends the steeper side"


_ROUNDING = 1e-7


Moves = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Values before the scaler (n,) -> how each moves the log of the divisor and the shift, for one unit behind it."""


def _mark(
    before: Feature, after: Feature, statistic: str, moves: Moves, run: Run, *facts: bool, steps: bool = False
) -> Feature:
    """The feature behind a scaler, marked if all facts about its values hold: the statistic is then of these rows.

    steps: whether a step of a category moves the statistic as well, by its length times the slope.
    """
    if not all(facts):
        return after
    known = before.gaps is None and not (before.statistics - {LEVELS} if steps else before.statistics)
    known = known and not (before.bent if steps else stepping(before, run))
    known = known and not isinstance(before.values, IndicatorColumn)  # moves of thousands of levels would be dense
    return replace(
        after,
        of_these_rows=after.of_these_rows | {statistic},
        statistic_moves=moves(before.numbers) if known else None,
    )


def _near(value: Any, expected: float, slack: float = _ROUNDING) -> bool:
    return bool(abs(float(value) - expected) <= slack * max(1.0, abs(expected)))


def _slack(scale: Any, shift: Any, count: int) -> FloatArray:
    """(count,) how far values behind a scaler may be off: constants of a table in float32 have seven digits."""
    rounding = float(np.finfo(np.asarray(scale).dtype).eps) if np.asarray(scale).dtype.kind == "f" else 0.0
    size = np.maximum(1.0, np.abs(np.broadcast_to(np.asarray(shift, dtype=np.float64), (count,))))
    return np.maximum(_ROUNDING, 4.0 * rounding * size)


def _scale(features: Features, factor: Any, shift: Any, statistic: str) -> Features:
    rows = zip(features, np.broadcast_to(factor, len(features)), np.broadcast_to(shift, len(features)), strict=True)
    return tuple(feature.affine(float(f), float(s), statistic) for feature, f, s in rows)


def _centre_and_scale(features: Features, centre: Any, scale: Any, statistic: str) -> Features:
    """(x - centre) / scale; either is None if the transformer does not use it."""
    scale = np.ones(len(features)) if scale is None else np.asarray(scale, dtype=np.float64)
    centre = np.zeros(len(features)) if centre is None else np.asarray(centre, dtype=np.float64)
    return _scale(features, 1.0 / scale, -centre / scale, statistic)


@step(
    "StandardScaler", route=Route.AFFINE, remark="mean and scale are held fixed; their floor is stated", foldable=True
)
def read_standard_scaler(scaler: Any, features: Features, run: Run) -> Features:
    scale, mean = require_fitted(scaler, "scale_", len(features)), scaler.mean_ if scaler.with_mean else None
    statistics = ["mean"] * (mean is not None) + ["scale"] * (scale is not None)
    statistic = " and ".join(statistics)
    scaled = _centre_and_scale(features, mean, scale, statistic)
    if not statistics:
        return scaled
    parts = mean is not None, scale is not None
    pairs = zip(features, scaled, strict=True)
    return tuple(_by_moments(before, after, statistic, *parts, run) for before, after in pairs)


def _by_moments(
    before: Feature, after: Feature, statistic: str, with_mean: bool, with_scale: bool, run: Run
) -> Feature:
    """Its values show whether mean and deviation are of these rows, each counted once or by its weight."""
    whole = with_mean and with_scale
    if whole and _has_moments(after, None, True, True):  # what a scaler before it took from them then cancels
        return replace(after, standardised=True, of_these_rows=frozenset({statistic}))
    weights = run.weights if run.survey and _has_moments(after, run.weights, with_mean, with_scale) else None
    marked = _mark(
        before,
        after,
        statistic,
        partial(moments_moves, with_mean=with_mean, with_scale=with_scale, weights=weights),
        run,
        weights is not None or _has_moments(after, None, with_mean, with_scale),
        steps=True,
    )
    return replace(marked, standardised=whole)


def _has_moments(feature: Feature, weights: FloatArray | None, with_mean: bool, with_scale: bool) -> bool:
    """Whether the weighted mean is 0 and the deviation 1, as far as they are asked for."""
    values = feature.numbers
    observed = ~np.isnan(values) if feature.gaps is None else ~feature.gaps
    weight = observed.astype(np.float64) if weights is None else np.where(observed, weights, 0.0)
    if not weight.sum() > 0.0:
        return False
    share, values = weight / weight.sum(), np.where(observed, values, 0.0)
    mean = float(share @ values)
    deviation = float(np.sqrt(share @ (values - mean) ** 2))
    return (not with_mean or _near(mean, 0.0)) and (not with_scale or _near(deviation, 1.0))


@step(
    "MinMaxScaler",
    route=Route.AFFINE,
    remark=f"minimum and range are held fixed, their floor is stated; {_BEND}",
    foldable=True,
)
def read_min_max_scaler(scaler: Any, features: Features, run: Run) -> Features:
    scaled = _scale(features, require_fitted(scaler, "scale_", len(features)), scaler.min_, "minimum and range")
    low, high = scaler.feature_range
    slack = _slack(scaler.scale_, scaler.min_, len(features))
    scaled = tuple(
        _mark(
            before,
            after,
            "minimum and range",
            partial(range_moves, low=low, high=high),
            run,
            _near(_observed(after).min(), low, s),
            _near(_observed(after).max(), high, s),
        )
        for before, after, s in zip(features, scaled, slack.tolist(), strict=True)
    )
    return _clip(scaler, scaled, low, high, run) if scaler.clip else scaled


@step(
    "MaxAbsScaler",
    route=Route.AFFINE,
    remark=f"largest magnitudes are held fixed, their floor is stated; {_BEND}",
    foldable=True,
)
def read_max_abs_scaler(scaler: Any, features: Features, run: Run) -> Features:
    scaled = _centre_and_scale(features, None, require_fitted(scaler, "scale_", len(features)), "largest magnitudes")
    scaled = tuple(
        _mark(before, after, "largest magnitudes", magnitude_moves, run, _near(np.abs(_observed(after)).max(), 1.0))
        for before, after in zip(features, scaled, strict=True)
    )
    return _clip(scaler, scaled, -1.0, 1.0, run) if getattr(scaler, "clip", False) else scaled


@step(
    "RobustScaler",
    route=Route.AFFINE,
    remark="median and quantile range are held fixed; their floor is stated",
    foldable=True,
)
def read_robust_scaler(scaler: Any, features: Features, run: Run) -> Features:
    scale = require_fitted(scaler, "scale_", len(features))
    statistics = ["median"] * (scaler.center_ is not None) + ["quantile range"] * (scale is not None)
    statistic = " and ".join(statistics)
    scaled = _centre_and_scale(features, scaler.center_, scale, statistic)
    if not statistics:
        return scaled
    low, high = scaler.quantile_range
    width = float(ndtri(high / 100) - ndtri(low / 100)) if getattr(scaler, "unit_variance", False) else 1.0
    moves = partial(
        quantile_moves, low=low, high=high, centred=scaler.center_ is not None, scaled=scale is not None, width=width
    )
    centre = np.zeros(1) if scaler.center_ is None else np.asarray(scaler.center_)
    slack = _slack(centre, centre / (1.0 if scale is None else scale), len(features))
    return tuple(
        _mark(
            before,
            after,
            statistic,
            moves,
            run,
            scaler.center_ is None or _near(np.median(_observed(after)), 0.0, s),
            scale is None or _near(np.subtract(*np.percentile(_observed(after), [high, low])), width, s),
        )
        for before, after, s in zip(features, scaled, slack.tolist(), strict=True)
    )


def _observed(feature: Feature) -> FloatArray:
    """The values that are there; 0 if none is."""
    values = feature.numbers
    values = values[~np.isnan(values)] if feature.gaps is None else values[~feature.gaps]
    return values if len(values) else np.zeros(1)


def _clip(scaler: Any, features: Features, low: float, high: float, run: Run) -> Features:
    run.log.unfoldable[f"{type(scaler).__name__} with clip=True"] = None
    return tuple(_clipped(feature, low, high, run) for feature in features)


def _clipped(feature: Feature, low: float, high: float, run: Run) -> Feature:
    x = feature.numbers

    def inside(at: FloatArray) -> FloatArray:
        # The ends come from the data's own extremes through a rounded product: they count as inside.
        margin = 1e-12 * max(1.0, abs(low), abs(high))
        return ((at >= low - margin) & (at <= high + margin)).astype(np.float64)

    return elementwise(feature, np.clip(x, low, high), lambda: steeper(inside, x), run)
