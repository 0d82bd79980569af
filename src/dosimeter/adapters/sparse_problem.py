"""Weights under an L1 penalty as a problem: the smooth part on the columns that have a weight."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.problem import EquationsProblem, EstimatorKind
from dosimeter.core.arrays import FloatArray
from dosimeter.glm.losses.label_weights import LabelWeights

LOCAL = (
    "columns without a weight have a figure of 0: a small change of their cells moves nothing, a large one may bring "
    "the column in"
)


def sparse_problem(
    loss: Any,
    w: FloatArray,
    y: FloatArray,
    weight: FloatArray | None,
    *,
    l1: float,
    l2: float,
    intercept: bool,
    not_covered: tuple[str, ...] = (),
    unconverged: str = "",
    zero: Any = (),
    label_weights: LabelWeights | None = None,
    penalised_intercept: bool = False,
) -> EquationsProblem:
    """w: (p,) the fitted weights, the intercept last. penalised_intercept: it is the weight of a column of ones."""
    columns = w[:-1] if intercept else w
    active = np.append(columns[columns != 0], w[-1:] if intercept else [])
    return EquationsProblem(
        EstimatorKind(loss.name, loss.target),
        lambda X: glm.SparseWeights(
            X, y, loss, w, l1=l1, l2=l2, sample_weight=weight, intercept=intercept, label_weights=label_weights
        ),
        w,
        y,
        active,
        weight,
        not_covered,
        (LOCAL,) if len(zero) else (),
        True,
        unconverged,
        penalised_intercept,
    )
