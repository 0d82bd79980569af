"""statsmodels OLS and WLS: squared loss without a penalty."""

from __future__ import annotations

from typing import Any

from dosimeter import glm
from dosimeter.adapters.problem import Problem, Target
from dosimeter.adapters.registry import adapter
from dosimeter.adapters.statsmodels_design import FittedDesign, column_sources, row_weights


@adapter("statsmodels", "OLS", "WLS", remark="exact, with the weights of WLS", sources=column_sources)
def least_squares(results: Any, target: Target) -> Problem:
    """WLS keeps its weights in the model."""
    design = FittedDesign.of(results)
    weight = row_weights(results.model, target, "weights")
    return Problem(glm.Squared(), 0.0, design.intercept, design.w, target.numbers(), weight)
