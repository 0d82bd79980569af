"""A booking: the decision and the spend, with the artefact's bytes, in one transaction."""

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
from dosimeter.ledger.entries import Booked, OverBudget
from dosimeter.ledger.entry_log import append, budgets, check_head, entry_of
from dosimeter.ledger.fisher_blocks import Marker, Row, digest_of_blocks, keep, marker, rows_of, totals_with
from dosimeter.ledger.hash_chain import canonical, digest_of_rows
from dosimeter.ledger.pseudonyms import Keys
from dosimeter.ledger.records import bytes_of, event_of, sum_of

_AT_ONCE = 1000
_Described = tuple[dict[str, Any], list[tuple[bytes, int]], list[Row]]


def book(database: Database, keys: Keys, booking: Booking) -> Booked:
    """Spend and store, once per name. Nothing is written where somebody would pass a limit and no reason is given."""
    parts = parts_of(booking.doses)
    if any(part.event is not None for part in parts):
        # Accountants take seconds; what they found is remembered, so that nobody waits for them under the lock.
        preview(database, keys, parts)
    with database.writing() as connection:
        check_head(connection, database, keys, keys.head)
        before = connection.execute(select(schema.entry).where(schema.entry.c.name == booking.name)).first()
        if before is not None:
            return _again(connection, keys, booking, parts, before)
        mark = keys.draw_mark(booking.draw) if booking.draw else None
        digest = sha256(booking.artefact).hexdigest()
        _refuse_seen(connection, mark, digest)
        known = keys.pseudonyms(_ids(parts))
        mark_of = marker(keys)
        passing = decide(connection, known, parts, mark_of)
        if passing and not booking.override.strip():
            raise OverBudget(passing)
        pseudonyms = keys.admit(_ids(parts), known)
        described = _described(parts, pseudonyms, mark_of)
        facts = _facts(booking, described, mark or "", digest, passing)
        seq, head = append(connection, keys, "release", facts, name=booking.name, artefact=digest, draw=mark)
        connection.execute(insert(schema.artefact), [{"seq": seq, "data": booking.artefact}])
        _spend(connection, seq, described)
    keys.saw(seq, head)
    return Booked(booking.name, seq, head, True, booking.artefact, passing)


def preview(database: Database, keys: Keys, parts: tuple[AccountShare, ...]) -> tuple[LimitViolation, ...]:
    """The same decision on a snapshot; nothing is written."""
    seen = keys.head
    with database.reading() as connection:
        check_head(connection, database, keys, seen)
        return decide(connection, keys.pseudonyms(_ids(parts)), parts, marker(keys))


def decide(
    connection: Connection, known: Mapping[str, bytes], parts: tuple[AccountShare, ...], mark: Marker
) -> tuple[LimitViolation, ...]:
    """Who would pass which limit, account by account. known: the pseudonyms of those who have one."""
    limits = {budget.key: budget for budget in budgets(connection)}
    found: list[LimitViolation] = []
    for account in dict.fromkeys(part.account for part in parts):
        mine = [part for part in parts if part.account == account]
        limit = limits.get(account.key)
        if account.key == "eps":
            passing = _over_by_events(connection, known, mine, limit)
        else:
            added = {person: amount for part in mine for person, amount in part.rows}
            sums = spent(connection, account.text, [known[p] for p in added if p in known])
            before = {p: sums.get(known[p], 0) for p in added if p in known}
            before, after = totals_with(connection, known, mine, before, mark)
            passing = over(account, limit, added, before, after)
        if passing is not None:
            found.append(passing)
    return tuple(found)


