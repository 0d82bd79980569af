"""Private logistic regression of two classes or more."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.estimators.private_weights import PrivateWeights


class PrivateLogisticRegression(ClassifierMixin, PrivateWeights):  # type: ignore[misc]
    """Logistic regression with noisy weights, of two classes or more.

    Parameters
    ----------
    C : float, default 1.0
        Inverse L2 penalty, as in scikit-learn's LogisticRegression.
    max_dose : float or None, default 1.0
        The highest Fisher information loss η of a row, in the units of X and y; for a column or target with two values,
        per step from one to the other. The noise scale that meets it is chosen from the data, which
        `release_.recipe.not_covered` reports.
    scale : float, optional
        A public noise scale instead; `max_dose` must then be None.
    noise : {"gaussian", "laplace", "gumbel", "logistic"}, default "gaussian"
        Distribution of the noise.
    equalise : bool, default False
        Reweight rows so that their doses become more equal; for two classes.
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
        The released, noisy weights: (1, d) and (1,), or (K, d) and (K,) for K > 2 classes. The exact ones are not kept.
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
    The weights minimise eq. 13 of [Hannun21] with logistic loss, or softmax loss for more than two classes. The noise
    is then on each of the K - 1 orthonormal contrasts between the classes: equal noise on all K rows, without the part
    that changes no prediction. The dose is η = ‖J‖₂/σ of eq. 17, with J the derivative of the weights by one row.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array(["no", "no", "yes", "yes"])
    >>> model = PrivateLogisticRegression(max_dose=1.0).fit(X, y)
    >>> model.classes_.tolist(), model.predict_proba(X).shape
    (['no', 'yes'], (4, 2))
    >>> PrivateLogisticRegression(max_dose=1.0).fit(X, np.array(["a", "b", "c", "b"])).coef_.shape
    (3, 1)
    """

    def __init__(
        self,
        C: float = 1.0,
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
        self.C = C
        self.max_dose = max_dose
        self.scale = scale
        self.noise = noise
        self.equalise = equalise
        self.reweighting_rounds = reweighting_rounds
        self.noise_shape = noise_shape
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit X (n, d) and classes y (n,), draw the noise, keep the release."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2, accept_sparse="csr")
        check_classification_targets(y)
        self.classes_, positions = np.unique(y, return_inverse=True)
        K = len(self.classes_)
        if K < 2:
            raise Refusal("There is one class. The target has 1 class: two are needed")
        loss = glm.Logistic() if K == 2 else glm.Softmax(K, "mean")
        description = f"LogisticRegression(C={self.C!r})"
        self._fit(self._released_table(X), positions.astype(np.float64), loss, 1.0 / self.C, description, sample_weight)
        return self

    def _set_weights(self, coef: FloatArray, intercept: FloatArray) -> None:
        self.coef_: Any = np.array(np.atleast_2d(coef))
        self.intercept_: Any = np.array(intercept)

    def decision_function(self, X: Any) -> FloatArray:
        """(n,) w·x + b, or (n, K) for K > 2 classes."""
        return self._margin(X)

    def predict(self, X: Any) -> Any:
        """(n,) classes."""
        m = self._margin(X)
        return self.classes_[(m > 0).astype(int) if m.ndim == 1 else m.argmax(axis=1)]

    def predict_proba(self, X: Any) -> FloatArray:
        """(n, K)."""
        m = self._margin(X)
        return np.asarray(np.column_stack([expit(-m), expit(m)]) if m.ndim == 1 else softmax(m, axis=1))

    @property
    def released_(self) -> LogisticRegression:
        """The same weights as a plain scikit-learn LogisticRegression."""
        plain = self._with_released_weights(LogisticRegression(C=self.C, fit_intercept=self.fit_intercept))
        plain.classes_ = self.classes_
        return plain
