"""GaussianNB: class shares, means and variances."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.problem import EquationsProblem, EstimatorKind, Target
from dosimeter.adapters.registry import adapter
from dosimeter.glm.equations.class_target import class_kind


@adapter("sklearn", "GaussianNB", remark="exact: class shares, means and variances leave")
def gaussian_naive_bayes(model: Any, target: Target) -> EquationsProblem:
    """Everything that predicts is released."""
    positions = target.positions(model.classes_.tolist())
    K, y = len(model.classes_), positions.astype(np.float64)
    settings = {"var_smoothing": model.var_smoothing, "priors": model.priors}
    shares = [] if model.priors is not None else [np.asarray(model.class_prior_)]
    return EquationsProblem(
        EstimatorKind("naive Bayes", class_kind(K)),
        lambda X: glm.GaussianNaiveBayes(X, y, K, sample_weight=target.weight, **settings),
        np.concatenate([np.ravel(model.theta_), np.ravel(model.var_), *shares]),
        y,
        weight=target.weight,
    )
