"""The result of `fix`: a linear model released with noise, what it still leaks, and what the noise cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from dosimeter.core.progress import stage
from dosimeter.core.scale_ladder import SCALE_NOT_COVERED as SCALE_CHOSEN
from dosimeter.results.linear_parts import (
    ASSUMPTIONS,
    ATTACKER,
    LIMIT,
    OF_ROWS,
    SEEN,
    ExposureMatrix,
    FittedScaler,
    Frontier,
    GroupFigures,
    NotionInfo,
)
from dosimeter.results.parts import Artefact, Booking, Distribution, Ranked, Refused
from dosimeter.results.result import Result
from dosimeter.results.visibility import (
    FORM,
    GIVEN,
    ONE,
    STATISTIC,
    WHOLE,
    WORDS,
    Amount,
    ResultModel,
    present,
    public,
)

if TYPE_CHECKING:
    from dosimeter.core.arrays import FloatArray
    from dosimeter.core.noise import Density
    from dosimeter.glm.releases.release_plan import ReleasePlan
    from dosimeter.models import usefulness
    from dosimeter.models.accuracy_frontier import Curve
    from dosimeter.models.linear_release import TableRelease
    from dosimeter.tables.table import Table

UNIT = "standard deviations"
CHOSEN = "the scale was found in the data"
SCALE = "stated by the user"
KIND = "stated by the user; if it was chosen here by its expected loss it depends on the data and is withheld"


def _within(result: LinearRelease) -> bool:
    released = not result.refused and not result.useless
    return result.within and result.limit is not None and released


def _l2_stated(result: LinearRelease) -> bool:
    return result.model.l2_from in (None, "stated")


def _stated(result: LinearRelease) -> bool:
    return result.scale_from == "stated"


def _kind_stated(result: LinearRelease) -> bool:
    return not (result.choice and result.choice.loss_increases)


class ReleasedModel(ResultModel):
    """The released model, and the settings in its recipe."""

    loss: Annotated[str, FORM]
    target: Annotated[str, FORM]
    l2: Annotated[float, public("a setting", _l2_stated, OF_ROWS)]
    l2_from: Annotated[str | None, GIVEN] = None
    n: Annotated[int, STATISTIC]
    scale: Annotated[float, public(SCALE, _stated, CHOSEN)]
    shape: Annotated[str | None, public(KIND, _kind_stated)] = None
    reweightings: Annotated[int | None, public(KIND, _kind_stated)] = None

    @classmethod
    def of(cls, release: TableRelease) -> ReleasedModel:
        """The recipe's settings by name; those that this kind of noise does not have are left out."""
        settings = {name: release.plan.settings.get(name) for name in ("l2", "scale", "shape", "reweightings")}
        return cls(
            loss=release.ready.loss.description,
            target=release.ready.target,
            n=len(release.ready.y),
            l2_from=release.penalty.source,
            **present(**settings),
        )


class DoseChange(ResultModel):
    """Doses before and after the noise."""

    before: Annotated[Amount, WORDS]
    spread_before: Annotated[Amount, ONE]
    """The highest over the typical."""
    highest: Annotated[float, ONE]
    typical: Annotated[float, STATISTIC]
    spread_after: Annotated[Amount, ONE]

    @classmethod
    def of(cls, release: TableRelease) -> DoseChange:
        """The exact weights have no bound: only the ratio to the typical dose is known before."""
        import numpy as np

        return cls(
            before=float("inf"),
            spread_before=_over_typical(release.before.unit_scale_eta),
            highest=float(release.doses.max()),
            typical=float(np.median(release.doses)),
            spread_after=_over_typical(release.doses),
        )


class ScoreChange(ResultModel):
    """On the training table."""

    name: Annotated[str, STATISTIC]
    before: Annotated[float, STATISTIC]
    after: Annotated[float | None, STATISTIC] = None
    """None if nothing was released and so no noise was drawn."""


