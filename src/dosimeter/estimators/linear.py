"""Private linear models with scikit-learn's interface.

`fit` finds the exact minimiser, chooses the noise for the stated dose (or takes the stated scale), draws it safely and
keeps only what is released: `coef_`, `intercept_` and `release_`. The exact weights are discarded. `released_` is a
plain scikit-learn model with the same weights, which works without this package.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import NOISES
from dosimeter.glm.category_steps import units_of_columns
from dosimeter.glm.release_plan import plan


class _Private(BaseEstimator):  # type: ignore[misc]
    """What the four models share: the plan, the draw and the released weights."""

    def _fit(
        self, X: FloatArray, y: FloatArray, loss: Any, penalty: float, description: str, sample_weight: Any
    ) -> None:
        """penalty: nλ of eq. 13; description: the same in public terms, because λ itself reveals the number of rows."""
        if self.noise not in NOISES:
            raise Refusal(f"noise {self.noise!r} is not one of {', '.join(NOISES)}")
        release_plan = plan(
            X,
            y,
            loss,
            penalty / len(X),
            max_dose=self.max_dose,
            scale=self.scale,
            law=NOISES[self.noise],
            equalise=3 if self.equalise is True else int(self.equalise),
            shape=self.noise_shape,
            sample_weight=sample_weight,
            intercept=self.fit_intercept,
            input_map=np.diag(units_of_columns(X)),
            target_unit=loss.target.unit(y, 1.0),
        )
        self.release_ = replace(release_plan, penalty=description).draw(_generator(self.random_state))
        self.highest_dose_ = release_plan.highest
        """η of the most exposed row: computed from the data without protection, so internal. It is not saved."""
        self._set_weights(self.release_.values["coef"], float(self.release_.values.get("intercept", np.zeros(1))[0]))

    def __getstate__(self) -> Any:
        """Without the dose: only the release is saved, copied or sent to another process."""
        return {name: value for name, value in super().__getstate__().items() if name != "highest_dose_"}

    def _set_weights(self, coef: FloatArray, intercept: float) -> None:
        self.coef_: Any = coef.copy()
        self.intercept_: Any = intercept

    def _margin(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return np.asarray(X @ np.ravel(self.coef_) + float(np.ravel(self.intercept_)[0]))

    def _with_released_weights(self, plain: Any) -> Any:
        """A scikit-learn model with the released weights and nothing else of this package."""
        check_is_fitted(self)
        plain.coef_, plain.intercept_ = np.array(self.coef_), np.array(self.intercept_)
        plain.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            plain.feature_names_in_ = self.feature_names_in_
        return plain


def _generator(random_state: Any) -> np.random.Generator | None:
    """None for a draw from the operating system; a numpy Generator for a simulation."""
    if random_state is None:
        return None
    if isinstance(random_state, np.random.Generator):
        return random_state
    legacy = check_random_state(random_state)
    return np.random.Generator(np.random.PCG64(legacy.randint(2**31 - 1)))


class _Regressor(RegressorMixin, _Private):  # type: ignore[misc]
    def _table(self, X: Any, y: Any) -> tuple[FloatArray, FloatArray]:
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        return X, np.asarray(y, dtype=np.float64)


class PrivateLinearRegression(_Regressor):
    """Least squares with noisy weights.

    Parameters
    ----------
    max_dose : float or None, default 1.0
        The highest Fisher information loss η of a row, in the units of X and y; for a column or target with two values,
        per step from one to the other. The noise scale that meets it is chosen from the data, which
        `release_.recipe.uncovered` reports.
    scale : float, optional
        A public noise scale instead; `max_dose` must then be None.
    noise : {"gaussian", "laplace", "gumbel", "logistic"}, default "gaussian"
        Distribution of the noise.
    equalise : bool or int, default False
        Rounds of reweighting that make the doses more equal. True: 3; with more, the true doses grow unequal again
        (docs/explanation/irfil.md).
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
        equalise: bool | int = False,
        noise_shape: str | None = None,
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.max_dose = max_dose
        self.scale = scale
        self.noise = noise
        self.equalise = equalise
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


