"""The pages as plain values, of the parts that reports are made of: tests look at these."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dosimeter.core.accounts import Account
from dosimeter.ledger import AccountTotals, Entry
from dosimeter.report.layout import Cell, DefinitionList, Grid, Notes, Part, Section, VerdictBanner, Words
from dosimeter.report.sections import doses
from dosimeter.results.distribution import distribution
from dosimeter.serve.ledger_cache import LedgerCache
from dosimeter.serve.what_if import Slider, named, other_noise

AT_ONCE = 100
"""People on one page."""
PSEUDONYMS = "People stand under pseudonyms; dosimeter ledger person ID answers for one."
MENU = (("/", "overview"), ("/people", "people"), ("/releases", "releases"), ("/budgets", "budgets"))
ADDS = {
    "fil": "η² adds over releases (an upper bound where a person has several unknown cells)",
    "mu": "μ² adds over releases",
    "leakage": "nats add over releases whose questions were fixed beforehand",
    "eps": "events compose; ε is an upper bound by privacy loss distributions",
}


@dataclass(frozen=True)
class Link:
    """A way on: an address of ours and what it says."""

    kind: ClassVar[str] = "links"
    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class ServedPage:
    """A served page before it is laid out."""

    title: str
    verdict: VerdictBanner
    sections: tuple[Section, ...]
    head: str
    label: str
    slider: Slider | None = None
    here: str = ""
    menu: ClassVar[tuple[tuple[str, str], ...]] = MENU
    status: int = 200
    links: Mapping[str, Link] = field(default_factory=dict)
    ways: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Where the names of a section's rows lead, row by row."""

    @property
    def charts(self) -> bool:
        """Whether it has any."""
        return any(part.kind == "drawing" for section in self.sections for part in section.parts)


def said_of(totals: AccountTotals) -> str:
    """An account in words, with the δ at which ε is read."""
    return named(totals.account) + (f", at δ = {totals.delta:g}" if totals.account.key == "eps" else "")


def _limit(totals: AccountTotals) -> Cell:
    return None if math.isinf(totals.limit) else float(totals.limit)


def _over(every: tuple[AccountTotals, ...]) -> VerdictBanner:
    above = [f"{one.passing} in {named(one.account)}" for one in every if one.passing]
    if above:
        return VerdictBanner(
            f"Above a limit, by an override or since the limit was lowered: {'; '.join(above)}.", "bad"
        )
    without = [named(one.account) for one in every if math.isinf(one.limit)]
    if every and len(without) == len(every):
        return VerdictBanner("No budget is set: nothing here is refused for being too much.")
    return VerdictBanner(
        "Nobody stands above a limit." if every else "Nothing was released yet.", "good" if every else ""
    )


def overview(book: LedgerCache) -> ServedPage:
    """Where the accounts stand."""
    every = book.totals()
    rows = tuple(
        (
            said_of(one),
            len(one.readings),
            _median(one),
            _highest(one),
            _limit(one),
            one.passing,
            book.standing(one.account),
        )
        for one in every
    )
    headings = ("account", "people", "typical total", "highest total", "limit", "above", "standing")
    parts: list[Part] = [Grid("Totals by account", headings, rows)] if rows else [Words("Nothing was released yet.")]
    parts.append(Notes(tuple(ADDS[key] for key in dict.fromkeys(one.account.key for one in every))))
    latest = book.releases[:10]
    found = Section("Newest releases", (_releases(latest),) if latest else (Words("None."),))
    ways = {"newest-releases": _to_releases(latest)}
    return _leaf(book, "The ledger", _over(every), (Section("Accounts", tuple(parts)), found), "/", ways=ways)


def _median(one: AccountTotals) -> Cell:
    return float(np.median(one.readings)) if len(one.readings) else None


def _highest(one: AccountTotals) -> Cell:
    return float(one.readings.max()) if len(one.readings) else None


def people(book: LedgerCache, account: int, page: int) -> ServedPage | None:
    """Everybody in one account by total, the highest first; None where there is no such account or page."""
    every = book.totals()
    if not every and account == 0 and page == 1:
        return _leaf(book, "People", _over(every), (Section("People", (Words("Nobody was booked yet."),)),), "/people")
    if not (0 <= account < len(every)):
        return None
    one = every[account]
    pages = max(1, math.ceil(len(one.readings) / AT_ONCE))
    if not 1 <= page <= pages:
        return None
    first = (page - 1) * AT_ONCE
    shown = zip(one.pseudonyms[first : first + AT_ONCE], one.readings[first : first + AT_ONCE].tolist(), strict=True)
    rows = tuple((name, first + k + 1, reading, _share(reading, one.limit)) for k, (name, reading) in enumerate(shown))
    headings = ("pseudonym", "rank", f"total {one.account.symbol}", "share of the limit")
    grid = Grid(f"{said_of(one)}, page {page} of {pages}", headings, rows)
    words = f"{said_of(one)}: {ADDS[one.account.key]}. The totals are: {book.standing(one.account)}."
    links = {
        "who": Link(tuple((f"/people?account={k}&page=1", named(other.account)) for k, other in enumerate(every))),
        "by-total": Link(_turns(account, page, pages)),
    }
    sections = (
        Section("Who", (Words(words), Words(PSEUDONYMS, quiet=True))),
        Section("How totals spread", tuple(_spread(one))),
        Section("By total", (grid,)),
    )
    return _leaf(book, f"People: {named(one.account)}", _over((one,)), sections, "/people", links)


