"""What the ledger returns: entries, receipts, statements, totals, comparisons. Plain frozen values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dosimeter.core.accounts import Account, LedgerLimit, LimitViolation
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import LimitExceeded
from dosimeter.core.html_table import html_table
from dosimeter.core.notion import Standing


class OverBudget(LimitExceeded):
    """A person would exceed a limit. `over` says where and by how much; it is internal: it depends on the data."""

    def __init__(self, over: tuple[LimitViolation, ...]) -> None:
        self.over = over
        super().__init__("; ".join(str(violation) for violation in over) + ". Nothing was written.")


@dataclass(frozen=True)
class Entry:
    """One entry of the chain.

    Attributes
    ----------
    seq : int
        Its number, from 1.
    kind : str
        "opened", "budget", "release", "erasure" or "key".
    time : str
        When it was written, UTC, ISO 8601.
    digest : str
        SHA-256 over the previous digest and the body, in hex.
    body : mapping
        Everything that the digest covers; for a release also recipe, artefact digest, size and parts.
    """

    seq: int
    kind: str
    time: str
    digest: str
    body: Mapping[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        """The name of a release; "" for other kinds."""
        return str(self.body.get("name", ""))

    @property
    def note(self) -> str:
        """The note that was recorded."""
        return str(self.body.get("note", ""))

    @property
    def to(self) -> str:
        """Who received the release."""
        return str(self.body.get("to", ""))

    @property
    def override(self) -> str:
        """The reason for exceeding a limit, "" if none was exceeded."""
        return str(self.body.get("override", ""))

    @property
    def recipe(self) -> Mapping[str, Any]:
        """kind, noise, settings and uncovered of a release."""
        recipe: Mapping[str, Any] = self.body.get("recipe", {})
        return recipe

    @property
    def people(self) -> int:
        """The largest number of people in one account of the release."""
        counts: dict[str, int] = {}
        for part in self.body.get("parts", ()):
            counts[part["account"]] = counts.get(part["account"], 0) + part["people"]
        return max(counts.values(), default=0)

    @property
    def accounts(self) -> tuple[Account, ...]:
        """The accounts that the release was booked to."""
        return tuple(dict.fromkeys(Account.of_text(part["account"]) for part in self.body.get("parts", ())))


@dataclass(frozen=True)
class BookingReceipt:
    """The receipt of a booking.

    Attributes
    ----------
    name : str
        The name of the release.
    seq, digest : int, str
        Its entry in the chain.
    fresh : bool
        False if the name was already booked; `artefact` is then what was stored before.
    artefact : bytes
        The released bytes.
    over : tuple of LimitViolation
        Limits that the booking overrode. Internal.
    """

    name: str
    seq: int
    digest: str
    fresh: bool
    artefact: bytes = field(repr=False)
    over: tuple[LimitViolation, ...] = ()

    @property
    def head(self) -> str:
        """The short head for reports and model cards."""
        return short_head(self.seq, self.digest)


def short_head(seq: int, digest: str) -> str:
    """`17:9f3c0a1b2c3d4e5f`: the number of an entry and the first 16 digits of its digest."""
    return f"{seq}:{digest[:16]}"


@dataclass(frozen=True)
class PersonEntry:
    """A person's dose from one release in one account. For eps the reading is ε at `delta`."""

    name: str
    seq: int
    time: str
    to: str
    account: Account
    reading: float
    standing: Standing
    not_covered: tuple[str, ...] = ()
    delta: float = 0.0


@dataclass(frozen=True)
class Total:
    """A person's total in one account, its limit (infinite without a budget) and what is left of it.

    left: for fil and mu the largest single dose that still fits, √(limit² - total²); for leakage and eps limit - total.
    """

    account: Account
    reading: float
    standing: Standing
    limit: float = math.inf
    left: float = math.inf
    delta: float = 0.0


@dataclass(frozen=True)
class PersonStatement:
    """Everything that the ledger holds about one person; empty if the id is unknown."""

    pseudonym: str
    entries: tuple[PersonEntry, ...] = ()
    totals: tuple[Total, ...] = ()

    @property
    def known(self) -> bool:
        """Whether anything was ever booked for this id."""
        return bool(self.entries)


@dataclass(frozen=True, eq=False)
class AccountTotals:
    """The totals of all people in one account, the highest first."""

    account: Account
    pseudonyms: tuple[str, ...]
    readings: FloatArray
    """(k,)"""
    budget: LedgerLimit | None
    delta: float = 0.0
    passing: int = 0
    """The number of people above the limit: by an override, or because it was lowered later."""

    @property
    def limit(self) -> float:
        """Infinite without a budget."""
        return math.inf if self.budget is None else self.budget.limit

    def _repr_html_(self) -> str:
        """For a notebook, without pseudonyms. Internal: totals depend on the data."""
        highest = float(self.readings.max()) if len(self.readings) else 0.0
        rows: list[tuple[str, object]] = [
            ("people", len(self.readings)),
            (f"highest {self.account.symbol}", highest),
            ("limit", "none" if self.budget is None else str(self.budget)),
            ("people above it", self.passing),
        ]
        return html_table(f"Totals: {self.account.notion.name}, {self.account.measured_in}", rows)


@dataclass(frozen=True, eq=False)
class ReleaseComparison:
    """Two releases compared in one account: the people in both, and the number of people in one only."""

    account: Account
    pseudonyms: tuple[str, ...]
    first: FloatArray
    """(k,) readings from the first release of the people in both."""
    second: FloatArray
    """(k,) readings from the second."""
    only_first: int
    only_second: int
    delta: float = 0.0

    def quantiles(self, levels: tuple[float, ...] = (0.5, 0.9, 0.99, 1.0)) -> tuple[tuple[float, float, float], ...]:
        """(q, first, second) for each level q; empty if nobody is in both."""
        if not len(self.first):
            return ()
        return tuple((q, float(np.quantile(self.first, q)), float(np.quantile(self.second, q))) for q in levels)

    def largest_changes(self, count: int = 10) -> tuple[tuple[str, float, float], ...]:
        """(pseudonym, first, second) of the people whose reading changed most."""
        order = np.argsort(-np.abs(self.second - self.first), kind="stable")[:count]
        return tuple((self.pseudonyms[k], float(self.first[k]), float(self.second[k])) for k in order.tolist())


@dataclass(frozen=True)
class Verification:
    """What was verified: the number of entries up to this head; `signed` is the public key, "" without signatures."""

    entries: int
    head: str
    signed: str
    people: int
    keys_checked: bool
    """False without the key file; a rollback to an older copy of the database cannot be detected then."""
