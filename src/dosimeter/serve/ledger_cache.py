"""What the pages read of a ledger, kept until its head changes: totals compose events, which takes a while."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

from dosimeter.core.accounts import Account, LedgerLimit, standing_of_sum
from dosimeter.core.notion import Standing
from dosimeter.ledger import AccountTotals, Entry, Ledger


@dataclass
class LedgerCache:
    """A ledger that is only read, one reader at a time."""

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
        return next((one for one in self.ledger.releases() if one.seq == seq), None)

    def totals(self) -> tuple[AccountTotals, ...]:
        """Everybody's totals, account by account."""
        with self._lock:
            head = self.ledger.head
            if head != self._head:
                self._totals = self.ledger.totals()
                self._head = head
            return self._totals

    def standing(self, account: Account) -> str:
        """Of the totals in an account: the weakest of all that was booked in it."""
        parts = [part for entry in self.ledger.releases() for part in entry.body["parts"]]
        found = [Standing(part["standing"]) for part in parts if part["account"] == account.text]
        return str(standing_of_sum(account, found).value) if found else ""

    def doses(self, entry: Entry) -> dict[str, dict[str, float]]:
        """Account (its text) -> short pseudonym -> reading, of one release."""
        found = self.ledger.compare(entry.name, entry.name)
        return {one.account.text: dict(zip(one.pseudonyms, one.first.tolist(), strict=True)) for one in found}