def _share(reading: float, limit: float) -> Cell:
    return None if math.isinf(limit) else f"{100 * reading / limit:.1f} %"


def _turns(account: int, page: int, pages: int) -> tuple[tuple[str, str], ...]:
    wanted = {"first": 1, "before": page - 1, "next": page + 1, "last": pages}
    return tuple((f"/people?account={account}&page={k}", word) for word, k in wanted.items() if 1 <= k <= pages != 1)


def _spread(one: AccountTotals) -> list[Part]:
    limit = None if math.isinf(one.limit) else one.limit
    return doses.distribution(distribution(one.readings, of=one.account.symbol, unit=one.account.unit, limit=limit))


def releases(book: LedgerCache) -> ServedPage:
    """All of them, the newest first."""
    every = book.releases
    parts: tuple[Part, ...] = (_releases(every),) if every else (Words("Nothing was released yet."),)
    verdict = VerdictBanner(f"{len(every)} releases are booked.")
    ways = {"releases": _to_releases(every)}
    return _leaf(book, "Releases", verdict, (Section("Releases", parts),), "/releases", ways=ways)


def _releases(every: tuple[Entry, ...]) -> Grid:
    rows = tuple(
        (one.name, one.seq, one.time, one.to, one.people, str(one.recipe["kind"]), one.override) for one in every
    )
    return Grid("Releases", ("name", "entry", "time", "to", "people", "what", "override"), rows)


def _to_releases(every: tuple[Entry, ...]) -> tuple[str, ...]:
    return tuple(f"/release?seq={one.seq}" for one in every)


def release(book: LedgerCache, seq: int) -> ServedPage | None:
    """One release: what it was, what it cost, and what it would have cost with other noise."""
    entry = book.release(seq)
    if entry is None:
        return None
    recipe = entry.recipe
    settings = tuple((f"setting {key}", str(value)) for key, value in dict(recipe.get("settings", {})).items())
    pairs = (
        ("booked", entry.time), ("entry", f"{entry.seq}:{entry.digest[:16]}"), ("to", entry.to), ("note", entry.note),
        ("override", entry.override), ("what", str(recipe["kind"])), ("noise", str(recipe["noise"])),
    )  # fmt: skip
    shares = book.doses(entry)
    rows = tuple(_cost(text, found, entry) for text, found in shares.items())
    headings = ("account", "people", "typical dose", "highest dose", "standing")
    uncovered = tuple(
        dict.fromkeys([*recipe.get("uncovered", ()), *(u for p in entry.body["parts"] for u in p["uncovered"])])
    )
    notes = uncovered or ("nothing was named when it was booked",)
    parts, slider = other_noise(book.totals(), shares)
    sections = (
        Section("What was released", (DefinitionList(tuple((a, b) for a, b in (*pairs, *settings) if b)),)),
        Section("What it cost", (Grid("Dose by account", headings, rows),)),
        Section("If its noise had been stronger or weaker", parts),
        Section("Not covered", (Notes(notes),)),
    )
    verdict = VerdictBanner(f"Booked as entry {entry.seq} for {entry.people} people.", "bad" if entry.override else "")
    return _leaf(book, f"Release {entry.name}", verdict, sections, "", slider=slider)


def _cost(text: str, found: dict[str, float], entry: Entry) -> tuple[Cell, ...]:
    readings = np.array(list(found.values()))
    standing = ", ".join(dict.fromkeys(str(p["standing"]) for p in entry.body["parts"] if p["account"] == text))
    middle, top = (float(np.median(readings)), float(readings.max())) if len(readings) else (None, None)
    return named(Account.of_text(text)), len(readings), middle, top, standing


def budgets(book: LedgerCache) -> ServedPage:
    """The limits in force, how near the nearest person is, and how the limits came about."""
    every = book.totals()
    rows = tuple(
        (str(limit), named(one.account), _highest(one), one.passing)
        for limit in book.budgets
        for one in every
        if one.account.key == limit.key
    )
    unused = tuple(str(one) for one in book.budgets if one.key not in {t.account.key for t in every})
    parts: list[Part] = [Grid("Limits in force", ("limit", "account", "highest total", "above"), rows)] if rows else []
    parts += [Notes(tuple(f"{one}: nothing was booked in it yet" for one in unused))] if unused else []
    parts += [] if book.budgets else [Words("No budget is set.")]
    parts.append(Words("This page only reads. A limit is set with dosimeter ledger budget.", quiet=True))
    past = tuple(
        (", ".join(f"{b['key']}={b['limit']:g}" for b in one.body["budgets"]) or "none", one.seq, one.time, one.note)
        for one in book.entries
        if one.kind in ("opened", "budget")
    )
    history = Grid("How they came about", ("limit", "entry", "time", "note"), past)
    sections = (Section("Limits", tuple(parts)), Section("History", (history,)))
    return _leaf(book, "Budgets", _over(every), sections, "/budgets")


def nothing(book: LedgerCache, status: int, words: str) -> ServedPage:
    """A page that says that there is none."""
    made = _leaf(book, "Not here", VerdictBanner(words), (), "")
    return ServedPage(made.title, made.verdict, (), made.head, made.label, status=status)


def _leaf(
    book: LedgerCache,
    title: str,
    verdict: VerdictBanner,
    sections: tuple[Section, ...],
    here: str,
    links: Mapping[str, Link] | None = None,
    slider: Slider | None = None,
    ways: Mapping[str, tuple[str, ...]] | None = None,
) -> ServedPage:
    return ServedPage(title, verdict, sections, book.head, book.label, slider, here, links=links or {}, ways=ways or {})
