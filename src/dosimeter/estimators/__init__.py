"""scikit-learn estimators whose weights leave with noise: a stated dose, a recipe, a plain model to hand on."""

from dosimeter.estimators.linear import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
)
from dosimeter.estimators.scorers import highest_dose_scorer

__all__ = [
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivatePoissonRegressor",
    "PrivateRidge",
    "highest_dose_scorer",
]
