"""The result of `measure` and `demo`: what the weights of a linear model leak about each person."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field

from dosimeter.core.noise import Density
from dosimeter.core.progress import stage
from dosimeter.core.text import safe_text
from dosimeter.results.linear_parts import (
    ASSUMPTIONS,
    ATTACKER,
    LIMIT,
    OF_ROWS,
    SEEN,
    ColumnFigures,
    ExposedWord,
    ExposureMatrix,
    FittedScaler,
    Frontier,
    GroupFigures,
    NotionInfo,
    TargetFigures,
    WorstCell,
)
from dosimeter.results.parts import AttackSummary, Distribution, Ranked
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
    internal,
    present,
    public,
)

if TYPE_CHECKING:
    from dosimeter.attacks import LevelGuesses
    from dosimeter.models.fit_table import TableFit
    from dosimeter.models.linear_attack import Inversion
    from dosimeter.models.table_leakage import TableLeakage
    from dosimeter.results.people import PersonFigures
    from dosimeter.tables.table import Table

UNKNOWNS = {
    True: "the target is counted among a row's unknowns",
    False: "the target is taken as known: it is not counted among a row's unknowns",
}
NOISE_ON = {
    True: "each released weight of the standardised columns",
    False: "each released weight of the model as it stands",
}
"""For a model fitted here (True) and for a given model."""
CONTRASTS = "each weight of the K - 1 orthonormal contrasts between the classes, of the standardised columns"
"""For several classes: equal noise on all their weights, without the part that changes no prediction."""
TARGETS = (0.1, 0.3, 1.0)
"""Highest doses for which an exact release gets the noise it would need."""


def _largest_penalty(minimiser: Any) -> float:
    """λ, of columns with different penalties the largest."""
    strengths = getattr(minimiser, "l2_by_parameter", None)
    columns = minimiser.l2 if strengths is None else strengths[: len(minimiser.coef)]
    return float(max(columns)) if hasattr(columns, "__len__") else float(columns)


def _kept(result: Measurement) -> bool:
    return result.verdict is not None and result.verdict.within


def _l2_stated_here(result: Measurement) -> bool:
    return result.model.fitted_here and result.model.l2_from in (None, "stated")


class LinearModel(ResultModel):
    """The model that was measured."""

    loss: Annotated[str, FORM]
    fitted_here: Annotated[bool, GIVEN] = False
    l2: Annotated[float, public("a setting", _l2_stated_here, OF_ROWS)]
    l2_from: Annotated[str | None, GIVEN] = None
    parameters: Annotated[int, FORM]
    intercept: Annotated[bool, FORM]
    target: Annotated[str, FORM]
    gradient_norm: Annotated[float, STATISTIC]
    condition: Annotated[Amount, STATISTIC]
    score_name: Annotated[str, internal("goes with the score")] = ""
    score: Annotated[float | None, STATISTIC] = None

    @classmethod
    def of(cls, leak: TableLeakage, fit: TableFit | None) -> LinearModel:
        """fit: None for a model that was not fitted here."""
        minimiser = leak.fit
        return cls(
            loss=minimiser.loss.description,
            fitted_here=fit is not None,
            l2=_largest_penalty(minimiser),
            parameters=int(minimiser.w.size),
            intercept=minimiser.intercept,
            target=leak.target,
            gradient_norm=minimiser.gradient_norm,
            condition=minimiser.condition,
            **present(
                l2_from=None if fit is None else fit.penalty.source,
                score_name=None if fit is None else fit.score_name,
                score=None if fit is None else fit.score,
            ),
        )


class Doses(ResultModel):
    """Quantiles over the people."""

    typical: Annotated[Amount, STATISTIC]
    worst_1_percent: Annotated[Amount, STATISTIC]
    highest: Annotated[Amount, ONE]
    highest_row: Annotated[int, ONE]
    """The number of the most exposed person's first row."""
    highest_over_typical: Annotated[Amount | None, ONE] = None
    """Of an exact release, whose doses are unbounded."""

    @classmethod
    def of(cls, people: PersonFigures, table: Table, bounded: bool) -> Doses:
        """bounded: False for an exact release; `people` then only ranks them."""
        from dosimeter.core.quantiles import quantile
        from dosimeter.results.people import number_of

        typical, highest = people.typical, float(people.eta[people.top])
        row = number_of(table, int(people.first[people.top]))
        if bounded:
            worst = quantile(people.eta, 0.99)
            return cls(typical=typical, worst_1_percent=worst, highest=highest, highest_row=row)
        return cls(
            typical=math.inf,
            worst_1_percent=math.inf,
            highest=math.inf,
            highest_row=row,
            highest_over_typical=highest / typical if typical > 0 else math.inf,
        )


class NoiseNeeded(ResultModel):
    """A scale that would give a highest dose."""

    highest: Annotated[float, GIVEN]
    scale: Annotated[float, STATISTIC]


