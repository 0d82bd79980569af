"""Trainable models: a scikit-learn classifier, or a callable that returns an object with `predict`."""

from __future__ import annotations

import warnings
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.pate.fingerprint import describe


def fit_fresh(estimator: Any, X: Any, y: Any, number: int = 0) -> Any:
    """A new model fitted to X (n, ...) and y (n,); a random_state of None is set to `number`, the part's number.

    >>> from sklearn.dummy import DummyClassifier
    >>> fit_fresh(DummyClassifier(strategy="most_frequent"), [[0], [1], [2]], [1, 0, 1]).predict([[5]]).tolist()
    [1]
    """
    try:
        with warnings.catch_warnings():
            # A teacher that did not converge is only a weaker teacher, and 250 warnings help nobody.
            warnings.simplefilter("ignore")
            return estimator(X, y) if _is_factory(estimator) else _clone_with_seed(estimator, number).fit(X, y)
    except Refusal:
        raise
    except Exception as error:
        # The library's message may quote cells of the table, so it stays in the exception chain.
        name = f"the model of part {number}"
        raise Refusal(
            f"{name} could not be trained ({type(error).__name__}): check its columns and settings"
        ) from error


def describe_estimator(estimator: Any) -> str:
    """An estimator as text that changes with its class or a setting, but not from run to run.

    >>> from sklearn.dummy import DummyClassifier
    >>> describe_estimator(DummyClassifier()).startswith("sklearn.dummy.DummyClassifier(constant=None, ")
    True
    """
    return f"factory {describe(estimator)}" if _is_factory(estimator) else describe(estimator)


def _is_factory(estimator: Any) -> bool:
    if isinstance(estimator, type):
        raise Refusal(f"{estimator.__name__} is a class: pass an instance, {estimator.__name__}()")
    if hasattr(estimator, "fit") and hasattr(estimator, "get_params"):
        return False
    if callable(estimator):
        return True
    raise Refusal(f"a {type(estimator).__name__} cannot be trained: pass a scikit-learn classifier or factory(X, y)")


def _clone_with_seed(estimator: Any, number: int) -> Any:
    from sklearn.base import clone

    cloned = clone(estimator)
    unset = [k for k, v in cloned.get_params(deep=True).items() if k.split("__")[-1] == "random_state" and v is None]
    return cloned.set_params(**dict.fromkeys(unset, number)) if unset else cloned
