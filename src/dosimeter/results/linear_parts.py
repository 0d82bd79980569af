"""Parts that measurements and releases of linear models share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from dosimeter.core.notion import FISHER
from dosimeter.results.visibility import (
    GIVEN,
    ONE,
    STATISTIC,
    WORDS,
    Amount,
    ResultModel,
    internal,
    present,
)

if TYPE_CHECKING:
    from dosimeter.models.accuracy_frontier import AccuracyFrontier, FrontierStep

LIMIT = "stated in advance; that it was kept is one bit of the data, and the edition says so"
"""If the limit was exceeded, the external edition does not mention a limit at all: "withheld" would reveal that."""
ATTACKER = "knows everything else in the table and guesses without bias"
ASSUMPTIONS = (
    "a guess without bias: an attacker who accepts bias, or knows more about a person than the table holds, may do "
    "better",
    "the noise is fresh, is drawn by the operating system and stays secret",
    "names and kinds of columns, which of them vary, and the levels of categories are taken as public: the model "
    "holds them",
    "other releases about the same people add to the dose: their η² add up",
)
SEEN = internal("some of them report what was seen in a column")
OF_ROWS = "a penalty that was not stated here is divided by the number of rows"


class NotionInfo(ResultModel):
    """What is measured."""

    name: Annotated[str, WORDS]
    symbol: Annotated[str, WORDS]
    measured_in: Annotated[str, GIVEN]

    @classmethod
    def fisher(cls, measured_in: str) -> NotionInfo:
        """Fisher information loss, per "standard deviations" or in "own units"."""
        return cls(name=FISHER.name, symbol=FISHER.symbol, measured_in=measured_in)


class WorstCell(ResultModel):
    """The value of the most exposed person about which the release says most beyond everything else."""

    row: Annotated[int, ONE]
    """The number of their first row."""
    cell_row: Annotated[int, ONE]
    """The number of the row with this value."""
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


class ExposedWord(ResultModel):
    """A word of one of the most exposed people's texts, or a column of their row of a sparse table."""

    row: Annotated[int, ONE]
    column: Annotated[str, ONE]
    word: Annotated[str, ONE]
    count: Annotated[float, ONE]
    eta: Annotated[Amount, ONE]
    """Of its count alone."""


class ColumnFigures(ResultModel):
    """One source column: how closely its values can be guessed."""

    column: Annotated[str, STATISTIC]
    kind: Annotated[str, STATISTIC]
    over_all_rows: Annotated[Amount | None, STATISTIC] = None
    """η of the whole column."""
    typical: Annotated[Amount | None, STATISTIC] = None
    """η of the step from one value of a category to another."""
    highest: Annotated[Amount | None, ONE] = None
    typical_deviation: Annotated[Amount | None, STATISTIC] = None
    """Least error of an unbiased guess of a number, in its own unit."""
    least_deviation: Annotated[Amount | None, ONE] = None
    spread: Annotated[float | None, STATISTIC] = None
    """The column's standard deviation."""
    step: Annotated[float | None, STATISTIC] = None
    """The distance between two classes, 1: the target is guessed as a number."""
    r2: Annotated[float | None, STATISTIC] = None
    """Of the column on everything else in the table, the target included, without the release."""
    nearly_given: Annotated[bool | None, STATISTIC] = None
    """Whether R² is so high that the column follows from the others, or nearly."""
    without_release: Annotated[float | None, STATISTIC] = None
    """Standard deviation of a guess from everything else, without the release."""


class TargetFigures(ColumnFigures):
    """The target."""

    counted: Annotated[bool, GIVEN]
    """Whether it counts among a row's unknowns."""


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


class AccuracyPoint(ResultModel):
    """One noise scale of the frontier."""

    scale: Annotated[float, STATISTIC]
    score: Annotated[float, STATISTIC]
    highest: Annotated[float, STATISTIC]
    typical: Annotated[float, STATISTIC]

    @classmethod
    def of(cls, step: FrontierStep) -> AccuracyPoint:
        """From one step of the frontier."""
        return cls(scale=step.scale, score=step.score, highest=step.highest, typical=step.typical)


class Frontier(ResultModel):
    """Accuracy against dose as the noise grows."""

    score_name: Annotated[str, STATISTIC]
    score_is: Annotated[str, STATISTIC]
    """The expectation, exact; or a mean over a number of simulated releases."""
    without_noise: Annotated[float, STATISTIC]
    isotropic: Annotated[list[AccuracyPoint], STATISTIC]
    """The same noise on every weight."""
    shaped: Annotated[list[AccuracyPoint], STATISTIC] = Field(default_factory=list)
    here: Annotated[float | None, STATISTIC] = None
    """The scale of this release."""
    here_on: Annotated[Literal["isotropic", "shaped", ""], STATISTIC] = ""

    @classmethod
    def of(cls, frontier: AccuracyFrontier) -> Frontier:
        """From the computed curves."""
        return cls(
            score_name=frontier.score_name,
            score_is=frontier.score_is,
            without_noise=frontier.without_noise,
            isotropic=[AccuracyPoint.of(step) for step in frontier.isotropic],
            shaped=[AccuracyPoint.of(step) for step in frontier.shaped],
            here=frontier.here,
            here_on=frontier.here_on,
        )


class FittedScaler(ResultModel):
    """Mean and deviation that columns were standardised by, if they are statistics of the table."""

    figures: Annotated[Literal["total", "held"], GIVEN]
    """total: doses include them; held: they count as public."""
    floor: Annotated[float, STATISTIC]
    """What they leave of the highest dose at any noise."""
    counted: Annotated[float | None, STATISTIC] = None
    """held: the highest figure that the limit is compared with, through the scaler."""

    @classmethod
    def of(cls, figures: Any, floor: float, counted: float | None = None) -> FittedScaler | None:
        """figures: "total" or "held". None if no scaler was fitted on the table."""
        if not floor > 0:
            return None
        return cls(figures=figures, floor=floor, **present(counted=counted if figures == "held" else None))
