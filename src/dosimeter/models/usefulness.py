"""What a repair is good for: its score on people left out, beside a base rate, at limits around the one asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dosimeter import glm
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Density
from dosimeter.core.progress import counted, stage
from dosimeter.glm.release_plan import ReleasePlan, Route

AROUND = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Limits that are shown, in multiples of the one asked for."""


@dataclass(frozen=True)
class LimitStep:
    """One limit: the noise that it takes and the score that is left, or why there is none."""

    limit: float
    scale: float | None = None
    score: float | None = None
    why: str = ""


@dataclass(frozen=True)
class Usefulness:
    """Scores by cross-validation, expected over the noise. Internal."""

    name: str
    base: float
    without_noise: float
    score: float
    folds: int
    steps: tuple[LimitStep, ...]
    why: str = ""
    """Why nothing could be scored; the figures are then 0 and mean nothing."""

    @property
    def worse(self) -> bool:
        """Whether the same answer for everybody does better. False where nothing could be scored."""
        return not self.why and self.score < self.base


def usefulness(
    X: Any,
    y: Any,
    loss: Any,
    l2: Callable[[int], float],
    *,
    kind: str,
    way: Route,
    planned: ReleasePlan,
    law: type[Density],
    limit: float,
    **how: Any,
) -> Usefulness:
    """Folds of X (n, d), y (n,) fitted as the repair was. way: the plan at other limits; how: as in `glm.held_out`."""
    try:
        found = glm.held_out(X, y, loss, l2, kind=kind, **how)
    except (Refusal, CannotMeasure) as error:
        return Usefulness("", 0.0, 0.0, 0.0, 0, (), str(error))
    scale = float(planned.settings["scale"] or 0.0)
    stage("trying other limits")
    steps = [_step(limit * k, found, law, way) for k in counted([k for k in AROUND if k != 1.0])]
    here = LimitStep(limit, scale, found.score(scale, law))
    ordered = tuple(sorted([*steps, here], key=lambda step: step.limit))
    return Usefulness(found.name, found.base, found.score(0.0), found.score(scale, law), found.folds, ordered)


def _step(limit: float, found: glm.HeldOut, law: type[Density], way: Route) -> LimitStep:
    try:
        scale = float(way(limit, None).settings["scale"] or 0.0)
    except (Refusal, CannotMeasure) as error:
        return LimitStep(limit, why=str(error))
    return LimitStep(limit, scale, found.score(scale, law))
