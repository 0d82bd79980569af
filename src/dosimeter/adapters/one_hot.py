"""A fitted OneHotEncoder read as indicators.

If a level is dropped, each kept indicator is one unknown. If all are kept they sum to one, so only moves between levels
are feasible: the unknowns are the indicators of every level but the first, and raising one lowers the first (direction
e_a - e_first). An indicator moved alone would give rows that no encoder can produce, and the figures would depend on
the encoder's `drop`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.adapters.features import Feature, Unknown
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.text import safe_text


def indicators(encoder: Any, features: tuple[Feature, ...]) -> tuple[Feature, ...]:
    """The encoder's columns: its levels in order without a dropped one, infrequent levels pooled at the end."""
    infrequent = getattr(encoder, "infrequent_categories_", None) or [None] * len(features)
    dropped = [None] * len(features) if encoder.drop_idx_ is None else list(encoder.drop_idx_)
    if encoder.drop is not None and any(rare is not None for rare in infrequent):
        raise CannotMeasure(
            "OneHotEncoder that both drops a level and pools infrequent ones is not read: use one of them"
        )
    # Levels that the user listed beforehand reveal nothing about the data.
    learned = frozenset({"the levels"}) if isinstance(encoder.categories, str) else frozenset()
    outputs: list[Feature] = []
    for feature, levels, rare, drop in zip(features, encoder.categories_, infrequent, dropped, strict=True):
        encoded = _indicators(feature, levels.tolist(), [] if rare is None else rare.tolist(), drop)
        known = {"statistics": feature.statistics | learned, "levels": tuple(levels.tolist()), "fill": feature.fill}
        outputs.extend(replace(indicator, **known) for indicator in encoded)
    return tuple(outputs)


def _indicators(feature: Feature, levels: list[Any], rare: list[Any], drop: int | None) -> list[Feature]:
    if not feature.raw:
        raise CannotMeasure(
            f"OneHotEncoder behind another transformer (column {safe_text(feature.name)}) makes labels of "
            "computed numbers: encode the column itself"
        )
    position = _positions(feature, levels)
    frequent = [k for k, level in enumerate(levels) if level not in rare and k != drop]
    groups = [(str(levels[k]), position == k) for k in frequent]
    if rare:
        groups.append(("infrequent", np.isin(position, [levels.index(level) for level in rare])))
    slopes: list[dict[Unknown, float]] = [{(feature.name, level): 1.0} for level, _ in groups]
    if drop is None and groups:
        slopes[0] = {(feature.name, level): -1.0 for level, _ in groups[1:]}
    return [
        Feature(f"{feature.name}={level}", hit.astype(np.float64), slope)
        for (level, hit), slope in zip(groups, slopes, strict=True)
    ]


def _positions(feature: Feature, levels: list[Any]) -> NDArray[np.intp]:
    """(n,) which level each cell is; 7.0 equals 7, and a categorical of numbers was read as text."""
    place = {str(level): k for k, level in enumerate(levels)} | {level: k for k, level in enumerate(levels)}
    cells = feature.values.tolist()
    positions = np.fromiter((place.get(cell, -1) for cell in cells), dtype=np.intp, count=len(cells))
    if (positions < 0).any():
        row = int(np.argmax(positions < 0))
        raise Refusal(
            f"column {safe_text(feature.name)} has a level that OneHotEncoder did not see (row {row} from 0): "
            "pass the training table"
        )
    return positions
