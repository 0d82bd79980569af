"""The pages as plain values, of the parts that reports are made of: tests look at these."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dosimeter.core.accounts import Account
from dosimeter.ledger import AccountTotals, Entry
from dosimeter.reports.layout import Cell, DefinitionList, Grid, Notes, Paragraph, Part, Section, VerdictBanner
from dosimeter.reports.sections import doses
from dosimeter.results.distribution import distribution
from dosimeter.serve.ledger_cache import LedgerCache
from dosimeter.serve.what_if import Slider, named, other_noise

AT_ONCE = 100
"""People on one page."""
PSEUDONYMS = "People are listed by pseudonym; dosimeter ledger person ID shows one person."
MENU = (("/", "overview"), ("/people", "people"), ("/releases", "releases"), ("/budgets", "budgets"))
CONSORTIUM = ("/consortium", "consortium")
"""Shown if a running consortium was named."""


@dataclass(frozen=True)
class Link:
    """Links to other pages: address and text."""

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
    menu: tuple[tuple[str, str], ...] = MENU
    status: int = 200
    links: Mapping[str, Link] = field(default_factory=dict)
    ways: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Section -> the addresses that its rows link to."""

    @property
    def charts(self) -> bool:
        """Whether it has charts."""
        return any(part.kind == "drawing" for section in self.sections for part in section.parts)


def account_title(totals: AccountTotals) -> str:
    """The name of an account, with the δ at which ε is read."""
    return named(totals.account) + (f", at δ = {totals.delta:g}" if totals.account.notion.composes_events else "")


def _limit(totals: AccountTotals) -> Cell:
    return None if math.isinf(totals.limit) else float(totals.limit)


def _over(every: tuple[AccountTotals, ...]) -> VerdictBanner:
    above = [f"{totals.passing} in {named(totals.account)}" for totals in every if totals.passing]
    if above:
        return VerdictBanner(
            f"Above a limit, by an override or since the limit was lowered: {'; '.join(above)}.", "bad"
        )
    without = [named(totals.account) for totals in every if math.isinf(totals.limit)]
    if every and len(without) == len(every):
        return VerdictBanner("No budget is set: nothing here is refused for being too much.")
    return VerdictBanner(
        "No person is above a limit." if every else "Nothing was released yet.", "good" if every else ""
    )


def overview(ledger: LedgerCache) -> ServedPage:
    """The totals of every account and the newest releases."""
    every = ledger.totals()
    rows = tuple(
        (
            account_title(totals),
            len(totals.readings),
            _median(totals),
            _highest(totals),
            _limit(totals),
            totals.passing,
            ledger.standing(totals.account),
        )
        for totals in every
    )
    headings = ("account", "people", "typical total", "highest total", "limit", "above", "standing")
    parts: list[Part] = (
        [Grid("Totals by account", headings, rows)] if rows else [Paragraph("Nothing was released yet.")]
    )
    parts.append(Notes(tuple(dict.fromkeys(totals.account.notion.law_in_words for totals in every))))
    latest = ledger.releases[:10]
    newest = Section("Newest releases", (_releases(latest),) if latest else (Paragraph("None."),))
    ways = {"newest-releases": _to_releases(latest)}
    return _page(ledger, "The ledger", _over(every), (Section("Accounts", tuple(parts)), newest), "/", ways=ways)


def _median(totals: AccountTotals) -> Cell:
    return float(np.median(totals.readings)) if len(totals.readings) else None


def _highest(totals: AccountTotals) -> Cell:
    return float(totals.readings.max()) if len(totals.readings) else None


def people(ledger: LedgerCache, account: int, page: int) -> ServedPage | None:
    """All people of one account by total, the highest first; None if there is no such account or page."""
    every = ledger.totals()
    if not every and account == 0 and page == 1:
        return _page(
            ledger, "People", _over(every), (Section("People", (Paragraph("No person was booked yet."),)),), "/people"
        )
    if not (0 <= account < len(every)):
        return None
    totals = every[account]
    pages = max(1, math.ceil(len(totals.readings) / AT_ONCE))
    if not 1 <= page <= pages:
        return None
    first = (page - 1) * AT_ONCE
    shown = zip(
        totals.pseudonyms[first : first + AT_ONCE], totals.readings[first : first + AT_ONCE].tolist(), strict=True
    )
    rows = tuple(
        (name, first + k + 1, reading, _share(reading, totals.limit)) for k, (name, reading) in enumerate(shown)
    )
    headings = ("pseudonym", "rank", f"total {totals.account.symbol}", "share of the limit")
    grid = Grid(f"{account_title(totals)}, page {page} of {pages}", headings, rows)
    standing = ledger.standing(totals.account)
    description = f"{account_title(totals)}: {totals.account.notion.law_in_words}. The totals are: {standing}."
    links = {
        "who": Link(tuple((f"/people?account={k}&page=1", named(other.account)) for k, other in enumerate(every))),
        "by-total": Link(_turns(account, page, pages)),
    }
    sections = (
        Section("Who", (Paragraph(description), Paragraph(PSEUDONYMS, quiet=True))),
        Section("How totals spread", tuple(_spread(totals))),
        Section("By total", (grid,)),
    )
    return _page(ledger, f"People: {named(totals.account)}", _over((totals,)), sections, "/people", links)


def _share(reading: float, limit: float) -> Cell:
    return None if math.isinf(limit) else f"{100 * reading / limit:.1f} %"


def _turns(account: int, page: int, pages: int) -> tuple[tuple[str, str], ...]:
    wanted = {"first": 1, "before": page - 1, "next": page + 1, "last": pages}
    return tuple((f"/people?account={account}&page={k}", word) for word, k in wanted.items() if 1 <= k <= pages != 1)


