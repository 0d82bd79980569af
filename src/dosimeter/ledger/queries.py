"""Reading the book by person, by account, and two releases side by side. Everything here is internal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select

from dosimeter.core.accounts import DELTA_WITHOUT_BUDGET, Account, LedgerLimit, standing_of_sum
from dosimeter.core.errors import Refusal
from dosimeter.core.notion import Standing
from dosimeter.ledger import schema
from dosimeter.ledger.composition import epsilon, history_of
from dosimeter.ledger.entries import AccountTotals, Compared, Entry, PersonBook, PersonEntry, Total
from dosimeter.ledger.entry_log import budgets, entry_of
from dosimeter.ledger.fisher_blocks import Piles, piles, saved
from dosimeter.ledger.hash_chain import canonical
from dosimeter.ledger.records import account_of, altered, amount_of, bytes_of, event_of, standing_of, sum_of

SHORT = 12
"""Hexadecimal digits of a pseudonym that are shown."""


def person(connection: Connection, pseudonym: bytes) -> PersonBook:
    """Every release that cost this person something, and the totals."""
    d, p, e = schema.dose.c, schema.part.c, schema.entry
    siblings = schema.part.alias()
    first = select(func.min(siblings.c.id)).where(siblings.c.seq == p.seq).scalar_subquery()
    query = (
        select(e, (p.id - first).label("number"), d.amount)
        .join_from(schema.dose, schema.part, d.part == p.id)
        .join(e, e.c.seq == p.seq)
        .where(d.pseudonym == pseudonym)
        .order_by(p.id)
    )
    limits = {budget.key: budget for budget in budgets(connection)}
    entries: list[PersonEntry] = []
    totals: dict[Account, list[tuple[int, str, Standing]]] = {}
    for row in connection.execute(query):
        entry = entry_of(row)
        about = _about(entry, row.number)
        account, standing, amount = account_of(about["account"]), standing_of(about), amount_of(row.amount)
        event = canonical(about["event"]) if about["event"] is not None else ""
        delta = _delta(account, limits)
        reading = _reading(account, amount, (event,) if event else (), delta)
        entries.append(
            PersonEntry(
                entry.name, entry.seq, entry.time, entry.to, account, reading, standing, _uncovered(entry, about), delta
            )
        )
        totals.setdefault(account, []).append((amount, event, standing))
    return PersonBook(
        pseudonym.hex()[:SHORT],
        tuple(entries),
        tuple(
            _total(account, rows, limits, dict(piles(connection, account.text, [pseudonym])).get(pseudonym, {}))
            for account, rows in sorted(totals.items())
        ),
    )


def totals(connection: Connection, wanted: Account | None) -> tuple[AccountTotals, ...]:
    """Everybody's total, account by account, the highest first."""
    limits = {budget.key: budget for budget in budgets(connection)}
    names = connection.execute(select(schema.part.c.account).distinct()).scalars().all()
    accounts = sorted(account_of(name) for name in names)
    return tuple(_everybody(connection, a, limits) for a in accounts if wanted is None or a == wanted)


def compare(connection: Connection, first: Entry, second: Entry) -> tuple[Compared, ...]:
    """Two releases side by side in every account that either has."""
    limits = {budget.key: budget for budget in budgets(connection)}
    out = []
    for account in sorted({*first.accounts, *second.accounts}):
        delta = _delta(account, limits)
        a, b = (_readings(connection, entry, account, delta) for entry in (first, second))
        both = sorted(a.keys() & b.keys())
        out.append(
            Compared(
                account,
                tuple(p.hex()[:SHORT] for p in both),
                np.array([a[p] for p in both]),
                np.array([b[p] for p in both]),
                len(a.keys() - b.keys()),
                len(b.keys() - a.keys()),
                delta,
            )
        )
    return tuple(out)


