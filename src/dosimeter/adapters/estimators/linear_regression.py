"""LinearRegression: squared loss without a penalty."""

from __future__ import annotations

from typing import Any

from dosimeter import glm
from dosimeter.adapters.fitted_attributes import refuse_positive, single_output
from dosimeter.adapters.problem import Problem, Target
from dosimeter.adapters.registry import adapter


@adapter("sklearn", "LinearRegression", remark="exact; `positive=True` is refused")
def linear_regression(model: Any, target: Target) -> Problem:
    """nλ = 0."""
    refuse_positive(model)
    return Problem(glm.Squared(), 0.0, model.fit_intercept, single_output(model), target.numbers(), target.weight)
