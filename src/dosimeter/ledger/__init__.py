"""The ledger on a database: SQLite by default (a path), PostgreSQL by URL; the rules are in `core.ledger`."""

from __future__ import annotations

from dosimeter.core.accounts import Account, Booking, LedgerLimit, LimitViolation, PersonDoses, SharedEventDose
from dosimeter.core.errors import LimitExceeded, Tampered
from dosimeter.ledger.create import files_of
from dosimeter.ledger.entries import (
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
from dosimeter.ledger.ledger import Ledger
from dosimeter.ledger.pseudonyms import Keys

__all__ = [
    "Account",
    "AccountTotals",
    "Booked",
    "Booking",
    "Compared",
    "Entry",
    "Keys",
    "Ledger",
    "LedgerLimit",
    "LimitExceeded",
    "LimitViolation",
    "OverBudget",
    "PersonBook",
    "PersonDoses",
    "PersonEntry",
    "SharedEventDose",
    "Tampered",
    "Total",
    "Verified",
    "files_of",
]
