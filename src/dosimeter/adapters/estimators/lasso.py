"""Lasso and ElasticNet: squared loss with an L1 penalty, on the set of columns that have a weight."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.any_problem import AnyProblem
from dosimeter.adapters.fitted_attributes import CHOSEN_PENALTY, refuse_positive, single_output, stopping_note
from dosimeter.adapters.problem import Problem, Target
from dosimeter.adapters.registry import adapter
from dosimeter.adapters.sparse_problem import sparse_problem


@adapter(
    "sklearn", "Lasso", "ElasticNet",
    remark="exact on the set of columns with a weight; the choice of the set is not covered",
)  # fmt: skip
def lasso(model: Any, target: Target) -> AnyProblem:
    """The penalties that were given."""
    return _elastic(model, target, model.alpha, getattr(model, "l1_ratio", 1.0))


@adapter("sklearn", "LassoCV", "ElasticNetCV", remark="as Lasso, at the chosen penalty; its choice is not covered")
def lasso_cv(model: Any, target: Target) -> AnyProblem:
    """The penalties that cross-validation chose."""
    ratio = getattr(model, "l1_ratio_", 1.0)
    return _elastic(model, target, model.alpha_, 1.0 if type(model).__name__ == "LassoCV" else ratio, CHOSEN_PENALTY)


def _elastic(model: Any, target: Target, alpha: Any, ratio: Any, *not_covered: str) -> AnyProblem:
    """scikit-learn divides the loss by Σω: the penalties of the sum are alpha Σω."""
    refuse_positive(model)
    w, y = single_output(model), target.numbers()
    total = float(target.ones.sum())
    l1, l2 = float(alpha) * float(ratio) * total, float(alpha) * (1.0 - float(ratio)) * total
    if l1 == 0.0:
        return Problem(glm.Squared(), l2, bool(model.fit_intercept), w, y, target.weight, not_covered=not_covered)
    return sparse_problem(
        glm.Squared(), w, y, target.weight, l1=l1, l2=l2, intercept=bool(model.fit_intercept), not_covered=not_covered,
        unconverged=stopping_note(model), zero=np.flatnonzero(w == 0),
    )  # fmt: skip