class NoiseChoice(ResultModel):
    """The kind of noise, and what each would have cost."""

    kind: Annotated[str, STATISTIC]
    loss_increases: Annotated[dict[str, float], STATISTIC]
    """Kind -> expected loss that it adds for each row; empty if the kind was stated."""
    left_out: Annotated[dict[str, str], STATISTIC]
    """Kind -> why it was not tried."""

    @classmethod
    def of(cls, release: TableRelease) -> NoiseChoice:
        """From what was chosen, or stated."""
        choice = release.choice
        return cls(
            kind=release.kind,
            loss_increases={} if choice is None else dict(choice.loss_increases),
            left_out={} if choice is None else dict(choice.not_tried),
        )


class LimitScore(ResultModel):
    """One limit and the score that it leaves."""

    limit: Annotated[float, STATISTIC]
    scale: Annotated[float | None, STATISTIC] = None
    score: Annotated[float | None, STATISTIC] = None
    why: Annotated[str, STATISTIC] = ""
    """Why there is no score."""

    @classmethod
    def of(cls, step: usefulness.LimitStep) -> LimitScore:
        """From one tried limit."""
        return cls(limit=step.limit, scale=step.scale, score=step.score, why=step.why)


class HeldOutScores(ResultModel):
    """Scores on people left out of the fit, expected over the noise, beside that of a constant prediction."""

    name: Annotated[str, STATISTIC]
    base: Annotated[float, STATISTIC]
    without_noise: Annotated[float, STATISTIC]
    score: Annotated[float, STATISTIC]
    folds: Annotated[int, STATISTIC]
    worse: Annotated[bool, STATISTIC]
    limit: Annotated[float, STATISTIC]
    """The limit of this release."""
    steps: Annotated[list[LimitScore], STATISTIC]
    why: Annotated[str, STATISTIC] = ""
    """Why nothing could be scored."""

    @classmethod
    def of(cls, useful: usefulness.Usefulness, plan: ReleasePlan, limit: float | None) -> HeldOutScores:
        """If the scale was stated, the limit is the highest dose that it gives."""
        chosen = limit if limit is not None and SCALE_CHOSEN in plan.not_covered else None
        return cls(
            name=useful.name,
            base=useful.base,
            without_noise=useful.without_noise,
            score=useful.score,
            folds=useful.folds,
            worse=useful.worse,
            limit=plan.counted if chosen is None else chosen,
            steps=[LimitScore.of(step) for step in useful.steps],
            why=useful.why,
        )


