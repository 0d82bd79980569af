"""The whole book checked against its chain: every row of every table, every byte of every artefact."""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, select, text

from dosimeter.core.amount import MOST
from dosimeter.core.refusal import Refusal
from dosimeter.store import schema
from dosimeter.store.chain import BEFORE_THE_FIRST, canonical, digest_of_rows, link, signed_by
from dosimeter.store.database import Database
from dosimeter.store.entries import Verified, short
from dosimeter.store.keys import PSEUDONYM_BYTES


def verify(connection: Connection, database: Database, public: str, keys_checked: bool) -> Verified:
    """Walk the chain; the first thing that is not as it was written is named, and nothing more is said."""
    try:
        return _verified(connection, database, public, keys_checked)
    except Refusal:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # A damaged row can be anything at all by the time it is decoded.
        raise database.tampered(f"a row cannot be read ({type(error).__name__}): altered or damaged") from None


def _verified(connection: Connection, database: Database, public: str, keys_checked: bool) -> Verified:
    _whole_file(connection, database)
    uuid = _named(connection, database)
    previous, count, part, key = BEFORE_THE_FIRST, 0, 1, ""
    for row in connection.execute(select(schema.entry).order_by(schema.entry.c.seq)).all():
        count += 1
        if row.seq != count:
            raise database.tampered(f"entry {count} is missing")
        if link(previous, row.body) != row.digest:
            raise database.tampered(f"entry {count} was altered, or the one before it")
        body = json.loads(row.body)
        if count == 1:
            key = _first(body, uuid, public, database)
        _columns(row, body, database)
        if bool(key) != (row.signature is not None) or (key and not signed_by(key, row.digest, row.signature)):
            raise database.tampered(f"entry {count} does not carry the signature of the ledger's key")
        if body["kind"] == "release":
            part = _release(connection, database, row.seq, body, part)
        previous = row.digest
    if count == 0:
        raise database.tampered("the chain is empty")
    people = _strays(connection, database, part)
    return Verified(count, short(count, previous), key, people, keys_checked)


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


def _release(connection: Connection, database: Database, seq: int, body: Any, part: int) -> int:
    """The artefact, the parts and the doses of one release; the number of the next part."""
    data = connection.execute(select(schema.artefact.c.data).where(schema.artefact.c.seq == seq)).scalar()
    if data is None or sha256(data).hexdigest() != body["artefact"] or len(data) != body["size"]:
        raise database.tampered(f"the artefact of entry {seq} is missing or was altered")
    rows = connection.execute(select(schema.part).where(schema.part.c.seq == seq).order_by(schema.part.c.id)).all()
    said = [(row.id, row.account, row.event) for row in rows]
    meant = [
        (part + k, about["account"], None if about["event"] is None else canonical(about["event"]))
        for k, about in enumerate(body["parts"])
    ]
    if said != meant:
        raise database.tampered(f"the parts of entry {seq} were altered")
    for number, about in enumerate(body["parts"], start=part):
        _doses(connection, database, seq, number, about)
    return part + len(meant)


def _doses(connection: Connection, database: Database, seq: int, part: int, about: Any) -> None:
    d = schema.dose.c
    query = select(d.pseudonym, d.amount).where(d.part == part).order_by(d.pseudonym)
    rows = [(bytes(pseudonym), amount) for pseudonym, amount in connection.execute(query)]
    whole = all(len(p) == PSEUDONYM_BYTES and type(a) is int and 0 <= a <= MOST for p, a in rows)
    if not whole or len(rows) != about["people"] or digest_of_rows(sorted(rows)) != about["rows"]:
        raise database.tampered(f"the doses of entry {seq} were altered: rows edited, dropped or added")


def _strays(connection: Connection, database: Database, parts: int) -> int:
    """Rows that belong to no entry; how many people there are otherwise."""
    seen: set[bytes] = set()
    d = schema.dose.c
    for part, rows in groupby(connection.execute(select(d.part, d.pseudonym).order_by(d.part)), key=lambda r: r.part):
        if not 1 <= part < parts:
            raise database.tampered("there are doses that belong to no release")
        seen.update(bytes(row.pseudonym) for row in rows)
    releases = set(connection.execute(select(schema.entry.c.seq).where(schema.entry.c.kind == "release")).scalars())
    for table in (schema.artefact, schema.part):
        if not set(connection.execute(select(table.c.seq)).scalars()) <= releases:
            raise database.tampered("there are artefacts or parts that belong to no release")
    return len(seen)
