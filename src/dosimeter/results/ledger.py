"""The results of `ledger` and `release`. No id is in them that was not typed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from dosimeter.results.parts import Artefact, Booking, Refused
from dosimeter.results.result import Result
from dosimeter.results.visibility import FORM, GIVEN, LOCAL, ONE, STATISTIC, TOTALS, WORDS, ResultModel, public

if TYPE_CHECKING:
    from dosimeter.core.release import Recipe
    from dosimeter.ledger import Account, AccountTotals, Entry, Ledger, Verification
    from dosimeter.ledger.entries import PersonEntry, ReleaseComparison, Total

OUTSIDE = (
    "releases that were not booked here, and releases made before this ledger was opened",
    "unlike notions are reported side by side: none of them contains another, and they are never added",
    "releases chosen after looking at earlier ones: information adds for noise that is independent given the data",
)
KEEPERS = "Internal: for those who keep the ledger."
HEAD = public("identifies the ledger's state; people are salted codes in it")
Budgets = Annotated[list[str], GIVEN]


class AccountInfo(ResultModel):
    """An account: a notion, a unit and what it is measured in."""

    account: Annotated[str, WORDS]
    notion: Annotated[str, WORDS]
    symbol: Annotated[str, WORDS]
    unit: Annotated[str, WORDS]
    measured_in: Annotated[str, WORDS]
    delta: Annotated[float | None, GIVEN]
    meaning: Annotated[str, WORDS]

    @property
    def key(self) -> str:
        """The notion's key: "fil", "leakage", "eps"."""
        return self.account.split("|")[0]


def _info(account: Account, delta: float) -> dict[str, Any]:
    notion = account.notion
    return {
        "account": account.text,
        "notion": notion.short_name,
        "symbol": notion.written_as,
        "unit": account.unit,
        "measured_in": account.measured_in,
        "delta": delta if notion.composes_events else None,
        "meaning": notion.meaning.format(account.measured_in),
    }


class ReleaseEntry(ResultModel):
    """One release in the ledger."""

    seq: Annotated[int, HEAD]
    time: Annotated[str, LOCAL]
    name: Annotated[str, HEAD]
    kind: Annotated[str, FORM]
    noise: Annotated[str, LOCAL]
    people: Annotated[int, STATISTIC]
    accounts: Annotated[list[str], WORDS]
    to: Annotated[str, LOCAL]
    note: Annotated[str, LOCAL]
    override: Annotated[str, LOCAL]
    digest: Annotated[str, HEAD]

    @classmethod
    def of(cls, entry: Entry) -> ReleaseEntry:
        """From an entry of the ledger."""
        return cls(
            seq=entry.seq,
            time=entry.time,
            name=entry.name,
            kind=str(entry.recipe.get("kind", "")),
            noise=str(entry.recipe.get("noise", "")),
            people=entry.people,
            accounts=[account.text for account in entry.accounts],
            to=entry.to,
            note=entry.note,
            override=entry.override,
            digest=entry.digest,
        )


class LedgerCreated(Result):
    """A ledger that was just made (`ledger init`)."""

    schema_name: ClassVar[str] = "dosimeter.ledger-opened/3"
    title: ClassVar[str] = "A new ledger"
    internal_note: ClassVar[str] = KEEPERS

    ledger: Annotated[str, LOCAL]
    keys: Annotated[str, LOCAL]
    budgets: Budgets
    head: Annotated[str, HEAD]
    url: Annotated[str, LOCAL]

    @classmethod
    def of(cls, ledger: Ledger, place: str) -> LedgerCreated:
        """place: as the user named it."""
        return cls(
            ledger=ledger.label,
            keys=str(ledger.keys_path),
            budgets=[str(limit) for limit in ledger.budgets],
            head=ledger.head,
            url="" if "://" in place else place,
        )


class LedgerReleases(Result):
    """All releases (`ledger list`); other entries are counted."""

    schema_name: ClassVar[str] = "dosimeter.ledger-list/3"
    title: ClassVar[str] = "The releases of this ledger"
    internal_note: ClassVar[str] = KEEPERS

    ledger: Annotated[str, LOCAL]
    head: Annotated[str, HEAD]
    budgets: Budgets
    releases: Annotated[list[ReleaseEntry], LOCAL]
    other_entries: Annotated[dict[str, int], LOCAL]

    @classmethod
    def of(cls, ledger: Ledger) -> LedgerReleases:
        """From the whole chain."""
        entries = ledger.entries()
        return cls(
            ledger=ledger.label,
            head=ledger.head,
            budgets=[str(limit) for limit in ledger.budgets],
            releases=[ReleaseEntry.of(entry) for entry in entries if entry.kind == "release"],
            other_entries={kind: sum(e.kind == kind for e in entries) for kind in ("budget", "erasure", "key")},
        )


