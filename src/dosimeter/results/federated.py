"""Facts of a federated training (`federate`) and of a plan for one (`federate plan`)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from dosimeter.results.parts import Artefact, Booking, Provenance, Refused
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

TERMS = public("follows from the settings and the number of clients, which is taken as public")


class EpsilonDelta(ResultModel):
    """For the whole training."""

    epsilon: Annotated[float, GIVEN]
    delta: Annotated[float, GIVEN]


class Promise(ResultModel):
    """(ε, δ) of the rounds that were trained, or are planned."""

    epsilon: Annotated[Amount, TERMS]
    delta: Annotated[float, GIVEN]
    rounds: Annotated[int, TERMS]
    unit: Annotated[str, WORDS]
    adjacency: Annotated[Literal["replace-one", "add-or-remove-one"], WORDS]
    neighbours: Annotated[str, WORDS]
    standing: Annotated[str, TERMS]
    how: Annotated[str, WORDS]
    trusted: Annotated[str, WORDS]


class FederatedPlan(ResultModel):
    """How many rounds, or how much noise, from public numbers alone."""

    schema_: SchemaName
    version: Annotated[str, WORDS]
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
    updates_expected: Annotated[float, TERMS]
    noise_of_the_mean: Annotated[float, TERMS]
    guarantee: Annotated[Promise, TERMS]
    over: Annotated[str, TERMS]
    remarks: Annotated[list[str], TERMS]
    reproduce: Annotated[Provenance | None, GIVEN] = None


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
    widths: Annotated[list[int], FORM]
    clients: Annotated[int, TERMS]
    sampling: Annotated[str, GIVEN]
    per_round: Annotated[float, GIVEN]
    noise: Annotated[float, TERMS]
    rounds: Annotated[int, TERMS]
    budget_epsilon: Annotated[float, GIVEN]
    budget_delta: Annotated[float, GIVEN]


class Accuracy(ResultModel):
    """On public rows."""

    of: Annotated[str, LOCAL] = ""
    share: Annotated[float | None, NOISED] = None


class RoundCounts(ResultModel):
    """One entry a round, of this run."""

    round: Annotated[list[int], TERMS]
    accuracy: Annotated[list[float], NOISED] = Field(default_factory=list)
    epsilon: Annotated[list[Amount], TERMS]
    per_round: Annotated[list[float], GIVEN]
    noise: Annotated[list[float], TERMS]
    clip: Annotated[list[float], public("moved by a noised count, which is in the price")]


class InternalTrainingFigures(ResultModel):
    """Not noised."""

    updates_sent: Annotated[int, STATISTIC]
    updates_refused: Annotated[int, STATISTIC]
    clients_asked: Annotated[list[int], ONE]
    variance: Annotated[list[float], STATISTIC] = Field(default_factory=list)
    """V_c of each round of this run, where --history asked for it."""
    scale: Annotated[list[float], STATISTIC] = Field(default_factory=list)
    """U_s of each round of this run."""


class FederatedRelease(ResultModel):
    """A model trained by many clients."""

    schema_: SchemaName
    version: Annotated[str, WORDS]
    demo: Annotated[bool, WORDS]
    clients: Annotated[int, TERMS]
    per_round: Annotated[float, GIVEN]
    sampling: Annotated[str, GIVEN]
    noise: Annotated[float, TERMS]
    budget: Annotated[EpsilonDelta, GIVEN]
    source: Annotated[str, LOCAL]
    simulation: Annotated[bool, WORDS]
    stamp: Annotated[str, WORDS]
    guarantee: Annotated[Promise, TERMS]
    rounds: Annotated[int, TERMS]
    stopped: Annotated[str, TERMS]
    model: Annotated[NetworkForm, FORM]
    recipe: Annotated[TrainingSettings, GIVEN]
    rows_become: Annotated[
        dict[str, Any], internal("levels may have been read off the rows; the model's file has them")
    ]
    clip_last: Annotated[float, public("moved by a noised count, which is in the price")]
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
    reproduce: Annotated[Provenance | None, GIVEN] = None