class Verdict(ResultModel):
    """The limit, and how many are above it."""

    limit: Annotated[float, public(LIMIT)]
    within: Annotated[bool, public(LIMIT)]
    above: Annotated[int, STATISTIC]

    @classmethod
    def of(cls, leak: TableLeakage, people: PersonFigures, limit: float) -> Verdict:
        """Everyone is above the limit of an exact release."""
        above = int((leak.counted > limit).sum()) if leak.leak.has_noise else len(people.eta)
        return cls(limit=limit, within=above == 0, above=above)


class RareLevel(ResultModel):
    """The rarest level of a guessed category: how many of its people were found, how many of those named have it."""

    group: Annotated[str, internal("a level of a column")]
    share: Annotated[float, STATISTIC]
    recall: Annotated[float, STATISTIC]
    recall_low: Annotated[float, STATISTIC]
    recall_high: Annotated[float, STATISTIC]
    recall_control: Annotated[float, STATISTIC]
    """Of the likeliest level by everything else, without the release."""
    precision: Annotated[float | None, STATISTIC] = None
    precision_low: Annotated[float | None, STATISTIC] = None
    precision_high: Annotated[float | None, STATISTIC] = None
    precision_control: Annotated[float | None, STATISTIC] = None
    """None if that never names it."""

    @classmethod
    def of(cls, group: str, guesses: LevelGuesses) -> RareLevel:
        """group: the level's name. Precision is left out if no row was named."""
        shares = {"recall": guesses.recall, "precision": guesses.precision}
        figures = {name: share.figure for name, share in shares.items()}
        figures |= {f"{name}_low": share.interval and share.interval.low for name, share in shares.items()}
        figures |= {f"{name}_high": share.interval and share.interval.high for name, share in shares.items()}
        figures |= {f"{name}_control": share.control for name, share in shares.items()}
        return cls(group=group, share=guesses.share, **present(**figures))


class InversionSummary(AttackSummary):
    """A column guessed from the released weights."""

    column: Annotated[str, STATISTIC]
    candidates: Annotated[int, STATISTIC]
    top_1_percent: Annotated[float, STATISTIC]
    others: Annotated[float, STATISTIC]
    by_prior: Annotated[float | None, STATISTIC] = None
    """Of a guess from the shares of the values alone; `control` knows everything else in the table."""
    simulation: Annotated[bool, STATISTIC]
    rare: Annotated[RareLevel | None, STATISTIC] = None

    @classmethod
    def of(cls, inversion: Inversion, column: str, *, simulation: bool) -> InversionSummary:
        """simulation: whether the releases were drawn for the attack, as opposed to one that was made."""
        guesses, rare = inversion.guesses, inversion.rare
        low, high, level = guesses.interval
        top, others = inversion.share_of_top()
        return cls(
            attack=guesses.attack,
            measure=guesses.measure,
            figure=guesses.figure,
            low=low,
            high=high,
            level=level,
            control=guesses.control_figure,
            beats_control=guesses.beats_control,
            standing=guesses.standing.value,
            column=column,
            candidates=inversion.levels,
            top_1_percent=top,
            others=others,
            by_prior=inversion.by_prior,
            simulation=simulation,
            **present(rare=None if rare is None else RareLevel.of(inversion.rare_level, rare)),
        )


def noise_on(loss: Any, fitted_here: bool) -> str:
    """What the noise is on."""
    orthonormal = getattr(loss, "reference", None) == "mean"
    return CONTRASTS if fitted_here and orthonormal else NOISE_ON[fitted_here]


