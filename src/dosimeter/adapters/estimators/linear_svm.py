"""LinearSVC and LinearSVR with squared losses, nλ = 1/C; liblinear penalises the intercept like a weight."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.any_problem import AnyProblem
from dosimeter.adapters.fitted_attributes import (
    ClassWeights,
    class_weights,
    liblinear_penalty,
    single_output,
    stopping_note,
)
from dosimeter.adapters.joint_problem import stacked_problem
from dosimeter.adapters.problem import EstimatorKind, Problem, Target
from dosimeter.adapters.registry import adapter
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure
from dosimeter.glm.equations.class_target import indicator_moves


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
    positions = target.positions(model.classes_.tolist())
    weights = class_weights(model, target, positions)
    K, y = len(model.classes_), positions.astype(np.float64)
    if K == 2:
        penalty = liblinear_penalty(model, model.C)
        return _problem(glm.SquaredHinge(), model, single_output(model), penalty, y, weights, np.arange(2))
    if model.fit_intercept and model.intercept_scaling != 1:
        raise CannotMeasure(
            "LinearSVC of several classes with intercept_scaling other than 1 penalises its intercepts by less than "
            "its weights, which is read for two classes only: use 1"
        )
    rows = np.column_stack([model.coef_, model.intercept_]) if model.fit_intercept else np.asarray(model.coef_)
    parts = [
        _problem(
            glm.SquaredHinge(), model, row.astype(np.float64), 1.0 / float(model.C), positions == k,
            _against_the_rest(k, weights, target, positions), np.arange(2),
        )
        for k, row in enumerate(rows)
    ]  # fmt: skip
    return stacked_problem(EstimatorKind("squared-hinge", glm.TargetKind.CLASSES), parts, y, indicator_moves(K))


def _against_the_rest(k: int, weights: ClassWeights, target: Target, positions: Any) -> ClassWeights:
    """Of class k against the rest: liblinear weighs the rows of k by its class weight, and all others by one."""
    if weights.by_label is None:
        return weights
    by_label = np.column_stack([target.ones, weights.by_label[:, k]])
    return ClassWeights(by_label[np.arange(len(by_label)), (positions == k).astype(np.intp)], by_label, weights.notes)


@adapter("sklearn", "LinearSVR", remark="exact with the squared loss where no row stands at the edge of its band")
def linear_svr(model: Any, target: Target) -> Problem:
    """A band of width epsilon without loss."""
    if model.loss != "squared_epsilon_insensitive":
        raise CannotMeasure("LinearSVR is measured with loss='squared_epsilon_insensitive': the other has no curvature")
    loss, penalty = glm.SquaredEpsilonInsensitive(float(model.epsilon)), liblinear_penalty(model, model.C)
    return _problem(loss, model, single_output(model), penalty, target.numbers(), ClassWeights(target.weight, None))


def _problem(
    loss: glm.ScalarLoss, model: Any, w: FloatArray, penalty: Any, y: FloatArray, weights: ClassWeights,
    labels: Any = (),
) -> Problem:  # fmt: skip
    """labels: what the loss takes for each class."""
    return Problem(
        loss, penalty, False, w, y.astype(np.float64), weights.weight, bool(model.fit_intercept),
        weights.notes, iterative=True, unconverged=stopping_note(model), label_weights=weights.of_labels(labels),
    )  # fmt: skip
