"""LinearRegression: squared loss without a penalty; several targets are one joint release."""

from __future__ import annotations

from typing import Any

from dosimeter import glm
from dosimeter.adapters.any_problem import AnyProblem
from dosimeter.adapters.fitted_attributes import output_count, refuse_positive, single_output
from dosimeter.adapters.joint_problem import ridge_outputs_problem
from dosimeter.adapters.problem import Problem, Target
from dosimeter.adapters.registry import adapter


@adapter("sklearn", "LinearRegression", remark="exact, several targets included; `positive=True` is refused")
def linear_regression(model: Any, target: Target) -> AnyProblem:
    """nλ = 0."""
    refuse_positive(model)
    if output_count(model) > 1:
        return ridge_outputs_problem(model, target, 0.0)
    return Problem(glm.Squared(), 0.0, model.fit_intercept, single_output(model), target.numbers(), target.weight)
