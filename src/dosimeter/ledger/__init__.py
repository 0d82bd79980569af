"""The ledger on a database: SQLite by default (a path), PostgreSQL by URL. Its rules are in `core.accounts`."""

from __future__ import annotations

from dosimeter.core.accounts import Account, Booking, LedgerLimit, LimitViolation, PersonDoses, SharedEventDose
from dosimeter.core.errors import LimitExceeded, Tampered
from dosimeter.ledger.create import ledger_files
from dosimeter.ledger.entries import (
    AccountTotals,
    BookingReceipt,
    Entry,
    OverBudget,
    PersonEntry,
    PersonStatement,
    ReleaseComparison,
    Total,
    Verification,
)
from dosimeter.ledger.ledger import Ledger
from dosimeter.ledger.pseudonyms import Keys

__all__ = [
    "Account",
    "AccountTotals",
    "Booking",
    "BookingReceipt",
    "Entry",
    "Keys",
    "Ledger",
    "LedgerLimit",
    "LimitExceeded",
    "LimitViolation",
    "OverBudget",
    "PersonDoses",
    "PersonEntry",
    "PersonStatement",
    "ReleaseComparison",
    "SharedEventDose",
    "Tampered",
    "Total",
    "Verification",
    "ledger_files",
]