class Measurement(Result):
    """What the weights of a linear model leak."""

    schema_name: ClassVar[str] = "dosimeter.measurement/3"
    title: ClassVar[str] = "What the weights of this model leak"
    released: ClassVar[str] = "weights"
    """What the figures are about."""

    internal: Annotated[bool, WHOLE]
    notion: Annotated[NotionInfo, WORDS]
    standing: Annotated[str, FORM]
    attacker: Annotated[str, WORDS]
    noise: Annotated[str, GIVEN]
    noise_on: Annotated[str, WORDS]
    bounded: Annotated[bool, GIVEN]
    model: Annotated[LinearModel, FORM]
    people: Annotated[int, STATISTIC]
    rows: Annotated[int, STATISTIC]
    unknowns: Annotated[str, GIVEN]
    unit: Annotated[str, GIVEN]
    rows_counted: Annotated[str, internal("about row numbers")]
    dose: Annotated[Doses, STATISTIC]
    meaning: Annotated[WorstCell | None, ONE]
    groups: Annotated[list[GroupFigures], STATISTIC]
    columns: Annotated[list[ColumnFigures], STATISTIC]
    target: Annotated[TargetFigures, STATISTIC]
    distribution: Annotated[Distribution, STATISTIC]
    ranked: Annotated[list[Ranked], ONE]
    strip: Annotated[ExposureMatrix | None, ONE]
    words: Annotated[list[ExposedWord], ONE] = Field(default_factory=list)
    not_covered: Annotated[list[str], FORM]
    assumptions: Annotated[list[str], WORDS]
    remarks: Annotated[list[str], SEEN]
    scaler: Annotated[FittedScaler | None, GIVEN] = None
    noise_needed: Annotated[list[NoiseNeeded], STATISTIC] = Field(default_factory=list)
    verdict: Annotated[Verdict | None, public(LIMIT, _kept)] = None
    frontier: Annotated[Frontier | None, STATISTIC] = None
    attack: Annotated[InversionSummary | None, STATISTIC] = None
    dropped_rows: Annotated[int, STATISTIC] = 0

    @classmethod
    def of(
        cls,
        leak: TableLeakage,
        table: Table,
        *,
        limit: float | None = None,
        groups: Sequence[str] = (),
        fit: TableFit | None = None,
        show_ids: bool = False,
        attack: InversionSummary | None = None,
    ) -> Self:
        """Every figure of a measurement.

        table: the measured rows. limit: the highest dose allowed. groups: columns whose groups are compared besides
        those of the model. fit: the model if it was fitted here, so that other amounts of noise can be tried on it.
        show_ids: the most exposed are listed by their ids. attack: what an attack on the same release achieved.
        """
        from dosimeter.results.exposure import exposure_matrix
        from dosimeter.results.groups import group_remarks
        from dosimeter.results.groups import groups as group_figures
        from dosimeter.results.people import PersonFigures, ranked
        from dosimeter.results.unknowns import columns, given_remarks, target, unknowns, worst_cell

        stage("measuring every row")
        people = PersonFigures.of(leak)
        stage("measuring every column")
        bounded, unit = leak.leak.has_noise, "row" if leak.ids is None else "person"
        every = unknowns(leak, table) if bounded else []
        compared = group_figures(leak, table, people, groups)
        ids = leak.ids if show_ids else None
        result = cls(
            internal=True,
            notion=NotionInfo.fisher(leak.measured_in),
            standing=leak.standing.value,
            attacker=ATTACKER,
            noise=str(leak.noise),
            noise_on=noise_on(leak.fit.loss, fit is not None),
            bounded=bounded,
            model=LinearModel.of(leak, fit),
            people=len(people.eta),
            rows=leak.leak.n,
            unknowns=UNKNOWNS[leak.leak.include_target],
            unit=unit,
            rows_counted="from 1, the header not counted",
            dose=Doses.of(people, table, bounded),
            meaning=worst_cell(every, table, people),
            groups=compared,
            columns=columns(every, leak, people) if bounded else [],
            target=target(every, leak, people),
            distribution=people.distribution(unit, limit, relative=not bounded),
            ranked=ranked(people, table.rows, relative=not bounded, ids=ids),
            strip=exposure_matrix(every, people, table, ids=ids),
            words=_words(leak, table, people) if bounded and leak.texts else [],
            not_covered=list(leak.not_covered),
            assumptions=[*ASSUMPTIONS, *leak.assumptions],
            remarks=[*leak.approximations, *leak.remarks, *given_remarks(every), *group_remarks(compared, groups)],
            scaler=_fitted_scaler(leak, limit),
            dropped_rows=table.dropped,
            **present(
                noise_needed=None if bounded else _noise_needed(leak, limit),
                verdict=None if limit is None else Verdict.of(leak, people, limit),
                attack=attack,
            ),
        )
        return result if fit is None else result.with_fields(frontier=_frontier(leak))


WORDS_OF, WORDS_EACH = 5, 5
"""Rows of the most exposed people, and words of each."""


def _words(leak: TableLeakage, table: Table, people: PersonFigures) -> list[ExposedWord]:
    """The words that leak most, of the first rows of the most exposed people."""
    from dosimeter.models.worst_words import worst_words
    from dosimeter.results.people import number_of

    rows = people.first[people.highest_first[:WORDS_OF]]
    return [
        ExposedWord(row=number_of(table, w.row), column=w.column, word=safe_text(w.word, 60), count=w.count, eta=w.eta)
        for w in worst_words(leak, rows, WORDS_EACH)
    ]


def _fitted_scaler(leak: TableLeakage, limit: float | None) -> FittedScaler | None:
    """What a scaler leaves, and with a limit what that is compared with."""
    if leak.floor is None:
        return None
    counted = None if limit is None or not leak.leak.has_noise else float(leak.counted.max())
    return FittedScaler.of(leak.scaler, float(leak.left.max()), counted)


def _noise_needed(leak: TableLeakage, limit: float | None) -> list[NoiseNeeded]:
    """The scales that would give TARGETS and the limit, without those that a fitted scaler makes infinite."""
    targets = sorted({*TARGETS, *(() if limit is None else (limit,))})
    scales = [(highest, leak.scale_within(highest)) for highest in targets]
    return [NoiseNeeded(highest=highest, scale=scale) for highest, scale in scales if math.isfinite(scale)]


def _frontier(leak: TableLeakage) -> Frontier | None:
    from dosimeter.models.accuracy_frontier import frontier

    if not leak.leak.has_noise:
        curves = frontier(leak)
    elif isinstance(leak.noise, Density):
        curves = frontier(leak, type(leak.noise), here=leak.noise.scale)
    else:  # a covariance has no single scale to draw the curve over
        return None
    return None if curves is None else Frontier.of(curves)