class LinearRelease(Result):
    """A linear model released with noise, such that no person's dose is above a limit."""

    schema_name: ClassVar[str] = "dosimeter.linear-release/3"
    title: ClassVar[str] = "What the weights of this model leak"

    internal: Annotated[bool, WHOLE]
    notion: Annotated[NotionInfo, WORDS]
    standing: Annotated[str, FORM]
    attacker: Annotated[str, WORDS]
    measured_in: Annotated[str, GIVEN]
    model: Annotated[ReleasedModel, FORM]
    law: Annotated[str, GIVEN]
    noise: Annotated[str, public(SCALE, _stated, CHOSEN)]
    noise_on: Annotated[str, WORDS]
    scale_from: Annotated[Literal["stated", "the data"], GIVEN]
    people: Annotated[int, STATISTIC]
    unit: Annotated[str, GIVEN]
    dose: Annotated[DoseChange, STATISTIC]
    score: Annotated[ScoreChange, STATISTIC]
    choice: Annotated[NoiseChoice | None, STATISTIC] = None
    held_out: Annotated[HeldOutScores | None, STATISTIC] = None
    useless: Annotated[bool, STATISTIC] = False
    """Nothing was released, because a constant prediction does better."""
    limit: Annotated[float | None, public(LIMIT, _within)]
    within: Annotated[bool, public(LIMIT, _within)]
    distribution: Annotated[Distribution, STATISTIC]
    ranked: Annotated[list[Ranked], ONE]
    groups: Annotated[list[GroupFigures], STATISTIC] = Field(default_factory=list)
    strip: Annotated[ExposureMatrix | None, ONE] = None
    frontier: Annotated[Frontier | None, STATISTIC]
    not_covered: Annotated[list[str], FORM]
    assumptions: Annotated[list[str], WORDS]
    remarks: Annotated[list[str], SEEN]
    scaler: Annotated[FittedScaler | None, GIVEN] = None
    booked: Booking
    artefact: Artefact = ""
    refused: Refused = Field(default_factory=list)

    @classmethod
    def of(cls, release: TableRelease, table: Table, *, limit: float | None, within: bool) -> LinearRelease:
        """What the released weights leak, and what the noise cost. table: the rows that were fitted.

        within: whether the limit was kept, so that the model may be released. Rows that were left out of the table are
        among the remarks. `useless` and the booking are set later, by `with_fields`.
        """
        from dataclasses import replace

        from dosimeter.core.notion import Standing
        from dosimeter.models.fit_table import penalty_remark
        from dosimeter.results.exposure import exposure_matrix
        from dosimeter.results.groups import groups
        from dosimeter.results.people import PersonFigures, ranked
        from dosimeter.results.unknowns import unknowns

        stage("summing up")
        ready, plan = release.ready, release.plan
        people = PersonFigures.named(release.doses, ready.ids)
        unit = "row" if ready.ids is None else "person"
        after = replace(release.before, leak=plan.leakage, fit=plan.fit)
        return cls(
            internal=True,
            notion=NotionInfo.fisher(UNIT),
            standing=(Standing.UNACCOUNTED if release.not_covered else Standing.EXACT).value,
            attacker=ATTACKER,
            measured_in=UNIT,
            model=ReleasedModel.of(release),
            law=_law(release).__name__,
            noise=plan.noise_description,
            noise_on=release.noise_on,
            scale_from="the data" if SCALE_CHOSEN in plan.not_covered else "stated",
            people=len(release.doses),
            unit=unit,
            dose=DoseChange.of(release),
            score=ScoreChange(name=release.score_name, before=release.score_before, after=release.score_after),
            choice=NoiseChoice.of(release),
            held_out=HeldOutScores.of(release.useful, plan, limit),
            useless=False,
            limit=limit,
            within=within,
            distribution=people.distribution(unit, limit),
            ranked=ranked(people, table.rows),
            groups=groups(after, table, people, ()),
            strip=exposure_matrix(unknowns(after, table), people, table),
            frontier=_frontier(release),
            not_covered=list(release.not_covered),
            assumptions=[*ASSUMPTIONS, *ready.assumptions],
            remarks=[*ready.remarks, penalty_remark(release.penalty), *_floor(release, unit), *_dropped(table)],
            scaler=FittedScaler.of(ready.scaler, plan.floor),
            booked=False,
        )


def _floor(release: TableRelease, unit: str) -> list[str]:
    """What a fitted scaler leaves at any scale of this noise."""
    from dosimeter.models.fitted_scaler import floor_remark

    ready, left = release.ready, release.plan.floor
    return [floor_remark(ready.design, left, ready.scaler, unit)] if left > 0 else []


def _dropped(table: Table) -> list[str]:
    return [f"rows left out for a missing value or an undeclared class: {table.dropped}"] if table.dropped else []


def _law(release: TableRelease) -> type[Density]:
    from dosimeter.core.covariance import CorrelatedGaussian
    from dosimeter.core.noise import Gaussian

    noise = release.plan.noise
    return Gaussian if isinstance(noise, CorrelatedGaussian) else type(noise)


def _frontier(release: TableRelease) -> Frontier | None:
    from dosimeter.models.accuracy_frontier import frontier

    scale = float(release.plan.settings["scale"] or 0.0)
    curves = frontier(release.before, _law(release), here=scale, here_on=_curve(release))
    return None if curves is None else Frontier.of(curves)


def _curve(release: TableRelease) -> Curve:
    """The curve of the frontier with this release; a reweighted fit is another model and lies on none."""
    from dosimeter.core.covariance import CorrelatedGaussian

    if release.plan.reweighting is not None:
        return ""
    return "shaped" if isinstance(release.plan.noise, CorrelatedGaussian) else "isotropic"


def _over_typical(doses: FloatArray) -> float:
    import numpy as np

    typical = float(np.median(doses))
    return float(doses.max()) / typical if typical > 0 else float("inf")
