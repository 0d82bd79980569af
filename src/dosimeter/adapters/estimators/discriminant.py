"""LinearDiscriminantAnalysis: coefficients and intercepts from class means and a pooled covariance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.problem import EquationsProblem, EstimatorKind, Target
from dosimeter.adapters.registry import adapter
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure
from dosimeter.glm.equations.class_target import class_kind

INSIDE = (
    "coefficients and intercepts leave, with noise on each; a file that still holds means_, covariance_ or scalings_ "
    "releases these too, without noise"
)


@adapter("sklearn", "LinearDiscriminantAnalysis", remark="exact: coefficients and intercepts, not its stored moments")
def linear_discriminant(model: Any, target: Target) -> EquationsProblem:
    """What predicts is released."""
    if isinstance(model.shrinkage, str) or model.covariance_estimator is not None:
        raise CannotMeasure(
            "LinearDiscriminantAnalysis that estimates its shrinkage or covariance by another method is not one smooth "
            "map of the moments here: pass shrinkage as a number"
        )
    if target.weight is not None:
        raise CannotMeasure("LinearDiscriminantAnalysis takes no sample_weight: do not pass it")
    positions = target.positions(model.classes_.tolist())
    K, y = len(model.classes_), positions.astype(np.float64)
    settings = {"solver": model.solver, "shrinkage": model.shrinkage, "priors": model.priors, "tol": model.tol}
    weights = np.column_stack([np.atleast_2d(model.coef_), np.ravel(model.intercept_)]).ravel()

    def equations(X: FloatArray) -> glm.LinearDiscriminant:
        """Divided by n or, as scikit-learn up to 1.8 has it, by n - K: whichever the weights are closer to."""
        by_n = glm.LinearDiscriminant(X, y, K, **settings)
        if model.solver != "svd" or len(X) <= K:
            return by_n
        by_freedom = replace(by_n, unbiased=True)
        return min((by_n, by_freedom), key=lambda each: float(np.abs(each.solve().released - weights).max()))

    return EquationsProblem(
        EstimatorKind("discriminant", class_kind(K)),
        equations,
        weights,
        y,
        remarks=(INSIDE,),
    )