def _spread(totals: AccountTotals) -> list[Part]:
    limit = None if math.isinf(totals.limit) else totals.limit
    return doses.histogram(
        distribution(totals.readings, of=totals.account.symbol, unit=totals.account.unit, limit=limit)
    )


def releases(ledger: LedgerCache) -> ServedPage:
    """All releases, the newest first."""
    every = ledger.releases
    parts: tuple[Part, ...] = (_releases(every),) if every else (Paragraph("Nothing was released yet."),)
    verdict = VerdictBanner(f"{len(every)} releases are booked.")
    ways = {"releases": _to_releases(every)}
    return _page(ledger, "Releases", verdict, (Section("Releases", parts),), "/releases", ways=ways)


def _releases(entries: tuple[Entry, ...]) -> Grid:
    rows = tuple(
        (entry.name, entry.seq, entry.time, entry.to, entry.people, str(entry.recipe["kind"]), entry.override)
        for entry in entries
    )
    return Grid("Releases", ("name", "entry", "time", "to", "people", "kind", "override"), rows)


def _to_releases(entries: tuple[Entry, ...]) -> tuple[str, ...]:
    return tuple(f"/release?seq={entry.seq}" for entry in entries)


def release(ledger: LedgerCache, seq: int) -> ServedPage | None:
    """One release: what it was, what it cost, and what it would have cost with other noise."""
    entry = ledger.release(seq)
    if entry is None:
        return None
    recipe = entry.recipe
    settings = tuple((f"setting {key}", str(value)) for key, value in dict(recipe.get("settings", {})).items())
    pairs = (
        ("booked", entry.time), ("entry", f"{entry.seq}:{entry.digest[:16]}"), ("to", entry.to), ("note", entry.note),
        ("override", entry.override), ("kind", str(recipe["kind"])), ("noise", str(recipe["noise"])),
    )  # fmt: skip
    shares = ledger.doses(entry)
    rows = tuple(_cost(text, doses_by_person, entry) for text, doses_by_person in shares.items())
    headings = ("account", "people", "typical dose", "highest dose", "standing")
    not_covered = tuple(
        dict.fromkeys([*recipe.get("uncovered", ()), *(u for p in entry.body["parts"] for u in p["uncovered"])])
    )
    notes = not_covered or ("nothing was named when it was booked",)
    parts, slider = other_noise(ledger.totals(), shares, str(recipe["kind"]))
    sections = (
        Section("What was released", (DefinitionList(tuple((a, b) for a, b in (*pairs, *settings) if b)),)),
        Section("What it cost", (Grid("Dose by account", headings, rows),)),
        Section("If its noise had been stronger or weaker", parts),
        Section("Not covered", (Notes(notes),)),
    )
    verdict = VerdictBanner(f"Booked as entry {entry.seq} for {entry.people} people.", "bad" if entry.override else "")
    return _page(ledger, f"Release {entry.name}", verdict, sections, "", slider=slider)


def _cost(text: str, doses_by_person: dict[str, float], entry: Entry) -> tuple[Cell, ...]:
    readings = np.array(list(doses_by_person.values()))
    standing = ", ".join(dict.fromkeys(str(p["standing"]) for p in entry.body["parts"] if p["account"] == text))
    middle, top = (float(np.median(readings)), float(readings.max())) if len(readings) else (None, None)
    return named(Account.of_text(text)), len(readings), middle, top, standing


def budgets(ledger: LedgerCache) -> ServedPage:
    """The limits in force, the highest total under each, and the history of the limits."""
    every = ledger.totals()
    rows = tuple(
        (str(limit), named(totals.account), _highest(totals), totals.passing)
        for limit in ledger.budgets
        for totals in every
        if totals.account.key == limit.key
    )
    unused = tuple(str(limit) for limit in ledger.budgets if limit.key not in {t.account.key for t in every})
    parts: list[Part] = [Grid("Limits in force", ("limit", "account", "highest total", "above"), rows)] if rows else []
    parts += [Notes(tuple(f"{limit}: nothing was booked in it yet" for limit in unused))] if unused else []
    parts += [] if ledger.budgets else [Paragraph("No budget is set.")]
    parts.append(Paragraph("This page only reads. A limit is set with dosimeter ledger budget.", quiet=True))
    past = tuple(
        (
            ", ".join(f"{b['key']}={b['limit']:g}" for b in entry.body["budgets"]) or "none",
            entry.seq,
            entry.time,
            entry.note,
        )
        for entry in ledger.entries
        if entry.kind in ("opened", "budget")
    )
    history = Grid("Changes of the limits", ("limit", "entry", "time", "note"), past)
    sections = (Section("Limits", tuple(parts)), Section("History", (history,)))
    return _page(ledger, "Budgets", _over(every), sections, "/budgets")


def no_page(ledger: LedgerCache, status: int, message: str) -> ServedPage:
    """A page that says why there is nothing to show."""
    page = _page(ledger, "Not here", VerdictBanner(message), (), "")
    return ServedPage(page.title, page.verdict, (), page.head, page.label, status=status)


def _page(
    ledger: LedgerCache,
    title: str,
    verdict: VerdictBanner,
    sections: tuple[Section, ...],
    here: str,
    links: Mapping[str, Link] | None = None,
    slider: Slider | None = None,
    ways: Mapping[str, tuple[str, ...]] | None = None,
) -> ServedPage:
    return ServedPage(
        title, verdict, sections, ledger.head, ledger.label, slider, here, links=links or {}, ways=ways or {}
    )
