"""Encoders that give every level a number: OrdinalEncoder, TargetEncoder."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.adapters.steps.feature import Feature, Features, Slope, Unknown
from dosimeter.adapters.steps.levels import OTHER_NAME, LevelSet, positions_of, read_labels
from dosimeter.adapters.steps.registry import Route, step
from dosimeter.adapters.steps.run import Run, require_fitted
from dosimeter.core.arrays import FloatArray

CROSS_FITTED = (
    "a Pipeline trains its model on encodings that TargetEncoder cross-fits and does not keep: fit the encoder first, "
    "and put FrozenEstimator(encoder) into the pipeline"
)


@step(
    "OrdinalEncoder",
    route=Route.LEVELS,
    remark="the largest step between two levels, each by its number",
)
def read_ordinal(encoder: Any, features: Features, run: Run) -> Features:
    require_fitted(encoder, "categories_", len(features))
    infrequent = getattr(encoder, "infrequent_categories_", None) or [None] * len(features)
    learned = ("the levels",) if isinstance(encoder.categories, str) else ()
    outputs = []
    for feature, levels, rare in zip(features, encoder.categories_, infrequent, strict=True):
        level_set = LevelSet.of(levels.tolist(), rare)
        numbers = np.arange(len(level_set.groups), dtype=np.float64)
        other = float(encoder.unknown_value) if encoder.unknown_value is not None else float("nan")
        outputs += _numbered(encoder, feature, level_set, [numbers], [other], run, learned)
    return tuple(outputs)


@step(
    "TargetEncoder",
    route=Route.LEVELS,
    remark="the encodings are held fixed; the largest step between two levels",
)
def read_target(encoder: Any, features: Features, run: Run) -> Features:
    encodings = require_fitted(encoder, "encodings_", len(features))
    each = len(encodings) // max(1, len(features))
    means = np.atleast_1d(np.asarray(encoder.target_mean_, dtype=np.float64))
    run.log.hints[CROSS_FITTED] = None
    outputs = []
    for j, (feature, levels) in enumerate(zip(features, encoder.categories_, strict=True)):
        level_set = LevelSet.of(levels.tolist(), None)
        numbers = [np.asarray(encoding, dtype=np.float64) for encoding in encodings[j * each : (j + 1) * each]]
        others = [float(means[k % len(means)]) for k in range(each)]
        outputs += _numbered(
            _Accepts(encoder), feature, level_set, numbers, others, run, ("the levels and target encodings",)
        )
    return tuple(outputs)


class _Accepts:
    """An encoder that accepts levels it does not know."""

    handle_unknown = "ignore"

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder


def _numbered(
    encoder: Any,
    feature: Feature,
    level_set: LevelSet,
    numbers: list[FloatArray],
    others: list[float],
    run: Run,
    learned: tuple[str, ...],
) -> list[Feature]:
    """One feature for each table of numbers (levels,), one number for each level; others: of an unknown level."""
    labels = read_labels(feature, type(getattr(encoder, "encoder", encoder)).__name__)
    group = positions_of(encoder, labels, level_set, run)
    category = level_set.category(labels, group)
    if labels.raw:
        run.declare(labels.name, category)
    outputs = []
    for k, (table, other) in enumerate(zip(numbers, others, strict=True)):
        slopes: dict[Unknown, Slope] = {}
        if run.survey and labels.raw:
            slopes = {(labels.name, level_set.groups[g][0]): float(table[g] - table[0]) for g in range(1, len(table))}
            if OTHER_NAME in category.levels:
                slopes[labels.name, OTHER_NAME] = float(other - table[0])
        outputs.append(
            Feature(
                feature.name if len(numbers) == 1 else f"{feature.name}, {k}",
                np.append(table, other)[group],
                slopes,
                statistics=feature.statistics | frozenset(learned),
                sources=labels.sources,
                bent=labels.bent if labels.raw else labels.bent | labels.sources,
            )
        )
    return outputs
