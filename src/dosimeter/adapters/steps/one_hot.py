"""OneHotEncoder read as indicators.

If a level is dropped, each kept indicator is one unknown. If all are kept they sum to one, so only moves between levels
are feasible: the unknowns are the indicators of every level but the first, and raising one lowers the first (direction
e_a - e_first). An indicator moved alone would give rows that no encoder can produce, and the figures would depend on
the encoder's `drop`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dosimeter.adapters.steps.feature import LEVELS, Feature, Features, IndicatorColumn, Slope, Unknown
from dosimeter.adapters.steps.levels import OTHER, LevelSet, is_missing, positions_of, read_labels
from dosimeter.adapters.steps.registry import Route, step
from dosimeter.adapters.steps.run import Run, require_fitted

MANY = 256
"""Levels from which an indicator is held as the level's code, not as an array of its own."""


@step(
    "OneHotEncoder",
    route=Route.LEVELS,
    remark="the largest step between two levels, whatever is dropped; infrequent levels are one level, unknown ones "
    "one more; a level for missing values is a constant",
    foldable=True,
)
def read_one_hot(encoder: Any, features: Features, run: Run) -> Features:
    """The encoder's columns: its levels in order without a dropped one, infrequent levels pooled at the end."""
    require_fitted(encoder, "categories_", len(features))
    infrequent = getattr(encoder, "infrequent_categories_", None) or [None] * len(features)
    dropped = [None] * len(features) if encoder.drop_idx_ is None else list(encoder.drop_idx_)
    # Levels that the user listed in advance reveal nothing about the data.
    learned = frozenset({LEVELS}) if isinstance(encoder.categories, str) else frozenset()
    outputs: list[Feature] = []
    for feature, levels, rare, drop in zip(features, encoder.categories_, infrequent, dropped, strict=True):
        if rare is not None and drop is not None:
            run.log.unfoldable["OneHotEncoder that drops a level and pools others"] = None
        encoded = _indicators(encoder, feature, LevelSet.of(levels.tolist(), rare, drop), run)
        known = {"statistics": feature.statistics | learned, "levels": tuple(levels.tolist()), "fill": feature.fill}
        outputs.extend(replace(indicator, **known) for indicator in encoded)
    return tuple(outputs)


def _indicators(encoder: Any, feature: Feature, level_set: LevelSet, run: Run) -> list[Feature]:
    labels = read_labels(feature, "OneHotEncoder", gaps=any(map(is_missing, level_set.levels)))
    group = positions_of(encoder, labels, level_set, run)
    shown = [g for g in range(len(level_set.groups)) if g != level_set.reference]
    slopes: list[dict[Unknown, Slope]] = [{} for _ in shown]
    if run.survey and labels.raw and level_set.groups:
        category = level_set.category(labels, group)
        run.declare(labels.name, category)
        if (group == OTHER).any():
            run.log.unfoldable["OneHotEncoder of levels that it does not know"] = None
        if level_set.gap is not None:
            run.log.unfoldable["OneHotEncoder with a level for missing values"] = None
        slopes = [{} if g == level_set.gap else {(labels.name, level_set.groups[g][0]): 1.0} for g in shown]
        if level_set.reference in (None, level_set.gap) and level_set.values:
            slopes[shown.index(level_set.values[0])] = {(labels.name, level): -1.0 for level in category.levels[1:]}
    bent = labels.bent if labels.raw else labels.bent | labels.sources
    return [
        Feature(
            f"{feature.name}={level_set.groups[g][0]}",
            IndicatorColumn(group, g) if len(shown) > MANY else group == g,  # type: ignore[arg-type]
            slope,
            sources=labels.sources,
            bent=bent,
        )
        for g, slope in zip(shown, slopes, strict=True)
    ]
