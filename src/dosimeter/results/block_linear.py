"""The `LinearRelease` of a table that was read in blocks: the same fields, from sums and selections over blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dosimeter.core.notion import Standing
from dosimeter.core.scale_ladder import SCALE_NOT_COVERED
from dosimeter.glm.blocks.block_scores import score_of
from dosimeter.models.block_release import BlockRelease
from dosimeter.models.linear_release import NOISED
from dosimeter.models.usefulness import finite_score
from dosimeter.results.block_measurement import (
    ONLY_IN_MEMORY,
    BlockFigures,
    distribution_over_blocks,
    exposure_over_blocks,
    ranked_over_blocks,
    unknowns_over_blocks,
)
from dosimeter.results.linear import (
    UNIT,
    DoseChange,
    HeldOutScores,
    LinearRelease,
    NoiseChoice,
    ReleasedModel,
    ScoreChange,
)
from dosimeter.results.linear_parts import ASSUMPTIONS, ATTACKER, FittedScaler, GroupFigures, NotionInfo


def block_release_result(
    release: BlockRelease,
    figures: BlockFigures,
    groups: Sequence[GroupFigures],
    *,
    limit: float | None,
    within: bool,
    dropped: int,
) -> LinearRelease:
    """As `LinearRelease.of`; the score with noise is set later, when the noise was drawn."""
    model, plan, first = release.model, release.plan, figures.first
    unit = "row" if model.person is None else "person"
    score = score_of(model.loss, first.score)
    every = unknowns_over_blocks(figures)
    return LinearRelease(
        internal=True,
        notion=NotionInfo.fisher(UNIT),
        standing=(Standing.UNACCOUNTED if release.not_covered else Standing.EXACT).value,
        attacker=ATTACKER,
        measured_in=UNIT,
        model=ReleasedModel(
            loss=model.loss.description,
            target=model.target,
            n=model.n,
            l2=float(model.penalty.l2),
            l2_from=model.penalty.source,
            scale=float(plan.settings["scale"] or 0.0),
        ),
        law=type(plan.noise).__name__,
        noise=plan.noise_description,
        noise_on=NOISED,
        scale_from="the data" if SCALE_NOT_COVERED in plan.not_covered else "stated",
        people=first.people,
        unit=unit,
        dose=_dose_change(release, figures),
        score=ScoreChange(name=model.loss.score_name, before=-math.inf if score is None else finite_score(score)),
        choice=NoiseChoice(
            kind=release.kind, loss_increases=dict(release.loss_increases), left_out=dict(release.not_tried)
        ),
        held_out=HeldOutScores.of(release.useful, plan, limit),
        limit=limit,
        within=within,
        distribution=distribution_over_blocks(figures, unit, limit),
        ranked=ranked_over_blocks(figures, show_ids=False),
        groups=list(groups),
        strip=exposure_over_blocks(every, figures, show_ids=False),
        frontier=None,
        not_covered=list(release.not_covered),
        assumptions=[*ASSUMPTIONS, *model.assumptions],
        remarks=[
            *model.every_remark,
            *(model.floor_remarks(plan.floor) if plan.floor > 0 else ()),
            *([f"rows left out for a missing value or an undeclared class: {dropped}"] if dropped else []),
            ONLY_IN_MEMORY,
        ],
        scaler=FittedScaler.of(model.scaler, plan.floor),
        booked=False,
    )


def _dose_change(release: BlockRelease, figures: BlockFigures) -> DoseChange:
    typical, highest = figures.dose(0.5), figures.first.highest
    return DoseChange(
        before=math.inf,
        spread_before=release.exact.spread,
        highest=highest,
        typical=typical,
        spread_after=highest / typical if typical > 0 else math.inf,
    )
