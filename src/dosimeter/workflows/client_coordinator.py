"""A training of many clients at the coordinator: the curator's rounds over a network, booked client by client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dosimeter.federated.history import Round
from dosimeter.files.consortium_config import CoordinatorConfig
from dosimeter.files.consortium_journal import Journal, open_journal
from dosimeter.models.client_training import client_job, client_terms_of, end_training, train_over_network
from dosimeter.models.federated_training import Job
from dosimeter.results.federated import FederatedRelease
from dosimeter.tables.consortium_schema import ConsortiumSchema
from dosimeter.workflows.booking import BookingOptions, open_session
from dosimeter.workflows.federated_release import release
from dosimeter.workflows.released import Released
from dosimeter.workflows.study_status import seconds_since, shown_while_it_runs

STATE = "training.npz"


def job_of(schema: ConsortiumSchema) -> Job:
    """The training that the schema's clients agreed on. It holds no rows."""
    terms = client_terms_of(schema.clients or {}, _source(schema))
    return client_job(terms, schema.columns, schema.target, [site.name for site in schema.sites], schema.study)


def _source(schema: ConsortiumSchema) -> Any:
    from dosimeter.core.location import Location

    return Location(f"schema of {schema.study}")


def run_clients(
    settings: CoordinatorConfig,
    schema: ConsortiumSchema,
    open_exchange: Callable[[Any, Any], Any],
    say: Callable[[str], None],
) -> Released[FederatedRelease]:
    """Train to the last round, book every client in the coordinator's ledger if there is one, write the model."""
    job = job_of(schema)
    with open_journal(settings.state, schema.digest) as journal:
        return _run(job, settings, schema, open_exchange, journal, say)


def _run(
    job: Job,
    settings: CoordinatorConfig,
    schema: ConsortiumSchema,
    open_exchange: Callable[[Any, Any], Any],
    journal: Journal,
    say: Callable[[str], None],
) -> Released[FederatedRelease]:
    name, budget = schema.release.name, job.terms.budget
    options = BookingOptions(settings.ledger, settings.keys, name=name if settings.ledger else None)
    session = open_session(options)
    public = {"study": schema.study, "kind": schema.kind, "clients": len(schema.sites), "rounds": job.terms.rounds}
    journal.show(**public, stage="training", budget=budget.epsilon, delta=budget.delta)

    def progress(entry: Round) -> None:
        say(f"round {entry.round + 1} of {job.terms.rounds}, ε = {entry.epsilon:.4g}")
        journal.show(round=entry.round + 1, spent=entry.epsilon)

    try:
        roster = {site.certificate: site.number for site in schema.sites}
        with (
            open_exchange(settings.place, roster) as exchange,
            shown_while_it_runs(journal, lambda: {"seen": seconds_since(exchange)}),
        ):
            say(f"listening at {settings.place.listen} port {settings.place.port} for {len(schema.sites)} clients")
            history = train_over_network(
                job,
                exchange,
                study=schema.digest,
                checkpoint=settings.state / STATE,
                deadline=settings.deadline,
                progress=progress,
            )
            released = release(job, history, pipeline=True, booked_as=session.name)
            outcome = session.release(released, settings.out)
            end_training(job, exchange, history, study=schema.digest, released=not outcome.refused)
        journal.show(stage="nothing was released" if outcome.refused else "released")
    finally:
        session.close()
    result = released.result.with_fields(**outcome.fields, written=[] if outcome.refused else [str(settings.out)])
    artefact = b"" if outcome.refused else outcome.artefact
    return Released(
        "federate coordinator", result, artefact, released.recipe, released.doses, released.noise_fingerprint
    )
