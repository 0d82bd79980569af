"""Facts of a linear model: what its weights give away (`measure`, `demo`), and how it was repaired (`fix`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from dosimeter.results.parts import Artefact, AttackSummary, Booking, Distribution, Provenance, Ranked, Refused
from dosimeter.results.visibility import (
    FORM,
    GIVEN,
    ONE,
    STATISTIC,
    WHOLE,
    WORDS,
    Amount,
    ResultModel,
    SchemaName,
    internal,
    public,
)

CHOSEN = "the scale was found in the data"


def _kept(facts: Mapping[str, Any]) -> bool:
    return bool(facts["verdict"]["within"])


def _within(facts: Mapping[str, Any]) -> bool:
    left = not facts.get("refused") and not facts.get("useless")
    return bool(facts["within"]) and facts["limit"] is not None and left


def _l2_stated(facts: Mapping[str, Any]) -> bool:
    return bool(facts["model"].get("l2_from", "stated") == "stated")


def _l2_stated_here(facts: Mapping[str, Any]) -> bool:
    return bool(facts["model"].get("fitted_here")) and _l2_stated(facts)


def _stated(facts: Mapping[str, Any]) -> bool:
    return bool(facts["scale_from"] == "stated")


def _kind_stated(facts: Mapping[str, Any]) -> bool:
    return not (facts.get("choice") or {}).get("prices")


SEEN = internal("some of them tell what was seen in a column")
LIMIT = "stated beforehand; that it was kept is one bit of the data, and the edition says so"
"""Where it was not kept nothing is said of a limit, not even that something is withheld: that would be the same bit."""
SCALE = "stated by the user"
KIND = "stated by the user; chosen here by its expected loss it depends on the data, and nothing is said of it"
OF_ROWS = "a penalty that was not stated here is divided by the number of rows"


class NotionInfo(ResultModel):
    """What is measured."""

    name: Annotated[str, WORDS]
    symbol: Annotated[str, WORDS]
    measured_in: Annotated[str, GIVEN]


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


class Doses(ResultModel):
    """Quantiles over the people."""

    typical: Annotated[Amount, STATISTIC]
    worst_1_percent: Annotated[Amount, STATISTIC]
    highest: Annotated[Amount, ONE]
    highest_row: Annotated[int, ONE]
    highest_over_typical: Annotated[Amount | None, ONE] = None


class WorstCell(ResultModel):
    """The unknown of the most exposed person that is guessed best."""

    row: Annotated[int, ONE]
    cell_row: Annotated[int, ONE]
    column: Annotated[str, ONE]
    kind: Annotated[str, ONE]
    eta: Annotated[Amount | None, ONE] = None
    typical_eta: Annotated[Amount | None, STATISTIC] = None
    deviation: Annotated[Amount | None, ONE] = None
    typical_deviation: Annotated[Amount | None, STATISTIC] = None
    spread: Annotated[float | None, STATISTIC] = None
    step: Annotated[float | None, STATISTIC] = None
    r2: Annotated[float | None, STATISTIC] = None
    nearly_given: Annotated[bool | None, STATISTIC] = None
    without_release: Annotated[float | None, STATISTIC] = None


class GroupFigures(ResultModel):
    """People with one value of a column, or in the lowest or highest tenth of it."""

    column: Annotated[str, STATISTIC]
    group: Annotated[str, internal("a level, or a quantile of a column")]
    end: Annotated[Literal["lowest tenth", "highest tenth", ""], STATISTIC]
    """Which tenth of a number; empty for a level."""
    people: Annotated[int, STATISTIC]
    over_median: Annotated[float, STATISTIC]
    median: Annotated[float, STATISTIC]
    """Of an exact release, as all figures here, the multiple of the typical one."""
    worst_1_percent: Annotated[float, STATISTIC]
    asked: Annotated[bool, STATISTIC]
    by_first_row: Annotated[bool, STATISTIC]


class ColumnFigures(ResultModel):
    """One source column."""

    column: Annotated[str, STATISTIC]
    kind: Annotated[str, STATISTIC]
    over_all_rows: Annotated[Amount | None, STATISTIC] = None
    typical: Annotated[Amount | None, STATISTIC] = None
    highest: Annotated[Amount | None, ONE] = None
    typical_deviation: Annotated[Amount | None, STATISTIC] = None
    least_deviation: Annotated[Amount | None, ONE] = None
    spread: Annotated[float | None, STATISTIC] = None
    step: Annotated[float | None, STATISTIC] = None
    r2: Annotated[float | None, STATISTIC] = None
    """Of the column on everything else in the table, the target among it; no release is in it."""
    nearly_given: Annotated[bool | None, STATISTIC] = None
    """Whether that is so high that the column is a function of the others, or nearly."""
    without_release: Annotated[float | None, STATISTIC] = None
    """Standard deviation of a guess from everything else, without the release."""


class TargetFigures(ColumnFigures):
    """The target."""

    counted: Annotated[bool, GIVEN]


class NoiseNeeded(ResultModel):
    """A scale that would give a highest dose."""

    highest: Annotated[float, GIVEN]
    scale: Annotated[float, STATISTIC]


class Verdict(ResultModel):
    """The limit, and how many are above it."""

    limit: Annotated[float, public(LIMIT)]
    within: Annotated[bool, public(LIMIT)]
    above: Annotated[int, STATISTIC]


class ExposureMatrix(ResultModel):
    """What leaks of the most exposed people, column by column."""

    rows: Annotated[list[int], ONE]
    """(people,) the number of each one's first row."""
    ids: Annotated[list[str] | None, ONE] = None
    columns: Annotated[list[str], STATISTIC]
    """(columns,) the most exposed first."""
    kinds: Annotated[list[str], STATISTIC]
    eta: Annotated[list[list[Amount]], ONE]
    """(people, columns) the spread of the column over the least deviation of a guess."""


