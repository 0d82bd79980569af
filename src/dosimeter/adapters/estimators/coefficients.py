"""Bare coefficients, as a JSON file of `--model` has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.problem import Problem, Target
from dosimeter.adapters.registry import Sources, adapter


def _sources(model: Any) -> Sources:
    return tuple(model.coef), len(model.coef)


@adapter("dosimeter", "Coefficients", remark="exact; the loss and the penalty are as stated", sources=_sources)
def coefficients(model: Any, target: Target) -> Problem:
    """One weight per column, by name."""
    loss, y = glm.LOSSES[model.loss](), target.numbers()
    loss.check(y)
    w = np.array([*model.coef.values(), *([] if model.intercept is None else [model.intercept])], dtype=np.float64)
    return Problem(loss, len(y) * model.l2, model.intercept is not None, w, y, target.weight, iterative=True)
