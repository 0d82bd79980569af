"""Anything that can be taught: a scikit-learn classifier, or a callable that returns something with `predict`."""

from __future__ import annotations

import warnings
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.pate.fingerprint import in_words


def taught(estimator: Any, X: Any, y: Any, number: int = 0) -> Any:
    """A fresh model of X (n, ...) and y (n,); a random_state of None becomes `number`.

    >>> from sklearn.dummy import DummyClassifier
    >>> taught(DummyClassifier(strategy="most_frequent"), [[0], [1], [2]], [1, 0, 1]).predict([[5]]).tolist()
    [1]
    """
    try:
        with warnings.catch_warnings():
            # A teacher that stopped short of its minimum is a weaker teacher, and a warning a teacher is 250 lines.
            warnings.simplefilter("ignore")
            return estimator(X, y) if _is_factory(estimator) else _seeded(estimator, number).fit(X, y)
    except Refusal:
        raise
    except Exception as error:
        # What the library says may quote cells of the table, so it is left to the chain of exceptions.
        name = f"the model of part {number}"
        raise Refusal(
            f"{name} could not be trained ({type(error).__name__}): check its columns and settings"
        ) from error


def described(estimator: Any) -> str:
    """An estimator in words that change when its class or a setting does, and not from run to run.

    >>> from sklearn.dummy import DummyClassifier
    >>> described(DummyClassifier()).startswith("sklearn.dummy.DummyClassifier(constant=None, random_state=None")
    True
    """
    return f"factory {in_words(estimator)}" if _is_factory(estimator) else in_words(estimator)


def _is_factory(estimator: Any) -> bool:
    if isinstance(estimator, type):
        raise Refusal(f"{estimator.__name__} is a class: give an instance of it, {estimator.__name__}()")
    if hasattr(estimator, "fit") and hasattr(estimator, "get_params"):
        return False
    if callable(estimator):
        return True
    raise Refusal(f"a {type(estimator).__name__} cannot be taught: give a scikit-learn classifier or factory(X, y)")


def _seeded(estimator: Any, number: int) -> Any:
    from sklearn.base import clone

    fresh = clone(estimator)
    unset = [k for k, v in fresh.get_params(deep=True).items() if k.split("__")[-1] == "random_state" and v is None]
    return fresh.set_params(**dict.fromkeys(unset, number)) if unset else fresh
