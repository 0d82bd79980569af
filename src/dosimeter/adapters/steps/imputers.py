"""Imputers: a cell that was filled is a constant, not an unknown of its row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dosimeter.adapters.steps.feature import Feature, Features
from dosimeter.adapters.steps.registry import Route, step
from dosimeter.adapters.steps.run import Run, require_fitted, step_name
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.text import safe_text


@step(
    "SimpleImputer", route=Route.AFFINE, remark="a filled cell is no unknown; the filling is held fixed", foldable=True
)
def read_imputer(imputer: Any, features: Features, run: Run) -> Features:
    """Gaps filled with the imputer's constants; its indicators of missing values are constants too."""
    fills = np.asarray(require_fitted(imputer, "statistics_", len(features)), dtype=object).ravel().tolist()
    _refuse_marker(imputer)
    # A constant was declared; any other filling is a statistic of the rows that have a value.
    learned = "" if imputer.strategy == "constant" else f"the {str(imputer.strategy).replace('_', ' ')} that fills gaps"
    filled = tuple(_fill(feature, fill, learned) for feature, fill in zip(features, fills, strict=True))
    indicator = getattr(imputer, "indicator_", None)
    if indicator is None:
        return filled
    return (*filled, *(_missing_indicator(features[int(j)]) for j in np.ravel(indicator.features_)))


@step("MissingIndicator", route=Route.CONSTANT, remark="whether a cell is missing is a constant: no unknown moves it")
def read_missing_indicator(indicator: Any, features: Features, run: Run) -> Features:
    chosen = np.ravel(require_fitted(indicator, "features_", len(features)))
    _refuse_marker(indicator)
    return tuple(_missing_indicator(features[int(j)]) for j in chosen)


@step(
    "KNNImputer",
    "IterativeImputer",
    route=Route.REFUSED,
    remark="fills a gap from other rows: rows mix; accepted without gaps",
)
def read_mixing_imputer(imputer: Any, features: Features, run: Run) -> Features:
    """Accepted only if there is nothing to fill: it then changes nothing."""
    if any(feature.gaps is not None for feature in features) or getattr(imputer, "indicator_", None) is not None:
        raise CannotMeasure(
            f"{step_name(imputer)} before the model cannot be measured: it fills a gap from other rows, so rows mix; "
            "use SimpleImputer"
        )
    return features


def _refuse_marker(imputer: Any) -> None:
    marker = imputer.missing_values
    if not (marker is None or marker != marker or type(marker).__name__ == "NAType"):
        raise CannotMeasure(
            f"{type(imputer).__name__} takes the value {safe_text(marker)} for a missing one: write gaps as missing "
            "values (nan)"
        )


def _fill(feature: Feature, fill: Any, learned: str) -> Feature:
    if isinstance(fill, float) and fill != fill:
        raise CannotMeasure(
            f"SimpleImputer found no value in column {safe_text(feature.name)} and drops it: leave the column out"
        )
    feature = feature if learned else replace(feature, fill=fill)
    if feature.gaps is None:
        return feature
    values = np.array(feature.values)
    values[feature.gaps] = str(fill) if values.dtype.kind == "O" else float(fill)
    named = feature.statistics | ({learned} if learned else frozenset())
    imputed = feature.gaps if values.dtype.kind == "O" else None
    return replace(feature, values=values, gaps=None, statistics=named, imputed=imputed)


def _missing_indicator(feature: Feature) -> Feature:
    """Whether a cell is missing: no unknown moves it."""
    missing = np.zeros(len(feature.values)) if feature.gaps is None else feature.gaps.astype(np.float64)
    return Feature(f"{feature.name} is missing", missing)
