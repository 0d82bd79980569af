"""Verification of the whole ledger against its chain: every row of every table, every byte of every artefact."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, distinct, func, select, text

from dosimeter.core.errors import Refusal
from dosimeter.core.nano_units import MOST
from dosimeter.core.progress import stage, track
from dosimeter.ledger import schema
from dosimeter.ledger.database import Database
from dosimeter.ledger.entries import Verification, short_head
from dosimeter.ledger.fisher_blocks import digest_of_blocks, stored_blocks
from dosimeter.ledger.hash_chain import GENESIS_DIGEST, canonical, digest_of_rows, is_signed_by, link
from dosimeter.ledger.pseudonyms import PSEUDONYM_BYTES

Seal = Callable[[str], str]
"""Digest -> its signature or HMAC by the key file."""


def verify(connection: Connection, database: Database, public: str, seal: Seal | None) -> Verification:
    """Check the whole chain; the error names the first thing that was altered.

    seal: None without the key file; then signatures can be checked, HMACs cannot.
    """
    try:
        return _verify_chain(connection, database, public, seal)
    except Refusal:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # A damaged row may decode to anything.
        raise database.integrity_error(f"a row cannot be read ({type(error).__name__}): altered or damaged") from None


def _verify_chain(connection: Connection, database: Database, public: str, seal: Seal | None) -> Verification:
    _check_file(connection, database)
    uuid = _ledger_uuid(connection, database)
    previous, count, releases, key = GENESIS_DIGEST, 0, 0, ""
    parts = _PartChecker(connection, database)
    stage("verifying the ledger's entries")
    for row in track(connection.execute(select(schema.entry).order_by(schema.entry.c.seq)).all()):
        count += 1
        if row.seq != count:
            raise database.integrity_error(f"entry {count} is missing")
        if link(previous, row.body) != row.digest:
            raise database.integrity_error(f"entry {count} was altered, or the one before it")
        body = json.loads(row.body)
        if count == 1:
            key = _public_key(body, uuid, public, database)
        _check_columns(row, body, database)
        if row.signature is None or (key and not is_signed_by(key, row.digest, row.signature)):
            raise database.integrity_error(f"entry {count} does not carry the signature of the ledger's key")
        if seal is not None and row.signature != seal(row.digest):
            raise database.integrity_error(f"entry {count} was not written with this key file")
        if body["kind"] == "release":
            releases += 1
            _check_artefact(connection, database, row.seq, body)
            parts.check(row.seq, body["parts"])
        previous = row.digest
    if count == 0:
        raise database.integrity_error("the chain is empty")
    parts.check_end()
    if connection.execute(select(func.count()).select_from(schema.artefact)).scalar_one() != releases:
        raise database.integrity_error("there are artefacts that belong to no release")
    people = connection.execute(select(func.count(distinct(schema.dose.c.pseudonym)))).scalar_one()
    return Verification(count, short_head(count, previous), key, people, seal is not None)


def _check_file(connection: Connection, database: Database) -> None:
    if not database.is_file:
        return
    report = connection.execute(text("PRAGMA integrity_check")).scalars().all()
    if list(report) != ["ok"]:
        raise database.integrity_error(f"the file is damaged (integrity_check: {str(report[0])[:80]})")
    foreign = connection.execute(text("SELECT name FROM sqlite_master WHERE type IN ('trigger', 'view')")).scalar()
    if foreign is not None:
        raise database.integrity_error("the file contains a foreign trigger or view")


def _ledger_uuid(connection: Connection, database: Database) -> str:
    rows = connection.execute(select(schema.ledger)).all()
    if len(rows) != 1 or (rows[0].id, rows[0].version) != (1, schema.VERSION):
        raise database.integrity_error("the row that names the ledger is missing or altered")
    return str(rows[0].uuid)


def _public_key(body: Any, uuid: str, public: str, database: Database) -> str:
    """The public key that signs the whole chain, "" for none."""
    if body["kind"] != "opened" or body["uuid"] != uuid:
        raise database.integrity_error("the chain does not begin with the creation of this ledger")
    if public and body["key"] != public:
        raise database.integrity_error("the ledger is not signed by this key")
    return str(body["key"])


def _check_columns(row: Any, body: Any, database: Database) -> None:
    """Check that the lookup columns agree with the chain."""
    columns = (row.seq, row.kind, row.name, row.artefact, row.draw)
    expected = (body["seq"], body["kind"], body.get("name"), body.get("artefact"), body.get("draw") or None)
    if columns != expected or canonical(body) != row.body:
        raise database.integrity_error(f"the columns of entry {row.seq} were altered")


def _check_artefact(connection: Connection, database: Database, seq: int, body: Any) -> None:
    data = connection.execute(select(schema.artefact.c.data).where(schema.artefact.c.seq == seq)).scalar()
    if data is None or sha256(data).hexdigest() != body["artefact"] or len(data) != body["size"]:
        raise database.integrity_error(f"the artefact of entry {seq} is missing or was altered")


class _PartChecker:
    """Checks the parts, their doses and their blocks against the chain, in the order in which they were written."""

    def __init__(self, connection: Connection, database: Database) -> None:
        d = schema.dose.c
        self._connection, self._database = connection, database
        self._number, self._blocks = 0, 0
        self._rows = iter(connection.execute(select(schema.part).order_by(schema.part.c.id)))
        doses = connection.execute(select(d.part, d.pseudonym, d.amount).order_by(d.part, d.pseudonym))
        self._doses = groupby(doses, key=lambda row: row.part)

    def check(self, seq: int, parts: Any) -> None:
        """Check that the next parts are those of this release, with the doses that the chain records."""
        for facts in parts:
            self._number += 1
            row = next(self._rows, None)
            event = None if facts["event"] is None else canonical(facts["event"])
            if row is None or tuple(row) != (self._number, seq, facts["account"], event):
                raise self._database.integrity_error(f"the parts of entry {seq} or of another entry were altered")
            part, doses = next(self._doses, (0, iter(())))
            rows = [(bytes(dose.pseudonym), dose.amount) for dose in doses]
            valid = all(len(p) == PSEUDONYM_BYTES and type(a) is int and 0 <= a <= MOST for p, a in rows)
            complete = valid and (part, len(rows)) == (self._number, facts["people"])
            if not complete or digest_of_rows(sorted(rows)) != facts["rows"]:
                raise self._database.integrity_error(f"the doses of entry {seq} were altered: edited, dropped or added")
            if "blocks" in facts:
                self._check_blocks(seq, facts)

    def _check_blocks(self, seq: int, facts: Any) -> None:
        self._blocks += facts["people"]
        if digest_of_blocks(stored_blocks(self._connection, self._number)) != facts["blocks"]:
            raise self._database.integrity_error(f"the blocks of entry {seq} were altered: edited, dropped or added")

    def check_end(self) -> None:
        """Check that nothing is left over."""
        if next(self._rows, None) is not None or next(self._doses, None) is not None:
            raise self._database.integrity_error("there are parts or doses that belong to no release")
        if self._connection.execute(select(func.count()).select_from(schema.block)).scalar_one() != self._blocks:
            raise self._database.integrity_error("there are blocks that belong to no release")
