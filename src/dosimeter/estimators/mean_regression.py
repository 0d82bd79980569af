"""Private regressions of a mean with the log link: counts and positive numbers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.linear_model import GammaRegressor, PoissonRegressor, TweedieRegressor
from sklearn.utils.validation import check_is_fitted

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.estimators.private_weights import PrivateRegressor


class MeanRegressor(PrivateRegressor):
    """What the regressions of a mean eᵐ share; a subclass says which loss and which scikit-learn model it has.

    As in scikit-learn the penalty is on the mean over the rows.
    """

    alpha: float
    fit_intercept: bool

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def _plain(self) -> Any:
        """scikit-learn's model with the same settings, not fitted."""
        raise TypeError("a subclass says which model it is")

    def _loss(self) -> glm.ScalarLoss:
        raise TypeError("a subclass says which loss it has")

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit X (n, d), y (n,), draw the noise, keep the release."""
        X, y = self._table(X, y)
        total = X.shape[0] if sample_weight is None else float(np.asarray(sample_weight).sum())
        description = f"{type(self._plain()).__name__}(alpha={self.alpha!r})"
        self._fit(X, y, self._loss(), self.alpha * total, description, sample_weight)
        return self

    def predict(self, X: Any) -> FloatArray:
        """(n,) expected values."""
        return np.exp(self._margin(X))

    def _released(self) -> Any:
        check_is_fitted(self)
        # It predicts only after a fit of its own, so it is fitted to invented rows; the weights are then replaced.
        return self._with_released_weights(self._plain().fit(np.eye(2, self.n_features_in_), np.ones(2)))


class PrivatePoissonRegressor(MeanRegressor):
    """Poisson regression (log link) with noisy weights.

    Parameters
    ----------
    alpha : float, default 1.0
        L2 penalty, as in scikit-learn's PoissonRegressor.
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
        Shape of the noise covariance; needs squared loss.
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
    released_ : PoissonRegressor
        The same weights as a plain scikit-learn model, which works without this package.
    highest_dose_ : float
        η of the most exposed row. Internal: not protected, and not saved with the estimator.

    Raises
    ------
    Refusal
        From `fit`, if the parameters contradict each other or no noise meets `max_dose`.

    Notes
    -----
    The weights minimise eq. 13 of [Hannun21] with Poisson loss. The dose is η = ‖J‖₂/σ of eq. 17,
    with J the derivative of the weights by one row.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 1.0, 4.0])
    >>> model = PrivatePoissonRegressor(max_dose=1.0).fit(X, y)
    >>> bool((model.predict(X) > 0).all())
    True
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

    def _loss(self) -> glm.ScalarLoss:
        return glm.Poisson()

    def _plain(self) -> PoissonRegressor:
        return PoissonRegressor(alpha=self.alpha, fit_intercept=self.fit_intercept)

    @property
    def released_(self) -> PoissonRegressor:
        """The same weights as a plain scikit-learn PoissonRegressor."""
        return self._released()


class PrivateGammaRegressor(MeanRegressor):
    """Gamma regression (log link) with noisy weights.

    Parameters
    ----------
    alpha : float, default 1.0
        L2 penalty, as in scikit-learn's GammaRegressor.
    max_dose : float or None, default 1.0
        The highest Fisher information loss η of a row, in the units of X and y; for a column or target with two values,
        per step from one to the other. The noise scale that meets it is chosen from the data, which
        `release_.recipe.not_covered` reports.
    scale : float, optional
        A public noise scale instead; `max_dose` must then be None.
    noise : {"gaussian", "laplace", "gumbel", "logistic"}, default "gaussian"
        Distribution of the noise.
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
    released_ : GammaRegressor
        The same weights as a plain scikit-learn model, which works without this package.
    highest_dose_ : float
        η of the most exposed row. Internal: not protected, and not saved with the estimator.

    Raises
    ------
    Refusal
        From `fit`, if the parameters contradict each other or no noise meets `max_dose`.

    Notes
    -----
    The weights minimise eq. 13 of [Hannun21] with Gamma loss. The dose is η = ‖J‖₂/σ of eq. 17,
    with J the derivative of the weights by one row. The noise is the same on all weights.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.5, 1.0, 1.2, 4.0])
    >>> model = PrivateGammaRegressor(max_dose=1.0).fit(X, y)
    >>> bool((model.predict(X) > 0).all())
    True
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        max_dose: float | None = 1.0,
        scale: float | None = None,
        noise: str = "gaussian",
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.max_dose = max_dose
        self.scale = scale
        self.noise = noise
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def _loss(self) -> glm.ScalarLoss:
        return glm.Gamma()

    def _plain(self) -> GammaRegressor:
        return GammaRegressor(alpha=self.alpha, fit_intercept=self.fit_intercept)

    @property
    def released_(self) -> GammaRegressor:
        """The same weights as a plain scikit-learn GammaRegressor."""
        return self._released()


class PrivateTweedieRegressor(MeanRegressor):
    """Tweedie regression (log link) with noisy weights, variance μᵖ.

    Parameters
    ----------
    alpha : float, default 1.0
        L2 penalty, as in scikit-learn's TweedieRegressor.
    power : float, default 1.5
        p: at least 1. From 1 to 2 targets may be zero, from 2 on they must be positive; 3 is the inverse Gaussian.
    max_dose : float or None, default 1.0
        The highest Fisher information loss η of a row, in the units of X and y; for a column or target with two values,
        per step from one to the other. The noise scale that meets it is chosen from the data, which
        `release_.recipe.not_covered` reports.
    scale : float, optional
        A public noise scale instead; `max_dose` must then be None.
    noise : {"gaussian", "laplace", "gumbel", "logistic"}, default "gaussian"
        Distribution of the noise.
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
    released_ : TweedieRegressor
        The same weights as a plain scikit-learn model, which works without this package.
    highest_dose_ : float
        η of the most exposed row. Internal: not protected, and not saved with the estimator.

    Raises
    ------
    Refusal
        From `fit`, if the parameters contradict each other or no noise meets `max_dose`.

    Notes
    -----
    The weights minimise eq. 13 of [Hannun21] with the loss of variance μᵖ. The dose is η = ‖J‖₂/σ of eq. 17,
    with J the derivative of the weights by one row. The noise is the same on all weights.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 1.2, 4.0])
    >>> model = PrivateTweedieRegressor(power=1.5, max_dose=1.0).fit(X, y)
    >>> bool((model.predict(X) > 0).all())
    True
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        power: float = 1.5,
        max_dose: float | None = 1.0,
        scale: float | None = None,
        noise: str = "gaussian",
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.power = power
        self.max_dose = max_dose
        self.scale = scale
        self.noise = noise
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def _loss(self) -> glm.ScalarLoss:
        return glm.Tweedie(float(self.power))

    def _plain(self) -> TweedieRegressor:
        return TweedieRegressor(power=self.power, link="log", alpha=self.alpha, fit_intercept=self.fit_intercept)

    @property
    def released_(self) -> TweedieRegressor:
        """The same weights as a plain scikit-learn TweedieRegressor with the log link."""
        return self._released()
