"""scikit-learn estimators whose weights or components leave with noise: a dose, a recipe, a plain model to hand on."""

from dosimeter.estimators.linear import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
)
from dosimeter.estimators.pca import PrivatePCA
from dosimeter.estimators.scorers import highest_dose_scorer

__all__ = [
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivatePCA",
    "PrivatePoissonRegressor",
    "PrivateRidge",
    "highest_dose_scorer",
]