class FrontierPoint(ResultModel):
    """One noise scale of the frontier."""

    scale: Annotated[float, STATISTIC]
    score: Annotated[float, STATISTIC]
    highest: Annotated[float, STATISTIC]
    typical: Annotated[float, STATISTIC]


class Frontier(ResultModel):
    """Accuracy against dose as the noise grows."""

    score_name: Annotated[str, STATISTIC]
    score_is: Annotated[str, STATISTIC]
    """In words: the expectation, exact; or a mean over so many simulated releases."""
    without_noise: Annotated[float, STATISTIC]
    isotropic: Annotated[list[FrontierPoint], STATISTIC]
    shaped: Annotated[list[FrontierPoint], STATISTIC] = Field(default_factory=list)
    here: Annotated[float | None, STATISTIC] = None
    """The scale of this release."""
    here_on: Annotated[Literal["isotropic", "shaped", ""], STATISTIC] = ""


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
    """Nothing where that never names it."""


class InversionSummary(AttackSummary):
    """A column guessed from the released weights."""

    column: Annotated[str, STATISTIC]
    candidates: Annotated[int, STATISTIC]
    top_1_percent: Annotated[float, STATISTIC]
    others: Annotated[float, STATISTIC]
    by_prior: Annotated[float | None, STATISTIC] = None
    """Of somebody who knows the shares of the values alone; `control` knows everything else in the table."""
    simulation: Annotated[bool, STATISTIC]
    rare: Annotated[RareLevel | None, STATISTIC] = None


class FittedScaler(ResultModel):
    """Mean and deviation that columns were standardised by, where they are statistics of the table."""

    figures: Annotated[Literal["total", "held"], GIVEN]
    """total: figures go through them; held: they count as public."""
    floor: Annotated[float, STATISTIC]
    """What they leave of the highest figure at any noise."""