class PersonRelease(AccountInfo):
    """One person's dose in one release."""

    seq: Annotated[int, ONE]
    time: Annotated[str, ONE]
    name: Annotated[str, ONE]
    to: Annotated[str, ONE]
    reading: Annotated[float, ONE]
    standing: Annotated[str, ONE]

    @classmethod
    def of(cls, entry: PersonEntry) -> PersonRelease:
        """From an entry about the person."""
        return cls(
            **_info(entry.account, entry.delta),
            seq=entry.seq,
            time=entry.time,
            name=entry.name,
            to=entry.to,
            reading=entry.reading,
            standing=entry.standing.value,
        )


class PersonTotal(AccountInfo):
    """One person's total in one account."""

    reading: Annotated[float, ONE]
    standing: Annotated[str, ONE]
    limit: Annotated[float | None, GIVEN]
    left: Annotated[float | None, ONE]

    @classmethod
    def of(cls, total: Total) -> PersonTotal:
        """From the total; an account without a limit has none and nothing left."""
        return cls(
            **_info(total.account, total.delta),
            reading=total.reading,
            standing=total.standing.value,
            limit=None if math.isinf(total.limit) else total.limit,
            left=None if math.isinf(total.left) else total.left,
        )


class PersonAnswer(Result):
    """What was released about one person (`ledger person`): the answer to a request for access."""

    schema_name: ClassVar[str] = "dosimeter.ledger-person/3"
    title: ClassVar[str] = "What was released about you"

    id: Annotated[str, ONE]
    """As it was typed."""
    known: Annotated[bool, ONE]
    pseudonym: Annotated[str, ONE]
    releases: Annotated[list[PersonRelease], ONE]
    totals: Annotated[list[PersonTotal], ONE]
    not_covered: Annotated[list[str], WORDS]
    head: Annotated[str, HEAD]

    @classmethod
    def of(cls, ledger: Ledger, person: str) -> PersonAnswer:
        """person: the id, as it was typed."""
        record = ledger.person(person)
        notes = dict.fromkeys(note for entry in record.entries for note in entry.not_covered)
        return cls(
            id=person,
            known=record.known,
            pseudonym=record.pseudonym,
            releases=[PersonRelease.of(entry) for entry in record.entries],
            totals=[PersonTotal.of(total) for total in record.totals],
            not_covered=[*notes, *OUTSIDE],
            head=ledger.head,
        )


class AccountTotal(AccountInfo):
    """How near the nearest person is to a limit."""

    people: Annotated[int, TOTALS]
    highest: Annotated[float, TOTALS]
    limit: Annotated[float | None, GIVEN]
    above: Annotated[int, TOTALS]

    @classmethod
    def of(cls, totals: AccountTotals) -> AccountTotal:
        """From the totals of one account."""
        return cls(
            **_info(totals.account, totals.delta),
            people=len(totals.readings),
            highest=float(totals.readings.max()) if len(totals.readings) else 0.0,
            limit=None if math.isinf(totals.limit) else totals.limit,
            above=totals.passing,
        )


class LedgerBudgets(Result):
    """The limits, and the highest total in each account (`ledger budget`)."""

    schema_name: ClassVar[str] = "dosimeter.ledger-budget/3"
    title: ClassVar[str] = "The budgets of this ledger"

    budgets: Budgets
    accounts: Annotated[list[AccountTotal], TOTALS]
    head: Annotated[str, HEAD]

    @classmethod
    def of(cls, ledger: Ledger) -> LedgerBudgets:
        """From the totals of all accounts."""
        return cls(
            budgets=[str(limit) for limit in ledger.budgets],
            accounts=[AccountTotal.of(totals) for totals in ledger.totals()],
            head=ledger.head,
        )


class AccountComparison(AccountInfo):
    """Two releases in one account."""

    both: Annotated[int, STATISTIC]
    only_first: Annotated[int, STATISTIC]
    only_second: Annotated[int, STATISTIC]
    quantiles: Annotated[list[tuple[float, float, float]], STATISTIC]
    """(share, first, second)."""
    largest_changes: Annotated[list[tuple[str, float, float]], ONE]
    """(pseudonym, first, second)."""

    @classmethod
    def of(cls, compared: ReleaseComparison) -> AccountComparison:
        """The five largest changes, by pseudonym."""
        return cls(
            **_info(compared.account, compared.delta),
            both=len(compared.pseudonyms),
            only_first=compared.only_first,
            only_second=compared.only_second,
            quantiles=[(float(q), float(a), float(b)) for q, a, b in compared.quantiles()],
            largest_changes=[(str(code), float(a), float(b)) for code, a, b in compared.largest_changes(5)],
        )


