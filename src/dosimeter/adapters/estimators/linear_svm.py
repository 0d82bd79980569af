"""LinearSVC and LinearSVR with squared losses, nλ = 1/C; liblinear penalises the intercept like a weight."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.any_problem import AnyProblem
from dosimeter.adapters.fitted_attributes import class_weights, single_output, stopping_note
from dosimeter.adapters.joint_problem import stacked_problem
from dosimeter.adapters.problem import EstimatorKind, Problem, Target
from dosimeter.adapters.registry import adapter
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure
from dosimeter.glm.class_target import indicator_moves


@adapter(
    "sklearn", "LinearSVC",
    remark="exact with the squared hinge where no row stands at its kink; several classes are one joint release",
)  # fmt: skip
def linear_svc(model: Any, target: Target) -> AnyProblem:
    """One against the rest for several classes."""
    if model.loss != "squared_hinge" or model.penalty != "l2" or model.multi_class != "ovr":
        raise CannotMeasure(
            "LinearSVC is measured with loss='squared_hinge', penalty='l2' and multi_class='ovr': other settings have "
            "kinks at rows, or constraints between classes"
        )
    _refuse_scaled_intercept(model)
    positions = target.positions(model.classes_.tolist())
    weight, notes = class_weights(model, target, positions)
    K, y = len(model.classes_), positions.astype(np.float64)
    if K == 2:
        return _problem(glm.SquaredHinge(), model, single_output(model), y, weight, notes)
    rows = np.column_stack([model.coef_, model.intercept_]) if model.fit_intercept else np.asarray(model.coef_)
    parts = [
        _problem(glm.SquaredHinge(), model, rows[k].astype(np.float64), (y == k).astype(np.float64), weight, notes)
        for k in range(K)
    ]
    return stacked_problem(EstimatorKind("squared-hinge", glm.TargetKind.CLASSES), parts, y, indicator_moves(K))


@adapter("sklearn", "LinearSVR", remark="exact with the squared loss where no row stands at the edge of its band")
def linear_svr(model: Any, target: Target) -> Problem:
    """A band of width epsilon without loss."""
    if model.loss != "squared_epsilon_insensitive":
        raise CannotMeasure("LinearSVR is measured with loss='squared_epsilon_insensitive': the other has no curvature")
    _refuse_scaled_intercept(model)
    loss = glm.SquaredEpsilonInsensitive(float(model.epsilon))
    return _problem(loss, model, single_output(model), target.numbers(), target.weight)


def _problem(
    loss: glm.ScalarLoss, model: Any, w: FloatArray, y: FloatArray, weight: FloatArray | None, notes: Any = ()
) -> Problem:
    return Problem(
        loss, 1.0 / float(model.C), False, w, y, weight, bool(model.fit_intercept), tuple(notes), iterative=True,
        unconverged=stopping_note(model),
    )  # fmt: skip


def _refuse_scaled_intercept(model: Any) -> None:
    if model.fit_intercept and model.intercept_scaling != 1:
        raise CannotMeasure(
            f"{type(model).__name__} with intercept_scaling other than 1 releases a rescaled intercept: use 1"
        )
