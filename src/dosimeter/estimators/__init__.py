"""scikit-learn estimators that release noisy weights or components: a dose, a recipe, and a plain model to share."""

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
