"""RidgeClassifier and RidgeClassifierCV: a ridge regression of ±1 for each class, released together."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.fitted_attributes import CHOSEN_PENALTY, class_weights, refuse_positive, single_output
from dosimeter.adapters.joint_problem import output_rows, ridge_parts
from dosimeter.adapters.problem import EquationsProblem, EstimatorKind, Problem, Target
from dosimeter.adapters.registry import adapter
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure
from dosimeter.glm.equations.class_target import class_kind, indicator_moves, indicators
from dosimeter.glm.losses.label_weights import LabelWeights


@adapter("sklearn", "RidgeClassifier", remark="exact, any number of classes")
def ridge_classifier(model: Any, target: Target) -> EquationsProblem:
    """The penalty that was given."""
    return _ridge_classifier(model, target, model.alpha)


@adapter("sklearn", "RidgeClassifierCV", remark="exact at the chosen penalty; its choice from the data is not covered")
def ridge_classifier_cv(model: Any, target: Target) -> EquationsProblem:
    """The penalty that cross-validation chose."""
    return _ridge_classifier(model, target, model.alpha_, CHOSEN_PENALTY)


def _ridge_classifier(model: Any, target: Target, alpha: Any, *not_covered: str) -> EquationsProblem:
    refuse_positive(model)
    if target.y.ndim > 1:
        raise CannotMeasure(f"{type(model).__name__} of several labels at once: fit and measure one model for each")
    positions = target.positions(model.classes_.tolist())
    weights = class_weights(model, target, positions)
    weight, notes = weights.weight, weights.notes
    K, y = len(model.classes_), positions.astype(np.float64)
    signs = np.array([[-1.0, 1.0]]) if K == 2 else 2.0 * np.eye(K) - 1.0
    labels = tuple(part for row in signs if (part := weights.of_labels(row)) is not None)
    return EquationsProblem(
        EstimatorKind("squared", class_kind(K)),
        lambda X: glm.ridge_classifier(
            X, y, K, alpha, sample_weight=weight, intercept=bool(model.fit_intercept), label_weights=labels
        ),
        output_rows(model),
        y,
        output_rows(model),
        weight,
        (*not_covered, *notes),
        one_margin=_of_signs(model, y, alpha, weight, (*not_covered, *notes), labels) if K == 2 else None,
        outputs=() if K == 2 else ridge_parts(
            model, 2.0 * indicators(y, K) - 1.0, float(np.ravel(alpha)[0]), weight, (*not_covered, *notes), labels
        ),
        output_moves=2.0 * indicator_moves(K),
    )  # fmt: skip


def _of_signs(
    model: Any, y: FloatArray, alpha: Any, weight: FloatArray | None, not_covered: tuple[str, ...],
    labels: tuple[LabelWeights, ...],
) -> Problem:  # fmt: skip
    """Two classes: one ridge regression of -1 and 1."""
    penalty = float(np.ravel(alpha)[0])
    w = single_output(model)
    return Problem(
        glm.Squared(),
        penalty,
        bool(model.fit_intercept),
        w,
        2.0 * y - 1.0,
        weight,
        not_covered=not_covered,
        iterative=True,
        label_weights=next(iter(labels), None),
    )
