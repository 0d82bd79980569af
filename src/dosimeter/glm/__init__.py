"""[Hannun21]: generalised linear models whose weights are released with noise, and what they leak."""

from dosimeter.glm.fisher import compose, measure
from dosimeter.glm.fit import Fit, at, fit
from dosimeter.glm.leakage import Leakage
from dosimeter.glm.loss import Logistic, Poisson, Squared
from dosimeter.glm.softmax import Softmax

__all__ = ["Fit", "Leakage", "Logistic", "Poisson", "Softmax", "Squared", "at", "compose", "fit", "measure"]
