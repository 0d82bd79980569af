"""Steps that hold other steps: pipelines, column transformers, unions, frozen estimators."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from dosimeter.adapters.steps.feature import Feature, Features
from dosimeter.adapters.steps.registry import Route, apply, step
from dosimeter.adapters.steps.run import Run, require_fitted
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.text import safe_text


@step("Pipeline", route=Route.CONTAINER, remark="nested pipelines too", foldable=True)
def read_pipeline(pipeline: Any, features: Features, run: Run) -> Features:
    for _, inner in pipeline.steps:
        features = apply(inner, features, run)
    return features


@step("FrozenEstimator", route=Route.CONTAINER, remark="as the estimator in it", foldable=True)
def read_frozen(frozen: Any, features: Features, run: Run) -> Features:
    return apply(frozen.estimator, features, run)


@step("FeatureUnion", route=Route.CONTAINER, remark="transformer_weights included")
def read_union(union: Any, features: Features, run: Run) -> Features:
    weights = union.transformer_weights or {}
    outputs: list[Feature] = []
    for name, inner in union.transformer_list:
        if not is_drop(inner):
            outputs.extend(_weighted(apply(inner, features, run), weights.get(name, 1.0)))
    return tuple(outputs)


@step("ColumnTransformer", route=Route.CONTAINER, remark="remainder and transformer_weights included", foldable=True)
def read_columns(columns: Any, features: Features, run: Run) -> Features:
    require_fitted(columns, "transformers_", len(features))
    # A transformer inside a pipeline selects by the names of the frame it was fitted on.
    fitted = getattr(columns, "feature_names_in_", None)
    names = [feature.name for feature in features] if fitted is None else list(map(str, fitted))
    weights = columns.transformer_weights or {}
    outputs: list[Feature] = []
    for name, inner, chosen in branches(columns):
        picked = tuple(features[j] for j in positions(chosen, names))
        branch = apply(inner, picked, run) if picked and not is_drop(inner) else ()
        outputs.extend(_weighted(branch, weights.get(name, 1.0)))
    return tuple(outputs)


def _weighted(features: Features, weight: Any) -> Features:
    factor = float(weight)
    return features if factor == 1.0 else tuple(feature.affine(factor, 0.0) for feature in features)


def branches(columns: Any) -> list[tuple[str, Any, Any]]:
    """(name, fitted step, columns) of a fitted ColumnTransformer."""
    if not hasattr(columns, "transformers_"):
        raise CannotMeasure("ColumnTransformer before the model is not fitted: fit the whole pipeline first")
    with warnings.catch_warnings():
        # scikit-learn 1.5 and 1.6 warn whenever the columns of the remainder are read.
        warnings.simplefilter("ignore", FutureWarning)
        return [
            (name, inner, chosen if np.isscalar(chosen) or isinstance(chosen, slice) else list(chosen))
            for name, inner, chosen in columns.transformers_
        ]


def is_drop(inner: Any) -> bool:
    return isinstance(inner, str) and inner == "drop"


def positions(chosen: Any, names: Sequence[str]) -> tuple[int, ...]:
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
