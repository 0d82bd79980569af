"""OneVsRestClassifier of measured models: a binary model for each class, released together."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.adapters.any_problem import AnyProblem
from dosimeter.adapters.estimators.multi_output import joint_models
from dosimeter.adapters.joint_problem import one_margin_part, refuse_inner_pipeline, stacked_problem
from dosimeter.adapters.problem import EstimatorKind, Target
from dosimeter.adapters.registry import adapter
from dosimeter.glm.equations.class_target import class_kind, indicator_moves


@adapter("sklearn", "OneVsRestClassifier", remark="exact, as a joint release of its binary models")
def one_vs_rest(model: Any, target: Target) -> AnyProblem:
    """Each binary model has the indicator of its class as its target."""
    classes = model.classes_.tolist()
    if getattr(model, "multilabel_", False):
        return joint_models(model, target)
    refuse_inner_pipeline(model.estimators_[0], "OneVsRestClassifier")
    positions = target.positions(classes)
    K = len(classes)
    labels = [positions == 1] if K == 2 else [positions == k for k in range(K)]
    each = [
        one_margin_part(model, estimator, Target(np.asarray(label, dtype=np.float64), target.weight))
        for estimator, label in zip(model.estimators_, labels, strict=True)
    ]
    parts, gains = [part for part, _ in each], np.array([gain for _, gain in each])
    T = gains[:, None] * (indicator_moves(K)[1:] if K == 2 else indicator_moves(K))
    return stacked_problem(EstimatorKind(parts[0].loss.name, class_kind(K)), parts, positions.astype(np.float64), T)
