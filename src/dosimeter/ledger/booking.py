"""Booking a release: limits checked, doses and artefact bytes stored, all in one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, func, insert, select

from dosimeter.core.accounts import (
    DELTA_WITHOUT_BUDGET,
    AccountShare,
    Booking,
    LedgerLimit,
    LimitViolation,
    over,
    over_by_epsilon,
    parts_of,
)
from dosimeter.core.errors import Refusal
from dosimeter.core.release import Recipe
from dosimeter.core.text import safe_text
from dosimeter.ledger import schema
from dosimeter.ledger.composition import History, epsilon, history_of
from dosimeter.ledger.database import Database
from dosimeter.ledger.entries import BookingReceipt, OverBudget
from dosimeter.ledger.entry_log import append, budgets, check_head, entry_of
from dosimeter.ledger.fisher_blocks import (
    Marker,
    Row,
    block_marker,
    block_rows,
    digest_of_blocks,
    store_blocks,
    totals_with,
)
from dosimeter.ledger.hash_chain import canonical, digest_of_rows
from dosimeter.ledger.pseudonyms import Keys
from dosimeter.ledger.records import read_bytes, read_event, read_sum

_BATCH = 1000
_PartRecord = tuple[dict[str, Any], list[tuple[bytes, int]], list[Row]]
"""What the chain says about a part, its (pseudonym, amount) rows, and its blocks."""


def book(database: Database, keys: Keys, booking: Booking) -> BookingReceipt:
    """Check the limits and store the release, once per name.

    If a person would exceed a limit and the booking has no reason to override it, nothing is written.
    """
    parts = parts_of(booking.doses)
    if any(part.event is not None for part in parts):
        # Accountants take seconds. This caches their results, so that the lock is held only briefly.
        preview(database, keys, parts)
    with database.writing() as connection:
        check_head(connection, database, keys, keys.head)
        before = connection.execute(select(schema.entry).where(schema.entry.c.name == booking.name)).first()
        if before is not None:
            return _book_again(connection, keys, booking, parts, before)
        mark = keys.noise_mark(booking.noise_fingerprint) if booking.noise_fingerprint else None
        digest = sha256(booking.artefact).hexdigest()
        _refuse_reuse(connection, mark, digest)
        known = keys.pseudonyms(_ids(parts))
        mark_of = block_marker(keys)
        violations = limit_violations(connection, known, parts, mark_of)
        if violations and not booking.override.strip():
            raise OverBudget(violations)
        pseudonyms = keys.admit(_ids(parts), known)
        records = _part_records(parts, pseudonyms, mark_of)
        facts = _facts(booking, records, mark or "", digest, violations)
        seq, head = append(connection, keys, "release", facts, name=booking.name, artefact=digest, draw=mark)
        connection.execute(insert(schema.artefact), [{"seq": seq, "data": booking.artefact}])
        _store_parts(connection, seq, records)
    keys.remember_head(seq, head)
    return BookingReceipt(booking.name, seq, head, True, booking.artefact, violations)


def preview(database: Database, keys: Keys, parts: tuple[AccountShare, ...]) -> tuple[LimitViolation, ...]:
    """The limits that the booking would violate, read from a snapshot; nothing is written."""
    remembered = keys.head
    with database.reading() as connection:
        check_head(connection, database, keys, remembered)
        return limit_violations(connection, keys.pseudonyms(_ids(parts)), parts, block_marker(keys))


def limit_violations(
    connection: Connection, known: Mapping[str, bytes], parts: tuple[AccountShare, ...], mark: Marker
) -> tuple[LimitViolation, ...]:
    """The limits that people would exceed, account by account. known: the pseudonyms of those who have one."""
    limits = {budget.key: budget for budget in budgets(connection)}
    violations: list[LimitViolation] = []
    for account in dict.fromkeys(part.account for part in parts):
        own_parts = [part for part in parts if part.account == account]
        limit = limits.get(account.key)
        if account.notion.composes_events:
            violation = _epsilon_violation(connection, known, own_parts, limit)
        else:
            added = {person: amount for part in own_parts for person, amount in part.rows}
            sums = amounts_spent(connection, account.text, [known[p] for p in added if p in known])
            before = {p: sums.get(known[p], 0) for p in added if p in known}
            before, after = totals_with(connection, known, own_parts, before, mark)
            violation = over(account, limit, added, before, after)
        if violation is not None:
            violations.append(violation)
    return tuple(violations)


def _epsilon_violation(
    connection: Connection, known: Mapping[str, bytes], parts: Sequence[AccountShare], limit: LedgerLimit | None
) -> LimitViolation | None:
    account = parts[0].account
    before = histories(connection, account.text, known.values())
    delta = limit.delta if limit else DELTA_WITHOUT_BUDGET
    after: dict[str, float] = {}
    earlier: set[History] = {()}
    for part in parts:
        text = canonical(part.event)
        histories_of = {p: before.get(known[p], ()) if p in known else () for p, _ in part.rows}
        distinct = set(histories_of.values())
        # Also without a limit: an event that no accountant supports must not enter the ledger.
        with_it = {h: epsilon(add_event(h, text), account.unit, account.measured_in, delta) for h in distinct}
        after |= {person: with_it[history] for person, history in histories_of.items()}
        earlier |= distinct
    if limit is None:
        return None
    readings = [epsilon(h, account.unit, account.measured_in, delta) for h in earlier]
    return over_by_epsilon(account, limit, after, readings)


def _ids(parts: Sequence[AccountShare]) -> list[str]:
    return list(dict.fromkeys(person for part in parts for person, _ in part.rows))


def add_event(history: History, event: str) -> History:
    """A history with one more event."""
    counts = dict(history)
    counts[event] = counts.get(event, 0) + 1
    return tuple(sorted(counts.items()))


def amounts_spent(connection: Connection, account: str, pseudonyms: Sequence[bytes]) -> dict[bytes, int]:
    """The totals of these people in one account, in nano-units."""
    d, p = schema.dose.c, schema.part.c
    total: dict[bytes, int] = {}
    for batch in _batches(pseudonyms):
        query = (
            select(d.pseudonym, func.sum(d.amount), func.count() - func.count(d.amount))
            .join_from(schema.dose, schema.part, d.part == p.id)
            .where(d.pseudonym.in_(batch), p.account == account)
            .group_by(d.pseudonym)
        )
        total |= {
            read_bytes(pseudonym, "a pseudonym"): read_sum(amount, nulls)
            for pseudonym, amount, nulls in connection.execute(query)
        }
    return total


def histories(connection: Connection, account: str, pseudonyms: Iterable[bytes]) -> dict[bytes, History]:
    """The history of each of these people in one account of events."""
    d, p = schema.dose.c, schema.part.c
    events = {row.id: row.event for row in connection.execute(select(p.id, p.event).where(p.account == account))}
    rows: dict[bytes, list[int]] = {}
    for batch in _batches(list(pseudonyms) if events else []):
        query = select(d.pseudonym, d.part).where(d.pseudonym.in_(batch))
        for pseudonym, part in connection.execute(query):
            if part in events:
                rows.setdefault(read_bytes(pseudonym, "a pseudonym"), []).append(part)
    # Many people share few histories: each is built once.
    parts_of_person = {pseudonym: tuple(sorted(parts)) for pseudonym, parts in rows.items()}
    by_parts = {parts: history_of(read_event(events[k]) for k in parts) for parts in set(parts_of_person.values())}
    return {pseudonym: by_parts[parts] for pseudonym, parts in parts_of_person.items()}


def recipe_to_dict(recipe: Recipe) -> dict[str, Any]:
    """A recipe as a plain dict."""
    return {
        "kind": recipe.kind,
        "noise": recipe.noise,
        "settings": dict(recipe.settings),
        "uncovered": list(recipe.not_covered),
    }


def _batches(items: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))


def _refuse_reuse(connection: Connection, mark: str | None, digest: str) -> None:
    c = schema.entry.c
    first = connection.execute(select(c.name).where(c.draw == mark)).scalar() if mark else None
    if first is not None:
        raise Refusal(
            f"this noise was already used for {safe_text(first)}; two releases with one noise cancel it: draw new noise"
        )
    # Two releases of labels with different noise may be equal by chance. Refusing the second would reveal that, and
    # the noise would be drawn again until they differ.
    first = None if mark else connection.execute(select(c.name).where(c.artefact == digest)).scalar()
    if first is not None:
        raise Refusal(f"these bytes were already released as {safe_text(first)}: book under that name")


def _part_records(
    parts: Sequence[AccountShare], pseudonyms: Mapping[str, bytes], mark: Marker | None
) -> list[_PartRecord]:
    """For each part, what the chain says about it, its rows and its blocks, ordered by pseudonym.

    mark: None omits the blocks.
    """
    out = []
    for part in parts:
        rows = sorted((pseudonyms[person], amount) for person, amount in part.rows)
        facts = {
            "account": part.account.text,
            "standing": part.standing.value,
            "event": part.event,
            "uncovered": list(part.not_covered),
            "people": len(rows),
            "rows": digest_of_rows(rows),
        }
        blocks = block_rows(part, pseudonyms, mark) if mark is not None else []
        if blocks:
            facts["blocks"] = digest_of_blocks(blocks)
        out.append((facts, rows, blocks))
    return out


def _book_again(
    connection: Connection, keys: Keys, booking: Booking, parts: tuple[AccountShare, ...], row: Any
) -> BookingReceipt:
    """The name is in the ledger already: return the stored bytes for the same release, refuse another one."""
    entry = entry_of(row)
    ids = _ids(parts)
    known = keys.pseudonyms(ids)
    same = len(known) == len(ids) and json.loads(canonical(recipe_to_dict(booking.recipe))) == entry.recipe
    # Blocks are floats that another machine may round differently: the doses identify the release.
    stored_parts = [{k: v for k, v in facts.items() if k != "blocks"} for facts in entry.body["parts"]]
    if not same or json.loads(canonical([facts for facts, _, _ in _part_records(parts, known, None)])) != stored_parts:
        raise Refusal(
            f"{safe_text(booking.name)} is already booked with another recipe or other doses: choose a new name"
        )
    stored = connection.execute(select(schema.artefact.c.data).where(schema.artefact.c.seq == entry.seq)).scalar_one()
    return BookingReceipt(
        entry.name, entry.seq, entry.digest, False, read_bytes(stored, f"the artefact of entry {entry.seq}")
    )


def _facts(
    booking: Booking, records: list[_PartRecord], mark: str, digest: str, violations: tuple[LimitViolation, ...]
) -> dict[str, Any]:
    """What the chain says about a release."""
    from dosimeter.core.version import __version__

    return {
        "name": booking.name,
        "version": __version__,
        "recipe": recipe_to_dict(booking.recipe),
        "artefact": digest,
        "size": len(booking.artefact),
        "draw": mark,
        "note": booking.note,
        "to": booking.to,
        "override": booking.override.strip() if violations else "",
        "over": [{"account": o.account.text, "budget": str(o.budget), "people": o.people} for o in violations],
        "parts": [part_facts for part_facts, _, _ in records],
    }


def _store_parts(connection: Connection, seq: int, records: list[_PartRecord]) -> None:
    """Store the parts, the doses and the blocks of a release."""
    last = connection.execute(select(func.max(schema.part.c.id))).scalar() or 0
    for number, (facts, rows, blocks) in enumerate(records, start=last + 1):
        event = canonical(facts["event"]) if facts["event"] is not None else None
        row = {"id": number, "seq": seq, "account": facts["account"], "event": event}
        connection.execute(insert(schema.part), [row])
        connection.execute(insert(schema.dose), [{"part": number, "pseudonym": p, "amount": a} for p, a in rows])
        store_blocks(connection, number, blocks)
