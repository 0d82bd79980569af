"""The ledger's rules, without its database: accounts, budgets, bookings, and who would pass a limit.

An account is what may be added together. Different accounts are kept side by side. A budget for a notion is a limit on
each of its accounts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from dosimeter.core.dose import Dose, EventDose
from dosimeter.core.dp_events import event_to_dict
from dosimeter.core.errors import Refusal
from dosimeter.core.fisher_block import FisherBlock
from dosimeter.core.nano_units import NANO, amount_of, amounts_of, check_total
from dosimeter.core.notion import DIFFERENTIAL_PRIVACY, NOTIONS, Notion, Standing, key_of, notion_of, parse_budget
from dosimeter.core.release import Recipe
from dosimeter.core.text import id_text

LEDGER_UNITS = ("person", "client")
DELTA_WITHOUT_BUDGET = 1e-6
"""δ at which ε is read where no eps budget says another."""
LEAST_DELTA = 1e-12
"""Below it accountants do not distinguish δ from 0, and every ε would be infinite."""
COUNTED = (Standing.EXACT, Standing.UPPER_BOUND, Standing.UNACCOUNTED)
"""Standings of doses that a limit can be held against; what is unaccounted is named beside the figure."""
LEAST_LIMIT = 1e-6
"""The least limit in the additive coordinate: a thousand nano-units, so that rounding is 0.1 % of it at most."""


@dataclass(frozen=True, order=True)
class Account:
    """What may be added together: a notion, a unit, and the scale of the unknown (for events the adjacency).

    >>> Account("fil", "person", "standard deviations").text
    'fil|person|standard deviations'
    """

    key: str
    unit: str
    measured_in: str

    def __post_init__(self) -> None:
        if self.key not in NOTIONS:
            raise Refusal(f"account {self.key!r} is not one of {', '.join(NOTIONS)}")
        if self.unit not in LEDGER_UNITS:
            raise Refusal(
                f"a ledger counts persons or clients, not {self.unit}s: say whose each row is (--person, person=)"
            )
        if not 0 < len(self.measured_in) <= 60 or "|" in self.measured_in or not self.measured_in.isprintable():
            raise Refusal(f"{self.measured_in[:60]!r} is no name of a scale: at most 60 printable characters without |")

    @property
    def text(self) -> str:
        """One line that names the account; `Account.of_text` reads it back."""
        return f"{self.key}|{self.unit}|{self.measured_in}"

    @classmethod
    def of_text(cls, text: str) -> Account:
        """The account that `text` names."""
        parts = text.split("|")
        if len(parts) != 3:
            raise Refusal(f"{text[:80]!r} names no account")
        return cls(*parts)

    @property
    def notion(self) -> Notion:
        """The notion that this account adds up."""
        return notion_of(self.key)

    @property
    def symbol(self) -> str:
        """η, μ, L or ε."""
        return self.notion.symbol

    def figure(self, amount: int) -> float:
        """The figure a person reads, from an amount of this (numeric) account."""
        return float(self.notion.read(np.array([amount / NANO]))[0])


@dataclass(frozen=True)
class LedgerLimit:
    """A limit on each person's total, in the figure that is read: η, μ, nats, or ε at δ.

    >>> LedgerLimit.parse("leakage=2 nats"), LedgerLimit.parse("eps=3@1e-6")
    (<Budget leakage=2 nats>, <Budget eps=3@1e-06>)
    """

    key: str
    limit: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        if self.key not in NOTIONS:
            raise Refusal(f"a budget is for one of {', '.join(NOTIONS)}; not for {self.key[:40]!r}")
        if not (math.isfinite(self.limit) and self.limit > 0):
            raise Refusal(f"the limit of a budget must be a number above 0, not {self.limit!r}")
        if self.notion.composes_events:
            if not 0 < self.delta < 1:
                raise Refusal(f"an {self.key} budget needs its delta, between 0 and 1: {self.key}={self.limit:g}@1e-6")
            if self.delta < LEAST_DELTA:
                raise Refusal(f"delta {self.delta:g} is too small to distinguish from 0; use at least {LEAST_DELTA:g}")
        elif self.delta != 0:
            with_delta = ", ".join(notion.key for notion in NOTIONS.values() if notion.composes_events)
            raise Refusal(f"only {with_delta} has a delta; write {self.key}={self.limit:g}")
        elif float(self.notion.write(np.array([self.limit]))[0]) < LEAST_LIMIT:
            raise Refusal(f"{self.key}={self.limit:g} is finer than the ledger counts: measure in a larger unit")
        else:
            _ = self.amount

    @classmethod
    def parse(cls, text: str) -> LedgerLimit:
        """From `fil=0.3`, `mu=1`, `leakage=2 nats`, `eps=3@1e-6`."""
        notion, limit, delta = parse_budget(text)
        return cls(notion.key, limit, delta)

    @property
    def notion(self) -> Notion:
        """The notion that this limits."""
        return notion_of(self.key)

    @property
    def amount(self) -> int:
        """The amount of a dose that reads exactly the limit, by the same rounding: such a dose is within it.

        Rounded down instead, a dose of η = 0.1 would pass a limit of 0.1, because the float nearest to 0.1² lies above.
        """
        return amount_of(self.notion.write(np.array([self.limit]))[0])

    def __str__(self) -> str:
        return self.notion.budget(self.limit, self.delta)

    def __repr__(self) -> str:
        return f"<Budget {self}>"


@dataclass(frozen=True)
class SharedEventDose:
    """People who share one event. A person with more rows is in another group, whose event costs more."""

    ids: tuple[Hashable, ...]
    dose: EventDose


PersonDoses = Dose | SharedEventDose


@dataclass(frozen=True)
class Booking:
    """What is to be booked: a release under its name, its bytes, and each person's dose.

    noise_fingerprint: the bytes of the noise that was drawn, or a token created with it; b"" if neither exists.
    override: the reason why it may be released although a person exceeds a limit; recorded.
    """

    name: str
    recipe: Recipe
    artefact: bytes = field(repr=False)
    doses: tuple[PersonDoses, ...]
    noise_fingerprint: bytes = field(default=b"", repr=False)
    note: str = ""
    to: str = ""
    override: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise Refusal(
                f"{self.name[:60]!r} is not a name of a release: use 1 to 120 letters, digits, . _ - + and blanks"
            )
        for name in ("note", "to", "override"):
            if len(getattr(self, name)) > 2000:
                raise Refusal(f"{name} has {len(getattr(self, name))} characters; use at most 2000")
        if self.recipe.simulation:
            raise Refusal("simulated noise (a seed) is not for release and is never booked")
        if not isinstance(self.artefact, bytes) or not 0 < len(self.artefact) <= MOST_BYTES:
            raise Refusal(f"an artefact is 1 to {MOST_BYTES} bytes")


class Bookable(Protocol):
    """A release that carries what a ledger needs. `Released`, which a verb returns, is one."""

    @property
    def recipe(self) -> Recipe:
        """How it was made."""
        ...

    @property
    def artefact(self) -> bytes:
        """What is sent."""
        ...

    @property
    def doses(self) -> tuple[PersonDoses, ...]:
        """What each person receives."""
        ...

    @property
    def noise_fingerprint(self) -> bytes:
        """Identifies the noise draw."""
        ...


_NAME = re.compile(r"\w(?:[\w .+\-]{0,118}[\w.+\-])?")
MOST_BYTES = 512 * 2**20


@dataclass(frozen=True)
class AccountShare:
    """One account's share of a release: amounts of people, or one event for all of them.

    rows: (id, amount); the amount is 0 if there is an event.
    fisher_blocks: one for each row, or none at all.
    """

    account: Account
    standing: Standing
    rows: tuple[tuple[str, int], ...]
    event: Mapping[str, object] | None = None
    not_covered: tuple[str, ...] = ()
    fisher_blocks: tuple[FisherBlock, ...] = field(default=(), repr=False)


def parts_of(doses: Sequence[PersonDoses]) -> tuple[AccountShare, ...]:
    """The doses in amounts, by account. Refused if a person is twice in an account or there is no person at all."""
    parts = tuple(_part(dose) for dose in doses)
    if not any(part.rows for part in parts):
        raise Refusal("no person has a dose here: there is nothing to book")
    ids_by_account: dict[Account, set[str]] = {}
    for part in parts:
        ids = [person for person, _ in part.rows]
        known = ids_by_account.setdefault(part.account, set())
        if len(set(ids)) != len(ids) or not known.isdisjoint(ids):
            raise Refusal(
                f"duplicate id in {part.account.text} (ids that differ in blanks around them or in their Unicode form "
                "are one person): add the doses of one person before booking"
            )
        known.update(ids)
    return tuple(part for part in parts if part.rows)


def _part(dose: PersonDoses) -> AccountShare:
    standing = dose.dose.standing if isinstance(dose, SharedEventDose) else dose.standing
    if standing not in COUNTED:
        raise Refusal(f"a dose that is only {_A[standing]} cannot be booked: the true dose may be above it")
    if isinstance(dose, SharedEventDose):
        of = dose.dose
        account = Account(key_of(DIFFERENTIAL_PRIVACY), of.unit, of.adjacency)
        return AccountShare(account, of.standing, tuple((text_of(i), 0) for i in dose.ids), event_to_dict(of.event))
    account = Account(key_of(dose.notion), dose.unit, dose.measured_in)
    rows = tuple(zip(map(text_of, dose.ids), amounts_of(dose.amounts), strict=True))
    return AccountShare(account, dose.standing, rows, None, dose.not_covered, dose.fisher_blocks)


_A = {Standing.LOWER_BOUND: "a lower bound", Standing.ESTIMATE: "an estimate"}


def text_of(person: Hashable) -> str:
    """An id as text, so that one person has one id: without blanks around it, in Unicode's form NFC, 17.0 as 17.

    >>> {text_of(person) for person in (17, "17", " 17", 17.0)}
    {'17'}
    """
    number = float(person) if isinstance(person, float | np.floating) else 0.5
    if person is None or isinstance(person, bytes) or not math.isfinite(number):
        raise Refusal(f"a {type(person).__name__} cannot be an id: give each row the text or the number of its person")
    plain = str(int(number)) if number.is_integer() else str(person)
    text = id_text(plain)
    if not 0 < len(text) <= 1000:
        raise Refusal(f"an id has 1 to 1000 characters, not {len(text)}")
    return text


@dataclass(frozen=True)
class LimitViolation:
    """People who would pass a limit in one account. Internal: it depends on the data."""

    account: Account
    budget: LedgerLimit
    people: int
    totals: tuple[float, ...]
    """Their readings with this release, highest first, at most ten."""
    room: float
    """The least room of all people in the booking, in the figure that is read: such a dose would fit for all."""
    share: float = 0.0
    """The largest part of every person's amount that would fit for all (noise scales amounts alike); 0 for eps."""
    ids: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        count = "1 person" if self.people == 1 else f"{self.people} people"
        shown = ", ".join(f"{t:.4g}" for t in self.totals[:3]) + (", …" if self.people > 3 else "")
        where = f" in {self.account.measured_in}" if self.account.notion.has_scale else ""
        return f"{count} would pass {self.budget}{where} ({shown})"


