"""statsmodels GLM and GEE: the loss of family and link, offsets, exposure, weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.problem import Problem, Target
from dosimeter.adapters.registry import adapter
from dosimeter.adapters.statsmodels_design import FittedDesign, column_sources, offset_of, penalty_of, row_weights
from dosimeter.core.errors import CannotMeasure

_LOSSES: dict[tuple[str, str], Callable[[Any], glm.ScalarLoss]] = {
    ("Gaussian", "identity"): lambda family: glm.Squared(),
    ("Gaussian", "log"): lambda family: glm.Tweedie(0.0),
    ("Binomial", "logit"): lambda family: glm.Logistic(),
    ("Binomial", "probit"): lambda family: glm.Probit(),
    ("Binomial", "cloglog"): lambda family: glm.ComplementaryLogLog(),
    ("Poisson", "log"): lambda family: glm.Poisson(),
    ("Gamma", "log"): lambda family: glm.Gamma(),
    ("Gamma", "inversepower"): lambda family: glm.Gamma("inverse"),
    ("Gamma", "identity"): lambda family: glm.Gamma("identity"),
    ("InverseGaussian", "log"): lambda family: glm.InverseGaussian(),
    ("InverseGaussian", "inversesquared"): lambda family: glm.InverseGaussian("inverse-squared"),
    ("NegativeBinomial", "log"): lambda family: glm.NegativeBinomial(float(family.alpha)),
    ("Tweedie", "log"): lambda family: glm.Tweedie(float(family.var_power)),
}


@adapter(
    "statsmodels", "GLM",
    remark="exact: "
    + ", ".join(f"{family} {link}" for family, link in _LOSSES)
    + "; offset, exposure, frequency and variance weights, L2 penalty of `fit_regularized`",
    sources=column_sources,
)  # fmt: skip
def generalised_linear_model(results: Any, target: Target) -> Problem:
    """Frequency and variance weights multiply."""
    model = results.model
    loss = _loss(model)
    design = FittedDesign.of(results, target)
    gradient = np.zeros(len(design.w))
    if "Regularized" in type(results).__name__:
        gradient = -np.asarray(model.score(np.asarray(results.params), scale=1.0))
    return Problem(
        loss, penalty_of(results, gradient), design.intercept, design.w, target.numbers(),
        row_weights(model, target, "freq_weights", "var_weights"), offset=offset_of(model), iterative=True,
        held=design.held,
    )  # fmt: skip


@adapter("statsmodels", "GEE", remark="exact with the independence structure, as GLM", sources=column_sources)
def estimating_equations(results: Any, target: Target) -> Problem:
    """With independence the equations are those of the GLM."""
    structure = type(results.model.cov_struct).__name__
    if structure != "Independence":
        raise CannotMeasure(
            f"GEE with the structure {structure} estimates a correlation within groups, which is not covered: use "
            "Independence"
        )
    design = FittedDesign.of(results, target)
    weight = row_weights(results.model, target, "weights")
    offset = offset_of(results.model)
    return Problem(
        _loss(results.model), 0.0, design.intercept, design.w, target.numbers(), weight, offset=offset, iterative=True,
        held=design.held,
    )  # fmt: skip


def _loss(model: Any) -> glm.ScalarLoss:
    family, link = type(model.family).__name__, type(model.family.link).__name__.lower()
    if (family, link) not in _LOSSES:
        raise CannotMeasure(
            f"a statsmodels GLM of family {family} with the link {link} cannot be measured: use "
            + ", ".join(f"{other} {its_link}" for other, its_link in _LOSSES)
        )
    if family == "Binomial" and np.any(np.asarray(getattr(model, "n_trials", 1)) != 1):
        raise CannotMeasure("a binomial GLM of several trials per row cannot be measured: give one row for each trial")
    return _LOSSES[family, link](model.family)
