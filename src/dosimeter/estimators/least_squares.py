"""Private least squares and ridge regression."""

from __future__ import annotations

from typing import Any, Self

from sklearn.linear_model import LinearRegression, Ridge

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.estimators.private_weights import PrivateRegressor


class PrivateLinearRegression(PrivateRegressor):
    """Least squares with noisy weights.

    Parameters
    ----------
    max_dose : float or None, default 1.0
        The highest Fisher information loss η of a row, in the units of X and y; for a column or target with two values,
        per step from one to the other. The noise scale that meets it is chosen from the data, which
        `release_.recipe.not_covered` reports.
    scale : float, optional
        A public noise scale instead; `max_dose` must then be None.
    noise : {"gaussian", "laplace", "gumbel", "logistic"}, default "gaussian"
        Distribution of the noise.
    equalise : bool, default False
        Reweight rows so that their doses become more equal.
    reweighting_rounds : int, default 3
        Rounds of `equalise`. With more than 3 the true doses grow unequal again (docs/explanation/irfil.md).
    noise_shape : {"hessian"}, optional
        Shape of the noise covariance.
    fit_intercept : bool, default True
        Whether to fit an intercept.
    random_state : int, Generator or None, default None
        None draws from the operating system; anything else is a simulation, stamped "not for release".

    Attributes
    ----------
    coef_, intercept_
        The released, noisy weights. The exact ones are not kept.
    release_ : Release
        What may be published, with its recipe.
    released_ : LinearRegression
        The same weights as a plain scikit-learn model, which works without this package.
    highest_dose_ : float
        η of the most exposed row. Internal: not protected, and not saved with the estimator.

    Raises
    ------
    Refusal
        From `fit`, if the parameters contradict each other or no noise meets `max_dose`.

    Notes
    -----
    The weights minimise eq. 13 of [Hannun21] with squared loss and no penalty. The dose is η = ‖J‖₂/σ of eq. 17,
    with J the derivative of the weights by one row.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 1.1, 1.9, 3.1])
    >>> model = PrivateLinearRegression(max_dose=1.0).fit(X, y)
    >>> model.highest_dose_ <= 1.0, model.release_.recipe.simulation
    (True, False)
    """

    def __init__(
        self,
        *,
        max_dose: float | None = 1.0,
        scale: float | None = None,
        noise: str = "gaussian",
        equalise: bool = False,
        reweighting_rounds: int = 3,
        noise_shape: str | None = None,
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.max_dose = max_dose
        self.scale = scale
        self.noise = noise
        self.equalise = equalise
        self.reweighting_rounds = reweighting_rounds
        self.noise_shape = noise_shape
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit X (n, d), y (n,), draw the noise, keep the release."""
        X, y = self._table(X, y)
        self._fit(X, y, glm.Squared(), 0.0, "none", sample_weight)
        return self

    def predict(self, X: Any) -> FloatArray:
        """(n,)."""
        return self._margin(X)

    @property
    def released_(self) -> LinearRegression:
        """The same weights as a plain scikit-learn LinearRegression."""
        return self._with_released_weights(LinearRegression(fit_intercept=self.fit_intercept))


class PrivateRidge(PrivateRegressor):
    """Ridge regression with noisy weights.

    Parameters
    ----------
    alpha : float, default 1.0
        L2 penalty, as in scikit-learn's Ridge.
    max_dose : float or None, default 1.0
        The highest Fisher information loss η of a row, in the units of X and y; for a column or target with two values,
        per step from one to the other. The noise scale that meets it is chosen from the data, which
        `release_.recipe.not_covered` reports.
    scale : float, optional
        A public noise scale instead; `max_dose` must then be None.
    noise : {"gaussian", "laplace", "gumbel", "logistic"}, default "gaussian"
        Distribution of the noise.
    equalise : bool, default False
        Reweight rows so that their doses become more equal.
    reweighting_rounds : int, default 3
        Rounds of `equalise`. With more than 3 the true doses grow unequal again (docs/explanation/irfil.md).
    noise_shape : {"hessian"}, optional
        Shape of the noise covariance.
    fit_intercept : bool, default True
        Whether to fit an intercept.
    random_state : int, Generator or None, default None
        None draws from the operating system; anything else is a simulation, stamped "not for release".

    Attributes
    ----------
    coef_, intercept_
        The released, noisy weights. The exact ones are not kept.
    release_ : Release
        What may be published, with its recipe.
    released_ : Ridge
        The same weights as a plain scikit-learn model, which works without this package.
    highest_dose_ : float
        η of the most exposed row. Internal: not protected, and not saved with the estimator.

    Raises
    ------
    Refusal
        From `fit`, if the parameters contradict each other or no noise meets `max_dose`.

    Notes
    -----
    The weights minimise eq. 13 of [Hannun21] with squared loss. The dose is η = ‖J‖₂/σ of eq. 17,
    with J the derivative of the weights by one row.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 1.1, 1.9, 3.1])
    >>> model = PrivateRidge(alpha=0.5, max_dose=1.0).fit(X, y)
    >>> type(model.released_).__name__, model.coef_.shape
    ('Ridge', (1,))
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        max_dose: float | None = 1.0,
        scale: float | None = None,
        noise: str = "gaussian",
        equalise: bool = False,
        reweighting_rounds: int = 3,
        noise_shape: str | None = None,
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.max_dose = max_dose
        self.scale = scale
        self.noise = noise
        self.equalise = equalise
        self.reweighting_rounds = reweighting_rounds
        self.noise_shape = noise_shape
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit X (n, d), y (n,), draw the noise, keep the release."""
        X, y = self._table(X, y)
        self._fit(X, y, glm.Squared(), self.alpha, f"Ridge(alpha={self.alpha!r})", sample_weight)
        return self

    def predict(self, X: Any) -> FloatArray:
        """(n,)."""
        return self._margin(X)

    @property
    def released_(self) -> Ridge:
        """The same weights as a plain scikit-learn Ridge."""
        return self._with_released_weights(Ridge(alpha=self.alpha, fit_intercept=self.fit_intercept))
