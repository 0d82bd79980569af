"""MultiOutputRegressor and MultiOutputClassifier of measured models: a model for each target, released together."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.joint_problem import refuse_inner_pipeline, stacked_problem
from dosimeter.adapters.problem import EquationsProblem, EstimatorKind, Problem, Target
from dosimeter.adapters.registry import adapter, problem_of
from dosimeter.core.errors import CannotMeasure


@adapter(
    "sklearn", "MultiOutputRegressor", "MultiOutputClassifier",
    remark="exact, as a joint release of its models of one margin",
)  # fmt: skip
def multi_output(model: Any, target: Target) -> EquationsProblem:
    """Each target is an unknown of its own."""
    refuse_inner_pipeline(model.estimators_[0], type(model).__name__)
    Y = target.several(len(model.estimators_))
    parts = [
        problem_of(estimator, Target(y, target.weight)) for estimator, y in zip(model.estimators_, Y.T, strict=True)
    ]
    scalar = [part for part in parts if isinstance(part, Problem) and part.w.ndim == 1]
    if len(scalar) < len(parts):
        raise CannotMeasure(
            f"{type(model).__name__} of models with several margins: fit and measure one for each target"
        )
    kinds = {part.loss.target for part in scalar}
    kind = EstimatorKind(scalar[0].loss.name, kinds.pop() if len(kinds) == 1 else glm.TargetKind.NUMBER)
    outputs = np.column_stack([part.y for part in scalar])
    return stacked_problem(kind, scalar, outputs, np.eye(len(scalar)))
