"""Facts of noised principal components (`pca`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from dosimeter.results.parts import Artefact, AttackSummary, Booking, Distribution, Provenance, Ranked, Refused
from dosimeter.results.visibility import (
    FORM,
    GIVEN,
    LOCAL,
    NOISED,
    ONE,
    STATISTIC,
    WORDS,
    Amount,
    ResultModel,
    SchemaName,
    internal,
    public,
)


def _private(facts: Mapping[str, Any]) -> bool:
    return bool(facts["private"])


READ = "the bounds were read off the table"
BOUNDS = public("follows from the declared bounds, the mechanism and N", _private, READ)
ROWS = public("declared, or the same in all neighbours", _private, READ)


class Guarantee(ResultModel):
    """(ε, δ), for whom, and whether the noise proves it."""

    epsilon: Annotated[float, GIVEN]
    delta: Annotated[float, GIVEN]
    neighbours: Annotated[Literal["replace-one", "add-or-remove-one"], GIVEN]
    unit: Annotated[Literal["row", "person"], WORDS]
    costs: Annotated[Amount, BOUNDS]
    holds: Annotated[bool, BOUNDS]
    standing: Annotated[str, GIVEN]


class MomentNoise(ResultModel):
    """The noise on the second moment."""

    on: Annotated[str, WORDS]
    law: Annotated[str, GIVEN]
    scale_low: Annotated[float, BOUNDS]
    scale_high: Annotated[float, BOUNDS]
    second_moment_reach: Annotated[float, BOUNDS]
    mean_share: Annotated[float, GIVEN]
    """Part of the budget that is spent on the mean; 0: moments about the public centre."""
    mean_scale: Annotated[float, BOUNDS]
    """Of the noise on each entry of the mean; 0 where none is released."""


class Released(ResultModel):
    """How many components leave."""

    released: Annotated[int, NOISED]
    columns: Annotated[int, FORM]
    share_of_noisy_variance: Annotated[float | None, GIVEN]


class CapturedVariance(ResultModel):
    """Variance of the table about its mean that the released directions hold, over the best there is."""

    k: Annotated[int, STATISTIC]
    q: Annotated[float, STATISTIC]
    at_random: Annotated[float, STATISTIC]


class Variance(ResultModel):
    """The same for k = 1, 2, ...: exact and noised directions."""

    k: Annotated[list[int], STATISTIC]
    exact: Annotated[list[float], STATISTIC]
    """Share of the whole variance in the best k directions."""
    released: Annotated[list[float], STATISTIC]
    """Share of the whole variance in the first k noised ones."""
    at_random: Annotated[list[float], STATISTIC]


class ComponentDoses(ResultModel):
    """η or μ over the people, or why it was not measured."""

    symbol: Annotated[str, STATISTIC] = ""
    compares: Annotated[str, STATISTIC] = ""
    unit: Annotated[str, STATISTIC] = ""
    highest: Annotated[Amount | None, ONE] = None
    typical: Annotated[Amount | None, STATISTIC] = None
    standing: Annotated[str, STATISTIC] = ""
    not_measured: Annotated[str, STATISTIC] = ""


class InternalFigures(ResultModel):
    """Computed from the table without protection."""

    clipped_share: Annotated[float, STATISTIC]
    labels_outside_the_list: Annotated[int, STATISTIC]
    rows_left_out: Annotated[int, STATISTIC]
    captured: Annotated[CapturedVariance, STATISTIC]
    variance: Annotated[Variance | None, STATISTIC] = None
    dose: Annotated[ComponentDoses | None, STATISTIC] = None
    membership: Annotated[ComponentDoses | None, STATISTIC] = None
    distribution: Annotated[Distribution | None, STATISTIC] = None
    ranked: Annotated[list[Ranked], ONE] = Field(default_factory=list)
    people: Annotated[int | None, STATISTIC] = None
    most_rows_of_a_person: Annotated[int | None, ONE] = None


class ByComponents(ResultModel):
    """AUC when the first k components are seen, beside what chance gives."""

    k: Annotated[list[int], STATISTIC]
    auc: Annotated[list[float], STATISTIC]
    null_low: Annotated[list[float], STATISTIC]
    """2.5 % of the deals lie below."""
    null_high: Annotated[list[float], STATISTIC]


class MembershipSummary(AttackSummary):
    """The attack of [Zari22] at one k, and the best k after the fact."""

    k: Annotated[int, STATISTIC]
    rank: Annotated[int, STATISTIC]
    maximum: Annotated[float, STATISTIC]
    best_k: Annotated[int, STATISTIC]
    null_mean: Annotated[float, STATISTIC]
    null_95: Annotated[float, STATISTIC]
    p_value: Annotated[float, STATISTIC]
    beats_chance: Annotated[bool, STATISTIC]
    null_at_k: Annotated[list[float], STATISTIC]
    by_components: Annotated[ByComponents | None, STATISTIC] = None


class SplitHalfAttack(ResultModel):
    """Half of the people as members, the others as strangers."""

    members: Annotated[int, STATISTIC]
    strangers: Annotated[int, STATISTIC]
    simulation: Annotated[bool, STATISTIC]
    dealt_by: Annotated[str, STATISTIC]
    interval_over: Annotated[str, STATISTIC]
    before: Annotated[MembershipSummary, STATISTIC]
    after: Annotated[MembershipSummary, STATISTIC]


class ComponentsRelease(ResultModel):
    """Components of a noised second moment."""

    schema_: SchemaName
    version: Annotated[str, WORDS]
    private: Annotated[bool, GIVEN]
    mechanism: Annotated[str, GIVEN]
    guarantee: Annotated[Guarantee, GIVEN]
    noise: Annotated[MomentNoise, GIVEN]
    components: Annotated[Released, NOISED]
    rows_public: Annotated[int | None, ROWS] = None
    people_public: Annotated[int | None, ROWS] = None
    """In place of the rows where a person is the unit: their number of rows is their own."""
    bounds: Annotated[str, GIVEN]
    units: Annotated[str, GIVEN]
    not_covered: Annotated[list[str], WORDS]
    assumptions: Annotated[list[str], WORDS]
    remarks: Annotated[list[str], internal("some of them tell what the ledger holds")]
    internal: Annotated[InternalFigures, STATISTIC]
    attack: Annotated[SplitHalfAttack | None, STATISTIC] = None
    booked: Booking
    artefact: Artefact = ""
    refused: Refused = Field(default_factory=list)
    written: Annotated[str, LOCAL]
    reproduce: Annotated[Provenance | None, GIVEN] = None
