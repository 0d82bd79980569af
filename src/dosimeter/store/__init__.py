"""The ledger on a database: SQLite by default (a path), PostgreSQL by URL; the rules are in `core.ledger`."""

from __future__ import annotations

from dosimeter.core.ledger import Account, Booking, Budget, Events, Over, PersonDoses
from dosimeter.core.refusal import LimitExceeded, Tampered
from dosimeter.store.entries import (
    AccountTotals,
    Booked,
    Compared,
    Entry,
    OverBudget,
    PersonBook,
    PersonEntry,
    Total,
    Verified,
)
from dosimeter.store.keys import Keys
from dosimeter.store.ledger import Ledger
from dosimeter.store.opening import files_of

__all__ = [
    "Account",
    "AccountTotals",
    "Booked",
    "Booking",
    "Budget",
    "Compared",
    "Entry",
    "Events",
    "Keys",
    "Ledger",
    "LimitExceeded",
    "Over",
    "OverBudget",
    "PersonBook",
    "PersonDoses",
    "PersonEntry",
    "Tampered",
    "Total",
    "Verified",
    "files_of",
]
