"""statsmodels Logit, Probit, Poisson and MNLogit: their losses without a penalty."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.problem import Problem, Target
from dosimeter.adapters.registry import adapter
from dosimeter.adapters.statsmodels_design import FittedDesign, column_sources, offset_of
from dosimeter.core.errors import CannotMeasure
from dosimeter.glm.losses.label_weights import LabelWeights

_LOSSES: dict[str, Any] = {"Logit": glm.Logistic, "Probit": glm.Probit, "Poisson": glm.Poisson}


@adapter("statsmodels", "Logit", "Probit", "Poisson", remark="exact, with offset and exposure", sources=column_sources)
def discrete_model(results: Any, target: Target) -> Problem:
    """No weights and no penalty."""
    _refuse_l1(results)
    design = FittedDesign.of(results, target)
    loss = _LOSSES[type(results.model).__name__]()
    return Problem(
        loss, 0.0, design.intercept, design.w, target.numbers(), target.weight, offset=offset_of(results.model),
        iterative=True, held=design.held,
    )  # fmt: skip


@adapter("statsmodels", "MNLogit", remark="exact: the weights of each class against the first", sources=column_sources)
def multinomial_logit(results: Any, target: Target) -> Problem:
    """The first class is the reference."""
    _refuse_l1(results)
    design = FittedDesign.of(results, target)
    classes = np.unique(target.y).tolist()
    K = design.w.shape[1] + 1
    if len(classes) != K:
        raise CannotMeasure(f"MNLogit was fitted on {K} classes and y has {len(classes)}: pass the y it was fitted on")
    positions = target.positions(classes).astype(np.float64)
    # The contrasts with a first class do not sum to zero over the classes, and the indicators of a class sum to one.
    labels = LabelWeights(np.repeat(target.ones[:, None], K, axis=1), np.arange(K, dtype=np.float64))
    return Problem(
        glm.Softmax(K, 0), 0.0, design.intercept, design.w, positions, target.weight, iterative=True,
        label_weights=labels, held=design.held,
    )  # fmt: skip


def _refuse_l1(results: Any) -> None:
    """`fit_regularized` of these models is always an L1 penalty."""
    if type(results).__name__.startswith("L1"):
        raise CannotMeasure(
            f"{type(results.model).__name__}.fit_regularized has an L1 penalty, which is not read here: use fit, or "
            "scikit-learn's LogisticRegression(l1_ratio=1.0, solver='saga')"
        )