def _everybody(connection: Connection, account: Account, limits: Mapping[str, LedgerLimit]) -> AccountTotals:
    d, p = schema.dose.c, schema.part.c
    joined = schema.dose.join(schema.part, d.part == p.id)
    delta, limit = _delta(account, limits), limits.get(account.key)
    if account.key == "eps":
        query = select(d.pseudonym, p.event).select_from(joined).where(p.account == account.text)
        events: dict[bytes, list[str]] = {}
        for pseudonym, event in connection.execute(query):
            events.setdefault(bytes_of(pseudonym, "a pseudonym"), []).append(event_of(event))
        found = {who: _reading(account, 0, tuple(all_), delta) for who, all_ in events.items()}
        passing = sum(e > limit.limit for e in found.values()) if limit else 0
    else:
        sums = (
            select(d.pseudonym, func.sum(d.amount), func.count() - func.count(d.amount))
            .select_from(joined)
            .where(p.account == account.text)
            .group_by(d.pseudonym)
        )
        amounts = {bytes_of(who, "a pseudonym"): sum_of(total, gaps) for who, total, gaps in connection.execute(sums)}
        for who, mine in piles(connection, account.text):
            amounts[who] -= saved(mine)
        found = {who: account.reading(amount) for who, amount in amounts.items()}
        # In amounts, as a booking decides: a reading at the limit may lie above it in its last digits.
        passing = sum(amount > limit.amount for amount in amounts.values()) if limit else 0
    order = sorted(found, key=lambda who: (-found[who], who))
    readings = np.array([found[who] for who in order])
    return AccountTotals(account, tuple(w.hex()[:SHORT] for w in order), readings, limit, delta, passing)


def _readings(connection: Connection, entry: Entry, account: Account, delta: float) -> dict[bytes, float]:
    d, p = schema.dose.c, schema.part.c
    query = (
        select(d.pseudonym, d.amount, p.event)
        .join_from(schema.dose, schema.part, d.part == p.id)
        .where(p.seq == entry.seq, p.account == account.text)
    )
    return {
        bytes_of(who, "a pseudonym"): _reading(account, amount_of(amount), (event_of(event),) if event else (), delta)
        for who, amount, event in connection.execute(query)
    }


def _about(entry: Entry, number: Any) -> Mapping[str, Any]:
    """What an entry says of its part with this number, from 0."""
    parts = entry.body.get("parts", ())
    if type(number) is not int or not 0 <= number < len(parts):
        raise altered(f"the parts of entry {entry.seq}")
    found: Mapping[str, Any] = parts[number]
    return found


def _uncovered(entry: Entry, about: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*about["uncovered"], *entry.recipe["uncovered"]]))


def _delta(account: Account, limits: Mapping[str, LedgerLimit]) -> float:
    if account.key != "eps":
        return 0.0
    return limits["eps"].delta if "eps" in limits else DELTA_WITHOUT_BUDGET


def _reading(account: Account, amount: int, events: tuple[str, ...], delta: float) -> float:
    if account.key == "eps":
        return _epsilon(history_of(events), account.unit, account.measured_in, delta)
    return account.reading(amount)


def _epsilon(*history: Any) -> float:
    """ε of events in the book: whatever was booked could be composed, so one that cannot was altered."""
    try:
        return epsilon(*history)
    except (Refusal, ValueError, TypeError, RecursionError):
        raise altered("an event") from None


def _total(
    account: Account, rows: list[tuple[int, str, Standing]], limits: Mapping[str, LedgerLimit], blocks: Piles
) -> Total:
    amount, events = sum(row[0] for row in rows) - saved(blocks), tuple(row[1] for row in rows)
    delta = _delta(account, limits)
    reading = _reading(account, amount, events, delta)
    whole = any(pile.releases == len(rows) for pile in blocks.values())
    standing = standing_of_sum(account, (row[2] for row in rows), whole)
    budget = limits.get(account.key)
    if budget is None:
        return Total(account, reading, standing, math.inf, math.inf, delta)
    if account.key == "eps":
        return Total(account, reading, standing, budget.limit, max(0.0, budget.limit - reading), delta)
    left = account.reading(max(0, budget.amount - amount))
    return Total(account, reading, standing, budget.limit, left, delta)
