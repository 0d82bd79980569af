"""The chain in the database: its newest entry, its budgets, and how an entry is added. All inside a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, insert, select
from sqlalchemy.engine import Row

from dosimeter.core.accounts import LedgerLimit
from dosimeter.ledger import records, schema
from dosimeter.ledger.database import Database
from dosimeter.ledger.entries import Entry, short
from dosimeter.ledger.hash_chain import BEFORE_THE_FIRST, canonical, link
from dosimeter.ledger.pseudonyms import Keys
from dosimeter.ledger.records import account_of, altered, body_of, budgets_of, bytes_of, text_of

EXPORT = "dosimeter.ledger/1"


def entry_of(row: Row[Any]) -> Entry:
    """An entry from its row."""
    body = body_of(row.body, row.seq)
    return Entry(body["seq"], body["kind"], body["time"], text_of(row.digest, f"entry {body['seq']}"), body)


def newest(connection: Connection) -> Row[Any] | None:
    """The last row of the chain, None before the first."""
    return connection.execute(select(schema.entry).order_by(schema.entry.c.seq.desc()).limit(1)).first()


def check_head(connection: Connection, database: Database, keys: Keys, seen: tuple[int, str]) -> Entry:
    """The newest entry, after the last link and what the key file remembers were checked.

    seen: `keys.head`, read before the snapshot was taken: a writer in between moves both on, and the key file must not
    seem ahead. The counters of the key file are read after it, for the same reason.
    """
    last = newest(connection)
    if last is None:
        raise database.tampered("the chain is empty")
    if type(last.seq) is not int:
        raise altered("the number of the newest entry")
    before = connection.execute(select(schema.entry.c.digest).where(schema.entry.c.seq == last.seq - 1)).scalar()
    if link(before or BEFORE_THE_FIRST, last.body) != last.digest:
        raise database.tampered(f"entry {last.seq} was altered")
    if last.signature != keys.seal_of(last.digest):
        raise database.tampered(f"entry {last.seq} was not written with this key file")
    seq, digest = seen
    found = digest if seq == 0 else connection.execute(_digest_at(seq)).scalar()
    if seq > last.seq or found != digest:
        raise database.tampered(
            f"the key file has seen entry {seq} ({digest[:16]}), which this database does not hold: it was put back to "
            "an older copy or altered; put back the newest copy"
        )
    entry = entry_of(last)
    missing, risen = entry.body["salts"] - keys.made, entry.body["erased"] - keys.erased
    if missing > 0 or risen > 0:
        what = (
            f"the salts of {missing} people are missing from it" if missing > 0 else f"it knows {risen} erased people"
        )
        raise database.refusal(f"the key file is an older copy: {what}", "put back the newest copy of the key file")
    return entry


def _digest_at(seq: int) -> Any:
    return select(schema.entry.c.digest).where(schema.entry.c.seq == seq)


def budgets(connection: Connection) -> tuple[LedgerLimit, ...]:
    """The limits in force: of each notion the last one that was set."""
    rows = connection.execute(
        select(schema.entry.c.body)
        .where(schema.entry.c.kind.in_(("opened", "budget")))
        .order_by(schema.entry.c.seq.asc())
    ).scalars()
    found: dict[str, LedgerLimit] = {}
    for body in rows:
        entry = body_of(body, "of a budget")
        if "budgets" not in entry:
            raise altered(f"entry {entry['seq']}")
        found |= {budget.key: budget for budget in budgets_of(entry)}
    return tuple(found[key] for key in sorted(found))


def append(
    connection: Connection, keys: Keys, kind: str, facts: Mapping[str, Any], **columns: str | None
) -> tuple[int, str]:
    """Add an entry; (seq, digest). Rows that belong to it are the caller's to add in the same transaction."""
    last = newest(connection)
    seq, previous = (1, BEFORE_THE_FIRST) if last is None else (last.seq + 1, last.digest)
    body = canonical(
        {
            **facts,
            "kind": kind,
            "seq": seq,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "salts": keys.made,
            "erased": keys.erased,
        }
    )
    digest = link(previous, body)
    row = {"seq": seq, "kind": kind, "body": body, "digest": digest, "signature": keys.seal_of(digest), **columns}
    connection.execute(insert(schema.entry), [row])
    return seq, digest


def erasures(connection: Connection) -> int:
    """How many people the book says were erased."""
    bodies = connection.execute(select(schema.entry.c.body).where(schema.entry.c.kind == "erasure")).scalars()
    return sum(records.amount_of(body_of(body, "of an erasure").get("count"), "an erasure") for body in bodies)


def exported(connection: Connection) -> dict[str, Any]:
    """The whole book as plain values: entries, and doses under pseudonyms."""
    rows = connection.execute(select(schema.entry).order_by(schema.entry.c.seq)).all()
    d, p = schema.dose.c, schema.part.c
    query = (
        select(p.seq, p.account, d.pseudonym, d.amount)
        .join_from(schema.dose, schema.part, d.part == p.id)
        .order_by(p.id, d.pseudonym)
    )
    doses = [
        {
            "seq": row.seq,
            "account": account_of(row.account).text,
            "pseudonym": bytes_of(row.pseudonym, "a pseudonym").hex(),
            "nano": records.amount_of(row.amount),
        }
        for row in connection.execute(query)
    ]
    entries = [
        {**entry_of(row).body, "digest": row.digest, "signature": text_of(row.signature or "", f"entry {row.seq}")}
        for row in rows
    ]
    if not entries:
        raise altered("an empty chain")
    known = {entry["seq"] for entry in entries if entry["kind"] == "release"}
    if not all(dose["seq"] in known for dose in doses):
        raise altered("a part of no release")
    return {
        "schema": EXPORT,
        "head": short(entries[-1]["seq"], entries[-1]["digest"]),
        "entries": entries,
        "doses": doses,
    }
