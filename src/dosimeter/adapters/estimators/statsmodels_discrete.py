"""statsmodels Logit and Poisson: their losses without a penalty."""

from __future__ import annotations

from typing import Any

from dosimeter import glm
from dosimeter.adapters.problem import Problem, Target
from dosimeter.adapters.registry import adapter
from dosimeter.adapters.statsmodels_design import FittedDesign, column_sources, refuse_offset

_LOSSES: dict[str, Any] = {"Logit": glm.Logistic, "Poisson": glm.Poisson}


@adapter("statsmodels", "Logit", "Poisson", remark="exact", sources=column_sources)
def discrete_model(results: Any, target: Target) -> Problem:
    """No weights and no penalty."""
    refuse_offset(results.model)
    design = FittedDesign.of(results)
    loss = _LOSSES[type(results.model).__name__]()
    return Problem(loss, 0.0, design.intercept, design.w, target.numbers(), target.weight)
