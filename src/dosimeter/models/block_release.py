"""From a table in blocks and a limit to a release plan: the noise, what it costs, and everything but the draw.

The noise is the same on all weights. Nothing here draws noise, so all of it can be computed again after a stop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.engine import Engine, MappedPart, RowBlock
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Density
from dosimeter.core.progress import stage
from dosimeter.core.scale_ladder import SCALE_NOT_COVERED
from dosimeter.glm import penalty as penalty_for
from dosimeter.glm.blocks.block_folds import NoFoldFit, fit_folds, held_out_scores
from dosimeter.glm.fitting.block_fit import BlockFit
from dosimeter.glm.fitting.penalty import STATED
from dosimeter.glm.losses.scalar_loss import TwoClassLoss
from dosimeter.glm.releases.calibrate import at_scale
from dosimeter.glm.releases.folds import MANY, TOO_FEW, FoldRule
from dosimeter.glm.releases.noise_choice import CHOSEN, ISOTROPIC, KINDS, underived
from dosimeter.glm.releases.release_plan import ReleasePlan
from dosimeter.models.block_model import BlockModel
from dosimeter.models.block_noise import ExactDoses, HighestDose, exact_doses
from dosimeter.models.linear_release import FORM, FORMS, UNIT
from dosimeter.models.usefulness import AROUND, LimitStep, Usefulness, finite_score
from dosimeter.tables.table import Table

NOT_IN_BLOCKS = "not tried on a table that is read in blocks"


@dataclass(frozen=True, eq=False)
class BlockRelease:
    """A release before its noise is drawn. Internal."""

    model: BlockModel
    """With the noise of the release."""
    fitted: BlockFit
    exact: ExactDoses
    plan: ReleasePlan
    """Its fit and leakage are those of a few rows: only weights and noise are used."""
    useful: Usefulness
    kind: str = ISOTROPIC
    loss_increases: dict[str, float] = field(default_factory=dict)
    """Kind -> expected increase of the objective for each row; empty if the kind was stated."""
    not_tried: dict[str, str] = field(default_factory=dict)

    @property
    def not_covered(self) -> tuple[str, ...]:
        """As `TableRelease.not_covered`."""
        form = FORMS.get(self.model.loss.target, FORM)
        return (*self.model.not_covered, *(() if self.model.assumptions else (form,)), *self.plan.not_covered)


def plan_block_release(
    model: BlockModel,
    fitted: BlockFit,
    parts: Sequence[Any],
    engine: Engine,
    few: Table,
    *,
    max_dose: float | None,
    scale: float | None,
    l2: float | None,
    law: type[Density],
    chosen: bool,
    folder: Path,
) -> BlockRelease:
    """Choose the scale for max_dose, or take the stated one, and find what it costs.

    few: some rows, for constants of the fit. l2: as stated. chosen: the kind of noise was left to the program. folder:
    where the doses of the exact weights are kept.
    """
    exact = exact_doses(model, fitted, parts, engine, law, folder)
    highest = HighestDose(model, fitted, parts, engine, law, exact)
    stage("choosing the noise")
    not_covered: tuple[str, ...] = ()
    limit = highest.at(scale) + highest.beside(scale) if scale is not None else float(max_dose or 0.0)
    highest.prepare(limit * k for k in AROUND)
    if scale is None:
        scale, not_covered = highest.scale_for(limit), (SCALE_NOT_COVERED,)
    noise = at_scale(law, scale)
    kinds = _kinds(model, fitted, law, noise) if chosen else _Kinds()
    if kinds.chosen:
        not_covered += (CHOSEN,)
        if model.assumptions or model.target_unit != 1.0:
            not_covered += (UNIT,)
    model = replace(model, noise=noise)
    plan = ReleasePlan(
        fitted.rows(model.rows(few)),
        noise,
        model.leakage(fitted, few).leak,
        highest.at(scale),
        highest.reading.name,
        {"loss": model.loss.description, "l2": float(model.penalty.l2), "scale": float(scale)},
        not_covered,
        floor=exact.floor,
        beside=highest.beside(scale),
        penalty="" if model.penalty.source == STATED else model.penalty.source,
    )
    useful = _usefulness(highest, float(scale), limit, lambda n: penalty_for(model.loss, n, l2).l2)
    return BlockRelease(
        model, fitted, exact, plan, useful, loss_increases=kinds.loss_increases, not_tried=kinds.not_tried
    )


@dataclass(frozen=True)
class _Kinds:
    """The kinds of noise that were compared."""

    loss_increases: dict[str, float] = field(default_factory=dict)
    not_tried: dict[str, str] = field(default_factory=dict)

    @property
    def chosen(self) -> bool:
        """Whether another kind is derived for this loss and law, so that the kind is a choice."""
        return NOT_IN_BLOCKS in self.not_tried.values()


def _kinds(model: BlockModel, fitted: BlockFit, law: type[Density], noise: Any) -> _Kinds:
    """E F(w + b) - F(w) = ½ v tr H for noise of variance v on each weight, for each row, as `glm.choose` has it."""
    inverse = np.linalg.inv(fitted.factor.matrix)
    loss_increase = 0.5 * float(noise.variance) * float(np.sum(inverse**2)) / model.n
    others = [kind for kind in KINDS if kind != ISOTROPIC]
    return _Kinds(
        {ISOTROPIC: loss_increase}, {kind: underived(kind, model.loss, law) or NOT_IN_BLOCKS for kind in others}
    )


# --- usefulness ---


@dataclass(frozen=True, eq=False)
class FoldedRows:
    """(X, y, ω, fold) of a block."""

    model: BlockModel
    rule: FoldRule

    def __call__(self, table: Table) -> RowBlock:
        """Of a block that holds all rows of its people."""
        if self.model.person is None:
            return (*self.model.rows(table), self.rule.folds_of(table.rows.astype(np.int64)))
        _, person = np.unique(table[self.model.person].astype(str), return_inverse=True)
        first = np.full(int(person.max()) + 1, np.iinfo(np.int64).max)
        np.minimum.at(first, person, table.rows)
        return (*self.model.rows(table), self.rule.folds_of(first)[person])


def _usefulness(highest: HighestDose, scale: float, limit: float, l2: Callable[[int], float]) -> Usefulness:
    """Scores on people left out, at this limit and at others, as `usefulness.usefulness`."""
    model, engine, law, exact = highest.model, highest.engine, highest.law, highest.exact
    stage("scoring on people left out")
    first = exact.people if exact.people > MANY else exact.first_rows()
    if exact.people < 2:
        return Usefulness("", 0.0, 0.0, 0.0, 0, (), TOO_FEW)
    rule = FoldRule.of(first)
    parts = [MappedPart(part, FoldedRows(model, rule)) for part in highest.parts]
    try:
        fits = fit_folds(parts, highest.fitted, rule.folds, l2, engine)
    except NoFoldFit as error:  # no other refusal: a file that cannot be read does not make a model useful
        return Usefulness("", 0.0, 0.0, 0.0, 0, (), str(error))
    stage("trying other limits")
    others = [_other_limit(highest, limit * k) for k in AROUND if k != 1.0]
    scales = [0.0, scale, *(step.scale for step in others if step.scale is not None)]
    scores = [finite_score(s) for s in held_out_scores(parts, fits, scales, law, model.target_mean, engine)]
    of_scale = dict(zip(scales, scores, strict=True))
    steps = [LimitStep(limit, scale, scores[1])]
    steps += [step if step.scale is None else replace(step, score=of_scale[step.scale]) for step in others]
    ordered = tuple(sorted(steps, key=lambda step: step.limit))
    return Usefulness(model.loss.score_name, base_score(model), scores[0], scores[1], rule.folds, ordered)


def _other_limit(highest: HighestDose, limit: float) -> LimitStep:
    try:
        return LimitStep(limit, highest.scale_for(limit))
    except (Refusal, CannotMeasure) as error:
        return LimitStep(limit, why=str(error))


def base_score(model: BlockModel) -> float:
    """The score of one prediction for everyone."""
    if not isinstance(model.loss, TwoClassLoss):
        return 0.0
    return max(model.target_mean, 1.0 - model.target_mean)
