"""The results of `federate` and `federate plan`: (ε, δ) per client, what was trained, what is not covered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from pydantic import Field

from dosimeter.models.round_schedule import as_text
from dosimeter.results.parts import Adjacency, Artefact, Booking, Refused
from dosimeter.results.result import Result
from dosimeter.results.to_json import JsonObject
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
    internal,
    public,
)

if TYPE_CHECKING:
    from dosimeter.federated.budget import EpsilonFigure
    from dosimeter.federated.history import History
    from dosimeter.models.federated_terms import FederatedTerms
    from dosimeter.models.federated_training import Job

TRUSTED = "the curator: it sees every client's update before noise; everyone else sees noised models only"
NEIGHBOURS = {
    "add-or-remove-one": "add or remove one client with all its rows",
    "replace-one": "replace one client with all its rows by another",
}
TRUSTED_BY_PATIENTS = (
    "each site draws its own patients and tells nobody who was drawn; the coordinator sees each site's exact sum in "
    "every round; everyone else sees noised models only"
)
PATIENT_NEIGHBOURS = "add or remove one patient with all their rows at one site"
NOT_COVERED = (
    "tuning: settings chosen by looking at results on these clients' rows, and models thrown away before this one",
    "metrics: whatever is published beside the model (norms, losses, who took part, the saved checkpoint)",
    "a person whose rows lie with several clients: what is hidden is one client",
    "earlier and later trainings with the same clients: each adds its own (ε, δ), and so does going on from an older "
    "copy of a checkpoint, which draws its rounds a second time",
)
INTEGRITY = (
    "integrity: a client or site that lies about its update or sum is not detected; many of them can spoil the model"
)
SEVERAL_SITES = (
    "a patient with rows at s sites: over a network each site clips its own part, so the noise that hides this patient "
    "is z/s, and nobody sees it; two ledgers that each book the training once count √2/z where 2/z is spent"
)


def not_covered(unit: str) -> tuple[str, ...]:
    """What (ε, δ) for this unit does not cover."""
    if unit == "person":
        return (*(NOT_COVERED[k] for k in (0, 1, 3)), SEVERAL_SITES, INTEGRITY)
    return (*NOT_COVERED, INTEGRITY)


ASSUMPTIONS = (
    "clients and noise are drawn afresh by the operating system, and the noise stays secret",
    "the curator follows the recipe",
)
STAMP = "SIMULATION, NOT FOR RELEASE: clients and noise were drawn from a seed"
INTERNAL = "internal: "
"""How a remark begins that was counted without noise: it does not go into the model's file."""
IN_THE_FILE = frozenset(
    "schema version source simulation stamp guarantee budget recipe rows_become model not_covered".split()
)
TERMS = public("follows from the settings and the number of clients, which is taken as public")


class EpsilonDelta(ResultModel):
    """For the whole training."""

    epsilon: Annotated[float, GIVEN]
    delta: Annotated[float, GIVEN]


class ClientGuarantee(ResultModel):
    """(ε, δ) of the rounds that were trained, or are planned."""

    epsilon: Annotated[Amount, TERMS]
    delta: Annotated[float, GIVEN]
    rounds: Annotated[int, TERMS]
    unit: Annotated[str, WORDS]
    adjacency: Annotated[Adjacency, WORDS]
    neighbours: Annotated[str, WORDS]
    standing: Annotated[str, TERMS]
    how: Annotated[str, WORDS]
    trusted: Annotated[str, WORDS]

    @classmethod
    def of(cls, figure: EpsilonFigure) -> ClientGuarantee:
        """From the accountant's figure."""
        return cls(
            epsilon=figure.epsilon,
            delta=figure.delta,
            rounds=figure.rounds,
            unit=figure.unit,
            adjacency=cast(Adjacency, figure.adjacency),
            neighbours=PATIENT_NEIGHBOURS if figure.unit == "person" else NEIGHBOURS[figure.adjacency],
            standing=figure.standing.value,
            how=figure.method,
            trusted=TRUSTED_BY_PATIENTS if figure.unit == "person" else TRUSTED,
        )


