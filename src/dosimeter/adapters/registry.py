"""The registry of measurable models: one adapter per kind of model, found by library and class name.

An adapter is a function that takes a fitted model and its target and returns the problem that the model solved. It is
registered by the names of the classes it reads, so no library is imported before one of its models arrives. A class
derived from a registered one has the same adapter: whether its weights solve the problem is checked on the table.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from dosimeter.adapters.any_problem import AnyProblem
from dosimeter.adapters.problem import Target
from dosimeter.adapters.refusals import reason_for
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.text import safe_text

Translator = Callable[[Any, Target], AnyProblem]
Sources = tuple[tuple[str, ...] | None, int]
"""Names of the columns that a model was fitted on (None if they had none), and their number."""


@dataclass(frozen=True)
class Adapter:
    """How the models of some classes are read."""

    library: str
    classes: tuple[str, ...]
    remark: str
    """What is covered and what is held fixed: a line of the documentation."""
    translate: Translator
    sources: Callable[[Any], Sources] | None = None
    """The columns that the model was fitted on; None for the attributes of scikit-learn."""
    own_target: Callable[[Any], tuple[str, ...]] | None = None
    """The columns of the frame that are the target, for a model that knows it; None for one whose target is passed."""


_ADAPTERS: dict[tuple[str, str], Adapter] = {}


def adapter(
    library: str,
    *classes: str,
    remark: str,
    sources: Callable[[Any], Sources] | None = None,
    own_target: Callable[[Any], tuple[str, ...]] | None = None,
) -> Callable[[Translator], Translator]:
    """Register a function as the adapter of these classes; a decorator.

    Raises
    ------
    Refusal
        If a class has an adapter already.
    """

    def register(translate: Translator) -> Translator:
        entry = Adapter(library, classes, remark, translate, sources, own_target)
        for name in classes:
            known = _ADAPTERS.get((library, name), entry)
            if known.translate.__qualname__ != translate.__qualname__:
                raise Refusal(f"{library} {name} has an adapter already: {known.translate.__qualname__}")
            _ADAPTERS[library, name] = entry
        return translate

    return register


@cache
def _load() -> None:
    """Import every module of `adapters/estimators`: each registers its adapters."""
    package = importlib.import_module("dosimeter.adapters.estimators")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


def adapters() -> Iterator[Adapter]:
    """Every adapter once, by library and class."""
    _load()
    yield from dict.fromkeys(_ADAPTERS[key] for key in sorted(_ADAPTERS))


def find_adapter(model: Any) -> Adapter | None:
    """The adapter of a model, or None."""
    _load()
    for library, name in _class_names(model):
        if (library, name) in _ADAPTERS:
            return _ADAPTERS[library, name]
    return None


def problem_of(model: Any, target: Target) -> AnyProblem:
    """The problem that a fitted final estimator claims to have solved."""
    return measurable_adapter(model).translate(model, target)


def measurable_adapter(model: Any) -> Adapter:
    """The adapter of a fitted model; a model without one, or one not fitted, is refused with the reason."""
    entry = find_adapter(model)
    if entry is None:
        raise CannotMeasure(reason_for(model))
    if not is_fitted(model):
        raise CannotMeasure(f"{type(model).__name__} is not fitted, so it has released nothing yet: call fit first")
    return entry


def sources_of(model: Any) -> Sources | None:
    """The columns that a final estimator was fitted on, if its adapter or scikit-learn's attributes tell."""
    entry = find_adapter(model)
    if entry is not None and entry.sources is not None:
        return entry.sources(model)
    if not hasattr(model, "n_features_in_"):
        return None
    names = getattr(model, "feature_names_in_", None)
    return (None if names is None else tuple(map(str, names))), int(model.n_features_in_)


def knows_its_target(model: Any) -> bool:
    """Whether a model takes its target from the frame it was fitted on, or holds it."""
    entry = None if model is None else find_adapter(model)
    return entry is not None and entry.own_target is not None


def is_fitted(model: Any) -> bool:
    """Whether the model has learned anything."""
    library = model_library(model)
    if library == "statsmodels":
        return hasattr(model, "params")
    if library != "sklearn" and not hasattr(model, "__sklearn_tags__"):
        return True
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def model_library(model: Any) -> str:
    """The library that a model's class comes from."""
    return type(model).__module__.split(".")[0]


def _class_names(model: Any) -> Iterator[tuple[str, str]]:
    """(library, class) of a model and of what it derives from; results of statsmodels go by the model they are of."""
    subject = getattr(model, "model", None) if model_library(model) == "statsmodels" else model
    for cls in type(model if subject is None else subject).__mro__:
        yield cls.__module__.split(".")[0], safe_text(cls.__name__)
