"""MultiOutputRegressor and MultiOutputClassifier of measured models: a model for each target, released together."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.joint_problem import one_margin_part, refuse_inner_pipeline, stacked_problem
from dosimeter.adapters.problem import EquationsProblem, EstimatorKind, Target
from dosimeter.adapters.registry import adapter


@adapter(
    "sklearn", "MultiOutputRegressor", "MultiOutputClassifier",
    remark="exact, as a joint release of its models of one margin",
)  # fmt: skip
def multi_output(model: Any, target: Target) -> EquationsProblem:
    """Each target is an unknown of its own."""
    return joint_models(model, target)


def joint_models(model: Any, target: Target) -> EquationsProblem:
    """A model for each of several targets."""
    refuse_inner_pipeline(model.estimators_[0], type(model).__name__)
    Y = target.several(len(model.estimators_))
    models = zip(model.estimators_, Y.T, strict=True)
    each = [one_margin_part(model, estimator, Target(y, target.weight)) for estimator, y in models]
    parts, gains = [part for part, _ in each], np.array([gain for _, gain in each])
    kinds = {part.loss.target if gain == 1.0 else glm.TargetKind.TWO_CLASSES for part, gain in each}
    kind = EstimatorKind(parts[0].loss.name, kinds.pop() if len(kinds) == 1 else glm.TargetKind.NUMBER)
    targets = [part.y if gain == 1.0 else (part.y + 1.0) / gain for part, gain in each]
    return stacked_problem(kind, parts, np.column_stack(targets), np.diag(gains))
