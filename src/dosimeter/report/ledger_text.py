"""The ledger's facts as a person reads them in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dosimeter.cli.show import number
from dosimeter.core.text import safe_text
from dosimeter.report.terminal import Page, small

if TYPE_CHECKING:
    from rich.console import Console

LAWS = {"fil": "in quadrature at most", "mu": "in quadrature", "leakage": "nats add", "eps": "events composed"}
HONEST = "an honest operator's log: whoever holds the machine and the keys can write a new book"


def opened(facts: dict[str, Any], words: Console) -> None:
    """Where it is, what it keeps, what to do with it."""
    page = Page()
    page.add("ledger", safe_text(facts["ledger"], 200))
    page.add(
        "key file", f"{safe_text(facts['keys'], 200)} (0600): without it nobody can be looked up; back it up apart"
    )
    page.add("budgets", ", ".join(facts["budgets"]) or "none: everything is booked and nothing refused")
    page.add("head", facts["head"])
    url = safe_text(facts["url"] or "the URL", 200)
    page.add("use it", f'--ledger, DOSIMETER_LEDGER, or in dosimeter.toml: [ledger] url = "{url}"')
    page.add("", HONEST, "dim")
    page.show(words)


def releases(facts: dict[str, Any], words: Console) -> None:
    """A line for each release."""
    page = Page()
    rows = [
        (
            str(one["seq"]),
            one["time"][:10],
            safe_text(one["name"], 40),
            safe_text(one["kind"], 30) + (" (override)" if one["override"] else ""),
            safe_text(one["to"], 30),
            str(one["people"]),
        )
        for one in facts["releases"]
    ]
    words.print(small(("entry", "date", "name", "what", "to", "people"), rows, left=5) if rows else "no release yet")
    page.add("budgets", ", ".join(facts["budgets"]) or "none")
    page.add("head", facts["head"])
    page.show(words)


def person(facts: dict[str, Any], words: Console) -> None:
    """What was released about somebody, as they would read it."""
    who, page = safe_text(facts["id"]), Page()
    if not facts["known"]:
        words.print(f"nobody is known here as {who}: nothing was booked about them, or they were erased")
        return
    names = {one["name"] for one in facts["releases"]}
    page.add("person", f"{who} (in the book as {facts['pseudonym']}), in {_count(len(names), 'release')}")
    rows = [
        (one["time"][:10], safe_text(one["name"], 40), safe_text(one["to"], 30), _figure(one), one["standing"])
        for one in facts["releases"]
    ]
    page.add("released", small(("date", "name", "to", "dose", "standing"), rows, left=5))
    for k, one in enumerate(facts["totals"]):
        page.add("in all" if k == 0 else "", f"{_figure(one)}, {_law(one)} ({one['standing']}){_left(one)}", "bold")
        page.add("", f"{one['notion']}: {one['meaning']}", "dim")
    for k, note in enumerate(facts["not_covered"]):
        page.add("not covered" if k == 0 else "", safe_text(note, 600), "dim")
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


def budgets(facts: dict[str, Any], words: Console) -> None:
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


def compared(facts: dict[str, Any], words: Console) -> None:
    """The two in columns."""
    page, names = Page(), [safe_text(facts[k]["name"], 30) for k in ("first", "second")]
    for k in ("first", "second"):
        one = facts[k]
        made = f"{safe_text(one['kind'], 40)}, {safe_text(one['noise'], 80)}"
        page.add(k, f"{safe_text(one['name'])}, entry {one['seq']} of {one['time'][:10]}: {made}")
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


def verified(facts: dict[str, Any], words: Console) -> None:
    """One line, and what it is worth."""
    signed = f"; signed by {facts['signed']}" if facts["signed"] else "; not signed"
    words.print(f"hash chain ok, {_count(facts['entries'], 'entry')}, head {facts['head']}{signed}")
    if not facts["keys_checked"]:
        words.print("the key file is not here: an older copy of the database could not be told")
    words.print(f"it is {HONEST}; a head printed elsewhere stands against that")


def erased(facts: dict[str, Any], words: Console) -> None:
    """What it means."""
    if not facts["erased"]:
        words.print("nobody is known here under that id: nothing was changed")
        return
    words.print("erased: their rows are nobody's now, the chain is whole; under the same id a total begins anew")
    words.print("older copies of the key file still know them: erase there too")


def _count(n: int, noun: str) -> str:
    plural = {"entry": "entries"}.get(noun, f"{noun}s")
    return f"1 {noun}" if n == 1 else f"{n} {plural}"
