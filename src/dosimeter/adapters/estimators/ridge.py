"""Ridge and RidgeCV: squared loss, nλ = alpha; several targets are one joint release."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.any_problem import AnyProblem
from dosimeter.adapters.fitted_attributes import CHOSEN_PENALTY, output_count, refuse_positive, single_output
from dosimeter.adapters.joint_problem import ridge_outputs_problem
from dosimeter.adapters.problem import Problem, Target
from dosimeter.adapters.registry import adapter

SEVERAL = "exact, several targets and a penalty for each included; `positive=True` is refused"


@adapter("sklearn", "Ridge", remark=SEVERAL)
def ridge(model: Any, target: Target) -> AnyProblem:
    """The penalty that was given."""
    return _ridge(model, target, model.alpha)


@adapter("sklearn", "RidgeCV", remark="exact at the chosen penalty; its choice from the data is not covered")
def ridge_cv(model: Any, target: Target) -> AnyProblem:
    """The penalty that cross-validation chose."""
    return _ridge(model, target, model.alpha_, CHOSEN_PENALTY)


def _ridge(model: Any, target: Target, alpha: Any, *not_covered: str) -> AnyProblem:
    refuse_positive(model)
    if output_count(model) > 1:
        return ridge_outputs_problem(model, target, alpha, not_covered)
    w, penalty = single_output(model), float(np.ravel(alpha)[0])
    return Problem(
        glm.Squared(), penalty, model.fit_intercept, w, target.numbers(), target.weight, not_covered=not_covered,
        iterative=getattr(model, "solver_", getattr(model, "solver", "")) in ("sag", "saga", "sparse_cg", "lsqr"),
    )  # fmt: skip
