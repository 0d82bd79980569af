"""The ledger: the append-only book of releases and of what each cost whom.

It is an honest operator's log. Whoever holds the machine and the keys can write a new book; a head printed in a report
is what an outsider has against that.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import uuid4

from sqlalchemy import select

from dosimeter.core.accounts import Account, Booking, LedgerLimit, LimitViolation, parts_of
from dosimeter.core.accounts import text_of as id_of
from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text
from dosimeter.ledger import booking as bookings
from dosimeter.ledger import queries as people
from dosimeter.ledger import schema
from dosimeter.ledger.create import Target, belong, keys_path, new_book_file, open_book, plain_budget
from dosimeter.ledger.database import Database
from dosimeter.ledger.entries import AccountTotals, Booked, Compared, Entry, PersonBook, Verified, short
from dosimeter.ledger.entry_log import append, budgets, check_head, entry_of, erasures, exported, newest
from dosimeter.ledger.hash_chain import new_key
from dosimeter.ledger.migrations import migrate
from dosimeter.ledger.pseudonyms import Keys
from dosimeter.ledger.records import bytes_of, text_of
from dosimeter.ledger.sealed_file import remove
from dosimeter.ledger.verify import verify


class Ledger:
    """An open ledger. Make one with `Ledger.create`, take one with `Ledger.open`; close it, or use it in a `with`."""

    def __init__(self, database: Database, keys: Keys | None, keys_path: Path) -> None:
        self._database = database
        self._keys = keys
        self.keys_path = keys_path

    @classmethod
    def create(
        cls, target: Target, budgets: Sequence[LedgerLimit] = (), keys: Target | None = None, sign: bool = False
    ) -> Ledger:
        """A new ledger and its key file; refused where either exists.

        sign: every entry is signed with a new Ed25519 key, whose private half lies in the key file.
        """
        database = Database(target)
        path = keys_path(database, keys)
        if len({budget.key for budget in budgets}) != len(budgets):
            raise Refusal("one budget for each notion: a key stands twice")
        if database.is_file:
            new_book_file(database)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
        made: Keys | None = None
        try:
            uuid = uuid4().hex
            private, public = new_key() if sign else (b"", "")
            made = Keys.create(path, uuid, private)
            seq, digest = open_book(database, made, uuid, public, budgets)
            made.saw(seq, digest)
        except BaseException:
            if made is not None:
                made.close()
                remove(path)
            database.close()
            if database.is_file:
                remove(database.path)
            raise
        return cls(database, made, path)

    @classmethod
    def open(cls, target: Target, keys: Target | None = None, *, without_keys: bool = False) -> Ledger:
        """An existing ledger, brought to this version's tables; its head is held against the key file's.

        without_keys: a missing key file is no reason to refuse; then the book can be listed, verified and exported, and
        nobody can be booked or looked up.
        """
        database = Database(target)
        database.check_file()
        path = keys_path(database, keys)
        found: Keys | None = None
        try:
            if not without_keys or path.exists():
                found = Keys.open(path)
            migrate(database)
            seen = found.head if found is not None else (0, "")
            with database.reading() as connection:
                belong(connection, database, found, seen)
        except BaseException:
            if found is not None:
                found.close()
            database.close()
            raise
        return cls(database, found, path)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back the files and connections."""
        if self._keys is not None:
            self._keys.close()
        self._database.close()

    @property
    def keys(self) -> Keys:
        """The key file; refused where the ledger was opened without it."""
        if self._keys is None:
            what = f"its key file {safe_text(self.keys_path, 120)} is missing, and without it nobody can be told"
            raise self._database.refusal(what, "put back its newest copy, or name it with --keys")
        return self._keys

    @property
    def label(self) -> str:
        """The ledger's name on one harmless line, without a password."""
        return self._database.label

    def book(self, booking: Booking) -> Booked:
        """Spend and store in one transaction, once per name; `OverBudget` where somebody would pass a limit."""
        return bookings.book(self._database, self.keys, booking)

    def preview(self, booking: Booking) -> tuple[LimitViolation, ...]:
        """Who would pass which limit. Nothing is written."""
        return bookings.preview(self._database, self.keys, parts_of(booking.doses))

    @property
    def budgets(self) -> tuple[LedgerLimit, ...]:
        """The limits in force."""
        with self._database.reading() as connection:
            return budgets(connection)

    def set_budget(self, budget: LedgerLimit, note: str = "") -> Entry:
        """Set the limit of a notion, higher or lower; recorded. It may lie below what is spent: see `totals`."""
        if len(note) > 2000:
            raise Refusal(f"the note has {len(note)} characters; at most 2000")
        facts = {"budgets": [plain_budget(budget)], "note": note}
        return self._record("budget", facts)

    @property
    def head(self) -> str:
        """The short code of the newest entry."""
        with self._database.reading() as connection:
            last = newest(connection)
            return short(0, "") if last is None else short(last.seq, text_of(last.digest, "the newest entry"))

    def entries(self) -> tuple[Entry, ...]:
        """The whole chain, the oldest first."""
        with self._database.reading() as connection:
            return tuple(map(entry_of, connection.execute(select(schema.entry).order_by(schema.entry.c.seq))))

    def releases(self) -> tuple[Entry, ...]:
        """The releases, the oldest first."""
        return tuple(entry for entry in self.entries() if entry.kind == "release")

    def entry(self, name: str) -> Entry:
        """The release of that name."""
        with self._database.reading() as connection:
            row = connection.execute(select(schema.entry).where(schema.entry.c.name == name)).first()
        if row is None:
            raise self._database.refusal(f"there is no release {safe_text(name)}", "see dosimeter ledger list")
        return entry_of(row)

    def artefact(self, name: str) -> bytes:
        """The bytes that were released under that name."""
        seq = self.entry(name).seq
        with self._database.reading() as connection:
            data = connection.execute(select(schema.artefact.c.data).where(schema.artefact.c.seq == seq)).scalar()
            return bytes_of(data, f"the artefact of entry {seq}")

    def person(self, person: Hashable) -> PersonBook:
        """What was released about somebody: the right-of-access answer. Unknown people have an empty book."""
        text = id_of(person)
        known = self.keys.pseudonyms([text])
        if text not in known:
            return PersonBook("")
        with self._database.reading() as connection:
            return people.person(connection, known[text])

    def totals(self, account: Account | None = None) -> tuple[AccountTotals, ...]:
        """Everybody's totals by account, under short pseudonyms."""
        with self._database.reading() as connection:
            return people.totals(connection, account)

    def compare(self, first: str, second: str) -> tuple[Compared, ...]:
        """Two releases side by side, account by account."""
        one, other = self.entry(first), self.entry(second)
        with self._database.reading() as connection:
            return people.compare(connection, one, other)

    def verify(self, public_key: str | None = None) -> Verified:
        """Check everything against the chain, and the chain against the key file's head; `Tampered` if it fails.

        public_key: in hex; the ledger must be signed by it.
        """
        seen = self._keys.head if self._keys is not None else (0, "")
        with self._database.reading() as connection:
            seal = None if self._keys is None else self._keys.seal_of
            done = verify(connection, self._database, public_key or "", seal)
            if self._keys is not None:
                check_head(connection, self._database, self._keys, seen)
                self._keys.check()
            return done

    def export(self) -> dict[str, Any]:
        """The whole book as plain values: entries, and doses under pseudonyms. No ids, no artefact bytes. Internal."""
        with self._database.reading() as connection:
            return exported(connection)

    def erase(self, person: Hashable) -> bool:
        """Forget who somebody is: their rows become nobody's, the chain stays whole. False where nobody is known.

        Whoever comes again under the same id begins anew.
        """
        with self._database.reading() as connection:  # a book that cannot be read is told before anything is erased
            erasures(connection)
        found = self.keys.forget(id_of(person))
        with self._database.writing() as connection:
            check_head(connection, self._database, self.keys, self.keys.head)
            # Also what an earlier call erased and was killed before it could say so.
            missing = self.keys.erased - erasures(connection)
            seq, digest = append(connection, self.keys, "erasure", {"count": missing}) if missing > 0 else (0, "")
        self.keys.saw(seq, digest)
        return found

    def rotate(self) -> int:
        """A new master key for looking people up; the number it has."""
        return self.keys.rotate()

    def _record(self, kind: str, facts: dict[str, Any]) -> Entry:
        with self._database.writing() as connection:
            check_head(connection, self._database, self.keys, self.keys.head)
            seq, digest = append(connection, self.keys, kind, facts)
            row = connection.execute(select(schema.entry).where(schema.entry.c.seq == seq)).one()
        self.keys.saw(seq, digest)
        return entry_of(row)
