"""TweedieRegressor: the variance is a power of the mean, nλ = alpha · Σω."""

from __future__ import annotations

from typing import Any

from dosimeter import glm
from dosimeter.adapters.fitted_attributes import penalised_mean_problem
from dosimeter.adapters.problem import Problem, Target
from dosimeter.adapters.registry import adapter
from dosimeter.core.errors import CannotMeasure


@adapter("sklearn", "TweedieRegressor", remark="exact, with the log link, and with the identity for power 0")
def tweedie_regressor(model: Any, target: Target) -> Problem:
    """link="auto" is the identity for power 0 and the logarithm otherwise."""
    return penalised_mean_problem(_loss(float(model.power), str(model.link)), model, target)


def _loss(power: float, link: str) -> glm.ScalarLoss:
    link = ("identity" if power <= 0 else "log") if link == "auto" else link
    if power == 0 and link == "identity":
        return glm.Squared()
    if link != "log" or power < 0:
        raise CannotMeasure(
            f"TweedieRegressor(power={power:g}, link={link!r}) cannot be measured: use the log link and a power of 0, "
            "or of at least 1"
        )
    known: dict[float, glm.ScalarLoss] = {1.0: glm.Poisson(), 2.0: glm.Gamma(), 3.0: glm.InverseGaussian()}
    return known.get(power) or glm.Tweedie(power)
