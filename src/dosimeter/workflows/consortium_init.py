"""`dm.create_consortium`: certificates, keys and config files of a new consortium, and a checklist."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option, speaking
from dosimeter.core.location import Location
from dosimeter.core.text import safe_text
from dosimeter.files.consortium_config import HOST_REMEDY, is_host
from dosimeter.results.consortium import ConsortiumCreated
from dosimeter.tables.consortium_schema import (
    CLIENTS,
    ConsortiumSchema,
    Site,
    read_schema,
    schema_of,
)
from dosimeter.tables.consortium_sections import SITES
from dosimeter.tables.schema_text import schema_text, table_text
from dosimeter.workflows.consortium_checklist import checklist

PORT, DAYS = 8443, 365
LONGEST_DAYS = 3650


def create_consortium(
    schema: str | os.PathLike[str],
    *,
    host: str,
    out: str | os.PathLike[str],
    port: int = PORT,
    days: int = DAYS,
    site_noise: bool = False,
) -> ConsortiumCreated:
    """Write the certificates, keys and config files of a new consortium, one folder for each party.

    Parameters
    ----------
    schema
        The schema file (.toml) that all sites agreed on: columns, bounds, target, release, and the names of the sites.
    host
        The address or name under which the sites reach the coordinator. The coordinator listens there and nowhere else.
    out
        A new folder. Its parts go to the parties over a safe way; the folder of the authority goes into a safe.
    port
        The coordinator's port.
    days
        How long certificates are valid.
    site_noise
        Each site adds its own noise before anything leaves it, as noise-at = "sites" in [release] does. For least
        squares and components, with epsilon and delta in [release].

    Returns
    -------
    ConsortiumCreated
        The files and the SHA-256 of every certificate.

    Raises
    ------
    Refusal
        If the schema is not one, the folder exists, or the budget allows no such training. Nothing is written then.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "schema.toml").write_text('''
    ... study = "wards"
    ... person = "id"
    ... target = "ill"
    ... loss = "logistic"
    ... l2 = 0.01
    ... [release]
    ... name = "wards-1"
    ... max-dose = 1.0
    ... [columns.age]
    ... lower = 18
    ... upper = 100
    ... [columns.ill]
    ... levels = ["no", "yes"]
    ... [[sites]]
    ... name = "north"
    ... [[sites]]
    ... name = "south"
    ... ''')
    >>> created = create_consortium(folder / "schema.toml", host="127.0.0.1", out=folder / "consortium")
    >>> created.sites, sorted(path.name for path in (folder / "consortium").iterdir())
    (['north', 'south'], ['CHECKLIST.md', 'authority', 'coordinator', 'site-1-north', 'site-2-south'])
    """
    if not is_host(host):
        raise Refusal(f"{option('host', safe_text(host))}: {HOST_REMEDY}")
    if not 1 <= port <= 65_535:
        raise Refusal(f"{option('port', port)}: give a port from 1 to 65535")
    if not 1 <= days <= LONGEST_DAYS:
        raise Refusal(f"{option('days', days)}: give 1 to {LONGEST_DAYS} days")
    agreed = _agreed(schema, site_noise)
    target = Path(out)
    if target.exists():
        raise Location(os.fspath(out)).refusal("it exists", "name a new folder")
    if not target.absolute().parent.is_dir():
        raise Location(os.fspath(out)).refusal("the folder above it does not exist", "create it first")
    draft = Path(tempfile.mkdtemp(prefix=".dosimeter-", dir=target.absolute().parent))
    try:
        complete, certificates, file_sha256 = _write(draft, agreed, host, port, days)
        os.rename(draft, target)
    except BaseException:
        with suppress(OSError):
            shutil.rmtree(draft)
        raise
    files = sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())
    return ConsortiumCreated(
        study=complete.study,
        kind=complete.kind,
        host=host,
        port=port,
        days=days,
        sites=[site.name for site in complete.sites],
        certificates=certificates,
        files=files,
        schema_sha256=file_sha256,
        training=_training_text(complete),
    )


def _agreed(path: str | os.PathLike[str], site_noise: bool) -> ConsortiumSchema:
    """The schema, with the noise of a training solved for."""
    schema = read_schema(path, complete=False, noise_at=SITES if site_noise else None)
    if any(site.certificate for site in schema.sites):
        raise Location(os.fspath(path)).refusal("it has certificates already", "take the schema before `federate init`")
    if schema.kind == CLIENTS:
        from dosimeter.models.client_training import refuse_over_budget
        from dosimeter.workflows.client_coordinator import job_of

        refuse_over_budget(job_of(schema))
    return schema if schema.training is None else _with_noise(schema)


def _with_noise(schema: ConsortiumSchema) -> ConsortiumSchema:
    from dosimeter.models.federated_terms import terms

    training = schema.training
    if training is None:
        return schema
    with speaking("config file"):
        planned = terms(
            schema.patients,
            epsilon=schema.release.epsilon or 0.0,
            delta=schema.release.delta or 0.0,
            per_round=training.per_round,
            rounds=training.rounds,
            noise=training.noise,
            sampling="poisson",
        )
        over = planned.over
    if over:
        raise Refusal(f"{over}; nothing was written")
    solved = replace(training, per_round=float(planned.per_round), noise=float(planned.noise))
    return replace(schema, training=solved)


def _training_text(schema: ConsortiumSchema) -> str:
    training = schema.training
    if training is None or training.noise is None:
        return ""
    return (
        f"{training.rounds} rounds of {training.per_round:g} of {schema.patients} patients on average, noise "
        f"multiplier {training.noise:.4g}"
    )


def _write(
    folder: Path, agreed: ConsortiumSchema, host: str, port: int, days: int
) -> tuple[ConsortiumSchema, dict[str, str], str]:
    """The complete schema, the SHA-256 of every certificate, and that of the schema's file."""
    from dosimeter.engines.certificates import (
        Authority,
        fingerprint_of,
        write_certificate,
        write_key,
        write_private,
    )

    authority = Authority.create(agreed.study, days)
    own, own_key = authority.coordinator(host, days)
    pairs = [authority.site(site.name, days) for site in agreed.sites]
    sites = tuple(
        Site(site.number, site.name, fingerprint_of(certificate), site.patients)
        for site, (certificate, _) in zip(agreed.sites, pairs, strict=True)
    )
    complete = replace(agreed, sites=sites)
    text = schema_text(complete).encode()
    _refuse_other_meaning(text.decode(), complete)
    folders = {site.number: f"site-{site.number}-{_slug(site.name)}" for site in sites}
    for name in ("authority", "coordinator", *folders.values()):
        (folder / name).mkdir(mode=0o700)
        write_certificate(folder / name / "ca.crt", authority.certificate)
    write_key(folder / "authority" / "ca.key", authority.key)
    place = folder / "coordinator"
    write_certificate(place / "coordinator.crt", own)
    write_key(place / "coordinator.key", own_key)
    write_private(place / "schema.toml", text)
    write_private(place / "consortium.toml", _coordinator_config(host, port).encode())
    for site, (certificate, key) in zip(sites, pairs, strict=True):
        place = folder / folders[site.number]
        write_certificate(place / "site.crt", certificate)
        write_key(place / "site.key", key)
        write_private(place / "schema.toml", text)
        write_private(
            place / "site.toml",
            _site_config(site.name, host, port, fingerprint_of(own), books=agreed.kind != CLIENTS).encode(),
        )
    file_sha256 = sha256(text).hexdigest()
    todo = checklist(complete, folders, host, port, fingerprint_of(own), file_sha256)
    write_private(folder / "CHECKLIST.md", todo.encode())
    certificates = {"coordinator": fingerprint_of(own), **{site.name: site.certificate for site in sites}}
    return complete, certificates, file_sha256


def _refuse_other_meaning(text: str, schema: ConsortiumSchema) -> None:
    """What is written must be read as what was agreed."""
    import tomllib

    tables = tomllib.loads(text)
    if schema_of(tables).digest != schema.digest:
        raise Refusal("the schema cannot be written as TOML without a change: use plain names of columns and levels")


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:40].strip("-.") or "site"


def _coordinator_config(host: str, port: int) -> str:
    return table_text(
        "",
        {
            "schema": "schema.toml", "listen": host, "port": port, "authority": "ca.crt",
            "certificate": "coordinator.crt", "key": "coordinator.key", "state": "state", "out": "model.skops",
            "deadline": 600,
        },
    )  # fmt: skip


def _site_config(name: str, host: str, port: int, coordinator: str, *, books: bool) -> str:
    return table_text(
        "",
        {
            "schema": "schema.toml", "site": name, "table": "patients.csv",
            "ledger": "ledger.db" if books else None, "host": host,
            "port": port, "coordinator": coordinator, "authority": "ca.crt", "certificate": "site.crt",
            "key": "site.key", "state": "state",
        },
    )  # fmt: skip
