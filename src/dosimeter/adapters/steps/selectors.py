"""Selectors: they keep some columns as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dosimeter.adapters.steps.feature import Features
from dosimeter.adapters.steps.registry import Route, step
from dosimeter.adapters.steps.run import Run, step_name
from dosimeter.core.errors import CannotMeasure, Refusal

CHOICE = "the selection scores"


@step(
    "SelectorMixin",
    route=Route.AFFINE,
    remark="SelectKBest, SelectPercentile, SelectFromModel, RFE, RFECV, VarianceThreshold, SequentialFeatureSelector "
    "and every other selector: the choice of columns is held fixed",
)
def read_selector(selector: Any, features: Features, run: Run) -> Features:
    try:
        support = np.asarray(selector.get_support(), dtype=bool)
    except Exception as error:  # a selector of any library, in any state
        raise CannotMeasure(
            f"{step_name(selector)} before the model does not say which columns it keeps ({type(error).__name__}): fit "
            "the whole pipeline first"
        ) from None
    if len(support) != len(features):
        raise Refusal(
            f"{step_name(selector)} was fitted on {len(support)} columns and gets {len(features)}: pass the training "
            "table"
        )
    # Only a choice that was made is a statistic: which of several columns is kept depends on the data.
    chosen = frozenset({CHOICE}) if not support.all() else frozenset()
    return tuple(
        replace(feature, statistics=feature.statistics | chosen)
        for feature, keep in zip(features, support.tolist(), strict=True)
        if keep
    )
