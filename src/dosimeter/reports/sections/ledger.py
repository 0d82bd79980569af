"""The sections about the ledger: `ledger init, list, person, budget, compare, verify, erase`, and `release`."""

from __future__ import annotations

from dosimeter.core.notion import notion_of
from dosimeter.reports.document import View, banner, public_verdict, sections
from dosimeter.reports.layout import BRIEF, Grid, Notes, Paragraph, Part, Section, VerdictBanner, number
from dosimeter.reports.sections.closing import optional, settings
from dosimeter.results.ledger import (
    AccountComparison,
    BookedRelease,
    LedgerBudgets,
    LedgerComparison,
    LedgerCreated,
    LedgerReleases,
    LedgerVerified,
    PersonAnswer,
    PersonErased,
    PersonRelease,
    PersonTotal,
    ReleaseEntry,
)
from dosimeter.results.parts import BookingRecord

TAMPER = (
    "The ledger is tamper-evident, not tamper-proof: an administrator with the keys can rewrite it. Publishing the "
    "head hash lets others detect that."
)
NO_KEYS = "Key file not found, so a rollback to an older database copy cannot be detected."
NO_BUDGET = "none: every release is booked and none is refused"


def _section(heading: str, *parts: Part) -> Section:
    return Section(heading, parts, BRIEF)


def _count(n: int, noun: str, many: str) -> str:
    return f"1 {noun}" if n == 1 else f"{n} {many}"


def _withheld(view: View) -> list[Section]:
    return [_section("Withheld", Paragraph("Everything else is internal."))] if not view.internal else []


# --- init ---


@public_verdict.register
def _(result: LedgerCreated) -> str:
    return f"A ledger was created. Head: {result.head}."


@sections.register
def _(result: LedgerCreated, view: View) -> list[Section]:
    if not view.internal:
        return _withheld(view)
    url = result.url or "the URL"
    pairs = [
        ("ledger", result.ledger),
        ("key file", f"{result.keys} (0600): without it no person can be looked up; keep a backup elsewhere"),
        ("budgets", ", ".join(result.budgets) or NO_BUDGET),
        ("use it", f'--ledger, DOSIMETER_LEDGER, or in dosimeter.toml: [ledger] url = "{url}"'),
    ]
    return [_section("The ledger", settings(pairs), Paragraph(TAMPER, quiet=True))]


# --- list ---


@public_verdict.register
def _(result: LedgerReleases) -> str:
    return f"Head of the ledger: {result.head}."


@sections.register
def _(result: LedgerReleases, view: View) -> list[Section]:
    if not view.internal:
        return _withheld(view)
    rows = tuple(
        (
            str(entry.seq),
            entry.time[:10],
            entry.name,
            entry.kind + (" (override)" if entry.override else ""),
            entry.to,
            entry.people,
        )
        for entry in result.releases
    )
    table: Part = Grid("Releases", ("entry", "date", "name", "what", "to", "people"), rows)
    budgets = settings([("budgets", ", ".join(result.budgets) or "none")])
    return [_section("Releases", table if rows else Paragraph("No release yet."), budgets)]


# --- person ---


@public_verdict.register
def _(result: PersonAnswer) -> str:
    return "What was released about a person is internal."


@banner.register
def _(result: PersonAnswer, view: View) -> VerdictBanner:
    if not view.internal:
        return VerdictBanner(view.sentence)
    if not result.known:
        return VerdictBanner(
            f"No person is known here as {result.id}: nothing was booked about them, or they were erased."
        )
    names = {entry.name for entry in result.releases}
    releases = _count(len(names), "release", "releases")
    return VerdictBanner(f"{result.id} is in {releases} of this ledger (as {result.pseudonym}).")


@sections.register
def _(result: PersonAnswer, view: View) -> list[Section]:
    if not view.internal or not result.known:
        return []
    rows = tuple((entry.time[:10], entry.name, entry.to, _figure(entry), entry.standing) for entry in result.releases)
    parts: list[Part] = []
    for total in result.totals:
        law = notion_of(total.key).law_in_brief
        parts.append(Paragraph(f"{_figure(total)}, {law} ({total.standing}){_left(total)}"))
        parts.append(Paragraph(f"{total.notion}: {total.meaning}", quiet=True))
    return [
        _section("Releases", Grid("Releases", ("date", "name", "to", "dose", "standing"), rows)),
        Section("In total", tuple(parts)),
        _section("Not covered", Notes(tuple(result.not_covered))),
        _section("Head of the ledger", Paragraph(result.head)),
    ]


def _figure(entry: PersonRelease | PersonTotal) -> str:
    return notion_of(entry.key).figure(number(float(entry.reading)), entry.measured_in, entry.delta)


