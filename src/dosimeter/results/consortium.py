"""The results of `federate init`, `federate coordinator` and `federate site`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from dosimeter.results.parts import Artefact
from dosimeter.results.result import Result
from dosimeter.results.visibility import (
    FORM,
    GIVEN,
    LOCAL,
    NOISED,
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
    from dosimeter.models.consortium_study import StudyOutcome
    from dosimeter.tables.consortium_schema import ConsortiumSchema

CHOSEN = "the scale was found in the data"
SEEN = {
    "coordinator": "the coordinator: it sees the exact sums of each site, and the exact model; rows and ids stay at "
    "the sites",
    "sites": "nobody: each site adds its own noise before anything leaves it",
}
SEEN_IN_TRAINING = (
    "the coordinator: it sees the exact sum of each site in every round; who was drawn stays at the sites"
)
TWO_SITES = (
    "a patient with rows at several sites has a dose in each ledger; nobody sees across sites that it is one person"
)
INTEGRITY = "integrity: a site that lies about its sums within the bounds of the schema is not detected"
FRESH = "the noise is fresh, is drawn by the operating system and stays secret"
AGREED = "columns, bounds, levels and the roster were agreed on without the tables"


class StudyScore(ResultModel):
    """How well the model predicts the rows of all sites."""

    name: Annotated[str, WORDS]
    base: Annotated[float, STATISTIC]
    """Of the same answer for everyone."""
    before: Annotated[float, STATISTIC]
    after: Annotated[float | None, STATISTIC] = None


class ConsortiumRelease(Result):
    """A release of several sites, each of which keeps its rows and booked its own patients' doses."""

    schema_name: ClassVar[str] = "dosimeter.consortium/1"
    title: ClassVar[str] = "What this consortium's release leaks"

    study: Annotated[str, GIVEN]
    kind: Annotated[str, GIVEN]
    name: Annotated[str, GIVEN]
    """Under which every site's ledger holds it."""
    sites: Annotated[int, GIVEN]
    noise_at: Annotated[str, GIVEN]
    limit: Annotated[float | None, GIVEN] = None
    """Highest η of a patient at any site."""
    epsilon: Annotated[float | None, GIVEN] = None
    delta: Annotated[float | None, GIVEN] = None
    costs: Annotated[Amount | None, public("follows from the settings and declared numbers of patients")] = None
    """ε at δ that the noise proves."""
    scale_chosen: Annotated[bool, GIVEN]
    noise: Annotated[str, public("the noise of the release", lambda result: not result.scale_chosen, CHOSEN)]
    noise_ratio: Annotated[float | None, public("follows from numbers of patients, which are public")] = None
    """Noise at the sites over noise added once by a coordinator."""
    loss: Annotated[str | None, GIVEN] = None
    l2: Annotated[float | None, GIVEN] = None
    parameters: Annotated[int | None, FORM] = None
    components: Annotated[int | None, FORM] = None
    rounds: Annotated[int | None, GIVEN] = None
    people: Annotated[int | None, public("declared, or the same in all neighbours")] = None
    within: Annotated[bool, internal("that a site said no is a fact about its patients")]
    """Whether every site said yes and booked."""
    trusted: Annotated[str, WORDS]
    not_covered: Annotated[list[str], WORDS]
    assumptions: Annotated[list[str], WORDS]
    rows: Annotated[int | None, STATISTIC] = None
    passes: Annotated[int | None, STATISTIC] = None
    score: Annotated[StudyScore | None, STATISTIC] = None
    absent: Annotated[int | None, STATISTIC] = None
    """Answers that did not arrive in the rounds of a training."""
    said_no: Annotated[list[int], internal("a no is a fact about a site's patients")] = Field(default_factory=list)
    unbooked: Annotated[list[int], internal("a fact about a site's patients")] = Field(default_factory=list)
    remarks: Annotated[list[str], LOCAL] = Field(default_factory=list)
    artefact: Artefact = ""
    written: Annotated[str, LOCAL] = ""

    @classmethod
    def of(cls, schema: ConsortiumSchema, outcome: StudyOutcome, score_after: float | None = None) -> ConsortiumRelease:
        """From a study that has ended."""
        figures, terms = outcome.figures, schema.release
        training = schema.training is not None
        named = ("parameters", "components", "rounds", "people", "rows", "passes", "absent", "noise_ratio")
        return cls(
            study=schema.study,
            kind=schema.kind,
            name=terms.name,
            sites=len(schema.sites),
            noise_at=terms.noise_at,
            scale_chosen=bool(figures.get("chosen", False)),
            noise="" if outcome.recipe is None else outcome.recipe.noise,
            within=not outcome.refused and not outcome.unbooked,
            trusted=SEEN_IN_TRAINING if training else SEEN[terms.noise_at],
            not_covered=[*figures.get("not_covered", ()), TWO_SITES, INTEGRITY],
            assumptions=[FRESH, AGREED],
            said_no=list(outcome.refused),
            unbooked=list(outcome.unbooked),
            remarks=["the noise was drawn by an earlier run of this study"] if outcome.earlier else [],
            **present(
                limit=terms.max_dose,
                epsilon=terms.epsilon,
                delta=terms.delta,
                costs=figures.get("epsilon_cost"),
                loss=schema.loss or None,
                l2=schema.l2 if schema.loss else None,
                score=_score(figures, score_after),
                **{name: figures.get(name) for name in named},
            ),
        )


def _score(figures: Mapping[str, Any], after: float | None) -> StudyScore | None:
    if "score_before" not in figures:
        return None
    base, before = figures["score_base"], figures["score_before"]
    return StudyScore(name=figures["score_name"], base=base, before=before, **present(after=after))


class SiteRecord(Result):
    """What a site did in a study. Internal to the site."""

    schema_name: ClassVar[str] = "dosimeter.consortium-site/1"
    title: ClassVar[str] = "A site of a consortium"

    internal: Annotated[bool, WHOLE] = True
    study: Annotated[str, GIVEN]
    kind: Annotated[str, GIVEN]
    name: Annotated[str, GIVEN]
    site: Annotated[int, LOCAL]
    questions: Annotated[int, LOCAL]
    """Answered in this study, over all restarts."""
    released: Annotated[bool, LOCAL]
    booked: Annotated[bool, LOCAL]
    people: Annotated[int, STATISTIC]
    """Patients of this site in the release."""


class ConsortiumCreated(Result):
    """The files of a new consortium."""

    schema_name: ClassVar[str] = "dosimeter.consortium-created/1"
    title: ClassVar[str] = "A new consortium"
    public_only: ClassVar[bool] = True

    study: Annotated[str, GIVEN]
    kind: Annotated[str, GIVEN]
    host: Annotated[str, GIVEN]
    port: Annotated[int, GIVEN]
    days: Annotated[int, GIVEN]
    sites: Annotated[list[str], GIVEN]
    certificates: Annotated[dict[str, str], NOISED]
    """Role -> SHA-256 of its certificate."""
    files: Annotated[list[str], GIVEN]
    schema_sha256: Annotated[str, GIVEN]
    """Of schema.toml, which is the same file at every party."""
    training: Annotated[str, GIVEN] = ""
    """m and z, if they were solved for."""
