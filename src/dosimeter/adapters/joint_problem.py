"""Models with several outputs on one table as one joint release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.fitted_attributes import output_count
from dosimeter.adapters.problem import EquationsProblem, EstimatorKind, Problem, Target
from dosimeter.adapters.registry import problem_of
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure
from dosimeter.glm.equations.joint_outputs import joint_outputs
from dosimeter.glm.losses.label_weights import LabelWeights

SIGNS = 2.0
"""From one class to the other, where they are -1 and 1."""


def refuse_inner_pipeline(estimator: Any, wrapper: str) -> None:
    """A model for each output that has steps of its own: the steps belong before all of them."""
    if hasattr(estimator, "steps"):
        raise CannotMeasure(
            f"{wrapper} of a Pipeline fits the steps anew for each output: put them first, as in "
            f"make_pipeline(StandardScaler(), {wrapper}(LogisticRegression()))"
        )


def one_margin_part(wrapper: Any, estimator: Any, target: Target) -> tuple[Problem, float]:
    """One model of a set as an eq. 13 of one margin, and by how much its target moves with a class or a number."""
    part = problem_of(estimator, target)
    if isinstance(part, EquationsProblem) and part.one_margin is not None:
        return part.one_margin, SIGNS  # a ridge regression of -1 and 1
    if isinstance(part, Problem) and part.w.ndim == 1:
        return part, 1.0
    raise CannotMeasure(
        f"{type(wrapper).__name__} of {type(estimator).__name__} is not measured as a joint release, which takes one "
        "smooth loss of one margin for each target (no L1 penalty, no third class): fit and measure one model for each"
    )


def output_rows(model: Any) -> FloatArray:
    """(K p,) the weights output after output, the intercept last of each."""
    coef = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    if not model.fit_intercept:
        return coef.ravel()
    intercept = np.broadcast_to(np.ravel(np.asarray(model.intercept_, dtype=np.float64)), (len(coef),))
    return np.column_stack([coef, intercept]).ravel()


def ridge_outputs_problem(
    model: Any, target: Target, alpha: Any, not_covered: tuple[str, ...] = ()
) -> EquationsProblem:
    """Ridge regressions of several targets, a penalty for each or one for all."""
    Y = target.several(output_count(model))
    return EquationsProblem(
        EstimatorKind("squared", glm.TargetKind.NUMBER),
        lambda X: glm.ridge_outputs(X, Y, alpha, sample_weight=target.weight, intercept=bool(model.fit_intercept)),
        output_rows(model),
        Y,
        output_rows(model),
        target.weight,
        not_covered,
        outputs=ridge_parts(model, Y, alpha, target.weight, not_covered),
        output_moves=np.eye(Y.shape[1]),
    )


def ridge_parts(
    model: Any, Y: FloatArray, alpha: Any, weight: FloatArray | None, not_covered: tuple[str, ...],
    label_weights: tuple[LabelWeights, ...] = (),
) -> tuple[Problem, ...]:  # fmt: skip
    """A ridge regression for each column of Y (n, K)."""
    rows = output_rows(model).reshape(Y.shape[1], -1)
    labels = label_weights or (None,) * len(rows)
    penalties = np.broadcast_to(np.asarray(alpha, dtype=np.float64), (len(rows),)).tolist()
    return tuple(
        Problem(
            glm.Squared(), penalty, bool(model.fit_intercept), w, np.ascontiguousarray(y), weight,
            not_covered=not_covered, iterative=True, label_weights=weights,
        )
        for w, y, penalty, weights in zip(rows, Y.T, penalties, labels, strict=True)
    )  # fmt: skip


def stacked_problem(
    kind: EstimatorKind, parts: Sequence[Problem], y: FloatArray, T: FloatArray, remarks: tuple[str, ...] = ()
) -> EquationsProblem:
    """Scalar problems of one table, released together.

    y: (n,) or (n, t) the target of a row; T (K, t): how the outputs move with its unknowns.
    """
    first = parts[0]
    unlike = any(
        (part.intercept, part.penalised_intercept) != (first.intercept, first.penalised_intercept) for part in parts
    )
    if any(np.ndim(part.penalty) for part in parts):
        raise CannotMeasure(
            "several outputs with a penalty for each weight, as of liblinear with intercept_scaling other than 1, are "
            "not one joint problem here: use 1, or fit and measure one model for each"
        )
    if unlike or any(part.w.ndim > 1 or part.offset is not None for part in parts):
        raise CannotMeasure("the outputs are models of unlike form: fit and measure one model for each")
    outputs = np.column_stack([part.y for part in parts])
    weight = None
    if any(part.weight is not None for part in parts):
        weight = np.column_stack([np.ones(len(y)) if part.weight is None else part.weight for part in parts])
    values = np.concatenate([part.w for part in parts])
    labels = tuple(part.label_weights for part in parts if part.label_weights is not None)
    if labels and len(labels) < len(parts):
        raise CannotMeasure("some of the outputs have class weights and others have none: measure one at a time")
    penalty = np.array([part.penalty for part in parts])
    losses = [part.loss for part in parts if isinstance(part.loss, glm.ScalarLoss)]
    return EquationsProblem(
        kind,
        lambda X: joint_outputs(X, y, outputs, losses, penalty, weight, first.intercept, T, kind.target, labels),
        values,
        y,
        values,
        weight,
        tuple(dict.fromkeys(note for part in parts for note in part.not_covered)),
        remarks,
        any(part.iterative for part in parts),
        next((part.unconverged for part in parts if part.unconverged), ""),
        first.penalised_intercept,
        outputs=tuple(parts),
        output_moves=T,
    )
