"""A score for model selection: the less the most exposed row leaks, the better."""

from __future__ import annotations

from typing import Any

from dosimeter.core.errors import Refusal


def highest_dose_scorer(estimator: Any, X: Any, y: Any = None) -> float:
    """Minus the highest dose of a row in the estimator's training table, for `GridSearchCV(scoring=...)`.

    Parameters
    ----------
    estimator : PrivateRidge or kin, or a Pipeline that ends with one
        Fitted.
    X, y : ignored

    Returns
    -------
    float
        -highest_dose_; higher is better. Internal: it depends on the data without protection.

    Raises
    ------
    Refusal
        If the estimator has no dose.

    Examples
    --------
    >>> import numpy as np
    >>> from dosimeter.estimators import PrivateRidge
    >>> model = PrivateRidge(max_dose=1.0).fit(np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 1.5]))
    >>> -1.0 <= highest_dose_scorer(model, None) < 0
    True
    """
    final = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    if not hasattr(final, "highest_dose_"):
        raise Refusal(f"{type(final).__name__} has no dose: pass a fitted estimator of dosimeter.estimators")
    return -float(final.highest_dose_)
