"""scikit-learn estimators that release noisy weights or components: a dose, a recipe, and a plain model to share."""

from dosimeter.estimators.least_squares import PrivateLinearRegression, PrivateRidge
from dosimeter.estimators.logistic_regression import PrivateLogisticRegression
from dosimeter.estimators.mean_regression import (
    PrivateGammaRegressor,
    PrivatePoissonRegressor,
    PrivateTweedieRegressor,
)
from dosimeter.estimators.pca import PrivatePCA
from dosimeter.estimators.scorers import highest_dose_scorer

__all__ = [
    "PrivateGammaRegressor",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivatePCA",
    "PrivatePoissonRegressor",
    "PrivateRidge",
    "PrivateTweedieRegressor",
    "highest_dose_scorer",
]