class LedgerComparison(Result):
    """Two releases side by side (`ledger compare`)."""

    schema_name: ClassVar[str] = "dosimeter.ledger-compare/3"
    title: ClassVar[str] = "Two releases side by side"

    first: Annotated[ReleaseEntry, LOCAL]
    second: Annotated[ReleaseEntry, LOCAL]
    accounts: Annotated[list[AccountComparison], STATISTIC]
    head: Annotated[str, HEAD]

    @classmethod
    def of(cls, ledger: Ledger, first: str, second: str) -> LedgerComparison:
        """first, second: names of releases."""
        return cls(
            first=ReleaseEntry.of(ledger.entry(first)),
            second=ReleaseEntry.of(ledger.entry(second)),
            accounts=[AccountComparison.of(compared) for compared in ledger.compare(first, second)],
            head=ledger.head,
        )


class LedgerVerified(Result):
    """What was checked (`ledger verify`)."""

    schema_name: ClassVar[str] = "dosimeter.ledger-verify/3"
    title: ClassVar[str] = "The ledger was verified"
    internal_note: ClassVar[str] = KEEPERS

    entries: Annotated[int, HEAD]
    head: Annotated[str, HEAD]
    signed: Annotated[str, HEAD]
    people: Annotated[int, STATISTIC]
    keys_checked: Annotated[bool, HEAD]

    @classmethod
    def of(cls, verified: Verification) -> LedgerVerified:
        """From the check of every entry."""
        return cls(
            entries=verified.entries,
            head=verified.head,
            signed=verified.signed,
            people=verified.people,
            keys_checked=verified.keys_checked,
        )


class PersonErased(Result):
    """Whether anyone was erased (`ledger erase`)."""

    schema_name: ClassVar[str] = "dosimeter.ledger-erased/3"
    title: ClassVar[str] = "Erasure"
    internal_note: ClassVar[str] = KEEPERS

    erased: Annotated[bool, ONE]
    head: Annotated[str, HEAD]

    @classmethod
    def of(cls, ledger: Ledger, erased: bool) -> PersonErased:
        """erased: whether the id was known."""
        return cls(erased=erased, head=ledger.head)


class BookedRelease(Result):
    """A release that was booked from its dose file (`release`), or refused."""

    schema_name: ClassVar[str] = "dosimeter.release/3"
    title: ClassVar[str] = "A release and its booking"
    internal_note: ClassVar[str] = KEEPERS

    verb: Annotated[str, FORM]
    kind: Annotated[str, FORM]
    noise: Annotated[str, LOCAL]
    not_covered: Annotated[list[str], FORM]
    booked: Booking
    artefact: Artefact = ""
    refused: Refused = Field(default_factory=list)
    written: Annotated[str, LOCAL] = ""

    @classmethod
    def of(cls, verb: str, recipe: Recipe, booking: Mapping[str, Any], written: str = "") -> BookedRelease:
        """booking: the fields `booked`, `refused` and `artefact`. written: the file that was written, "" if none."""
        return cls(
            verb=verb,
            kind=recipe.kind,
            noise=recipe.noise,
            not_covered=list(recipe.not_covered),
            written=written,
            **booking,
        )


def ledger_csv(ledger: Ledger) -> str:
    """A line for each dose; amounts in whole billionths of the coordinate in which they add."""
    from dosimeter.files.csv_export import csv_text

    exported = ledger.export()
    entries = {entry["seq"]: entry for entry in exported["entries"]}
    columns: dict[str, list[Any]] = {
        name: [] for name in ("entry", "time", "release", "to", "note", "override", "account", "pseudonym", "nano")
    }
    for dose in exported["doses"]:
        entry = entries[dose["seq"]]
        texts = (str(entry[name]) for name in ("time", "name", "to", "note", "override"))
        values = (dose["seq"], *texts, dose["account"], dose["pseudonym"], dose["nano"])
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return csv_text(columns)


def ledger_json(ledger: Ledger) -> str:
    """The whole ledger as JSON."""
    import json

    return json.dumps(ledger.export(), indent=1, ensure_ascii=True, allow_nan=False) + "\n"
