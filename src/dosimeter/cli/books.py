"""What the ledger's verbs say: facts as plain dicts, and the same in words. No id is in them that was not typed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dosimeter.cli.page import Page, small
from dosimeter.cli.show import number
from dosimeter.io.text import harmless

if TYPE_CHECKING:
    from rich.console import Console

    from dosimeter.store import Account, Entry, Ledger, Verified

SCHEMA = "dosimeter.ledger-{}/1"
NOTIONS = {
    "fil": ("Fisher information loss", "η", "1/η is the least error of an unbiased guess, in {}"),
    "mu": ("membership", "μ", "whoever knows all the rest tells presence from absence with AUC Φ(μ/√2) at best"),
    "leakage": ("maximal leakage", "nats", "no guess about the person gets likelier by more than a factor e^nats"),
    "eps": ("differential privacy", "ε", "no chance shifts by more than a factor e^ε, but for δ; neighbours: {}"),
}
"""Key -> what it is called, its symbol, what it means; {} is the scale of the unknown, or the neighbour relation."""
LAWS = {"fil": "in quadrature", "mu": "in quadrature", "leakage": "nats add", "eps": "events composed"}
OUTSIDE = (
    "whatever left without being booked here, and releases made before this book was opened",
    "unlike notions stand side by side: none of them contains another, and they are never added",
    "releases chosen after looking at earlier ones: information adds for noise that is independent given the data",
)
HONEST = "an honest operator's log: whoever holds the machine and the keys can write a new book"


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


def tell_opened(facts: dict[str, Any], words: Console) -> None:
    """Where it is, what it keeps, what to do with it."""
    page = Page()
    page.add("ledger", harmless(facts["ledger"], 200))
    page.add("key file", f"{harmless(facts['keys'], 200)} (0600): without it nobody can be looked up; back it up apart")
    page.add("budgets", ", ".join(facts["budgets"]) or "none: everything is booked and nothing refused")
    page.add("head", facts["head"])
    url = harmless(facts["url"] or "the URL", 200)
    page.add("use it", f'--ledger, DOSIMETER_LEDGER, or in dosimeter.toml: [ledger] url = "{url}"')
    page.add("", HONEST, "dim")
    page.show(words)


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


def tell_releases(facts: dict[str, Any], words: Console) -> None:
    """A line for each release."""
    page = Page()
    rows = [
        (
            str(one["seq"]),
            one["time"][:10],
            harmless(one["name"], 40),
            harmless(one["kind"], 30) + (" (override)" if one["override"] else ""),
            harmless(one["to"], 30),
            str(one["people"]),
        )
        for one in facts["releases"]
    ]
    words.print(small(("entry", "date", "name", "what", "to", "people"), rows, left=5) if rows else "no release yet")
    page.add("budgets", ", ".join(facts["budgets"]) or "none")
    page.add("head", facts["head"])
    page.show(words)


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


def tell_person(facts: dict[str, Any], words: Console) -> None:
    """What was released about somebody, as they would read it."""
    who, page = harmless(facts["id"]), Page()
    if not facts["known"]:
        words.print(f"nobody is known here as {who}: nothing was booked about them, or they were erased")
        return
    names = {one["name"] for one in facts["releases"]}
    page.add("person", f"{who} (in the book as {facts['pseudonym']}), in {_count(len(names), 'release')}")
    rows = [
        (one["time"][:10], harmless(one["name"], 40), harmless(one["to"], 30), _figure(one), one["standing"])
        for one in facts["releases"]
    ]
    page.add("released", small(("date", "name", "to", "dose", "standing"), rows, left=5))
    for k, one in enumerate(facts["totals"]):
        page.add("in all" if k == 0 else "", f"{_figure(one)}, {_law(one)} ({one['standing']}){_left(one)}", "bold")
        page.add("", f"{one['notion']}: {one['meaning']}", "dim")
    for k, note in enumerate(facts["not_covered"]):
        page.add("not covered" if k == 0 else "", harmless(note, 600), "dim")
    page.add("head", facts["head"])
    page.show(words)


def _figure(one: dict[str, Any]) -> str:
    symbol, reading = one["symbol"], number(one["reading"])
    if symbol == "nats":
        return f"{reading} nats"
    at = f" at δ = {one['delta']:g}" if one["delta"] is not None else ""
    scale = f" ({one['measured_in']})" if symbol == "η" else ""
    return f"{symbol} = {reading}{at}{scale}"


def _law(one: dict[str, Any]) -> str:
    return LAWS[one["account"].split("|")[0]]


def _left(one: dict[str, Any]) -> str:
    if one["limit"] is None:
        return "; no budget"
    if one["reading"] > one["limit"]:
        return f"; above the budget of {one['limit']:g}"
    return f"; of the budget of {one['limit']:g} there is left {number(one['left'])}"


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


def tell_budgets(facts: dict[str, Any], words: Console) -> None:
    """Each limit, and the highest total in each account."""
    page = Page()
    page.add("budgets", ", ".join(facts["budgets"]) or "none: everything is booked and nothing refused")
    rows = [
        (
            f"{one['account'].split('|')[0]}, {one['measured_in']}", one["unit"], str(one["people"]),
            number(one["highest"]), "none" if one["limit"] is None else f"{one['limit']:g}", str(one["above"]),
        )
        for one in facts["accounts"]
    ]  # fmt: skip
    if rows:
        page.add("totals", small(("account", "unit", "people", "highest", "limit", "above"), rows, left=2))
        page.add("", "internal: totals depend on the data", "dim")
    page.add("head", facts["head"])
    page.show(words)


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


def tell_compared(facts: dict[str, Any], words: Console) -> None:
    """The two in columns."""
    page, names = Page(), [harmless(facts[k]["name"], 30) for k in ("first", "second")]
    for k in ("first", "second"):
        one = facts[k]
        made = f"{harmless(one['kind'], 40)}, {harmless(one['noise'], 80)}"
        page.add(k, f"{harmless(one['name'])}, entry {one['seq']} of {one['time'][:10]}: {made}")
    for one in facts["accounts"]:
        page.add(one["notion"], f"{one['symbol']}, {one['measured_in']}; {_sides(one)}")
        quantiles = [(_share(q), number(a), number(b)) for q, a, b in one["quantiles"]]
        if quantiles:
            page.add("", small(("of those in both", *names), quantiles))
            moved = [(who, number(a), number(b)) for who, a, b in one["largest_changes"] if a != b]
            page.add("", small(("moved most", *names), moved) if moved else "nobody's dose moved", "dim")
    page.add("", "internal: doses depend on the data", "dim")
    page.show(words)


def _sides(one: dict[str, Any]) -> str:
    return f"{one['both']} in both, {one['only_first']} in the first only, {one['only_second']} in the second only"


def _share(q: float) -> str:
    return "typical" if q == 0.5 else "highest" if q == 1 else f"{100 * (1 - q):.3g} % are above"


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


def tell_verified(facts: dict[str, Any], words: Console) -> None:
    """One line, and what it is worth."""
    signed = f"; signed by {facts['signed']}" if facts["signed"] else "; not signed"
    words.print(f"hash chain ok, {_count(facts['entries'], 'entry')}, head {facts['head']}{signed}")
    if not facts["keys_checked"]:
        words.print("the key file is not here: an older copy of the database could not be told")
    words.print(f"it is {HONEST}; a head printed elsewhere stands against that")


def erased(book: Ledger, found: bool) -> dict[str, Any]:
    """Whether anybody was there to be erased."""
    return {"schema": SCHEMA.format("erased"), "erased": found, "head": book.head}


def tell_erased(facts: dict[str, Any], words: Console) -> None:
    """What it means."""
    if not facts["erased"]:
        words.print("nobody is known here under that id: nothing was changed")
        return
    words.print("erased: their rows are nobody's now, the chain is whole; under the same id a total begins anew")
    words.print("older copies of the key file still know them: erase there too")


def _count(n: int, noun: str) -> str:
    plural = {"entry": "entries"}.get(noun, f"{noun}s")
    return f"1 {noun}" if n == 1 else f"{n} {plural}"


def as_json(book: Ledger) -> str:
    """The whole book as JSON."""
    import json

    return json.dumps(book.export(), indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def as_csv(book: Ledger) -> str:
    """A line for each dose; amounts in whole billionths of the coordinate in which they add."""
    from dosimeter.io.sheet import sheet

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