class FederatedPlan(Result):
    """How many rounds, or how much noise, from public numbers alone."""

    schema_name: ClassVar[str] = "dosimeter.federated-plan/3"
    title: ClassVar[str] = "What a federated training would leak"
    public_only: ClassVar[bool] = True

    plan: Annotated[bool, WORDS]
    demo: Annotated[bool, WORDS]
    clients: Annotated[int, TERMS]
    per_round: Annotated[float, GIVEN]
    rate: Annotated[float, TERMS]
    sampling: Annotated[str, GIVEN]
    budget: Annotated[EpsilonDelta, GIVEN]
    found: Annotated[str, GIVEN]
    rounds: Annotated[int, TERMS]
    noise: Annotated[float, TERMS]
    schedule: Annotated[str, GIVEN] = ""
    """ROUNDSxCLIENTS:NOISE by commas, if rounds were listed; `per_round` and `noise` are then means."""
    updates_expected: Annotated[float, TERMS]
    noise_of_the_mean: Annotated[float, TERMS]
    """In clips; of the noisiest round."""
    largest_model: Annotated[int, TERMS] = 0
    """Parameters at which the noise is as long as the longest mean update."""
    parameters: Annotated[int | None, GIVEN] = None
    guarantee: Annotated[ClientGuarantee, TERMS]
    over: Annotated[str, TERMS]
    """Why the budget does not allow it; "" if it does."""
    remarks: Annotated[list[str], TERMS]

    @classmethod
    def of(cls, terms: FederatedTerms, *, demo: bool = False, parameters: int | None = None) -> FederatedPlan:
        """From the terms of a training; parameters: of the model that will be trained, if that is known."""
        drowned = "" if parameters is None or terms.over else terms.drowned(parameters)
        return cls(
            plan=True,
            demo=demo,
            clients=terms.cohort.clients,
            per_round=terms.per_round,
            rate=terms.cohort.rate(terms.per_round),
            sampling=terms.cohort.description,
            budget=EpsilonDelta(epsilon=terms.budget.epsilon, delta=terms.budget.delta),
            found=terms.solved_for,
            rounds=terms.rounds,
            noise=terms.noise,
            updates_expected=terms.rounds * terms.per_round,
            schedule=as_text(terms.listed),
            noise_of_the_mean=terms.noise_of_the_mean,
            largest_model=terms.largest_model,
            parameters=parameters,
            guarantee=ClientGuarantee.of(terms.figure),
            over=terms.over,
            remarks=[*terms.figure.remarks, *([drowned] if drowned else [])],
        )


class NetworkForm(ResultModel):
    """The network."""

    widths: Annotated[list[int], FORM]
    parameters: Annotated[int, FORM]
    classes: Annotated[list[str], internal("may have been read off the clients' rows; the model's file names them")]


class TrainingSettings(ResultModel):
    """How clients and curator learn."""

    model: Annotated[str | None, GIVEN]
    hidden: Annotated[list[int], GIVEN]
    epochs: Annotated[int, GIVEN]
    batches: Annotated[int, GIVEN]
    batch: Annotated[int, GIVEN]
    rate: Annotated[float, GIVEN]
    momentum: Annotated[float, GIVEN]
    quantile: Annotated[float, GIVEN]
    clip: Annotated[float, GIVEN]
    simulate: Annotated[int | None, GIVEN]
    pool: Annotated[int, GIVEN]
    unit: Annotated[str, GIVEN] = "client"
    widths: Annotated[list[int], FORM]
    clients: Annotated[int, TERMS]
    sampling: Annotated[str, GIVEN]
    per_round: Annotated[float, GIVEN]
    noise: Annotated[float, TERMS]
    rounds: Annotated[int, TERMS]
    schedule: Annotated[str, GIVEN] = ""
    budget_epsilon: Annotated[float, GIVEN]
    budget_delta: Annotated[float, GIVEN]


class Accuracy(ResultModel):
    """On public rows."""

    of: Annotated[str, LOCAL] = ""
    share: Annotated[float | None, NOISED] = None
    """Of right classes; of a regression R², the explained share of the variance."""
    measure: Annotated[str, WORDS] = "accuracy"
    """ "accuracy" or "R²"."""


class RoundCounts(ResultModel):
    """One entry a round, of this run."""

    round: Annotated[list[int], TERMS]
    accuracy: Annotated[list[float], NOISED] = Field(default_factory=list)
    epsilon: Annotated[list[Amount], TERMS]
    per_round: Annotated[list[float], GIVEN]
    noise: Annotated[list[float], TERMS]
    clip: Annotated[list[float], public("moved by a noised count, which is accounted for")]

    @classmethod
    def of(cls, history: History, tested: bool) -> RoundCounts:
        """Columns that may be published: they follow from noised models, public rows and the settings."""
        columns = {name: values.tolist() for name, values in history.columns.items()}
        names = ("round", *(("accuracy",) if tested else ()), "epsilon", "per_round", "noise", "clip")
        return cls(**{name: columns[name] for name in names})