def over(
    account: Account,
    budget: LedgerLimit | None,
    added: Mapping[str, int],
    spent: Mapping[str, int],
    after: Mapping[str, int] | None = None,
) -> LimitViolation | None:
    """Who exceeds the limit, from amounts by person; None if no person does. Totals that overflow are refused.

    A person to whom nothing is added exceeds nothing, even if the limit was lowered below their total.
    after: totals with this release, if stored blocks make them less than sums. Room and share stay those of sums, and
    so on the safe side.

    >>> fil = Account("fil", "person", "own units")
    >>> print(over(fil, LedgerLimit("fil", 0.5), {"ann": 9 * 10**7, "bob": 10**7}, {"ann": 17 * 10**7}))
    1 person would pass fil=0.5 in own units (0.5099)
    """
    totals = {person: check_total(spent.get(person, 0) + more) for person, more in added.items()}
    totals |= after or {}
    if budget is None:
        return None
    most = budget.amount
    passing = sorted((p for p, t in totals.items() if added[p] and t > most), key=lambda p: -totals[p])
    if not passing:
        return None
    room = account.figure(max(0, most - max(spent.get(p, 0) for p in added)))
    share = min(max(0, most - spent.get(p, 0)) / more for p, more in added.items() if more)
    highest = tuple(account.figure(totals[p]) for p in passing[:10])
    return LimitViolation(account, budget, len(passing), highest, room, share, tuple(passing))


def over_by_epsilon(
    account: Account, budget: LedgerLimit, after: Mapping[str, float], before: Iterable[float]
) -> LimitViolation | None:
    """The same for ε at the budget's δ, from ε by person with and without this release."""
    passing = sorted((p for p, e in after.items() if e > budget.limit), key=lambda p: -after[p])
    if not passing:
        return None
    room = max(0.0, budget.limit - max(before, default=0.0))
    return LimitViolation(
        account, budget, len(passing), tuple(after[p] for p in passing[:10]), room, 0.0, tuple(passing)
    )


def standing_of_sum(account: Account, standings: Iterable[Standing], matrices: bool = False) -> Standing:
    """The standing of a total of these: the weakest, and an upper bound if exact doses do not add exactly.

    matrices: all of them were added as matrices about the same unknowns, so that exact ones do.
    """
    parts = list(standings)
    out = parts[0]
    for part in parts[1:]:
        out = out.weaker(part)
    if account.notion.composes_events or (
        len(parts) > 1 and not matrices and out is Standing.EXACT and account.unit not in account.notion.exact_units
    ):
        out = out.weaker(Standing.UPPER_BOUND)
    return out
