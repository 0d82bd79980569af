"""Objects around a final estimator: pipelines and searches. Each is registered and opened to what is inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter.adapters.formulas import formula_of
from dosimeter.adapters.registry import find_adapter, measurable_adapter, model_library
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.text import safe_text

SEARCHED = "the model's settings were chosen from the data by a search: the choice is not covered"


TargetMap = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Unwrapped:
    """A final estimator, and what stood around it."""

    final: Any
    steps: tuple[Any, ...] = ()
    """The transformers before it, in turn."""
    not_covered: tuple[str, ...] = ()
    """Choices that were made from the data on the way."""
    target_map: TargetMap | None = None
    """A fixed function of the target before the fit."""


Opener = Callable[[Any], Unwrapped]
_WRAPPERS: dict[tuple[str, str], Opener] = {}


def wrapper(library: str, *classes: str) -> Callable[[Opener], Opener]:
    """Register a function that opens objects of these classes by one layer; a decorator."""

    def register(opener: Opener) -> Opener:
        _WRAPPERS.update({(library, name): opener for name in classes})
        return opener

    return register


def unwrap(model: Any) -> Unwrapped:
    """The fitted final estimator with the transformers before it; a model that cannot be measured is refused."""
    if isinstance(model, type) or not (
        hasattr(model, "fit") or find_adapter(model) or model_library(model) == "statsmodels"
    ):
        kind = model.__name__ if isinstance(model, type) else type(model).__name__
        raise CannotMeasure(f"{safe_text(kind)} is not a fitted model: pass the object that fit returned")
    opener = next((_WRAPPERS[key] for key in _keys(model) if key in _WRAPPERS), None)
    if opener is None:
        measurable_adapter(model)
        formula = formula_of(model) if model_library(model) == "statsmodels" else None
        return Unwrapped(model, () if formula is None else (formula,))
    outer = opener(model)
    inner = unwrap(outer.final)
    if outer.target_map is not None and inner.target_map is not None:
        raise CannotMeasure(f"{type(model).__name__} inside another one transforms the target twice: use one of them")
    return replace(
        inner,
        steps=(*outer.steps, *inner.steps),
        not_covered=(*outer.not_covered, *inner.not_covered),
        target_map=outer.target_map or inner.target_map,
    )


def _keys(model: Any) -> list[tuple[str, str]]:
    return [(cls.__module__.split(".")[0], cls.__name__) for cls in type(model).__mro__]


@wrapper("sklearn", "Pipeline")
def _pipeline(model: Any) -> Unwrapped:
    return Unwrapped(model.steps[-1][1], tuple(step for _, step in model.steps[:-1]))


@wrapper("sklearn", "BaseSearchCV")
def _search(model: Any) -> Unwrapped:
    if not hasattr(model, "best_estimator_"):
        raise CannotMeasure(f"{type(model).__name__} is not fitted, or not with refit=True: fit it first")
    return Unwrapped(model.best_estimator_, not_covered=(SEARCHED,))


@wrapper("sklearn", "RFE")
def _elimination(model: Any) -> Unwrapped:
    """A selector that predicts: its columns, then the estimator that was fitted on them."""
    if not hasattr(model, "estimator_"):
        raise CannotMeasure(f"{type(model).__name__} is not fitted: call fit first")
    return Unwrapped(model.estimator_, (model,))


@wrapper("sklearn", "FrozenEstimator")
def _frozen(model: Any) -> Unwrapped:
    return Unwrapped(model.estimator)


@wrapper("sklearn", "BaseThresholdClassifier")
def _threshold(model: Any) -> Unwrapped:
    """A threshold does not change the weights; one that was tuned is a further number that leaves."""
    tuned = () if type(model).__name__ == "FixedThresholdClassifier" else (
        "the decision threshold was tuned on the data: it is not covered",
    )  # fmt: skip
    if not hasattr(model, "estimator_"):
        raise CannotMeasure(f"{type(model).__name__} is not fitted: call fit first")
    return Unwrapped(model.estimator_, not_covered=tuned)


@wrapper("sklearn", "TransformedTargetRegressor")
def _transformed_target(model: Any) -> Unwrapped:
    """The transformer of the target is held fixed; its derivative is taken at each row."""
    if not hasattr(model, "regressor_"):
        raise CannotMeasure("TransformedTargetRegressor is not fitted: call fit first")
    fitted = () if model.transformer is None else ("the transformer of the target is held fixed: not covered",)

    def transformed(y: FloatArray) -> FloatArray:
        return np.asarray(model.transformer_.transform(y.reshape(-1, 1)), dtype=np.float64).reshape(len(y))

    return Unwrapped(model.regressor_, not_covered=fitted, target_map=transformed)
