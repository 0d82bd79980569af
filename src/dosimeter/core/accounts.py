"""The ledger's rules, without its database: accounts, budgets, bookings, and who would pass a limit.

An account is what may be added together. Unlike accounts stand side by side; a budget for a notion is a limit on each
of its accounts by itself.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dosimeter.core.dose import Dose, EventDose
from dosimeter.core.dp_events import plain_of
from dosimeter.core.errors import Refusal
from dosimeter.core.fisher_block import FisherBlock
from dosimeter.core.nano_units import NANO, amount_of, amounts_of, checked_total
from dosimeter.core.notion import FISHER, LEAKAGE, MEMBERSHIP, Notion, Standing
from dosimeter.core.release import Recipe

NOTIONS: dict[str, Notion] = {"fil": FISHER, "mu": MEMBERSHIP, "leakage": LEAKAGE}
"""Keys of the notions whose doses are numbers; the fourth key, eps, is for events."""
UNITS_OF_A_BOOK = ("person", "client")
DELTA_WITHOUT_BUDGET = 1e-6
"""δ at which ε is read where no eps budget says another."""
LEAST_DELTA = 1e-12
"""Below it accountants no longer tell δ from 0, and every ε would be infinite."""
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
        if self.key not in (*NOTIONS, "eps"):
            raise Refusal(f"account {self.key!r} is not one of {', '.join(NOTIONS)}, eps")
        if self.unit not in UNITS_OF_A_BOOK:
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
    def symbol(self) -> str:
        """η, μ, L or ε."""
        return NOTIONS[self.key].symbol if self.key in NOTIONS else "ε"

    def reading(self, amount: int) -> float:
        """The figure a person reads, from an amount of this (numeric) account."""
        return float(NOTIONS[self.key].read(np.array([amount / NANO]))[0])


@dataclass(frozen=True)
class LedgerLimit:
    """A limit on each person's total, in the figure that is read: η, μ, nats, or ε at δ.

    >>> Budget.parse("leakage=2 nats"), Budget.parse("eps=3@1e-6")
    (<Budget leakage=2 nats>, <Budget eps=3@1e-06>)
    """

    key: str
    limit: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        if self.key not in (*NOTIONS, "eps"):
            raise Refusal(f"a budget is for one of {', '.join(NOTIONS)}, eps; not for {self.key[:40]!r}")
        if not (math.isfinite(self.limit) and self.limit > 0):
            raise Refusal(f"the limit of a budget must be a number above 0, not {self.limit!r}")
        if self.key == "eps":
            if not 0 < self.delta < 1:
                raise Refusal(f"an eps budget needs its delta, between 0 and 1: eps={self.limit:g}@1e-6")
            if self.delta < LEAST_DELTA:
                raise Refusal(f"a delta of {self.delta:g} is not told from 0: give {LEAST_DELTA:g} or more")
        elif self.delta != 0:
            raise Refusal(f"only eps has a delta; write {self.key}={self.limit:g}")
        elif float(NOTIONS[self.key].write(np.array([self.limit]))[0]) < LEAST_LIMIT:
            raise Refusal(f"{self.key}={self.limit:g} is finer than the ledger counts: measure in a larger unit")
        else:
            _ = self.amount

    @classmethod
    def parse(cls, text: str) -> LedgerLimit:
        """From `fil=0.3`, `mu=1`, `leakage=2 nats`, `eps=3@1e-6`."""
        found = _BUDGET.fullmatch(text.strip())
        if not found:
            raise Refusal(f"{text[:60]!r} is not a budget: write fil=0.3, mu=1, leakage=2 or eps=3@1e-6")
        key, limit, unit, delta = found.groups()
        if unit and key != "leakage":
            raise Refusal(f"{text[:60]!r}: only leakage is in nats")
        return cls(key, float(limit), float(delta) if delta else 0.0)

    @property
    def amount(self) -> int:
        """The amount of a dose that reads exactly the limit, by the same rounding: such a dose is within it.

        Rounded down instead, a dose of η = 0.1 would pass a limit of 0.1, because the float nearest to 0.1² lies above.
        """
        if self.key == "eps":
            raise Refusal("events have no amount; they are composed")
        return amount_of(NOTIONS[self.key].write(np.array([self.limit]))[0])

    def __str__(self) -> str:
        if self.key == "eps":
            return f"eps={self.limit:g}@{self.delta:g}"
        return f"{self.key}={self.limit:g}" + (" nats" if self.key == "leakage" else "")

    def __repr__(self) -> str:
        return f"<Budget {self}>"


_NUMBER = r"[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?"
_BUDGET = re.compile(rf"(fil|mu|leakage|eps)\s*=\s*({_NUMBER})\s*(nats)?(?:\s*@\s*({_NUMBER}))?")


@dataclass(frozen=True)
class SharedEventDose:
    """People who share one event: somebody with more rows stands in another group with a dearer one."""

    ids: tuple[Hashable, ...]
    dose: EventDose


PersonDoses = Dose | SharedEventDose


@dataclass(frozen=True)
class Booking:
    """What is to be booked: a release under its name, its bytes, and what it costs whom.

    draw: the bytes of the noise that was drawn, or a token made when it was; b"" where neither exists.
    override: the reason why it may go out although somebody passes a limit; recorded.
    """

    name: str
    recipe: Recipe
    artefact: bytes = field(repr=False)
    doses: tuple[PersonDoses, ...]
    draw: bytes = field(default=b"", repr=False)
    note: str = ""
    to: str = ""
    override: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise Refusal(f"{self.name[:60]!r} is no name of a release: 1 to 120 letters, digits, . _ - + and blanks")
        for what in ("note", "to", "override"):
            if len(getattr(self, what)) > 2000:
                raise Refusal(f"the {what} has {len(getattr(self, what))} characters; at most 2000")
        if self.recipe.simulation:
            raise Refusal("simulated noise (a seed) is not for release and is never booked")
        if not isinstance(self.artefact, bytes) or not 0 < len(self.artefact) <= MOST_BYTES:
            raise Refusal(f"an artefact is 1 to {MOST_BYTES} bytes")


_NAME = re.compile(r"\w(?:[\w .+\-]{0,118}[\w.+\-])?")
MOST_BYTES = 512 * 2**20


@dataclass(frozen=True)
class AccountShare:
    """One account's share of a release: amounts of people, or one event for all of them.

    rows: (id, amount); the amount is 0 where there is an event.
    blocks: one for each row, or none at all.
    """

    account: Account
    standing: Standing
    rows: tuple[tuple[str, int], ...]
    event: Mapping[str, object] | None = None
    uncovered: tuple[str, ...] = ()
    blocks: tuple[FisherBlock, ...] = field(default=(), repr=False)


def parts_of(doses: Sequence[PersonDoses]) -> tuple[AccountShare, ...]:
    """The doses in amounts, by account; refused where a person stands twice in an account or nobody stands anywhere."""
    parts = tuple(_part(dose) for dose in doses)
    if not any(part.rows for part in parts):
        raise Refusal("nobody has a dose here: there is nothing to book")
    seen: dict[Account, set[str]] = {}
    for part in parts:
        ids = [person for person, _ in part.rows]
        known = seen.setdefault(part.account, set())
        if len(set(ids)) != len(ids) or not known.isdisjoint(ids):
            raise Refusal(
                f"somebody stands twice in {part.account.text} (ids that differ in blanks around them or in their "
                "Unicode form are one person): add the doses of one person before booking"
            )
        known.update(ids)
    return tuple(part for part in parts if part.rows)


def _part(dose: PersonDoses) -> AccountShare:
    standing = dose.dose.standing if isinstance(dose, SharedEventDose) else dose.standing
    if standing not in COUNTED:
        raise Refusal(
            f"a dose that is only {_A[standing]} cannot be booked: whoever is above a limit may stand below it"
        )
    if isinstance(dose, SharedEventDose):
        of = dose.dose
        account = Account("eps", of.unit, of.adjacency)
        return AccountShare(account, of.standing, tuple((text_of(i), 0) for i in dose.ids), plain_of(of.event))
    key = next((key for key, notion in NOTIONS.items() if notion.name == dose.notion.name), None)
    if key is None:
        raise Refusal(f"the ledger has no account for {dose.notion.name}")
    account = Account(key, dose.unit, dose.measured_in)
    rows = tuple(zip(map(text_of, dose.ids), amounts_of(dose.values), strict=True))
    return AccountShare(account, dose.standing, rows, None, dose.uncovered, dose.blocks)


_A = {Standing.LOWER_BOUND: "a lower bound", Standing.ESTIMATE: "an estimate"}


def text_of(person: Hashable) -> str:
    """An id as text, so that one person is one: without blanks around it, in Unicode's form NFC, 17.0 as 17.

    >>> {text_of(who) for who in (17, "17", " 17", 17.0)}
    {'17'}
    """
    number = float(person) if isinstance(person, float | np.floating) else 0.5
    if person is None or isinstance(person, bytes) or not math.isfinite(number):
        raise Refusal(f"a {type(person).__name__} is nobody's id: give each row the text or the number of its person")
    plain = str(int(number)) if number.is_integer() else str(person)
    text = unicodedata.normalize("NFC", plain.strip())
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
    """The least room, over everybody in the booking, in the figure that is read: a dose of that would fit for all."""
    share: float = 0.0
    """The largest part of every person's amount that would fit for all (noise scales amounts alike); 0 for eps."""
    ids: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        who = "1 person" if self.people == 1 else f"{self.people} people"
        shown = ", ".join(f"{t:.4g}" for t in self.totals[:3]) + (", …" if self.people > 3 else "")
        where = f" in {self.account.measured_in}" if self.account.key == "fil" else ""
        return f"{who} would pass {self.budget}{where} ({shown})"


