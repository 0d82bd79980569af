"""`dm.run_site`: answer a coordinator's questions with the rows of a site, until the study has ended."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from dosimeter.core.closed_pipes import closed_pipes_are_errors
from dosimeter.core.location import Location
from dosimeter.core.notion import DIFFERENTIAL_PRIVACY, FISHER
from dosimeter.core.text import safe_list, safe_text
from dosimeter.engines.identity import check_identity, say_if_readable
from dosimeter.engines.protocol.operations import largest_question
from dosimeter.engines.transports import transport_named
from dosimeter.files.consortium_config import SiteConfig, read_site_config
from dosimeter.files.federated_checkpoint import checkpoint_lock
from dosimeter.ledger import Ledger
from dosimeter.models.site_booking import PENDING, booking_note
from dosimeter.models.site_desk import SiteDesk
from dosimeter.models.site_memory import questions_asked
from dosimeter.models.site_table import read_site_table
from dosimeter.results.consortium import SiteRecord
from dosimeter.tables.consortium_schema import CLIENTS, MODEL, ConsortiumSchema, Site, read_schema

Say = Callable[[str], None]
QUESTIONS_OF_A_ROUND = 4
"""Questions that a training may ask in a round, with those that are asked again after a stop."""


def run_site(config: str | os.PathLike[str], *, say: Say | None = None) -> SiteRecord:
    """Answer the coordinator's questions until the study has ended. Rows, ids and doses stay here.

    Parameters
    ----------
    config
        site.toml, as `create_consortium` wrote it, with the path of the table and of the ledger.
    say
        Called with one line for each answer, without a cell of the table. Default: nothing is said.

    Returns
    -------
    SiteRecord
        What this site did: questions answered, whether the release was booked here. Internal.

    Raises
    ------
    Refusal
        If the config, the schema or the ledger is not one, or the coordinator is not reached or not the agreed one.

    Notes
    -----
    The table is read and checked before anything leaves. If it does not match the schema, the reason is said here, and
    the coordinator learns that this site does not match.

    Examples
    --------
    >>> run_site("missing.toml")
    Traceback (most recent call last):
    ...
    dosimeter.core.errors.StorageFault: missing.toml: there is no such file: check the name
    """
    settings = read_site_config(config)
    schema = read_schema(settings.schema)
    site = _site(schema, settings)
    tell = say or _silent
    check_identity(settings.place, site.certificate, f"site {site.number}, {safe_text(site.name)}")
    say_if_readable(settings.place, tell)
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with closed_pipes_are_errors():
        if schema.kind == CLIENTS:
            return _run_client(schema, site, settings, tell)
        return _run_site(schema, site, settings, tell)


def _run_site(schema: ConsortiumSchema, site: Site, settings: SiteConfig, tell: Say) -> SiteRecord:
    """A site whose patients are booked in its own ledger."""
    ledger = settings.ledger
    if ledger is None:
        raise settings.source.refusal(
            "there is no ledger", 'write ledger = "ledger.db"; `dosimeter ledger init` makes one'
        )
    with Ledger.open(ledger, settings.keys) as opened:  # refused now, not in the middle of a study
        _say_if_without_limit(opened, schema, tell)
    with checkpoint_lock(settings.state / "site"):
        desk = SiteDesk(
            schema,
            site.number,
            lambda: read_site_table(
                settings.table,
                schema,
                missing=settings.missing,
                delimiter=settings.delimiter,
                decimal=settings.decimal,
            ),
            lambda: Ledger.open(ledger, settings.keys),
            settings.state,
            tell,
            max(settings.most_questions, QUESTIONS_OF_A_ROUND * (schema.training.rounds if schema.training else 0)),
            settings.largest_share,
        )
        desk.look()
        tell(f"site {site.number}, {safe_text(site.name)}: connecting to {safe_text(settings.place.host)}")
        transport_named(settings.transport).serve_site(
            settings.place,
            desk.answer,
            most=largest_question(schema.sizes),
            stop=lambda: desk.finished is not None,
            patience=settings.patience,
            say=tell,
        )
    return _record(schema, site, settings, ledger, bool(desk.finished))


def _say_if_without_limit(ledger: Ledger, schema: ConsortiumSchema, say: Say) -> None:
    """A ledger with limits of other notions alone would answer yes to everything."""
    key = FISHER.key if schema.kind == MODEL else DIFFERENTIAL_PRIVACY.key
    if not any(limit.key == key for limit in ledger.budgets):
        example = "fil=2" if key == FISHER.key else "eps=8@1e-6"
        todo = f"`dosimeter ledger budget --ledger LEDGER {example}` sets one"
        say(f"the ledger has no limit for doses of this kind: {todo}")


def _silent(text: str) -> None:
    """Say nothing."""


def _site(schema: ConsortiumSchema, settings: SiteConfig) -> Site:
    """The entry of this site on the roster."""
    for site in schema.sites:
        if site.name == settings.site:
            return site
    known = safe_list([site.name for site in schema.sites])
    raise Location(settings.source.label).refusal(
        f"site = {safe_text(settings.site)} is not on the roster", f"use {known}"
    )


def _run_client(schema: ConsortiumSchema, site: Site, settings: SiteConfig, say: Say) -> SiteRecord:
    """A client of a training, whose rows all belong to it. The coordinator books it."""
    from dosimeter.models.client_desk import ClientDesk, client_rows
    from dosimeter.workflows.client_coordinator import job_of

    def read() -> tuple[object, object]:
        return client_rows(
            settings.table,
            schema.columns,
            schema.target,
            missing=settings.missing,
            delimiter=settings.delimiter,
            decimal=settings.decimal,
        )

    with checkpoint_lock(settings.state / "site"):
        desk = ClientDesk(schema.digest, site.number, job_of(schema), read, settings.state, say)
        desk.look()
        say(f"client {site.number}, {safe_text(site.name)}: connecting to {safe_text(settings.place.host)}")
        transport_named(settings.transport).serve_site(
            settings.place,
            desk.answer,
            most=desk.most_question,
            stop=lambda: desk.finished is not None,
            patience=settings.patience,
            say=say,
        )
    return SiteRecord(
        study=schema.study,
        kind=schema.kind,
        name=schema.release.name,
        site=site.number,
        questions=0,
        released=bool(desk.finished),
        booked=False,
        people=0,
    )


def _record(schema: ConsortiumSchema, site: Site, settings: SiteConfig, place: str, released: bool) -> SiteRecord:
    pending = settings.state / PENDING
    with Ledger.open(place, settings.keys) as ledger:
        wanted = schema.release.name, booking_note(schema, site.number)
        entries = [entry for entry in ledger.releases() if (entry.name, entry.note) == wanted]
    people = entries[0].people if entries else 0
    if not entries and pending.exists():
        people = len(json.loads(pending.read_bytes())["ids"])
    return SiteRecord(
        study=schema.study,
        kind=schema.kind,
        name=schema.release.name,
        site=site.number,
        questions=questions_asked(settings.state),
        released=released,
        booked=bool(entries),
        people=people,
    )
