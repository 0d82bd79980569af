"""What the pages read from a ledger, cached until its head changes: composing events takes a while."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

from dosimeter.core.accounts import Account, LedgerLimit, standing_of_sum
from dosimeter.core.notion import Standing
from dosimeter.ledger import AccountTotals, Entry, Ledger


@dataclass
class LedgerCache:
    """A ledger for reading only, one reader at a time."""

    ledger: Ledger
    _lock: Lock = field(default_factory=Lock, repr=False)
    _head: str = ""
    _totals: tuple[AccountTotals, ...] = ()

    @property
    def label(self) -> str:
        """The ledger's name, without a password."""
        return self.ledger.label

    @property
    def head(self) -> str:
        """The short code of the newest entry."""
        return self.ledger.head

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The whole chain."""
        return self.ledger.entries()

    @property
    def releases(self) -> tuple[Entry, ...]:
        """The releases, the newest first."""
        return tuple(reversed(self.ledger.releases()))

    @property
    def budgets(self) -> tuple[LedgerLimit, ...]:
        """The limits in force."""
        return self.ledger.budgets

    def release(self, seq: int) -> Entry | None:
        """The release with this number."""
        return next((entry for entry in self.ledger.releases() if entry.seq == seq), None)

    def totals(self) -> tuple[AccountTotals, ...]:
        """The totals of all people, by account."""
        with self._lock:
            head = self.ledger.head
            if head != self._head:
                self._totals = self.ledger.totals()
                self._head = head
            return self._totals

    def standing(self, account: Account) -> str:
        """The standing of the totals in an account: the weakest that was booked in it."""
        parts = [part for entry in self.ledger.releases() for part in entry.body["parts"]]
        standings = [Standing(part["standing"]) for part in parts if part["account"] == account.text]
        return str(standing_of_sum(account, standings).value) if standings else ""

    def doses(self, entry: Entry) -> dict[str, dict[str, float]]:
        """Account (its text) -> short pseudonym -> reading, of one release."""
        shares = self.ledger.compare(entry.name, entry.name)
        return {share.account.text: dict(zip(share.pseudonyms, share.first.tolist(), strict=True)) for share in shares}
