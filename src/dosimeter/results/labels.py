"""The result of `pate`: labels by noisy vote. The bound to publish is apart from everything internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from dosimeter.core.notion import Standing
from dosimeter.results.distribution import distribution
from dosimeter.results.parts import Artefact, Booking, Distribution, Refused
from dosimeter.results.result import Result
from dosimeter.results.visibility import (
    GIVEN,
    LOCAL,
    NOISED,
    ONE,
    STATISTIC,
    WORDS,
    Amount,
    ResultModel,
    internal,
    present,
    public,
)

if TYPE_CHECKING:
    from dosimeter.models.vote_noise import VoteNoise
    from dosimeter.models.vote_set import VoteSet
    from dosimeter.pate.label import Labels
    from dosimeter.pate.vote_figures import VoteFigures
    from dosimeter.pate.votes import Votes

QUERIES, TEACHERS = 200, 50
"""Queries and teachers that are shown one by one, at most."""
WIDE = 4
"""Noise of a scale above a quarter of the teachers drowns the vote (on the demo's digits, half of the labels)."""
ASSUMPTIONS = (
    "the noise is fresh, is drawn by the operating system and stays secret",
    "the public rows are public, and so is how many of them were asked",
    "other labels by the same people's teachers add their own nats",
)
UNDECLARED = "the classes were read off the private table, where one person's label changes them"
PUBLISHED = public(
    "read off the numbers of queries and classes and the noise; holds for every table",
    when=lambda result: bool(result.publishable.standing != "unaccounted"),
    unless=UNDECLARED,
)


class PublishedBound(ResultModel):
    """The bound that is the same for every table; unaccounted if the classes were read off the private table."""

    nats: Annotated[float, PUBLISHED]
    nats_per_query: Annotated[float, PUBLISHED]
    factor: Annotated[Amount, PUBLISHED]
    nats_who: Annotated[float | None, PUBLISHED] = None
    """If it is not known who the person is; only for persons whose own ids decide their teachers."""
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

    @classmethod
    def of(cls, votes: VoteSet, labels: Labels, noise: VoteNoise, delta: float) -> PublishedBound:
        """k log B₁ nats (Prop. 12 of [Saeidian21]) from public constants, and (ε, δ) beside it."""
        from dosimeter.pate.accounting import epsilon
        from dosimeter.pate.doses import IDENTITY_SHIFT, public_bound

        k, m = votes.votes.n_queries, votes.votes.n_classes
        bound = public_bound(k, m, noise.noise, threshold=noise.threshold)
        beside = epsilon(k, noise.noise, delta, threshold=noise.threshold)
        with_identity = None
        if votes.persons_named:
            with_identity = public_bound(k, m, noise.noise, threshold=noise.threshold, shift=IDENTITY_SHIFT).nats
        return cls(
            nats=bound.nats,
            nats_per_query=bound.per_query,
            factor=bound.factor,
            nats_who=with_identity,
            standing=_standing(bound.standing, votes),
            notion="pointwise conditional maximal leakage",
            unit=_unit(votes),
            neighbours=beside.neighbours,
            teachers=votes.votes.n_teachers,
            queries=k,
            refused=int(labels.refused.sum()),
            classes=m,
            noise=repr(noise.noise),
            threshold=None if noise.threshold is None else repr(noise.threshold),
            epsilon=beside.epsilon,
            delta=beside.delta,
            epsilon_standing=_standing(beside.standing, votes),
            adjacency=beside.adjacency,
        )


def _standing(standing: Standing, votes: VoteSet) -> str:
    """Classes read off the private table change every figure with one person's label."""
    return (standing if votes.declared else Standing.UNACCOUNTED).value


def _unit(votes: VoteSet) -> str:
    if votes.teacher_of is None:
        return "teacher's part"
    if votes.persons_named:
        return "teacher's part, and so any person in it, given who is in the table"
    return "teacher's part, and so any row in it, given how many rows there are"


class LeakageByQuery(ResultModel):
    """Nats about the teacher whom a query exposes most, the queries in the order of the answers."""

    nats: Annotated[list[float], STATISTIC]
    shown: Annotated[int, STATISTIC]
    """The first queries, this many; the others are in no list."""
    bound: Annotated[float, STATISTIC]
    """Per query, whatever the votes."""

    @classmethod
    def of(cls, votes: Votes, noise: VoteNoise, figures: VoteFigures) -> LeakageByQuery:
        """The first QUERIES of them."""
        from dosimeter.pate.doses import public_bound

        bound = public_bound(votes.n_queries, votes.n_classes, noise.noise, threshold=noise.threshold).per_query
        return cls(nats=figures.worst[:QUERIES].tolist(), shown=min(QUERIES, len(figures.worst)), bound=bound)


class InternalVoteFigures(ResultModel):
    """For the votes that were cast."""

    unit: Annotated[Literal["person", "teacher"], STATISTIC]
    people: Annotated[int | str, STATISTIC]
    typical_nats: Annotated[float, STATISTIC]
    highest_nats: Annotated[float, ONE]
    standing: Annotated[str, STATISTIC]
    agreement_with_plain_vote: Annotated[float, STATISTIC]
    provenance: Annotated[dict[str, str | int | float | bool | None], internal("fingerprints of the tables")]
    teachers_with_one_class: Annotated[int, STATISTIC]
    teachers_lacking_a_class: Annotated[int, STATISTIC]
    teachers_without_rows: Annotated[int, STATISTIC] = 0
    rows_left_out: Annotated[int | str, STATISTIC]
    persons_left_out: Annotated[int | str, STATISTIC]
    distribution: Annotated[Distribution | None, STATISTIC] = None
    by_query: Annotated[LeakageByQuery | None, STATISTIC] = None
    by_teacher: Annotated[list[float], STATISTIC] = Field(default_factory=list)
    """Nats of the most exposed teachers, the highest first."""

    @classmethod
    def of(cls, votes: VoteSet, labels: Labels, noise: VoteNoise) -> InternalVoteFigures:
        """The exact leakage for the votes that were cast (eq. 12 of [Saeidian21])."""
        from dosimeter.pate.doses import dose
        from dosimeter.pate.vote_figures import vote_figures

        cast, people = votes.votes, votes.teacher_of
        figures = vote_figures(cast, noise.noise, threshold=noise.threshold, labels=labels.stored, shown=QUERIES)
        nats = dose(cast, noise.noise, threshold=noise.threshold, person=people, by_teacher=figures.totals)
        agreement = figures.agreed / max(1, int((~labels.refused).sum()))
        by_teacher = np.sort(figures.totals)[::-1][:TEACHERS]
        unit: Literal["person", "teacher"] = "person" if people else "teacher"
        return cls(
            unit=unit,
            people=len(nats.ids) if people else "unknown",
            typical_nats=float(np.median(nats.figures)),
            highest_nats=float(nats.figures.max()),
            standing=_standing(nats.standing, votes),
            agreement_with_plain_vote=agreement,
            provenance=dict(cast.provenance),
            teachers_with_one_class=votes.constant,
            teachers_lacking_a_class=votes.lacking,
            teachers_without_rows=votes.empty,
            rows_left_out="unknown" if votes.dropped is None else votes.dropped.rows,
            persons_left_out="unknown" if votes.dropped is None else votes.dropped.persons,
            distribution=distribution(nats.figures, of="nats", unit=unit),
            by_query=LeakageByQuery.of(cast, noise, figures),
            by_teacher=by_teacher.tolist(),
        )


class Accuracies(ResultModel):
    """Shares of right answers, by the public table's own target."""

    labels: Annotated[float | None, NOISED] = None
    student: Annotated[float | None, NOISED] = None


class LabelRelease(Result):
    """Public rows labelled by a noisy vote."""

    schema_name: ClassVar[str] = "dosimeter.labels/3"
    title: ClassVar[str] = "What these labels leak"

    source: Annotated[str, LOCAL]
    demo: Annotated[bool, WORDS]
    classes: Annotated[list[str], internal("read off the private table unless --classes lists them")]
    publishable: Annotated[PublishedBound, GIVEN]
    internal: Annotated[InternalVoteFigures, STATISTIC]
    accuracy: Annotated[Accuracies, NOISED]
    public_rows: Annotated[int, public("of the public table")]
    not_covered: Annotated[list[str], WORDS]
    assumptions: Annotated[list[str], WORDS]
    remarks: Annotated[list[str], internal("some of them name files or say what a column holds")]
    booked: Booking
    artefact: Artefact = ""
    refused: Refused = Field(default_factory=list)
    written: Annotated[list[str], LOCAL] = Field(default_factory=list)

    @classmethod
    def of(
        cls,
        votes: VoteSet,
        labels: Labels,
        noise: VoteNoise,
        *,
        delta: float = 1e-5,
        student: Any = None,
        no_student: str = "",
        demo: bool = False,
    ) -> LabelRelease:
        """From the votes and the labels that were drawn.

        student: a model of the labels, to score it. no_student: why a requested student could not be fitted.
        """
        task = votes.task
        score = None if task is None else task.score(labels, student)
        accuracy = {} if score is None else present(labels=score.labels, student=score.student)
        wide = [] if noise.noise.scale * WIDE <= votes.votes.n_teachers else [_too_wide(votes.votes, noise)]
        missing = [f"no student: {no_student}"] if no_student else []
        return cls(
            source=votes.source,
            demo=demo,
            classes=list(votes.classes),
            publishable=PublishedBound.of(votes, labels, noise, delta),
            internal=InternalVoteFigures.of(votes, labels, noise),
            accuracy=Accuracies(**accuracy),
            public_rows=len(votes.keys) if task is None else len(task.public),
            not_covered=list(votes.not_covered),
            assumptions=list(ASSUMPTIONS),
            remarks=[*wide, *votes.remarks, *missing],
            booked=False,
        )


def _too_wide(votes: Votes, noise: VoteNoise) -> str:
    return (
        f"the noise (scale {noise.noise.scale:.3g} votes) is wide beside {votes.n_teachers} votes in all: expect "
        "labels near chance; ask fewer queries, take more teachers, or allow a larger budget"
    )
