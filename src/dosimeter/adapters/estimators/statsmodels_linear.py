"""statsmodels OLS and WLS: squared loss, without a penalty or with the L2 penalty of `fit_regularized`."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.problem import Problem, Target
from dosimeter.adapters.registry import adapter
from dosimeter.adapters.statsmodels_design import FittedDesign, column_sources, penalty_of, row_weights


@adapter(
    "statsmodels", "OLS", "WLS", remark="exact, with the weights of WLS and an L2 penalty of `fit_regularized`",
    sources=column_sources,
)  # fmt: skip
def least_squares(results: Any, target: Target) -> Problem:
    """WLS keeps its weights in the model."""
    design = FittedDesign.of(results, target)
    weight = row_weights(results.model, target, "weights")
    residual = np.asarray(results.model.exog) @ np.asarray(results.params) - np.asarray(results.model.endog)
    gradient = np.asarray(results.model.exog).T @ (residual if weight is None else weight * residual)
    return Problem(
        glm.Squared(), penalty_of(results, gradient), design.intercept, design.w, target.numbers(), weight,
        held=design.held,
    )  # fmt: skip
