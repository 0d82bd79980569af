"""statsmodels results as problems of eq. 13 without a penalty. statsmodels itself is never imported."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.problem import Problem, Target
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.text import safe_text

CONSTANTS = ("const", "Intercept")
"""Names of a column of ones in statsmodels: from `add_constant`, and from formulas."""

_LOSSES: dict[tuple[str, str], Any] = {
    ("Gaussian", "identity"): glm.Squared,
    ("Binomial", "logit"): glm.Logistic,
    ("Poisson", "log"): glm.Poisson,
}
_PLAIN: dict[str, Any] = {"OLS": glm.Squared, "WLS": glm.Squared, "Logit": glm.Logistic, "Poisson": glm.Poisson}
_RESULTS = (
    "GLMResults",
    "RegressionResults",
    "OLSResults",
    "BinaryResults",
    "LogitResults",
    "PoissonResults",
    "CountResults",
)


def column_names(results: Any) -> tuple[str, ...]:
    """The columns of the results, without the constant."""
    _model(results)
    return tuple(name for name in map(str, results.model.exog_names) if name not in CONSTANTS)


def problem_of_results(results: Any, target: Target) -> Problem:
    """The problem that the results claim to solve, with their own weights; other weights are refused."""
    model = _model(results)
    names = list(map(str, model.exog_names))
    constant = [j for j, name in enumerate(names) if name in CONSTANTS]
    if len(constant) > 1:
        raise CannotMeasure("the statsmodels results have two constants: drop one of them")
    params = np.asarray(results.params, dtype=np.float64)
    order = [j for j in range(len(names)) if j not in constant] + constant
    loss, model_weight = _loss(model), _weights(model)
    if model_weight is not None and target.weight is not None:
        raise Refusal("the statsmodels results carry their own weights: do not pass sample_weight as well")
    weight = target.weight if model_weight is None else model_weight
    return Problem(loss, 0.0, bool(constant), params[order], target.numbers(), weight)


def _model(results: Any) -> Any:
    kind = type(results).__name__.removesuffix("Wrapper")
    model = getattr(results, "model", None)
    if kind not in _RESULTS or model is None or not hasattr(results, "params"):
        raise CannotMeasure(
            f"statsmodels {safe_text(type(results).__name__)} cannot be measured: pass the results of an "
            "unpenalised GLM, OLS, Logit or Poisson fit"
        )
    return model


def _loss(model: Any) -> Any:
    kind = type(model).__name__
    if any(getattr(model, name, None) is not None and np.any(getattr(model, name)) for name in ("offset", "exposure")):
        raise CannotMeasure(
            "a statsmodels model with an offset or exposure cannot be measured: no formula here has one; fit without it"
        )
    if kind in _PLAIN:
        return _PLAIN[kind]()
    if kind != "GLM":
        raise CannotMeasure(
            f"statsmodels {safe_text(kind)} cannot be measured: pass the results of a GLM, OLS, Logit or Poisson fit"
        )
    family, link = type(model.family).__name__, type(model.family.link).__name__.lower()
    if (family, link) not in _LOSSES:
        raise CannotMeasure(
            f"a statsmodels GLM of family {family} with the link {link} cannot be measured: use Gaussian "
            "identity, Binomial logit or Poisson log"
        )
    if family == "Binomial" and np.any(np.asarray(model.n_trials) != 1):
        raise CannotMeasure("a binomial GLM of several trials per row cannot be measured: give one row for each trial")
    return _LOSSES[family, link]()


def _weights(model: Any) -> FloatArray | None:
    """(n,) frequency times variance weights (GLM) or the weights of WLS; None if all are 1."""
    weight = np.ones(1)
    # A GLM also has `weights`: those of its last iteration.
    for name in ("freq_weights", "var_weights") if type(model).__name__ == "GLM" else ("weights",):
        factor = getattr(model, name, None)
        weight = weight if factor is None else weight * np.asarray(factor, dtype=np.float64)
    return None if np.all(weight == 1.0) else weight
