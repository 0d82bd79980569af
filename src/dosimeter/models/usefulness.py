"""Usefulness of a released model: its score on held-out people and a base rate, at limits around the requested one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dosimeter import glm
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Density
from dosimeter.core.progress import stage, track
from dosimeter.glm.releases.release_plan import ReleasePlan
from dosimeter.glm.releases.release_planning import PlanForLimit

LOWEST = -1e6
"""R² and D² fall without limit as the noise grows, and overflow: a lower score is reported as this one."""
AROUND = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Limits that are shown, in multiples of the requested one."""


@dataclass(frozen=True)
class LimitStep:
    """One limit: the noise that it needs and the score with it, or why there is none."""

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
        """Whether the same answer for everyone scores better. False if nothing could be scored."""
        return not self.why and self.score < self.base


def usefulness(
    X: Any,
    y: Any,
    loss: Any,
    l2: Callable[[int], float],
    *,
    kind: str,
    plan_at: PlanForLimit,
    planned: ReleasePlan,
    law: type[Density],
    limit: float,
    **options: Any,
) -> Usefulness:
    """Folds of X (n, d), y (n,) fitted as for the release.

    plan_at: limit -> plan. options: as in `glm.cross_validate`.
    """
    try:
        held_out = glm.cross_validate(X, y, loss, l2, kind=kind, start=planned.fit.w, **options)
    except (Refusal, CannotMeasure) as error:
        return Usefulness("", 0.0, 0.0, 0.0, 0, (), str(error))
    scale = float(planned.settings["scale"] or 0.0)
    stage("trying other limits")
    steps = [_step(limit * k, held_out, law, plan_at) for k in track([k for k in AROUND if k != 1.0])]
    here = LimitStep(limit, scale, finite_score(held_out.score(scale, law)))
    ordered = tuple(sorted([*steps, here], key=lambda step: step.limit))
    without_noise, with_noise = (finite_score(held_out.score(s, law)) for s in (0.0, scale))
    return Usefulness(held_out.name, held_out.base, without_noise, with_noise, held_out.folds, ordered)


def _step(limit: float, held_out: glm.HeldOut, law: type[Density], plan_at: PlanForLimit) -> LimitStep:
    try:
        scale = float(plan_at(limit, None).settings["scale"] or 0.0)
    except (Refusal, CannotMeasure) as error:
        return LimitStep(limit, why=str(error))
    return LimitStep(limit, scale, finite_score(held_out.score(scale, law)))


def finite_score(score: float) -> float:
    """The score, or LOWEST if it is below that or overflowed."""
    return score if score >= LOWEST else LOWEST
