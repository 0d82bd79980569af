"""OneVsRestClassifier of measured models: a binary model for each class, released together."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.adapters.any_problem import AnyProblem
from dosimeter.adapters.joint_problem import refuse_inner_pipeline, stacked_problem
from dosimeter.adapters.problem import EstimatorKind, Problem, Target
from dosimeter.adapters.registry import adapter, problem_of
from dosimeter.core.errors import CannotMeasure
from dosimeter.glm.class_target import class_kind, indicator_moves


@adapter("sklearn", "OneVsRestClassifier", remark="exact, as a joint release of its binary models")
def one_vs_rest(model: Any, target: Target) -> AnyProblem:
    """Each binary model has the indicator of its class as its target."""
    classes = model.classes_.tolist()
    if getattr(model, "multilabel_", False) or target.y.ndim > 1:
        raise CannotMeasure("OneVsRestClassifier of several labels at once: use MultiOutputClassifier")
    refuse_inner_pipeline(model.estimators_[0], "OneVsRestClassifier")
    positions = target.positions(classes)
    K = len(classes)
    labels = [positions == 1] if K == 2 else [positions == k for k in range(K)]
    parts = [binary_part(estimator, label, target) for estimator, label in zip(model.estimators_, labels, strict=True)]
    T = indicator_moves(K)[1:] if K == 2 else indicator_moves(K)
    return stacked_problem(EstimatorKind(parts[0].loss.name, class_kind(K)), parts, positions.astype(np.float64), T)


def binary_part(estimator: Any, label: Any, target: Target) -> Problem:
    """One binary model of a set: an eq. 13 of one margin."""
    part = problem_of(estimator, Target(np.asarray(label, dtype=np.float64), target.weight))
    if not isinstance(part, Problem) or part.w.ndim > 1:
        raise CannotMeasure(
            f"several {type(estimator).__name__} at once are not one joint problem here: measure each of them"
        )
    return part
