"""What the ledger hands out: entries, receipts, a person's book, totals, comparisons. Plain frozen values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dosimeter.core.accounts import Account, LedgerLimit, LimitViolation
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import LimitExceeded
from dosimeter.core.notion import Standing


class OverBudget(LimitExceeded):
    """Somebody would pass a limit. `over` says where and by how much; it is internal, for it depends on the data."""

    def __init__(self, over: tuple[LimitViolation, ...]) -> None:
        self.over = over
        super().__init__("; ".join(str(one) for one in over) + ". Nothing was written.")


@dataclass(frozen=True)
class Entry:
    """One entry of the chain. kind: opened, budget, release, erasure or key."""

    seq: int
    kind: str
    time: str
    digest: str
    body: Mapping[str, Any] = field(repr=False)
    """Everything that the chain vouches for; of a release also recipe, artefact digest, size and parts."""

    @property
    def name(self) -> str:
        """Of a release; "" for other kinds."""
        return str(self.body.get("name", ""))

    @property
    def note(self) -> str:
        """The note that was made."""
        return str(self.body.get("note", ""))

    @property
    def to(self) -> str:
        """Who received the release."""
        return str(self.body.get("to", ""))

    @property
    def override(self) -> str:
        """The reason why a limit was passed, "" where none was."""
        return str(self.body.get("override", ""))

    @property
    def recipe(self) -> Mapping[str, Any]:
        """kind, noise, settings and uncovered of a release."""
        found: Mapping[str, Any] = self.body.get("recipe", {})
        return found

    @property
    def people(self) -> int:
        """The largest number of people in one account of the release."""
        counts: dict[str, int] = {}
        for part in self.body.get("parts", ()):
            counts[part["account"]] = counts.get(part["account"], 0) + part["people"]
        return max(counts.values(), default=0)

    @property
    def accounts(self) -> tuple[Account, ...]:
        """The accounts in which the release was spent."""
        return tuple(dict.fromkeys(Account.of_text(part["account"]) for part in self.body.get("parts", ())))


@dataclass(frozen=True)
class Booked:
    """The receipt. fresh is False where the name was booked before: then `artefact` is what was stored then."""

    name: str
    seq: int
    digest: str
    fresh: bool
    artefact: bytes = field(repr=False)
    over: tuple[LimitViolation, ...] = ()

    @property
    def head(self) -> str:
        """The short code for reports and cards."""
        return short(self.seq, self.digest)


def short(seq: int, digest: str) -> str:
    """`17:9f3c0a1b2c3d4e5f`: the number of an entry and the first 16 digits of its digest."""
    return f"{seq}:{digest[:16]}"


@dataclass(frozen=True)
class PersonEntry:
    """What one release cost one person, in one account. For eps the reading is ε at `delta`."""

    name: str
    seq: int
    time: str
    to: str
    account: Account
    reading: float
    standing: Standing
    uncovered: tuple[str, ...] = ()
    delta: float = 0.0


@dataclass(frozen=True)
class Total:
    """A person's total in one account, with its limit (infinite without a budget) and what is left of it.

    left: for fil and mu the largest single dose that would still fit, √(limit² - total²); for leakage and eps the
    difference.
    """

    account: Account
    reading: float
    standing: Standing
    limit: float = math.inf
    left: float = math.inf
    delta: float = 0.0


@dataclass(frozen=True)
class PersonBook:
    """Everything the ledger knows about one person; empty where nobody is known under the id."""

    pseudonym: str
    entries: tuple[PersonEntry, ...] = ()
    totals: tuple[Total, ...] = ()

    @property
    def known(self) -> bool:
        """Whether anybody of this id was ever booked."""
        return bool(self.entries)


@dataclass(frozen=True, eq=False)
class AccountTotals:
    """Everybody's total in one account, the highest first."""

    account: Account
    pseudonyms: tuple[str, ...]
    readings: FloatArray
    """(k,)"""
    budget: LedgerLimit | None
    delta: float = 0.0
    passing: int = 0
    """How many stand above the limit: by an override, or because it was lowered since."""

    @property
    def limit(self) -> float:
        """Infinite without a budget."""
        return math.inf if self.budget is None else self.budget.limit


@dataclass(frozen=True, eq=False)
class Compared:
    """Two releases side by side in one account: the people of both, and how many are in one only."""

    account: Account
    pseudonyms: tuple[str, ...]
    first: FloatArray
    """(k,) readings of the people of both in the first release."""
    second: FloatArray
    """(k,) ... and in the second."""
    only_first: int
    only_second: int
    delta: float = 0.0

    def quantiles(self, at: tuple[float, ...] = (0.5, 0.9, 0.99, 1.0)) -> tuple[tuple[float, float, float], ...]:
        """(q, first, second) for each q; nothing where nobody is in both."""
        if not len(self.first):
            return ()
        return tuple((q, float(np.quantile(self.first, q)), float(np.quantile(self.second, q))) for q in at)

    def largest_changes(self, count: int = 10) -> tuple[tuple[str, float, float], ...]:
        """(pseudonym, first, second) of those whose reading moved most."""
        order = np.argsort(-np.abs(self.second - self.first), kind="stable")[:count]
        return tuple((self.pseudonyms[k], float(self.first[k]), float(self.second[k])) for k in order.tolist())


@dataclass(frozen=True)
class Verified:
    """What was checked: so many entries up to this head; `signed` is the public key, "" without signatures."""

    entries: int
    head: str
    signed: str
    people: int
    keys_checked: bool
    """False where the key file was not at hand: an older copy of the database cannot be told then."""
