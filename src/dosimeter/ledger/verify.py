"""The whole book checked against its chain: every row of every table, every byte of every artefact."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, distinct, func, select, text

from dosimeter.core.errors import Refusal
from dosimeter.core.nano_units import MOST
from dosimeter.core.progress import counted, stage
from dosimeter.ledger import schema
from dosimeter.ledger.database import Database
from dosimeter.ledger.entries import Verified, short
from dosimeter.ledger.fisher_blocks import digest_of_blocks, kept
from dosimeter.ledger.hash_chain import BEFORE_THE_FIRST, canonical, digest_of_rows, link, signed_by
from dosimeter.ledger.pseudonyms import PSEUDONYM_BYTES

Seal = Callable[[str], str]
"""The signature or HMAC that the key file gives a digest."""


def verify(connection: Connection, database: Database, public: str, seal: Seal | None) -> Verified:
    """Walk the chain; the first thing that is not as it was written is named, and nothing more is said.

    seal: None without the key file. An HMAC cannot be checked then, a signature can.
    """
    try:
        return _verified(connection, database, public, seal)
    except Refusal:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # A damaged row can be anything at all by the time it is decoded.
        raise database.tampered(f"a row cannot be read ({type(error).__name__}): altered or damaged") from None


def _verified(connection: Connection, database: Database, public: str, seal: Seal | None) -> Verified:
    _whole_file(connection, database)
    uuid = _named(connection, database)
    previous, count, releases, key = BEFORE_THE_FIRST, 0, 0, ""
    parts = _Parts(connection, database)
    stage("verifying the ledger's entries")
    for row in counted(connection.execute(select(schema.entry).order_by(schema.entry.c.seq)).all()):
        count += 1
        if row.seq != count:
            raise database.tampered(f"entry {count} is missing")
        if link(previous, row.body) != row.digest:
            raise database.tampered(f"entry {count} was altered, or the one before it")
        body = json.loads(row.body)
        if count == 1:
            key = _first(body, uuid, public, database)
        _columns(row, body, database)
        if row.signature is None or (key and not signed_by(key, row.digest, row.signature)):
            raise database.tampered(f"entry {count} does not carry the signature of the ledger's key")
        if seal is not None and row.signature != seal(row.digest):
            raise database.tampered(f"entry {count} was not written with this key file")
        if body["kind"] == "release":
            releases += 1
            _artefact(connection, database, row.seq, body)
            parts.check(row.seq, body["parts"])
        previous = row.digest
    if count == 0:
        raise database.tampered("the chain is empty")
    parts.check_end()
    if connection.execute(select(func.count()).select_from(schema.artefact)).scalar_one() != releases:
        raise database.tampered("there are artefacts that belong to no release")
    people = connection.execute(select(func.count(distinct(schema.dose.c.pseudonym)))).scalar_one()
    return Verified(count, short(count, previous), key, people, seal is not None)


def _whole_file(connection: Connection, database: Database) -> None:
    if not database.is_file:
        return
    said = connection.execute(text("PRAGMA integrity_check")).scalars().all()
    if list(said) != ["ok"]:
        raise database.tampered(f"the file is damaged (integrity_check: {str(said[0])[:80]})")
    foreign = connection.execute(text("SELECT name FROM sqlite_master WHERE type IN ('trigger', 'view')")).scalar()
    if foreign is not None:
        raise database.tampered("somebody put a trigger or a view into the file")


def _named(connection: Connection, database: Database) -> str:
    rows = connection.execute(select(schema.ledger)).all()
    if len(rows) != 1 or (rows[0].id, rows[0].version) != (1, schema.VERSION):
        raise database.tampered("the row that names the ledger is missing or altered")
    return str(rows[0].uuid)


def _first(body: Any, uuid: str, public: str, database: Database) -> str:
    """The public key under which the whole chain is signed, "" for none."""
    if body["kind"] != "opened" or body["uuid"] != uuid:
        raise database.tampered("the chain does not begin with the opening of this ledger")
    if public and body["key"] != public:
        raise database.tampered("the ledger is not signed by the given key")
    return str(body["key"])


def _columns(row: Any, body: Any, database: Database) -> None:
    """What is looked up says what the chain says."""
    said = (row.seq, row.kind, row.name, row.artefact, row.draw)
    meant = (body["seq"], body["kind"], body.get("name"), body.get("artefact"), body.get("draw") or None)
    if said != meant or canonical(body) != row.body:
        raise database.tampered(f"the columns of entry {row.seq} were altered")


def _artefact(connection: Connection, database: Database, seq: int, body: Any) -> None:
    data = connection.execute(select(schema.artefact.c.data).where(schema.artefact.c.seq == seq)).scalar()
    if data is None or sha256(data).hexdigest() != body["artefact"] or len(data) != body["size"]:
        raise database.tampered(f"the artefact of entry {seq} is missing or was altered")


class _Parts:
    """The parts, their doses and their blocks, beside the chain: in the order in which they were written."""

    def __init__(self, connection: Connection, database: Database) -> None:
        d = schema.dose.c
        self._connection, self._database = connection, database
        self._number, self._blocks = 0, 0
        self._rows = iter(connection.execute(select(schema.part).order_by(schema.part.c.id)))
        doses = connection.execute(select(d.part, d.pseudonym, d.amount).order_by(d.part, d.pseudonym))
        self._doses = groupby(doses, key=lambda row: row.part)

    def check(self, seq: int, parts: Any) -> None:
        """The parts of one release are the next ones, and have the doses that the chain vouches for."""
        for about in parts:
            self._number += 1
            row = next(self._rows, None)
            event = None if about["event"] is None else canonical(about["event"])
            if row is None or tuple(row) != (self._number, seq, about["account"], event):
                raise self._database.tampered(f"the parts of entry {seq} were altered, or those of another")
            part, doses = next(self._doses, (0, iter(())))
            rows = [(bytes(dose.pseudonym), dose.amount) for dose in doses]
            whole = all(len(p) == PSEUDONYM_BYTES and type(a) is int and 0 <= a <= MOST for p, a in rows)
            known = whole and (part, len(rows)) == (self._number, about["people"])
            if not known or digest_of_rows(sorted(rows)) != about["rows"]:
                raise self._database.tampered(f"the doses of entry {seq} were altered: edited, dropped or added")
            if "blocks" in about:
                self._check_blocks(seq, about)

    def _check_blocks(self, seq: int, about: Any) -> None:
        self._blocks += about["people"]
        if digest_of_blocks(kept(self._connection, self._number)) != about["blocks"]:
            raise self._database.tampered(f"the blocks of entry {seq} were altered: edited, dropped or added")

    def check_end(self) -> None:
        """Nothing is left over."""
        if next(self._rows, None) is not None or next(self._doses, None) is not None:
            raise self._database.tampered("there are parts or doses that belong to no release")
        if self._connection.execute(select(func.count()).select_from(schema.block)).scalar_one() != self._blocks:
            raise self._database.tampered("there are blocks that belong to no release")
