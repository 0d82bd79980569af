"""The chain in the database: its newest entry, its budgets, and adding an entry. All within a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, insert, select
from sqlalchemy.engine import Row

from dosimeter.core.accounts import LedgerLimit
from dosimeter.ledger import records, schema
from dosimeter.ledger.database import Database
from dosimeter.ledger.entries import Entry, short_head
from dosimeter.ledger.hash_chain import GENESIS_DIGEST, canonical, link
from dosimeter.ledger.pseudonyms import Keys
from dosimeter.ledger.records import integrity_error, read_account, read_body, read_budgets, read_bytes, read_text

EXPORT = "dosimeter.ledger/1"


def entry_of(row: Row[Any]) -> Entry:
    """The entry in a row."""
    body = read_body(row.body, row.seq)
    return Entry(body["seq"], body["kind"], body["time"], read_text(row.digest, f"entry {body['seq']}"), body)


def newest(connection: Connection) -> Row[Any] | None:
    """The last row of the chain, None if it is empty."""
    return connection.execute(select(schema.entry).order_by(schema.entry.c.seq.desc()).limit(1)).first()


def check_head(connection: Connection, database: Database, keys: Keys, remembered: tuple[int, str]) -> Entry:
    """The newest entry, after checking the last link and the head that the key file remembers.

    remembered: `keys.head`, read before the snapshot: a writer in between advances both, and the key file must not
    appear to be ahead. The counters of the key file are read after the snapshot, for the same reason.
    """
    last = newest(connection)
    if last is None:
        raise database.integrity_error("the chain is empty")
    if type(last.seq) is not int:
        raise integrity_error("the number of the newest entry")
    before = connection.execute(select(schema.entry.c.digest).where(schema.entry.c.seq == last.seq - 1)).scalar()
    if link(before or GENESIS_DIGEST, last.body) != last.digest:
        raise database.integrity_error(f"entry {last.seq} was altered")
    if last.signature != keys.seal_of(last.digest):
        raise database.integrity_error(f"entry {last.seq} was not written with this key file")
    seq, digest = remembered
    stored = digest if seq == 0 else connection.execute(_digest_at(seq)).scalar()
    if seq > last.seq or stored != digest:
        raise database.integrity_error(
            f"the key file remembers entry {seq} ({digest[:16]}), which this database does not hold: it was altered or "
            "rolled back to an older copy; restore the newest copy"
        )
    entry = entry_of(last)
    missing, restored = entry.body["salts"] - keys.salts_created, entry.body["erased"] - keys.salts_erased
    if missing > 0 or restored > 0:
        problem = f"it lacks the salts of {missing} people" if missing > 0 else f"it holds {restored} erased people"
        raise database.refusal(f"the key file is an older copy: {problem}", "restore the newest copy of the key file")
    return entry


def _digest_at(seq: int) -> Any:
    return select(schema.entry.c.digest).where(schema.entry.c.seq == seq)


def budgets(connection: Connection) -> tuple[LedgerLimit, ...]:
    """The limits in force: the last one set for each notion."""
    rows = connection.execute(
        select(schema.entry.c.body)
        .where(schema.entry.c.kind.in_(("opened", "budget")))
        .order_by(schema.entry.c.seq.asc())
    ).scalars()
    limits: dict[str, LedgerLimit] = {}
    for body in rows:
        entry = read_body(body, "of a budget")
        if "budgets" not in entry:
            raise integrity_error(f"entry {entry['seq']}")
        limits |= {budget.key: budget for budget in read_budgets(entry)}
    return tuple(limits[key] for key in sorted(limits))


def append(
    connection: Connection, keys: Keys, kind: str, facts: Mapping[str, Any], **columns: str | None
) -> tuple[int, str]:
    """Add an entry; (seq, digest). The caller adds the rows that belong to it in the same transaction."""
    last = newest(connection)
    seq, previous = (1, GENESIS_DIGEST) if last is None else (last.seq + 1, last.digest)
    body = canonical(
        {
            **facts,
            "kind": kind,
            "seq": seq,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "salts": keys.salts_created,
            "erased": keys.salts_erased,
        }
    )
    digest = link(previous, body)
    row = {"seq": seq, "kind": kind, "body": body, "digest": digest, "signature": keys.seal_of(digest), **columns}
    connection.execute(insert(schema.entry), [row])
    return seq, digest


def count_erased(connection: Connection) -> int:
    """The number of people erased, according to the chain."""
    bodies = connection.execute(select(schema.entry.c.body).where(schema.entry.c.kind == "erasure")).scalars()
    return sum(records.read_amount(read_body(body, "of an erasure").get("count"), "an erasure") for body in bodies)


def export(connection: Connection) -> dict[str, Any]:
    """The whole ledger as plain values: entries, and doses under pseudonyms."""
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
            "account": read_account(row.account).text,
            "pseudonym": read_bytes(row.pseudonym, "a pseudonym").hex(),
            "nano": records.read_amount(row.amount),
        }
        for row in connection.execute(query)
    ]
    entries = [
        {**entry_of(row).body, "digest": row.digest, "signature": read_text(row.signature or "", f"entry {row.seq}")}
        for row in rows
    ]
    if not entries:
        raise integrity_error("an empty chain")
    known = {entry["seq"] for entry in entries if entry["kind"] == "release"}
    if not all(dose["seq"] in known for dose in doses):
        raise integrity_error("a part of no release")
    return {
        "schema": EXPORT,
        "head": short_head(entries[-1]["seq"], entries[-1]["digest"]),
        "entries": entries,
        "doses": doses,
    }
