"""Ridge and RidgeCV: squared loss, nλ = alpha."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.fitted_attributes import CHOSEN_PENALTY, refuse_positive, single_output
from dosimeter.adapters.problem import Problem, Target
from dosimeter.adapters.registry import adapter
from dosimeter.core.errors import CannotMeasure


@adapter("sklearn", "Ridge", remark="exact; `positive=True` is refused")
def ridge(model: Any, target: Target) -> Problem:
    """The penalty that was given."""
    return _ridge(model, target, model.alpha)


@adapter("sklearn", "RidgeCV", remark="exact at the chosen penalty; its choice from the data is not covered")
def ridge_cv(model: Any, target: Target) -> Problem:
    """The penalty that cross-validation chose."""
    return _ridge(model, target, model.alpha_, CHOSEN_PENALTY)


def _ridge(model: Any, target: Target, alpha: Any, *uncovered: str) -> Problem:
    refuse_positive(model)
    if np.size(alpha) != 1:
        raise CannotMeasure(
            f"{type(model).__name__} has a penalty for each of several targets: fit and measure one model for each"
        )
    penalty, w = float(np.ravel(alpha)[0]), single_output(model)
    return Problem(glm.Squared(), penalty, model.fit_intercept, w, target.numbers(), target.weight, uncovered=uncovered)
