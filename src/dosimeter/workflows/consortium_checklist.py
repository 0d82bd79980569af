"""The checklist that `federate init` writes: who gets what, what to check, what to run."""

from __future__ import annotations

from collections.abc import Mapping

from dosimeter.tables.consortium_schema import CLIENTS, MODEL, ConsortiumSchema

FISHER, EPSILON = "fil=2", "eps=8@1e-6"


def checklist(
    schema: ConsortiumSchema, folders: Mapping[int, str], host: str, port: int, coordinator: str, file_sha256: str
) -> str:
    """Markdown. file_sha256: of schema.toml, as anybody can compute it."""
    rows = "\n".join(
        f"| {site.number} | {site.name} | `{folders[site.number]}` | `{site.certificate[:16]}…` |"
        for site in schema.sites
    )
    return f"""# Checklist: {schema.study}

`schema.toml` (SHA-256): `{file_sha256}`. Coordinator: {host} port {port}, certificate `{coordinator[:16]}…`.

| site | name | folder | certificate |
|---|---|---|---|
{rows}

## The person who ran `federate init`

- [ ] Send the folder `coordinator` to the coordinator and each `site-…` folder to its site. They hold private keys:
      use a way that nobody else can read.
- [ ] Put the folder `authority` into a safe. With `ca.key` one can sign certificates; the roster still refuses those
      that are not in it.
- [ ] Delete this folder.

## Each site

- [ ] Compute the SHA-256 of your `schema.toml` (`sha256sum schema.toml`) and compare it with the other sites, by
      telephone. The file fixes columns, bounds, the limit and the roster.
- [ ] Read `schema.toml`. You agree to what it says.
- [ ] Put the table where `site.toml` says (`table`), or change the path there. Other columns are not read.
{_ledger(schema)}- [ ] Allow outgoing connections to {host} port {port}. No port is opened at the site.
- [ ] Run `dosimeter federate site --config site.toml`. It answers until the study has ended.

## The coordinator

- [ ] Only this computer needs an open port: {host} port {port}.
- [ ] Run `dosimeter federate coordinator --config consortium.toml`.
- [ ] If it is stopped, run the same command again. It never draws twice. Keep `state`; never restore an older copy.

What each party sees is on the page "A consortium" of the documentation.
"""


def _ledger(schema: ConsortiumSchema) -> str:
    if schema.kind == CLIENTS:
        return "- [ ] No ledger is needed here: the coordinator books each client.\n"
    budget = FISHER if schema.kind == MODEL else EPSILON
    return f"- [ ] Make a ledger, if there is none: `dosimeter ledger init --ledger ledger.db --budget {budget}`.\n"
