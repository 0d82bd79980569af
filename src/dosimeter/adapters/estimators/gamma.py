"""GammaRegressor: gamma loss with the log link, nλ = alpha · Σω."""

from __future__ import annotations

from typing import Any

from dosimeter import glm
from dosimeter.adapters.fitted_attributes import penalised_mean_problem
from dosimeter.adapters.problem import Problem, Target
from dosimeter.adapters.registry import adapter


@adapter("sklearn", "GammaRegressor", remark="exact")
def gamma_regressor(model: Any, target: Target) -> Problem:
    """scikit-learn penalises the mean over the rows."""
    return penalised_mean_problem(glm.Gamma(), model, target)
