"""The registry of preprocessing steps: one registered function per kind, found by library and class name.

No library is imported for it: a class is known by the top-level package and the name of any class it inherits from. A
subclass with a `transform` of its own is another step. Classes that are not registered are read by differences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from inspect import getattr_static
from typing import Any

from dosimeter.adapters.steps.feature import Features
from dosimeter.adapters.steps.run import Run, step_name
from dosimeter.core.errors import CannotMeasure

Reader = Callable[[Any, Features, Run], Features]


class Route(StrEnum):
    """How a step is read."""

    AFFINE = "exact, affine"
    DERIVATIVE = "exact, by derivative"
    LEVELS = "step between levels"
    CONSTANT = "constant"
    CONTAINER = "each step inside it by its own route"
    DIFFERENCES = "by differences"
    REFUSED = "refused"


@dataclass(frozen=True)
class StepKind:
    """A kind of step: where its class is, how it is read, and a line for the documentation."""

    library: str
    name: str
    route: Route
    remark: str
    read: Reader
    foldable: bool
    """Whether `fix --model` can fold it into weights of the source columns."""


STEPS: dict[tuple[str, str], StepKind] = {}


def step(
    *names: str, route: Route, remark: str, library: str = "sklearn", foldable: bool = False
) -> Callable[[Reader], Reader]:
    """Register a reader for classes of a library: (fitted step, features, run) -> features."""

    def register(read: Reader) -> Reader:
        for name in names:
            STEPS[library, name] = StepKind(library, name, route, remark, read, foldable)
        return read

    return register


def refuse(*names: str, why: str, library: str = "sklearn") -> None:
    """Register classes that are refused, and why."""

    def read(transformer: Any, features: Features, run: Run) -> Features:
        raise CannotMeasure(f"{step_name(transformer)} before the model cannot be measured: it {why}")

    step(*names, route=Route.REFUSED, remark=why, library=library)(read)


def kind_of(transformer: Any) -> StepKind | None:
    """The kind of a fitted step; None for an unknown class, and for a subclass with its own `transform`."""
    for cls in type(transformer).__mro__:
        kind = STEPS.get((cls.__module__.split(".")[0], cls.__name__))
        if kind is not None:
            # Static: a method that is available under a condition is another object on every access.
            own = getattr_static(type(transformer), "transform", None) is not getattr_static(cls, "transform", None)
            return None if own else kind
    return None


def apply(transformer: Any, features: Features, run: Run) -> Features:
    """The features after a fitted step."""
    if transformer is None or isinstance(transformer, str):
        return () if transformer == "drop" else features
    kind = kind_of(transformer)
    if kind is None:
        from dosimeter.adapters.steps.unknown_steps import read_unknown  # it needs this module

        run.log.unfoldable[step_name(transformer)] = None
        return read_unknown(transformer, features, run)
    if not kind.foldable:
        run.log.unfoldable[step_name(transformer)] = None
    return kind.read(transformer, features, run)