def over(
    account: Account,
    budget: LedgerLimit | None,
    added: Mapping[str, int],
    spent: Mapping[str, int],
    after: Mapping[str, int] | None = None,
) -> LimitViolation | None:
    """Who passes, from amounts by person; None where nobody does. Totals that no longer fit are refused.

    Somebody to whom nothing is added passes nothing, also where the limit was lowered below what is spent.
    after: totals with this release, where kept blocks make them less than sums. Room and share stay those of sums, and
    so on the safe side.

    >>> fil = Account("fil", "person", "own units")
    >>> print(over(fil, LedgerLimit("fil", 0.5), {"ann": 9 * 10**7, "bob": 10**7}, {"ann": 17 * 10**7}))
    1 person would pass fil=0.5 in own units (0.5099)
    """
    totals = {person: checked_total(spent.get(person, 0) + more) for person, more in added.items()}
    totals |= after or {}
    if budget is None:
        return None
    most = budget.amount
    passing = sorted((p for p, t in totals.items() if added[p] and t > most), key=lambda p: -totals[p])
    if not passing:
        return None
    room = account.reading(max(0, most - max(spent.get(p, 0) for p in added)))
    share = min(max(0, most - spent.get(p, 0)) / more for p, more in added.items() if more)
    highest = tuple(account.reading(totals[p]) for p in passing[:10])
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
    """The standing of a total of these: the weakest, and an upper bound where exact doses do not add exactly.

    matrices: all of them were added as matrices about the same unknowns, so that exact ones do.
    """
    found = list(standings)
    out = found[0]
    for one in found[1:]:
        out = out.weaker(one)
    if account.key == "eps" or (
        len(found) > 1
        and not matrices
        and out is Standing.EXACT
        and account.unit not in NOTIONS[account.key].exact_units
    ):
        out = out.weaker(Standing.UPPER_BOUND)
    return out
