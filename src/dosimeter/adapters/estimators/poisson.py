"""PoissonRegressor: Poisson loss with the log link, nλ = alpha · Σω."""

from __future__ import annotations

from typing import Any

from dosimeter import glm
from dosimeter.adapters.fitted_attributes import single_output, stopping_note
from dosimeter.adapters.problem import Problem, Target
from dosimeter.adapters.registry import adapter


@adapter("sklearn", "PoissonRegressor", remark="exact")
def poisson_regressor(model: Any, target: Target) -> Problem:
    """scikit-learn penalises the mean over the rows."""
    penalty = float(model.alpha) * float(target.ones.sum())
    return Problem(
        glm.Poisson(), penalty, model.fit_intercept, single_output(model), target.numbers(), target.weight,
        iterative=True, unconverged=stopping_note(model),
    )  # fmt: skip