class PrivateRidge(_Regressor):
    """Ridge regression with noisy weights.

    Parameters
    ----------
    alpha : float, default 1.0
        L2 penalty, as in scikit-learn's Ridge.
    max_dose : float or None, default 1.0
        The highest Fisher information loss η of a row, in the units of X and y; for a column or target with two values,
        per step from one to the other. The noise scale that meets it is chosen from the data, which
        `release_.recipe.uncovered` reports.
    scale : float, optional
        A public noise scale instead; `max_dose` must then be None.
    noise : {"gaussian", "laplace", "gumbel", "logistic"}, default "gaussian"
        Distribution of the noise.
    equalise : bool or int, default False
        Rounds of reweighting that make the doses more equal. True: 3; with more, the true doses grow unequal again
        (docs/explanation/irfil.md).
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
        equalise: bool | int = False,
        noise_shape: str | None = None,
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.max_dose = max_dose
        self.scale = scale
        self.noise = noise
        self.equalise = equalise
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


class PrivatePoissonRegressor(_Regressor):
    """Poisson regression (log link) with noisy weights.

    Parameters
    ----------
    alpha : float, default 1.0
        L2 penalty, as in scikit-learn's PoissonRegressor.
    max_dose : float or None, default 1.0
        The highest Fisher information loss η of a row, in the units of X and y; for a column or target with two values,
        per step from one to the other. The noise scale that meets it is chosen from the data, which
        `release_.recipe.uncovered` reports.
    scale : float, optional
        A public noise scale instead; `max_dose` must then be None.
    noise : {"gaussian", "laplace", "gumbel", "logistic"}, default "gaussian"
        Distribution of the noise.
    equalise : bool or int, default False
        Rounds of reweighting that make the doses more equal. True: 3; with more, the true doses grow unequal again
        (docs/explanation/irfil.md).
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
        equalise: bool | int = False,
        noise_shape: str | None = None,
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.max_dose = max_dose
        self.scale = scale
        self.noise = noise
        self.equalise = equalise
        self.noise_shape = noise_shape
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit X (n, d), y (n,) >= 0, draw the noise, keep the release."""
        X, y = self._table(X, y)
        total = len(X) if sample_weight is None else float(np.asarray(sample_weight).sum())
        self._fit(X, y, glm.Poisson(), self.alpha * total, f"PoissonRegressor(alpha={self.alpha!r})", sample_weight)
        return self

    def predict(self, X: Any) -> FloatArray:
        """(n,) expected counts."""
        return np.exp(self._margin(X))

    @property
    def released_(self) -> PoissonRegressor:
        """The same weights as a plain scikit-learn PoissonRegressor."""
        check_is_fitted(self)
        plain = PoissonRegressor(alpha=self.alpha, fit_intercept=self.fit_intercept)
        # It predicts only after a fit of its own, so it is fitted to invented rows; the weights are then replaced.
        return self._with_released_weights(plain.fit(np.eye(2, self.n_features_in_), np.ones(2)))


class PrivateLogisticRegression(ClassifierMixin, _Private):  # type: ignore[misc]
    """Binary logistic regression with noisy weights.

    Parameters
    ----------
    C : float, default 1.0
        Inverse L2 penalty, as in scikit-learn's LogisticRegression.
    max_dose : float or None, default 1.0
        The highest Fisher information loss η of a row, in the units of X and y; for a column or target with two values,
        per step from one to the other. The noise scale that meets it is chosen from the data, which
        `release_.recipe.uncovered` reports.
    scale : float, optional
        A public noise scale instead; `max_dose` must then be None.
    noise : {"gaussian", "laplace", "gumbel", "logistic"}, default "gaussian"
        Distribution of the noise.
    equalise : bool or int, default False
        Rounds of reweighting that make the doses more equal. True: 3; with more, the true doses grow unequal again
        (docs/explanation/irfil.md).
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
    released_ : LogisticRegression
        The same weights as a plain scikit-learn model, which works without this package.
    highest_dose_ : float
        η of the most exposed row. Internal: not protected, and not saved with the estimator.

    Raises
    ------
    Refusal
        From `fit`, if the parameters contradict each other or no noise meets `max_dose`.

    Notes
    -----
    The weights minimise eq. 13 of [Hannun21] with logistic loss. The dose is η = ‖J‖₂/σ of eq. 17,
    with J the derivative of the weights by one row.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array(["no", "no", "yes", "yes"])
    >>> model = PrivateLogisticRegression(max_dose=1.0).fit(X, y)
    >>> model.classes_.tolist(), model.predict_proba(X).shape
    (['no', 'yes'], (4, 2))
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        max_dose: float | None = 1.0,
        scale: float | None = None,
        noise: str = "gaussian",
        equalise: bool | int = False,
        noise_shape: str | None = None,
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.max_dose = max_dose
        self.scale = scale
        self.noise = noise
        self.equalise = equalise
        self.noise_shape = noise_shape
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit X (n, d) and two classes y (n,), draw the noise, keep the release."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) != 2:
            problem = "Only binary classification is supported." if len(self.classes_) > 2 else "There is one class."
            raise Refusal(f"{problem} The target has {len(self.classes_)} classes: two are needed")
        classes, description = (y == self.classes_[1]).astype(float), f"LogisticRegression(C={self.C!r})"
        self._fit(X, classes, glm.Logistic(), 1.0 / self.C, description, sample_weight)
        return self

    def _set_weights(self, coef: FloatArray, intercept: float) -> None:
        self.coef_: Any = coef.copy()[None, :]
        self.intercept_: Any = np.array([intercept])

    def decision_function(self, X: Any) -> FloatArray:
        """(n,) w·x + b."""
        return self._margin(X)

    def predict(self, X: Any) -> Any:
        """(n,) classes."""
        positive = self._margin(X) > 0
        return self.classes_[positive.astype(int)]

    def predict_proba(self, X: Any) -> FloatArray:
        """(n, 2)."""
        m = self._margin(X)
        return np.column_stack([1 / (1 + np.exp(np.clip(m, -700, 700))), 1 / (1 + np.exp(np.clip(-m, -700, 700)))])

    @property
    def released_(self) -> LogisticRegression:
        """The same weights as a plain scikit-learn LogisticRegression."""
        plain = self._with_released_weights(LogisticRegression(C=self.C, fit_intercept=self.fit_intercept))
        plain.classes_ = self.classes_
        return plain
