"""Facts of labels by noisy vote (`pate`)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dosimeter.results.parts import Artefact, Booking, Distribution, Provenance, Refused
from dosimeter.results.visibility import (
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

UNDECLARED = "the classes were read off the private table, where one person's label changes them"
PUBLISHED = public(
    "read off the numbers of queries and classes and the noise; holds for every table",
    when=lambda facts: bool(facts["publishable"]["standing"] != "unaccounted"),
    unless=UNDECLARED,
)


class PublishedBound(ResultModel):
    """The bound that is the same for every table; unaccounted where the classes were read off the private one."""

    nats: Annotated[float, PUBLISHED]
    nats_per_query: Annotated[float, PUBLISHED]
    factor: Annotated[Amount, PUBLISHED]
    nats_who: Annotated[float | None, PUBLISHED] = None
    """Where it is not known who the person is; only of persons whose own ids decide their teachers."""
    standing: Annotated[str, GIVEN]
    notion: Annotated[str, WORDS]
    unit: Annotated[str, WORDS]
    neighbours: Annotated[str, WORDS]
    teachers: Annotated[int, GIVEN]
    queries: Annotated[int, GIVEN]
    refused: Annotated[int, NOISED]
    classes: Annotated[int, PUBLISHED]
    noise: Annotated[str, PUBLISHED]
    threshold: Annotated[str | None, PUBLISHED]
    epsilon: Annotated[Amount, PUBLISHED]
    delta: Annotated[float, GIVEN]
    epsilon_standing: Annotated[str, GIVEN]
    adjacency: Annotated[str, WORDS]


class ByQuery(ResultModel):
    """Nats about the teacher whom a query exposes most, the queries in the order of the answers."""

    nats: Annotated[list[float], STATISTIC]
    shown: Annotated[int, STATISTIC]
    """The first so many; the others are in no list."""
    bound: Annotated[float, STATISTIC]
    """Per query, whatever the votes."""


class InternalVoteFigures(ResultModel):
    """At these very votes."""

    unit: Annotated[Literal["person", "teacher"], STATISTIC]
    people: Annotated[int | str, STATISTIC]
    typical_nats: Annotated[float, STATISTIC]
    highest_nats: Annotated[float, ONE]
    standing: Annotated[str, STATISTIC]
    agreement_with_plain_vote: Annotated[float, STATISTIC]
    provenance: Annotated[dict[str, str | int], internal("fingerprints of the tables")]
    teachers_with_one_class: Annotated[int, STATISTIC]
    teachers_lacking_a_class: Annotated[int, STATISTIC]
    teachers_without_rows: Annotated[int, STATISTIC] = 0
    rows_left_out: Annotated[int | str, STATISTIC]
    persons_left_out: Annotated[int | str, STATISTIC]
    distribution: Annotated[Distribution | None, STATISTIC] = None
    by_query: Annotated[ByQuery | None, STATISTIC] = None
    by_teacher: Annotated[list[float], STATISTIC] = Field(default_factory=list)
    """Nats of the teachers about whom most is told, the highest first."""


class Accuracies(ResultModel):
    """Shares of right answers, by the public table's own target."""

    labels: Annotated[float | None, NOISED] = None
    student: Annotated[float | None, NOISED] = None


class LabelRelease(ResultModel):
    """Public rows labelled by a noisy vote."""

    schema_: SchemaName
    version: Annotated[str, WORDS]
    source: Annotated[str, LOCAL]
    demo: Annotated[bool, WORDS]
    classes: Annotated[list[str], internal("read off the private table unless --classes lists them")]
    publishable: Annotated[PublishedBound, GIVEN]
    internal: Annotated[InternalVoteFigures, STATISTIC]
    accuracy: Annotated[Accuracies, NOISED]
    public_rows: Annotated[int, public("of the public table")]
    not_covered: Annotated[list[str], WORDS]
    assumptions: Annotated[list[str], WORDS]
    remarks: Annotated[list[str], internal("some of them name files or tell what was seen in a column")]
    booked: Booking
    artefact: Artefact = ""
    refused: Refused = Field(default_factory=list)
    written: Annotated[list[str], LOCAL] = Field(default_factory=list)
    reproduce: Annotated[Provenance | None, GIVEN] = None