class Measurement(ResultModel):
    """What the weights of a linear model give away."""

    schema_: SchemaName
    version: Annotated[str, WORDS]
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
    not_covered: Annotated[list[str], FORM]
    assumptions: Annotated[list[str], WORDS]
    remarks: Annotated[list[str], SEEN]
    scaler: Annotated[FittedScaler | None, GIVEN] = None
    noise_needed: Annotated[list[NoiseNeeded], STATISTIC] = Field(default_factory=list)
    verdict: Annotated[Verdict | None, public(LIMIT, _kept)] = None
    frontier: Annotated[Frontier | None, STATISTIC] = None
    attack: Annotated[InversionSummary | None, STATISTIC] = None
    dropped_rows: Annotated[int, STATISTIC] = 0
    reproduce: Annotated[Provenance | None, GIVEN] = None


class RepairedModel(ResultModel):
    """The model that leaves, and the settings in its recipe."""

    loss: Annotated[str, FORM]
    target: Annotated[str, FORM]
    l2: Annotated[float, public("a setting", _l2_stated, OF_ROWS)]
    l2_from: Annotated[str | None, GIVEN] = None
    n: Annotated[int, STATISTIC]
    scale: Annotated[float, public(SCALE, _stated, CHOSEN)]
    shape: Annotated[str | None, public(KIND, _kind_stated)] = None
    reweightings: Annotated[int | None, public(KIND, _kind_stated)] = None


class RepairedDose(ResultModel):
    """Before and after."""

    before: Annotated[Amount, WORDS]
    spread_before: Annotated[Amount, ONE]
    highest: Annotated[float, ONE]
    typical: Annotated[float, STATISTIC]
    spread_after: Annotated[Amount, ONE]


class ScoreChange(ResultModel):
    """On the training table."""

    name: Annotated[str, STATISTIC]
    before: Annotated[float, STATISTIC]
    after: Annotated[float, STATISTIC]


class NoiseChoice(ResultModel):
    """The kind of noise, and what each would have cost."""

    kind: Annotated[str, STATISTIC]
    prices: Annotated[dict[str, float], STATISTIC]
    left_out: Annotated[dict[str, str], STATISTIC]


class LimitStep(ResultModel):
    """One limit and the score that it leaves."""

    limit: Annotated[float, STATISTIC]
    scale: Annotated[float | None, STATISTIC] = None
    score: Annotated[float | None, STATISTIC] = None
    why: Annotated[str, STATISTIC] = ""


class HeldOutScores(ResultModel):
    """Scores on people left out, expected over the noise, beside one answer for everybody."""

    name: Annotated[str, STATISTIC]
    base: Annotated[float, STATISTIC]
    without_noise: Annotated[float, STATISTIC]
    score: Annotated[float, STATISTIC]
    folds: Annotated[int, STATISTIC]
    worse: Annotated[bool, STATISTIC]
    limit: Annotated[float, STATISTIC]
    steps: Annotated[list[LimitStep], STATISTIC]
    why: Annotated[str, STATISTIC] = ""


class LinearRelease(ResultModel):
    """A model that keeps every person below a dose."""

    schema_: SchemaName
    version: Annotated[str, WORDS]
    internal: Annotated[bool, WHOLE]
    notion: Annotated[NotionInfo, WORDS]
    standing: Annotated[str, FORM]
    attacker: Annotated[str, WORDS]
    measured_in: Annotated[str, GIVEN]
    model: Annotated[RepairedModel, FORM]
    law: Annotated[str, GIVEN]
    noise: Annotated[str, public(SCALE, _stated, CHOSEN)]
    noise_on: Annotated[str, WORDS]
    scale_from: Annotated[Literal["stated", "the data"], GIVEN]
    people: Annotated[int, STATISTIC]
    unit: Annotated[str, GIVEN]
    dose: Annotated[RepairedDose, STATISTIC]
    score: Annotated[ScoreChange, STATISTIC]
    choice: Annotated[NoiseChoice | None, STATISTIC] = None
    held_out: Annotated[HeldOutScores | None, STATISTIC] = None
    useless: Annotated[bool, STATISTIC] = False
    """Nothing was released, because one answer for everybody does better."""
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
    reproduce: Annotated[Provenance | None, GIVEN] = None
