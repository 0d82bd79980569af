"""HuberRegressor: weights, intercept and scale minimise one objective together."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.fitted_attributes import single_output, stopping_note
from dosimeter.adapters.problem import EquationsProblem, EstimatorKind, Target
from dosimeter.adapters.registry import adapter


@adapter("sklearn", "HuberRegressor", remark="exact where no row stands at the end of the quadratic part")
def huber_regressor(model: Any, target: Target) -> EquationsProblem:
    """Weights, intercept and scale are released together."""
    y = target.numbers()
    values = np.append(single_output(model), float(model.scale_))
    settings = {"epsilon": model.epsilon, "alpha": model.alpha, "intercept": bool(model.fit_intercept)}
    return EquationsProblem(
        EstimatorKind("huber", glm.TargetKind.NUMBER),
        lambda X: glm.HuberRegression(X, y, sample_weight=target.weight, **settings),
        values,
        y,
        values,
        target.weight,
        iterative=True,
        unconverged=stopping_note(model),
    )
