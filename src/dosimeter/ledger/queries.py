"""Queries: the statement of a person, totals by account, and a comparison of two releases. All of it is internal."""

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
from dosimeter.ledger.entries import AccountTotals, Entry, PersonEntry, PersonStatement, ReleaseComparison, Total
from dosimeter.ledger.entry_log import budgets, entry_of
from dosimeter.ledger.fisher_blocks import BlockSums, saving, summed_blocks
from dosimeter.ledger.hash_chain import canonical
from dosimeter.ledger.records import (
    integrity_error,
    read_account,
    read_amount,
    read_bytes,
    read_event,
    read_standing,
    read_sum,
)

SHOWN_DIGITS = 12
"""Hexadecimal digits of a pseudonym that are shown."""


def person_statement(connection: Connection, pseudonym: bytes) -> PersonStatement:
    """Every release with a dose of this person, and the person's totals."""
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
        part = _part_of(entry, row.number)
        account, standing, amount = read_account(part["account"]), read_standing(part), read_amount(row.amount)
        event = canonical(part["event"]) if part["event"] is not None else ""
        delta = _delta(account, limits)
        reading = _reading(account, amount, (event,) if event else (), delta)
        entries.append(
            PersonEntry(
                entry.name,
                entry.seq,
                entry.time,
                entry.to,
                account,
                reading,
                standing,
                _not_covered(entry, part),
                delta,
            )
        )
        totals.setdefault(account, []).append((amount, event, standing))
    return PersonStatement(
        pseudonym.hex()[:SHOWN_DIGITS],
        tuple(entries),
        tuple(
            _total(account, rows, limits, dict(summed_blocks(connection, account.text, [pseudonym])).get(pseudonym, {}))
            for account, rows in sorted(totals.items())
        ),
    )


def totals(connection: Connection, wanted: Account | None) -> tuple[AccountTotals, ...]:
    """The totals of all people, account by account, the highest first."""
    limits = {budget.key: budget for budget in budgets(connection)}
    names = connection.execute(select(schema.part.c.account).distinct()).scalars().all()
    accounts = sorted(read_account(name) for name in names)
    return tuple(_account_totals(connection, a, limits) for a in accounts if wanted is None or a == wanted)


def compare(connection: Connection, first: Entry, second: Entry) -> tuple[ReleaseComparison, ...]:
    """A comparison of two releases in every account of either."""
    limits = {budget.key: budget for budget in budgets(connection)}
    out = []
    for account in sorted({*first.accounts, *second.accounts}):
        delta = _delta(account, limits)
        a, b = (_readings(connection, entry, account, delta) for entry in (first, second))
        both = sorted(a.keys() & b.keys())
        out.append(
            ReleaseComparison(
                account,
                tuple(p.hex()[:SHOWN_DIGITS] for p in both),
                np.array([a[p] for p in both]),
                np.array([b[p] for p in both]),
                len(a.keys() - b.keys()),
                len(b.keys() - a.keys()),
                delta,
            )
        )
    return tuple(out)


def _account_totals(connection: Connection, account: Account, limits: Mapping[str, LedgerLimit]) -> AccountTotals:
    d, p = schema.dose.c, schema.part.c
    joined = schema.dose.join(schema.part, d.part == p.id)
    delta, limit = _delta(account, limits), limits.get(account.key)
    if account.notion.composes_events:
        query = select(d.pseudonym, p.event).select_from(joined).where(p.account == account.text)
        events: dict[bytes, list[str]] = {}
        for pseudonym, event in connection.execute(query):
            events.setdefault(read_bytes(pseudonym, "a pseudonym"), []).append(read_event(event))
        figures = {p: _reading(account, 0, tuple(texts), delta) for p, texts in events.items()}
        passing = sum(e > limit.limit for e in figures.values()) if limit else 0
    else:
        sums = (
            select(d.pseudonym, func.sum(d.amount), func.count() - func.count(d.amount))
            .select_from(joined)
            .where(p.account == account.text)
            .group_by(d.pseudonym)
        )
        amounts = {
            read_bytes(pseudonym, "a pseudonym"): read_sum(total, nulls)
            for pseudonym, total, nulls in connection.execute(sums)
        }
        for pseudonym, sums_of_blocks in summed_blocks(connection, account.text):
            amounts[pseudonym] -= saving(sums_of_blocks)
        figures = {pseudonym: account.figure(amount) for pseudonym, amount in amounts.items()}
        # Compared as amounts, as in a booking: a reading at the limit may lie above it in its last digits.
        passing = sum(amount > limit.amount for amount in amounts.values()) if limit else 0
    order = sorted(figures, key=lambda pseudonym: (-figures[pseudonym], pseudonym))
    readings = np.array([figures[pseudonym] for pseudonym in order])
    return AccountTotals(account, tuple(p.hex()[:SHOWN_DIGITS] for p in order), readings, limit, delta, passing)


def _readings(connection: Connection, entry: Entry, account: Account, delta: float) -> dict[bytes, float]:
    d, p = schema.dose.c, schema.part.c
    query = (
        select(d.pseudonym, d.amount, p.event)
        .join_from(schema.dose, schema.part, d.part == p.id)
        .where(p.seq == entry.seq, p.account == account.text)
    )
    return {
        read_bytes(pseudonym, "a pseudonym"): _reading(
            account, read_amount(amount), (read_event(event),) if event else (), delta
        )
        for pseudonym, amount, event in connection.execute(query)
    }


def _part_of(entry: Entry, number: Any) -> Mapping[str, Any]:
    """What an entry says about its part with this number, from 0."""
    parts = entry.body.get("parts", ())
    if type(number) is not int or not 0 <= number < len(parts):
        raise integrity_error(f"the parts of entry {entry.seq}")
    part: Mapping[str, Any] = parts[number]
    return part


def _not_covered(entry: Entry, part: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*part["uncovered"], *entry.recipe["uncovered"]]))


def _delta(account: Account, limits: Mapping[str, LedgerLimit]) -> float:
    if not account.notion.composes_events:
        return 0.0
    return limits[account.key].delta if account.key in limits else DELTA_WITHOUT_BUDGET


def _reading(account: Account, amount: int, events: tuple[str, ...], delta: float) -> float:
    if account.notion.composes_events:
        return _epsilon(history_of(events), account.unit, account.measured_in, delta)
    return account.figure(amount)


def _epsilon(*history: Any) -> float:
    """ε of booked events. Every booked event could be composed, so one that cannot be was altered."""
    try:
        return epsilon(*history)
    except (Refusal, ValueError, TypeError, RecursionError):
        raise integrity_error("an event") from None


def _total(
    account: Account, rows: list[tuple[int, str, Standing]], limits: Mapping[str, LedgerLimit], blocks: BlockSums
) -> Total:
    amount, events = sum(row[0] for row in rows) - saving(blocks), tuple(row[1] for row in rows)
    delta = _delta(account, limits)
    reading = _reading(account, amount, events, delta)
    as_matrices = any(total.releases == len(rows) for total in blocks.values())
    standing = standing_of_sum(account, (row[2] for row in rows), as_matrices)
    budget = limits.get(account.key)
    if budget is None:
        return Total(account, reading, standing, math.inf, math.inf, delta)
    if account.notion.composes_events:
        return Total(account, reading, standing, budget.limit, max(0.0, budget.limit - reading), delta)
    left = account.figure(max(0, budget.amount - amount))
    return Total(account, reading, standing, budget.limit, left, delta)
