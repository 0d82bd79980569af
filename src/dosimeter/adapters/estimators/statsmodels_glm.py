"""statsmodels GLM: the loss of its family and link, without a penalty."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.problem import Problem, Target
from dosimeter.adapters.registry import adapter
from dosimeter.adapters.statsmodels_design import FittedDesign, column_sources, refuse_offset, row_weights
from dosimeter.core.errors import CannotMeasure

_LOSSES: dict[tuple[str, str], Any] = {
    ("Gaussian", "identity"): glm.Squared,
    ("Binomial", "logit"): glm.Logistic,
    ("Poisson", "log"): glm.Poisson,
}


@adapter("statsmodels", "GLM", remark="exact, with frequency and variance weights", sources=column_sources)
def generalised_linear_model(results: Any, target: Target) -> Problem:
    """Frequency and variance weights multiply."""
    model = results.model
    refuse_offset(model)
    family, link = type(model.family).__name__, type(model.family.link).__name__.lower()
    if (family, link) not in _LOSSES:
        raise CannotMeasure(
            f"a statsmodels GLM of family {family} with the link {link} cannot be measured: use Gaussian "
            "identity, Binomial logit or Poisson log"
        )
    if family == "Binomial" and np.any(np.asarray(model.n_trials) != 1):
        raise CannotMeasure("a binomial GLM of several trials per row cannot be measured: give one row for each trial")
    design = FittedDesign.of(results)
    weight = row_weights(model, target, "freq_weights", "var_weights")
    return Problem(_LOSSES[family, link](), 0.0, design.intercept, design.w, target.numbers(), weight)