class InternalTrainingFigures(ResultModel):
    """Not noised."""

    updates_sent: Annotated[int, STATISTIC]
    updates_refused: Annotated[int, STATISTIC]
    clients_asked: Annotated[list[int], ONE]
    variance: Annotated[list[float], STATISTIC] = Field(default_factory=list)
    """V_c of each round of this run, where --history asked for it."""
    scale: Annotated[list[float], STATISTIC] = Field(default_factory=list)
    """U_s of each round of this run."""

    @classmethod
    def of(cls, history: History) -> InternalTrainingFigures:
        """Counts of updates, and V_c and U_s of each round if they were computed."""
        records = history.state.history
        counts: Any = {
            "updates_sent": sum(record.accepted for record in records),
            "updates_refused": sum(record.refused for record in records),
            "clients_asked": [record.sampled for record in records],
        }
        if any(record.scale for record in history.rounds):
            counts |= {
                "variance": [record.variance for record in history.rounds],
                "scale": [record.scale for record in history.rounds],
            }
        return cls(**counts)


class FederatedRelease(Result):
    """A model trained by many clients."""

    schema_name: ClassVar[str] = "dosimeter.federated/3"
    title: ClassVar[str] = "What this federated model leaks"

    demo: Annotated[bool, WORDS]
    clients: Annotated[int, TERMS]
    per_round: Annotated[float, GIVEN]
    sampling: Annotated[str, GIVEN]
    noise: Annotated[float, TERMS]
    budget: Annotated[EpsilonDelta, GIVEN]
    source: Annotated[str, LOCAL]
    simulation: Annotated[bool, WORDS]
    stamp: Annotated[str, WORDS]
    guarantee: Annotated[ClientGuarantee, TERMS]
    rounds: Annotated[int, TERMS]
    stopped: Annotated[str, TERMS]
    model: Annotated[NetworkForm, FORM]
    recipe: Annotated[TrainingSettings, GIVEN]
    rows_become: Annotated[
        dict[str, Any], internal("levels may have been read off the rows; the model's file has them")
    ]
    clip_last: Annotated[float, public("moved by a noised count, which is accounted for")]
    accuracy: Annotated[Accuracy, NOISED]
    by_round: Annotated[RoundCounts, TERMS]
    not_covered: Annotated[list[str], WORDS]
    assumptions: Annotated[list[str], TERMS]
    remarks: Annotated[list[str], internal("some of them count rows that were left out")]
    internal: Annotated[InternalTrainingFigures, STATISTIC]
    booked: Booking
    artefact: Artefact = ""
    artefact_beside: Artefact = ""
    """Of the network in safetensors beside a pipeline."""
    refused: Refused = Field(default_factory=list)
    written: Annotated[list[str], LOCAL]

    @classmethod
    def of(cls, job: Job, history: History, *, demo: bool = False) -> FederatedRelease:
        """From a training that has ended. Fields under `internal` were not noised."""
        state, people, terms = history.state, job.people, job.terms
        last = state.history[-1].clip if state.history else 0.0
        tested = bool(people.tested)
        score = Accuracy()
        if tested:
            measure = "R²" if job.is_regression else "accuracy"
            score = Accuracy(of=people.tested, share=job.task.score(state.model).accuracy, measure=measure)
        network = NetworkForm(
            widths=list(job.network.widths), parameters=job.network.size, classes=list(people.classes)
        )
        return cls(
            demo=demo,
            clients=terms.cohort.clients,
            per_round=terms.per_round,
            sampling=terms.cohort.description,
            noise=terms.noise,
            budget=EpsilonDelta(epsilon=terms.budget.epsilon, delta=terms.budget.delta),
            source=people.source,
            simulation=state.simulation,
            stamp=STAMP if state.simulation else "",
            guarantee=ClientGuarantee.of(history.figure),
            rounds=state.round,
            stopped=history.stop_reason,
            model=network,
            recipe=TrainingSettings(**job.recipe()),
            rows_become=dict(people.form),
            clip_last=last,
            accuracy=score,
            by_round=RoundCounts.of(history, tested),
            not_covered=[*people.read_off_rows, *not_covered(job.curator.unit), *people.assumptions],
            assumptions=[*ASSUMPTIONS, *history.figure.remarks],
            remarks=[*history.figure.remarks, *people.remarks, *([job.drowned] if job.drowned else [])],
            internal=InternalTrainingFigures.of(history),
            booked=False,
            written=[],
        )

    def metadata(self, booked: Any) -> JsonObject:
        """What goes into the model's file: plain values, nothing internal. booked: the name, or False."""
        public = [remark for remark in self.remarks if not remark.startswith(INTERNAL)]
        return {name: value for name, value in self.to_dict().items() if name in IN_THE_FILE} | {
            "remarks": public,
            "booked": booked,
        }
