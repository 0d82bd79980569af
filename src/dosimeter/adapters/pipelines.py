"""Frozen preprocessing: fitted scikit-learn transformers as affine maps on features. Public attributes only.

The transformers are read, not called. So any dataframe will do, and a step that is not affine is refused instead of
being linearised.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from dosimeter.adapters.features import Feature
from dosimeter.adapters.one_hot import indicators
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.text import safe_text

DERIVED = (
    "its output measured as a table of its own would be under-reported: one cell moves several columns there, and they "
    "would count as separate unknowns"
)

Features = tuple[Feature, ...]
Handler = Callable[[Any, Features], Features]


def transform(transformer: Any, features: Features) -> Features:
    """The features after a fitted transformer."""
    if transformer is None or isinstance(transformer, str):
        return () if transformer == "drop" else features
    for cls in type(transformer).__mro__:
        if cls in _handlers():
            return _handlers()[cls](transformer, features)
    raise CannotMeasure(
        f"{type(transformer).__name__} before the model is not known to be a fixed affine map of the columns: use "
        f"scalers, OneHotEncoder and passthrough ({DERIVED})"
    )


def columns_read(steps: Sequence[Any], names: Sequence[str]) -> tuple[int, ...]:
    """Positions of the source columns that the steps read.

    Those that a leading ColumnTransformer drops may hold dates, missing values or anything else.
    """
    from sklearn.compose import ColumnTransformer

    first = next((step for step in steps if not (step is None or step == "passthrough")), None)
    if not isinstance(first, ColumnTransformer):
        return tuple(range(len(names)))
    chosen = [_positions(columns, names) for _, step, columns in _branches(first) if not _is_drop(step)]
    return tuple(sorted({j for positions in chosen for j in positions}))


@cache
def _handlers() -> dict[type, Handler]:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import (
        FunctionTransformer,
        MaxAbsScaler,
        MinMaxScaler,
        OneHotEncoder,
        RobustScaler,
        StandardScaler,
    )

    return {
        StandardScaler: _standard,
        MinMaxScaler: _min_max,
        MaxAbsScaler: _max_abs,
        RobustScaler: _robust,
        OneHotEncoder: _one_hot,
        FunctionTransformer: _function,
        SimpleImputer: _imputer,
        ColumnTransformer: _side_by_side,
        Pipeline: _in_turn,
    }


def _fitted(transformer: Any, attribute: str, features: Features) -> Any:
    """A fitted attribute; the transformer must have seen as many columns as there are."""
    if not hasattr(transformer, attribute):
        raise CannotMeasure(
            f"{type(transformer).__name__} before the model is not fitted: fit the whole pipeline first"
        )
    n_fitted = getattr(transformer, "n_features_in_", len(features))
    if n_fitted != len(features):
        raise Refusal(
            f"{type(transformer).__name__} was fitted on {n_fitted} columns and gets {len(features)}: pass the "
            "training table"
        )
    return getattr(transformer, attribute)


def _scale(features: Features, factor: Any, shift: Any, statistic: str) -> Features:
    rows = zip(features, np.broadcast_to(factor, len(features)), np.broadcast_to(shift, len(features)), strict=True)
    return tuple(feature.affine(float(f), float(s), statistic) for feature, f, s in rows)


def _centre_and_scale(features: Features, centre: Any, scale: Any, statistic: str) -> Features:
    """(x - centre) / scale; either is None if the transformer does not use it."""
    scale = np.ones(len(features)) if scale is None else np.asarray(scale, dtype=np.float64)
    centre = np.zeros(len(features)) if centre is None else np.asarray(centre, dtype=np.float64)
    return _scale(features, 1.0 / scale, -centre / scale, statistic)


def _standard(scaler: Any, features: Features) -> Features:
    scale, mean = _fitted(scaler, "scale_", features), scaler.mean_ if scaler.with_mean else None
    statistics = ["mean"] * (mean is not None) + ["scale"] * (scale is not None)
    scaled = _centre_and_scale(features, mean, scale, " and ".join(statistics))
    return tuple(replace(feature, standardised=len(statistics) == 2) for feature in scaled)


def _min_max(scaler: Any, features: Features) -> Features:
    if scaler.clip:
        raise _clip_refusal(scaler)
    return _scale(features, _fitted(scaler, "scale_", features), scaler.min_, "minimum and range")


def _max_abs(scaler: Any, features: Features) -> Features:
    if getattr(scaler, "clip", False):
        raise _clip_refusal(scaler)
    return _centre_and_scale(features, None, _fitted(scaler, "scale_", features), "largest magnitudes")


def _robust(scaler: Any, features: Features) -> Features:
    scale = _fitted(scaler, "scale_", features)
    statistics = ["median"] * (scaler.center_ is not None) + ["quantile range"] * (scale is not None)
    return _centre_and_scale(features, scaler.center_, scale, " and ".join(statistics))


def _clip_refusal(scaler: Any) -> CannotMeasure:
    return CannotMeasure(
        f"{type(scaler).__name__} with clip=True bends at the largest and smallest rows, where no "
        "derivative exists: use clip=False"
    )


def _function(transformer: Any, features: Features) -> Features:
    if transformer.func is not None:
        raise CannotMeasure(
            "FunctionTransformer with a custom function is not known to be affine: fit the model on the columns "
            f"themselves ({DERIVED})"
        )
    return features


def _imputer(imputer: Any, features: Features) -> Features:
    """Gaps filled with the imputer's constants; its indicators of missing values are constants too."""
    fills = np.asarray(_fitted(imputer, "statistics_", features), dtype=object).ravel().tolist()
    marker = imputer.missing_values
    if not (marker is None or marker != marker or type(marker).__name__ == "NAType"):
        raise CannotMeasure(
            f"SimpleImputer takes the value {safe_text(marker)} for a missing one: write gaps as missing values (nan)"
        )
    # A constant was declared; any other filling is a statistic of the rows that have a value.
    learned = "" if imputer.strategy == "constant" else f"the {str(imputer.strategy).replace('_', ' ')} that fills gaps"
    filled = tuple(_fill(feature, fill, learned) for feature, fill in zip(features, fills, strict=True))
    indicator = getattr(imputer, "indicator_", None)
    if indicator is None:
        return filled
    return (*filled, *(_missing_indicator(features[int(j)]) for j in np.ravel(indicator.features_)))


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
    return replace(feature, values=values, gaps=None, statistics=named)


