"""`dm.run_coordinator`: run the study of a config file at the coordinator, and write the release."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from dosimeter.core.closed_pipes import closed_pipes_are_errors
from dosimeter.core.release import Recipe
from dosimeter.engines.identity import check_identity, say_if_readable
from dosimeter.engines.protocol.assembly import Assembly
from dosimeter.engines.transports import transport_named
from dosimeter.files.atomic import check_output, write_bytes
from dosimeter.files.consortium_config import CoordinatorConfig, read_coordinator_config
from dosimeter.files.consortium_journal import RELEASED, Journal, open_journal
from dosimeter.models.consortium_kinds import coordinate
from dosimeter.models.consortium_study import AGAIN, GOODBYE, CoordinatorStudy, StudyOutcome
from dosimeter.models.model_study import released_score
from dosimeter.results.consortium import ConsortiumRelease
from dosimeter.results.federated import FederatedRelease
from dosimeter.tables.consortium_schema import CLIENTS, ConsortiumSchema, read_schema
from dosimeter.workflows.released import Released
from dosimeter.workflows.study_status import seconds_since, shown_while_it_runs

Say = Callable[[str], None]
EVERY = 0.5
"""Seconds between two writings of what a page shows."""


def run_coordinator(
    config: str | os.PathLike[str], *, say: Say | None = None
) -> Released[ConsortiumRelease] | Released[FederatedRelease]:
    """Run a study over its sites: fit, ask for limits, draw the noise once, have every site book, write the release.

    Parameters
    ----------
    config
        consortium.toml, as `create_consortium` wrote it.
    say
        Called with one line for each step, without a figure of a patient. Default: nothing is said.

    Returns
    -------
    Released[ConsortiumRelease]
        Of a training of clients a `Released[FederatedRelease]`. `.artefact` is the released file, which was also
        written to `out`; empty if a site said no. `.doses` is empty: each site has those of its own patients in its
        own ledger.

    Raises
    ------
    Refusal
        If the config or the schema is not one, a site does not answer in time, or an answer is none. Nothing was
        released; the same call goes on.

    Notes
    -----
    After a kill at any moment the same call goes on from the folder `state`. It never draws a second time.

    Examples
    --------
    >>> run_coordinator("missing.toml")
    Traceback (most recent call last):
    ...
    dosimeter.core.errors.StorageFault: missing.toml: there is no such file: check the name
    """
    settings = read_coordinator_config(config)
    schema = read_schema(settings.schema)
    check_output(settings.out, inputs=[config, settings.schema])
    check_identity(settings.place)
    say_if_readable(settings.place, say or _silent)
    transport = transport_named(settings.transport)
    roster = {site.certificate: site.number for site in schema.sites}
    if schema.kind == CLIENTS:
        from dosimeter.workflows.client_coordinator import run_clients

        with closed_pipes_are_errors():
            return run_clients(settings, schema, transport.open_exchange, say or _silent)
    with closed_pipes_are_errors(), open_journal(settings.state, schema.digest) as journal:
        return _run(settings, schema, journal, transport.open_exchange(settings.place, roster), say or _silent)


def _silent(text: str) -> None:
    """Say nothing."""


def _run(
    settings: CoordinatorConfig,
    schema: ConsortiumSchema,
    journal: Journal,
    connection: AbstractContextManager[Any],
    say: Say,
) -> Released[ConsortiumRelease]:
    with connection as exchange:
        say(f"listening at {settings.place.listen} port {settings.place.port} for {len(schema.sites)} sites")
        assembly = Assembly(
            exchange,
            schema.digest,
            [site.number for site in schema.sites],
            schema.sizes,
            deadline=settings.deadline,
            first_round=journal.first_round,
        )
        assembly.watch = _Watch(schema, journal, exchange, say)
        study = CoordinatorStudy(schema, assembly, journal, say)
        before = journal.stage
        with shown_while_it_runs(journal, lambda: {"seen": seconds_since(exchange)}):
            outcome = coordinate(study)
            released = _write(settings, journal, outcome)
            if released:
                say(f"released: {settings.out.name}")
            after = released_score(study) if released and before != RELEASED else None
            study.finish(bool(released), GOODBYE if before != RELEASED else AGAIN)
    journal.show(study=schema.study, kind=schema.kind, stage="released" if released else "nothing was released")
    result = ConsortiumRelease.of(schema, outcome, after)
    if released:
        result = result.with_fields(artefact=released, written=str(settings.out))
    recipe = outcome.recipe or Recipe("nothing", "none")
    return Released("federate coordinator", result, outcome.artefact, recipe, (), b"")


def _write(settings: CoordinatorConfig, journal: Journal, outcome: StudyOutcome) -> str:
    """Write what every site has booked; the SHA-256 of the file, "" if nothing leaves."""
    if not outcome.artefact:
        return ""
    write_bytes(settings.out, outcome.artefact)
    journal.keep(RELEASED)
    return str(journal.facts["artefact"])


class _Watch:
    """Says which operation is asked, and keeps what a page of a running study shows."""

    def __init__(self, schema: ConsortiumSchema, journal: Journal, exchange: Any, say: Say) -> None:
        self._schema, self._journal, self._exchange, self._say = schema, journal, exchange, say
        self._asked = 0
        self._shown = 0.0
        self._last = ""

    def __call__(self, operation: str) -> None:
        self._asked += 1
        if operation != self._last:
            self._say(f"asking all sites: {operation}")
            self._last = operation
        now = time.monotonic()
        if now - self._shown < EVERY or (self._schema.training is not None and operation == "patient sum"):
            return
        self._shown = now
        self._journal.show(
            study=self._schema.study,
            kind=self._schema.kind,
            stage=operation,
            asked=self._asked,
            seen=seconds_since(self._exchange),
            sites=[site.name for site in self._schema.sites],
        )
