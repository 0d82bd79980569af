"""Anything that can be taught: a scikit-learn classifier, or a callable that returns something with `predict`."""

from __future__ import annotations

import hashlib
import inspect
import re
import warnings
from typing import Any

from dosimeter.core.refusal import Refusal

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


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
    if _is_factory(estimator):
        inner = getattr(estimator, "func", estimator)  # functools.partial
        name = f"{getattr(inner, '__module__', '?')}.{getattr(inner, '__qualname__', type(inner).__qualname__)}"
        given = (getattr(estimator, "args", ()), getattr(estimator, "keywords", {})) if inner is not estimator else ""
        return _ADDRESS.sub("", f"factory {name} {_mark(inner)} {given}").strip()
    kind, settings = type(estimator), estimator.get_params(deep=True)
    told = ", ".join(f"{name}={settings[name]!r}" for name in sorted(settings))
    return _ADDRESS.sub("", f"{kind.__module__}.{kind.__qualname__}({' '.join(told.split())})")


def _mark(function: Any) -> str:
    """Changes with the body of a Python function, its defaults, its closure and the plain constants it looks up.

    For an object that is called, or a method: with its fields too. What a module does that the function
    calls is not seen.
    """
    plain = hasattr(function, "__code__")
    owner = getattr(function, "__self__", None) if plain else function
    fields = repr(sorted(getattr(owner, "__dict__", {}).items())) if owner is not None else ""
    inner = function if plain else type(function).__call__
    code = getattr(inner, "__code__", None)
    told = fields if code is None else fields + _body(code) + _bound(inner)
    return hashlib.blake2b(_ADDRESS.sub("", told).encode(), digest_size=8).hexdigest() if told else ""


def _body(code: Any) -> str:
    """Of a function's code and of the functions inside it."""
    constants = [_body(c) if hasattr(c, "co_code") else repr(c) for c in code.co_consts]
    return repr((code.co_code, code.co_names, constants))


def _bound(function: Any) -> str:
    """What a function brings along: defaults, closure, and globals that are numbers or text."""
    cells = inspect.getclosurevars(function).nonlocals
    known = function.__globals__
    plain = {n: known[n] for n in function.__code__.co_names if isinstance(known.get(n), str | int | float)}
    return repr((function.__defaults__, function.__kwdefaults__, cells, plain))


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