def _left(total: PersonTotal) -> str:
    if total.limit is None:
        return "; no budget"
    if total.reading > total.limit:
        return f"; above the budget of {total.limit:g}"
    return f"; {number(total.left)} of the budget of {total.limit:g} is left"


# --- budget ---


@public_verdict.register
def _(result: LedgerBudgets) -> str:
    return f"Budgets: {', '.join(result.budgets) or NO_BUDGET}."


@sections.register
def _(result: LedgerBudgets, view: View) -> list[Section]:
    if not view.internal:
        return _withheld(view)
    rows = tuple(
        (
            f"{account.key}, {account.measured_in}",
            account.unit,
            account.people,
            float(account.highest),
            "none" if account.limit is None else f"{account.limit:g}",
            account.above,
        )
        for account in result.accounts
    )
    headings = ("account", "unit", "people", "highest", "limit", "above")
    tables = (Grid("Totals", headings, rows),) if rows else ()
    return [Section("Totals", tables), _section("Head of the ledger", Paragraph(result.head))]


# --- compare ---


@public_verdict.register
def _(result: LedgerComparison) -> str:
    return f"Two releases were compared. Head of the ledger: {result.head}."


@sections.register
def _(result: LedgerComparison, view: View) -> list[Section]:
    if not view.internal:
        return _withheld(view)
    names = result.first.name, result.second.name
    described = settings([("first", _described(result.first)), ("second", _described(result.second))])
    return [
        _section("The releases", described),
        *(Section(account.notion, tuple(_compared(account, names))) for account in result.accounts),
    ]


def _described(entry: ReleaseEntry) -> str:
    return f"{entry.name}, entry {entry.seq} of {entry.time[:10]}: {entry.kind}, {entry.noise}"


def _compared(account: AccountComparison, names: tuple[str, str]) -> list[Part]:
    sides = f"{account.both} in both, {account.only_first} only in the first, {account.only_second} only in the second"
    parts: list[Part] = [Paragraph(f"{account.symbol}, {account.measured_in}; {sides}")]
    if not account.quantiles:
        return parts
    quantiles = tuple((_share(q), float(a), float(b)) for q, a, b in account.quantiles)
    parts.append(Grid("Doses of those in both", ("of those in both", *names), quantiles))
    moved = tuple((code, float(a), float(b)) for code, a, b in account.largest_changes if a != b)
    if not moved:
        return [*parts, Paragraph("No person's dose changed.", quiet=True)]
    return [*parts, Grid("Largest changes", ("changed most", *names), moved)]


def _share(q: float) -> str:
    return "typical" if q == 0.5 else "highest" if q == 1 else f"{100 * (1 - q):.3g} % are above"


# --- verify ---


@public_verdict.register
def _(result: LedgerVerified) -> str:
    signed = f"signed by {result.signed}" if result.signed else "not signed"
    entries = _count(result.entries, "entry", "entries")
    return f"Hash chain ok, {entries}, head {result.head}; {signed}."


@banner.register
def _(result: LedgerVerified, view: View) -> VerdictBanner:
    return VerdictBanner(view.sentence, "good")


@sections.register
def _(result: LedgerVerified, view: View) -> list[Section]:
    keys: tuple[Part, ...] = () if result.keys_checked else (Paragraph(NO_KEYS, tone="bad"),)
    return [_section("What this proves", *keys, Paragraph(TAMPER, quiet=True))]


# --- erase ---

ERASED = (
    "Erased. Their entries can no longer be linked to anyone; the hash chain is intact. If this id is used again, its "
    "total starts at zero."
)
BACKUPS = "Older copies of the key file still know them: erase there too."
NOT_KNOWN = "No person is known here under that id: nothing was changed."


@public_verdict.register
def _(result: PersonErased) -> str:
    return "Whether a person was erased is internal."


@banner.register
def _(result: PersonErased, view: View) -> VerdictBanner:
    if not view.internal:
        return VerdictBanner(view.sentence)
    return VerdictBanner(ERASED if result.erased else NOT_KNOWN)


@sections.register
def _(result: PersonErased, view: View) -> list[Section]:
    return [_section("Backups", Paragraph(BACKUPS))] if view.internal and result.erased else []


# --- release ---


@public_verdict.register
def _(result: BookedRelease) -> str:
    booked = result.booked
    if isinstance(booked, BookingRecord):
        return f"{result.kind}: booked as {booked.name}, entry {booked.seq}, head {booked.head}."
    return f"{result.kind}: not booked."


@sections.register
def _(result: BookedRelease, view: View) -> list[Section]:
    pairs = [
        ("made by", result.verb),
        ("what", result.kind),
        ("noise", optional(result, "noise")),
        ("SHA-256 of the file", optional(result, "artefact")),
    ]
    notes = (Notes(tuple(result.not_covered)),) if result.not_covered else ()
    return [_section("The release", settings(pairs)), Section("Not covered", notes)]