def _over_by_events(
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
        # Also without a limit: an event that no accountant reads must not get into the book.
        with_it = {h: epsilon(joined(h, text), account.unit, account.measured_in, delta) for h in distinct}
        after |= {person: with_it[history] for person, history in histories_of.items()}
        earlier |= distinct
    if limit is None:
        return None
    readings = [epsilon(h, account.unit, account.measured_in, delta) for h in earlier]
    return over_by_epsilon(account, limit, after, readings)


def _ids(parts: Sequence[AccountShare]) -> list[str]:
    return list(dict.fromkeys(person for part in parts for person, _ in part.rows))


def joined(history: History, event: str) -> History:
    """A history with one more event."""
    counts = dict(history)
    counts[event] = counts.get(event, 0) + 1
    return tuple(sorted(counts.items()))


def spent(connection: Connection, account: str, pseudonyms: Sequence[bytes]) -> dict[bytes, int]:
    """Totals of these people in one account, whole nano-units."""
    d, p = schema.dose.c, schema.part.c
    total: dict[bytes, int] = {}
    for some in _batches(pseudonyms):
        query = (
            select(d.pseudonym, func.sum(d.amount), func.count() - func.count(d.amount))
            .join_from(schema.dose, schema.part, d.part == p.id)
            .where(d.pseudonym.in_(some), p.account == account)
            .group_by(d.pseudonym)
        )
        total |= {bytes_of(who, "a pseudonym"): sum_of(sums, gaps) for who, sums, gaps in connection.execute(query)}
    return total


def histories(connection: Connection, account: str, pseudonyms: Iterable[bytes]) -> dict[bytes, History]:
    """The history of each of these people in one account of events."""
    d, p = schema.dose.c, schema.part.c
    events = {row.id: row.event for row in connection.execute(select(p.id, p.event).where(p.account == account))}
    rows: dict[bytes, list[int]] = {}
    for some in _batches(list(pseudonyms) if events else []):
        query = select(d.pseudonym, d.part).where(d.pseudonym.in_(some))
        for pseudonym, part in connection.execute(query):
            if part in events:
                rows.setdefault(bytes_of(pseudonym, "a pseudonym"), []).append(part)
    # Few histories, many people: each is put together once.
    taken = {pseudonym: tuple(sorted(parts)) for pseudonym, parts in rows.items()}
    by_parts = {parts: history_of(event_of(events[k]) for k in parts) for parts in set(taken.values())}
    return {pseudonym: by_parts[parts] for pseudonym, parts in taken.items()}


def plain_recipe(recipe: Recipe) -> dict[str, Any]:
    """A recipe as plain values."""
    return {
        "kind": recipe.kind,
        "noise": recipe.noise,
        "settings": dict(recipe.settings),
        "uncovered": list(recipe.uncovered),
    }


def _batches(items: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
    return (items[start : start + _AT_ONCE] for start in range(0, len(items), _AT_ONCE))


def _refuse_seen(connection: Connection, mark: str | None, digest: str) -> None:
    c = schema.entry.c
    first = connection.execute(select(c.name).where(c.draw == mark)).scalar() if mark else None
    if first is not None:
        raise Refusal(f"this noise was drawn for {safe_text(first)}: two releases with one draw cancel it; draw anew")
    # Two honest draws of labels may agree: refused, they would tell so for nothing and be drawn until they differ.
    first = None if mark else connection.execute(select(c.name).where(c.artefact == digest)).scalar()
    if first is not None:
        raise Refusal(f"these bytes were released before, as {safe_text(first)}: book under that name")


def _described(parts: Sequence[AccountShare], pseudonyms: Mapping[str, bytes], mark: Marker | None) -> list[_Described]:
    """For each part what the chain says of it, its rows and its blocks in the order of the pseudonyms.

    mark: None leaves the blocks out.
    """
    out = []
    for part in parts:
        rows = sorted((pseudonyms[person], amount) for person, amount in part.rows)
        facts = {
            "account": part.account.text,
            "standing": part.standing.value,
            "event": part.event,
            "uncovered": list(part.uncovered),
            "people": len(rows),
            "rows": digest_of_rows(rows),
        }
        blocks = rows_of(part, pseudonyms, mark) if mark is not None else []
        if blocks:
            facts["blocks"] = digest_of_blocks(blocks)
        out.append((facts, rows, blocks))
    return out


def _again(connection: Connection, keys: Keys, booking: Booking, parts: tuple[AccountShare, ...], row: Any) -> Booked:
    """The name stands in the book: the same release gets its stored bytes, another one is refused."""
    entry = entry_of(row)
    ids = _ids(parts)
    known = keys.pseudonyms(ids)
    same = len(known) == len(ids) and json.loads(canonical(plain_recipe(booking.recipe))) == entry.recipe
    # Blocks are floats, and another machine may round their last digits otherwise: the doses tell what was released.
    stored_parts = [{k: v for k, v in about.items() if k != "blocks"} for about in entry.body["parts"]]
    if not same or json.loads(canonical([f for f, _, _ in _described(parts, known, None)])) != stored_parts:
        raise Refusal(
            f"{safe_text(booking.name)} was booked before with another recipe or other doses: choose a new name"
        )
    stored = connection.execute(select(schema.artefact.c.data).where(schema.artefact.c.seq == entry.seq)).scalar_one()
    return Booked(entry.name, entry.seq, entry.digest, False, bytes_of(stored, f"the artefact of entry {entry.seq}"))


def _facts(
    booking: Booking, described: list[_Described], mark: str, digest: str, passing: tuple[LimitViolation, ...]
) -> dict[str, Any]:
    """What the chain says of a release."""
    from dosimeter.core.version import __version__

    return {
        "name": booking.name,
        "version": __version__,
        "recipe": plain_recipe(booking.recipe),
        "artefact": digest,
        "size": len(booking.artefact),
        "draw": mark,
        "note": booking.note,
        "to": booking.to,
        "override": booking.override.strip() if passing else "",
        "over": [{"account": o.account.text, "budget": str(o.budget), "people": o.people} for o in passing],
        "parts": [about for about, _, _ in described],
    }


def _spend(connection: Connection, seq: int, described: list[_Described]) -> None:
    """The parts, the doses and the blocks of a release."""
    last = connection.execute(select(func.max(schema.part.c.id))).scalar() or 0
    for number, (about, rows, blocks) in enumerate(described, start=last + 1):
        event = canonical(about["event"]) if about["event"] is not None else None
        row = {"id": number, "seq": seq, "account": about["account"], "event": event}
        connection.execute(insert(schema.part), [row])
        connection.execute(insert(schema.dose), [{"part": number, "pseudonym": p, "amount": a} for p, a in rows])
        keep(connection, number, blocks)
