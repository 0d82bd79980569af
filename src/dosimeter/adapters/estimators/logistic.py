"""LogisticRegression and LogisticRegressionCV: logistic loss of two classes, softmax of more, nλ = 1/C.

The K rows of weights of a multinomial model sum to zero. They are read in K-1 orthonormal contrasts, in which equal
noise on all rows stays equal noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.any_problem import AnyProblem
from dosimeter.adapters.fitted_attributes import (
    CHOSEN_PENALTY,
    class_weights,
    gradient_tolerance,
    liblinear_penalty,
    single_output,
    stopping_note,
)
from dosimeter.adapters.problem import Problem, Target
from dosimeter.adapters.registry import adapter
from dosimeter.adapters.sparse_problem import sparse_problem
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure
from dosimeter.glm.losses.label_weights import LabelWeights


@adapter("sklearn", "LogisticRegression", remark="exact; class weights counted from the labels are not covered")
def logistic_regression(model: Any, target: Target) -> AnyProblem:
    """The C that was given."""
    return _logistic(model, target, model.C)


@adapter("sklearn", "LogisticRegressionCV", remark="exact at the chosen C; its choice from the data is not covered")
def logistic_regression_cv(model: Any, target: Target) -> AnyProblem:
    """The C that cross-validation chose, the same for every class."""
    if not model.refit:
        raise CannotMeasure(
            "LogisticRegressionCV with refit=False averages over folds and is not a minimum: use refit=True"
        )
    chosen = np.unique(np.ravel(model.C_))
    if len(chosen) != 1:
        raise CannotMeasure("LogisticRegressionCV chose a C for each class (one-versus-rest): use a multinomial solver")
    return _logistic(model, target, float(chosen[0]), CHOSEN_PENALTY)


def _logistic(model: Any, target: Target, C: float, *not_covered: str) -> AnyProblem:
    classes = model.classes_.tolist()
    positions = target.positions(classes)
    weights = class_weights(model, target, positions)
    labels, notes = weights.of_labels(range(len(classes))), weights.notes
    ratio = _l1_ratio(model)
    if ratio > 0 and np.isfinite(C):
        y, strength = positions.astype(np.float64), 1.0 / float(C)
        return _with_l1(model, y, weights.weight, labels, ratio, strength, (*not_covered, *notes))
    penalty: Any = 0.0 if _penalty(model) is None or np.isinf(C) else 1.0 / float(C)
    K = len(classes)
    if K == 2:
        _refuse_scheme(model, "multinomial")
        penalised = model.solver == "liblinear" and model.fit_intercept
        penalty = liblinear_penalty(model, C) if penalised else penalty
        loss: glm.Logistic | glm.Softmax = glm.Logistic()
        w = single_output(model)
    else:
        _refuse_scheme(model, "ovr")
        penalised = False
        loss = glm.Softmax(K, "mean")
        W = np.column_stack([model.coef_, model.intercept_]) if model.fit_intercept else np.asarray(model.coef_)
        w = W.T.astype(np.float64) @ loss.contrast
    intercept = bool(model.fit_intercept) and not penalised
    return Problem(
        loss, penalty, intercept, w, positions.astype(np.float64), weights.weight, penalised,
        (*not_covered, *notes), iterative=True, unconverged=stopping_note(model), label_weights=labels,
        tolerance=gradient_tolerance(model),
    )  # fmt: skip


def _penalty(model: Any) -> Any:
    """None, 'l2', 'l1', 'elasticnet'; 'deprecated' if only C and l1_ratio decide (scikit-learn >= 1.8)."""
    return getattr(model, "penalty", "deprecated")


def _l1_ratio(model: Any) -> float:
    """The share of L1 in the penalty: `penalty` up to scikit-learn 1.7, `l1_ratio` alone after it."""
    fitted = getattr(model, "l1_ratio_", None)
    ratio = getattr(model, "l1_ratio", None) if fitted is None else fitted
    ratios = sorted({float(r) for r in np.ravel(np.asarray(ratio, dtype=object)) if r is not None})
    if len(ratios) > 1:
        raise CannotMeasure(f"{type(model).__name__} has a share of L1 for each class: fit one model for each class")
    if _penalty(model) == "l1":
        return 1.0
    return ratios[0] if ratios and _penalty(model) in ("elasticnet", "deprecated") else 0.0


def _with_l1(
    model: Any, y: FloatArray, weight: FloatArray | None, labels: LabelWeights | None, ratio: float, strength: float,
    not_covered: tuple[str, ...],
) -> AnyProblem:  # fmt: skip
    """Two classes, on the set of columns that have a weight."""
    if len(model.classes_) > 2:
        raise CannotMeasure("LogisticRegression with an L1 penalty is measured for two classes only: use l2")
    w, penalised = single_output(model), model.solver == "liblinear" and bool(model.fit_intercept)
    if penalised and model.intercept_scaling != 1:
        raise CannotMeasure(
            "liblinear with intercept_scaling other than 1 penalises its intercept by less L1 than its weights, which "
            "is not read here: use 1, or solver='saga'"
        )
    return sparse_problem(
        glm.Logistic(), w, y, weight, l1=ratio * strength, l2=(1.0 - ratio) * strength,
        intercept=bool(model.fit_intercept) and not penalised, penalised_intercept=penalised,
        not_covered=not_covered, unconverged=stopping_note(model), zero=np.flatnonzero(w == 0), label_weights=labels,
    )  # fmt: skip


def _refuse_scheme(model: Any, scheme: str) -> None:
    """`multi_class` was a choice up to scikit-learn 1.7; liblinear has always been one-versus-rest."""
    multi_class = getattr(model, "multi_class", "auto")
    if multi_class == scheme or (scheme == "ovr" and (model.solver == "liblinear" or multi_class == "warn")):
        raise CannotMeasure(
            f"LogisticRegression as {scheme} for {len(model.classes_)} classes is not one smooth loss of all weights: "
            "fit it with solver='lbfgs' and without multi_class"
        )