def _missing_indicator(feature: Feature) -> Feature:
    """Whether a cell is missing: no unknown moves it."""
    missing = np.zeros(len(feature.values)) if feature.gaps is None else feature.gaps.astype(np.float64)
    return Feature(f"{feature.name} is missing", missing)


def _one_hot(encoder: Any, features: Features) -> Features:
    _fitted(encoder, "categories_", features)
    return indicators(encoder, features)


def _in_turn(pipeline: Any, features: Features) -> Features:
    for _, step in pipeline.steps:
        features = transform(step, features)
    return features


def _side_by_side(columns: Any, features: Features) -> Features:
    _fitted(columns, "transformers_", features)
    names = [feature.name for feature in features]
    weights = columns.transformer_weights or {}
    outputs: list[Feature] = []
    for name, step, chosen in _branches(columns):
        picked = tuple(features[j] for j in _positions(chosen, names))
        branch = transform(step, picked) if picked and not _is_drop(step) else ()
        factor = float(weights.get(name, 1.0))
        outputs.extend(branch if factor == 1.0 else (feature.affine(factor, 0.0) for feature in branch))
    return tuple(outputs)


def _branches(columns: Any) -> list[tuple[str, Any, Any]]:
    if not hasattr(columns, "transformers_"):
        raise CannotMeasure("ColumnTransformer before the model is not fitted: fit the whole pipeline first")
    with warnings.catch_warnings():
        # scikit-learn 1.5 and 1.6 warn whenever the columns of the remainder are read.
        warnings.simplefilter("ignore", FutureWarning)
        return [
            (name, step, chosen if np.isscalar(chosen) or isinstance(chosen, slice) else list(chosen))
            for name, step, chosen in columns.transformers_
        ]


def _is_drop(step: Any) -> bool:
    return isinstance(step, str) and step == "drop"


def _positions(chosen: Any, names: Sequence[str]) -> tuple[int, ...]:
    """Positions of a ColumnTransformer's selection: names, positions, a mask, or a slice of either."""
    if isinstance(chosen, slice):
        ends = [_position(end, names) if isinstance(end, str) else end for end in (chosen.start, chosen.stop)]
        if isinstance(chosen.stop, str):
            ends[1] += 1  # a slice of names includes its end
        return tuple(range(len(names))[slice(ends[0], ends[1], chosen.step)])
    wanted = np.atleast_1d(np.asarray(chosen)).tolist()
    if len(wanted) == len(names) and all(isinstance(want, bool) for want in wanted):
        return tuple(j for j, want in enumerate(wanted) if want)
    return tuple(_position(want, names) for want in wanted)


def _position(want: Any, names: Sequence[str]) -> int:
    if isinstance(want, str):
        if want not in names:
            raise CannotMeasure(
                f"a ColumnTransformer selects {safe_text(want)}, which is not a column of the table: put it "
                "before the other steps"
            )
        return list(names).index(want)
    return range(len(names))[int(want)]
