"""What the ledger's verbs know: facts as plain dicts. No id is in them that was not typed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dosimeter.ledger import Account, Entry, Ledger, Verified

SCHEMA = "dosimeter.ledger-{}/1"
NOTIONS = {
    "fil": ("Fisher information loss", "η", "1/η is the least error of an unbiased guess, in {}"),
    "mu": ("membership", "μ", "whoever knows all the rest tells presence from absence with AUC Φ(μ/√2) at best"),
    "leakage": ("maximal leakage", "nats", "no guess about the person gets likelier by more than a factor e^nats"),
    "eps": ("differential privacy", "ε", "no chance shifts by more than a factor e^ε, but for δ; neighbours: {}"),
}
"""Key -> what it is called, its symbol, what it means; {} is the scale of the unknown, or the neighbour relation."""
OUTSIDE = (
    "whatever left without being booked here, and releases made before this book was opened",
    "unlike notions stand side by side: none of them contains another, and they are never added",
    "releases chosen after looking at earlier ones: information adds for noise that is independent given the data",
)


def opened(book: Ledger, where: str) -> dict[str, Any]:
    """A ledger that was just made."""
    return {
        "schema": SCHEMA.format("opened"),
        "ledger": book.label,
        "keys": str(book.keys_path),
        "budgets": [str(one) for one in book.budgets],
        "head": book.head,
        "url": "" if "://" in where else where,
    }


def releases(book: Ledger) -> dict[str, Any]:
    """All releases; the rest of the chain is counted."""
    entries = book.entries()
    return {
        "schema": SCHEMA.format("list"),
        "ledger": book.label,
        "head": book.head,
        "budgets": [str(one) for one in book.budgets],
        "releases": [_release(one) for one in entries if one.kind == "release"],
        "other_entries": {kind: sum(e.kind == kind for e in entries) for kind in ("budget", "erasure", "key")},
    }


def _release(entry: Entry) -> dict[str, Any]:
    return {
        "seq": entry.seq,
        "time": entry.time,
        "name": entry.name,
        "kind": str(entry.recipe.get("kind", "")),
        "noise": str(entry.recipe.get("noise", "")),
        "people": entry.people,
        "accounts": [account.text for account in entry.accounts],
        "to": entry.to,
        "note": entry.note,
        "override": entry.override,
        "digest": entry.digest,
    }


def person(book: Ledger, who: str) -> dict[str, Any]:
    """The right-of-access answer; `id` is as it was typed."""
    found = book.person(who)
    return {
        "schema": SCHEMA.format("person"),
        "id": who,
        "known": found.known,
        "pseudonym": found.pseudonym,
        "releases": [
            {
                "seq": one.seq, "time": one.time, "name": one.name, "to": one.to,
                **_account(one.account, one.delta), "reading": one.reading, "standing": one.standing.value,
            }
            for one in found.entries
        ],
        "totals": [
            {
                **_account(one.account, one.delta), "reading": one.reading, "standing": one.standing.value,
                "limit": None if math.isinf(one.limit) else one.limit,
                "left": None if math.isinf(one.left) else one.left,
            }
            for one in found.totals
        ],
        "not_covered": [*dict.fromkeys(note for one in found.entries for note in one.uncovered), *OUTSIDE],
        "head": book.head,
    }  # fmt: skip


def _account(account: Account, delta: float) -> dict[str, Any]:
    name, symbol, meaning = NOTIONS[account.key]
    return {
        "account": account.text,
        "notion": name,
        "symbol": symbol,
        "unit": account.unit,
        "measured_in": account.measured_in,
        "delta": delta if account.key == "eps" else None,
        "meaning": meaning.format(account.measured_in),
    }


def budgets(book: Ledger) -> dict[str, Any]:
    """The limits, and how near the nearest person is in each account."""
    limits = book.budgets
    return {
        "schema": SCHEMA.format("budget"),
        "budgets": [str(one) for one in limits],
        "accounts": [
            {
                **_account(one.account, one.delta),
                "people": len(one.readings),
                "highest": float(one.readings.max()) if len(one.readings) else 0.0,
                "limit": None if math.isinf(one.limit) else one.limit,
                "above": one.passing,
            }
            for one in book.totals()
        ],
        "head": book.head,
    }


def compared(book: Ledger, first: str, second: str) -> dict[str, Any]:
    """Two releases side by side; the largest changes by pseudonym."""
    return {
        "schema": SCHEMA.format("compare"),
        "first": _release(book.entry(first)),
        "second": _release(book.entry(second)),
        "accounts": [
            {
                **_account(one.account, one.delta),
                "both": len(one.pseudonyms),
                "only_first": one.only_first,
                "only_second": one.only_second,
                "quantiles": [list(row) for row in one.quantiles()],
                "largest_changes": [list(row) for row in one.largest_changes(5)],
            }
            for one in book.compare(first, second)
        ],
        "head": book.head,
    }


def verified(done: Verified) -> dict[str, Any]:
    """What was checked."""
    return {
        "schema": SCHEMA.format("verify"),
        "entries": done.entries,
        "head": done.head,
        "signed": done.signed,
        "people": done.people,
        "keys_checked": done.keys_checked,
    }


def erased(book: Ledger, found: bool) -> dict[str, Any]:
    """Whether anybody was there to be erased."""
    return {"schema": SCHEMA.format("erased"), "erased": found, "head": book.head}


def as_json(book: Ledger) -> str:
    """The whole book as JSON."""
    import json

    return json.dumps(book.export(), indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def as_csv(book: Ledger) -> str:
    """A line for each dose; amounts in whole billionths of the coordinate in which they add."""
    from dosimeter.files.csv_export import sheet

    told = book.export()
    about = {one["seq"]: one for one in told["entries"]}
    columns: dict[str, list[Any]] = {
        name: [] for name in ("entry", "time", "release", "to", "note", "override", "account", "pseudonym", "nano")
    }
    for row in told["doses"]:
        entry = about[row["seq"]]
        values = (
            row["seq"], str(entry["time"]), str(entry["name"]), str(entry["to"]), str(entry["note"]),
            str(entry["override"]), row["account"], row["pseudonym"], row["nano"],
        )  # fmt: skip
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return sheet(columns)
