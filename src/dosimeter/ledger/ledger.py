"""The ledger: an append-only record of releases and of each person's dose from them.

It is tamper-evident, not tamper-proof: an administrator with the keys can rewrite it. Publishing the head hash, for
instance in a report, lets others detect that.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import uuid4

from sqlalchemy import select

from dosimeter.core.accounts import Account, Bookable, Booking, LedgerLimit, LimitViolation, parts_of
from dosimeter.core.accounts import text_of as id_of
from dosimeter.core.errors import Refusal
from dosimeter.core.face import command_or_call, option
from dosimeter.core.text import safe_text
from dosimeter.ledger import booking as bookings
from dosimeter.ledger import queries, schema
from dosimeter.ledger.create import Target, budget_to_dict, check_key_file, create_file, create_tables, keys_path
from dosimeter.ledger.database import Database
from dosimeter.ledger.entries import (
    AccountTotals,
    BookingReceipt,
    Entry,
    PersonStatement,
    ReleaseComparison,
    Verification,
    short_head,
)
from dosimeter.ledger.entry_log import append, budgets, check_head, count_erased, entry_of, export, newest
from dosimeter.ledger.hash_chain import new_signing_key
from dosimeter.ledger.migrations import migrate
from dosimeter.ledger.pseudonyms import Keys
from dosimeter.ledger.records import read_bytes, read_text
from dosimeter.ledger.sealed_file import remove
from dosimeter.ledger.verify import verify


class Ledger:
    """An open ledger: releases, each person's doses from them, and limits on each person's total.

    Create one with `Ledger.create` or open one with `Ledger.open`, and use it in a `with` statement or close it.

    Notes
    -----
    Entries form a hash chain. Ids are never stored: the database holds pseudonyms, which the key file links to people.
    Totals are sums in the additive coordinate of each notion (η², μ², nats); events of differential privacy are
    composed when they are read. docs/explanation/ledger.md has the file format and the guarantees.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from dosimeter.core.dose import Dose
    >>> from dosimeter.core.notion import FISHER
    >>> from dosimeter.core.release import Recipe
    >>> dose = Dose.of_figures(FISHER, "person", ["ann", "bob"], [0.3, 0.1])
    >>> june = Booking("june", Recipe("weights", "Gaussian(sigma=0.5)"), b"the model", (dose,))
    >>> with TemporaryDirectory() as folder, Ledger.create(f"{folder}/ledger.db", [LedgerLimit("fil", 1.0)]) as ledger:
    ...     receipt = ledger.book(june)
    ...     receipt.fresh, round(ledger.person("ann").totals[0].reading, 9), ledger.verify().entries
    (True, 0.3, 2)
    """

    def __init__(self, database: Database, keys: Keys | None, keys_path: Path) -> None:
        self._database = database
        self._keys = keys
        self.keys_path = keys_path

    @classmethod
    def create(
        cls, target: Target, budgets: Sequence[LedgerLimit | str] = (), keys: Target | None = None, sign: bool = False
    ) -> Ledger:
        """Create a new ledger and its key file.

        Parameters
        ----------
        target : path or str
            A file path (SQLite) or a postgresql:// URL.
        budgets : sequence of LedgerLimit or str
            Limits on each person's total, at most one per notion, such as "fil=1" or "eps=8@1e-5".
        keys : path, optional
            The key file. By default $DOSIMETER_LEDGER_KEYS, else a file beside the ledger.
        sign : bool
            Sign every entry with a new Ed25519 key, whose private half is stored in the key file.

        Returns
        -------
        Ledger

        Raises
        ------
        Refusal
            If the ledger or the key file exists already, or a notion has two budgets.
        """
        database = Database(target)
        path = keys_path(database, keys)
        limits = tuple(map(_limit, budgets))
        if len({limit.key for limit in limits}) != len(limits):
            raise Refusal("pass at most one budget per notion")
        if database.is_file:
            create_file(database)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
        key_file: Keys | None = None
        try:
            uuid = uuid4().hex
            private, public = new_signing_key() if sign else (b"", "")
            key_file = Keys.create(path, uuid, private)
            seq, digest = create_tables(database, key_file, uuid, public, limits)
            key_file.remember_head(seq, digest)
        except BaseException:
            if key_file is not None:
                key_file.close()
                remove(path)
            database.close()
            if database.is_file:
                remove(database.path)
            raise
        return cls(database, key_file, path)

    @classmethod
    def open(cls, target: Target, keys: Target | None = None, *, without_keys: bool = False) -> Ledger:
        """Open an existing ledger, migrated to this version's tables.

        Parameters
        ----------
        target : path or str
            A file path (SQLite) or a postgresql:// URL.
        keys : path, optional
            The key file. By default $DOSIMETER_LEDGER_KEYS, else a file beside the ledger.
        without_keys : bool
            Accept a missing key file. The ledger can then be listed, verified and exported, but nobody can be booked or
            looked up, and a rollback to an older copy of the database cannot be detected.

        Returns
        -------
        Ledger

        Raises
        ------
        Refusal
            If there is no ledger, or the key file is missing or belongs to another ledger.
        Tampered
            If the newest entry was altered, or the key file remembers an entry that the database does not hold.
        """
        database = Database(target)
        database.check_file()
        path = keys_path(database, keys)
        key_file: Keys | None = None
        try:
            if not without_keys or path.exists():
                key_file = Keys.open(path)
            migrate(database)
            remembered = key_file.head if key_file is not None else (0, "")
            with database.reading() as connection:
                check_key_file(connection, database, key_file, remembered)
        except BaseException:
            if key_file is not None:
                key_file.close()
            database.close()
            raise
        return cls(database, key_file, path)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the files and connections."""
        if self._keys is not None:
            self._keys.close()
        self._database.close()

    @property
    def keys(self) -> Keys:
        """The key file; refused if the ledger was opened without it."""
        if self._keys is None:
            problem = f"its key file {safe_text(self.keys_path, 120)} is missing; without it nobody can be identified"
            raise self._database.refusal(problem, f"restore its newest copy, or name it with {option('keys')}")
        return self._keys

    @property
    def label(self) -> str:
        """The name of the ledger on one line that is safe to print, without a password."""
        return self._database.label

    def book(
        self,
        release: Booking | Bookable,
        *,
        name: str | None = None,
        to: str = "",
        note: str = "",
        override: str = "",
    ) -> BookingReceipt:
        """Book a release: check the limits and store doses and artefact in one transaction.

        Parameters
        ----------
        release : Released or Booking
            What `dm.fix`, `dm.components`, `dm.label` or `dm.federate` returned; or a complete booking.
        name : str
            The name of the entry. Needed unless `release` is a Booking.
        to, note, override : str
            The receiver, a note, and why the release may exceed a limit; all recorded.

        Returns
        -------
        BookingReceipt
            If the name was booked before with the same recipe and doses, the artefact stored then.

        Raises
        ------
        OverBudget
            If a person would exceed a limit and the booking gives no reason to override it. Nothing is written.
        Refusal
            If the name was booked with another recipe or other doses, or the noise or the bytes were booked before.
        Tampered
            If the newest entry was altered, or the database was rolled back to an older copy.
        """
        return bookings.book(self._database, self.keys, _booking(release, name, to, note, override))

    def preview(self, booking: Booking) -> tuple[LimitViolation, ...]:
        """The limits that this booking would violate. Nothing is written.

        Parameters
        ----------
        booking : Booking
            The release that is planned.

        Returns
        -------
        tuple of LimitViolation
            Empty if the booking is within all limits. Internal: it depends on the data.
        """
        return bookings.preview(self._database, self.keys, parts_of(booking.doses))

    @property
    def budgets(self) -> tuple[LedgerLimit, ...]:
        """The limits in force."""
        with self._database.reading() as connection:
            return budgets(connection)

    def set_budget(self, budget: LedgerLimit | str, note: str = "") -> Entry:
        """Set the limit of a notion, higher or lower, and record it in the chain.

        Parameters
        ----------
        budget : LedgerLimit or str
            The new limit, such as "fil=1". It may be below existing totals: see `totals`.
        note : str
            A note of at most 2000 characters.

        Returns
        -------
        Entry
            The entry that records it.
        """
        if len(note) > 2000:
            raise Refusal(f"the note has {len(note)} characters; use at most 2000")
        facts = {"budgets": [budget_to_dict(_limit(budget))], "note": note}
        return self._record("budget", facts)

    @property
    def head(self) -> str:
        """The short head: number and first digits of the digest of the newest entry."""
        with self._database.reading() as connection:
            last = newest(connection)
            return (
                short_head(0, "") if last is None else short_head(last.seq, read_text(last.digest, "the newest entry"))
            )

    def entries(self) -> tuple[Entry, ...]:
        """All entries of the chain, the oldest first."""
        with self._database.reading() as connection:
            return tuple(map(entry_of, connection.execute(select(schema.entry).order_by(schema.entry.c.seq))))

    def releases(self) -> tuple[Entry, ...]:
        """The releases, the oldest first."""
        return tuple(entry for entry in self.entries() if entry.kind == "release")

    def entry(self, name: str) -> Entry:
        """The entry of a release.

        Parameters
        ----------
        name : str
            The name under which it was booked.

        Returns
        -------
        Entry

        Raises
        ------
        Refusal
            If there is no release of this name.
        """
        with self._database.reading() as connection:
            row = connection.execute(select(schema.entry).where(schema.entry.c.name == name)).first()
        if row is None:
            todo = f"see {command_or_call('dosimeter ledger list', 'ledger.entries()')}"
            raise self._database.refusal(f"there is no release {safe_text(name)}", todo)
        return entry_of(row)

    def artefact(self, name: str) -> bytes:
        """The released bytes.

        Parameters
        ----------
        name : str
            The name under which the release was booked.

        Returns
        -------
        bytes

        Raises
        ------
        Refusal
            If there is no release of this name.
        """
        seq = self.entry(name).seq
        with self._database.reading() as connection:
            data = connection.execute(select(schema.artefact.c.data).where(schema.artefact.c.seq == seq)).scalar()
            return read_bytes(data, f"the artefact of entry {seq}")

    def person(self, person: Hashable) -> PersonStatement:
        """Everything booked for one person, as for a right-of-access request.

        Parameters
        ----------
        person : hashable
            The id.

        Returns
        -------
        PersonStatement
            The person's releases and totals; empty for an unknown id. Internal.

        Raises
        ------
        Refusal
            If the ledger was opened without its key file.
        """
        text = id_of(person)
        known = self.keys.pseudonyms([text])
        if text not in known:
            return PersonStatement("")
        with self._database.reading() as connection:
            return queries.person_statement(connection, known[text])

    def totals(self, account: Account | None = None) -> tuple[AccountTotals, ...]:
        """The totals of all people by account, under shortened pseudonyms.

        Parameters
        ----------
        account : Account, optional
            By default all accounts.

        Returns
        -------
        tuple of AccountTotals
            The highest totals first. Internal.
        """
        with self._database.reading() as connection:
            return queries.totals(connection, account)

    def compare(self, first: str, second: str) -> tuple[ReleaseComparison, ...]:
        """A comparison of two releases, account by account.

        Parameters
        ----------
        first, second : str
            The names of the releases.

        Returns
        -------
        tuple of ReleaseComparison
            Internal.

        Raises
        ------
        Refusal
            If there is no release of one of the names.
        """
        entries = self.entry(first), self.entry(second)
        with self._database.reading() as connection:
            return queries.compare(connection, *entries)

    def verify(self, public_key: str | None = None) -> Verification:
        """Verify every row and artefact against the chain, and the chain against the head in the key file.

        Parameters
        ----------
        public_key : str, optional
            An Ed25519 key in hex, which must have signed the ledger.

        Returns
        -------
        Verification

        Raises
        ------
        Tampered
            If anything was altered, removed, added or rolled back to an older copy.
        """
        remembered = self._keys.head if self._keys is not None else (0, "")
        with self._database.reading() as connection:
            seal = None if self._keys is None else self._keys.seal_of
            verification = verify(connection, self._database, public_key or "", seal)
            if self._keys is not None:
                check_head(connection, self._database, self._keys, remembered)
                self._keys.check()
            return verification

    def export(self) -> dict[str, Any]:
        """The whole ledger as plain values. Internal.

        Returns
        -------
        dict
            Entries, and doses under pseudonyms; no ids and no artefacts.
        """
        with self._database.reading() as connection:
            return export(connection)

    def erase(self, person: Hashable) -> bool:
        """Erase the link between a person and their entries; the hash chain stays intact.

        Parameters
        ----------
        person : hashable
            The id. If it is booked again later, its total starts at zero.

        Returns
        -------
        bool
            False if the id is unknown.
        """
        with self._database.reading() as connection:  # an unreadable ledger is refused before anything is erased
            count_erased(connection)
        known = self.keys.forget(id_of(person))
        with self._database.writing() as connection:
            check_head(connection, self._database, self.keys, self.keys.head)
            # Includes erasures by an earlier call that was killed before it could record them.
            missing = self.keys.salts_erased - count_erased(connection)
            seq, digest = append(connection, self.keys, "erasure", {"count": missing}) if missing > 0 else (0, "")
        self.keys.remember_head(seq, digest)
        return known

    def rotate(self) -> int:
        """Create a new master key for looking people up.

        Returns
        -------
        int
            Its number. People move to it when they are next booked; pseudonyms stay.
        """
        return self.keys.rotate()

    def _record(self, kind: str, facts: dict[str, Any]) -> Entry:
        with self._database.writing() as connection:
            check_head(connection, self._database, self.keys, self.keys.head)
            seq, digest = append(connection, self.keys, kind, facts)
            row = connection.execute(select(schema.entry).where(schema.entry.c.seq == seq)).one()
        self.keys.remember_head(seq, digest)
        return entry_of(row)


def _booking(release: Booking | Bookable, name: str | None, to: str, note: str, override: str) -> Booking:
    """A complete booking of what a verb released."""
    if isinstance(release, Booking):
        if name is not None or to or note or override:
            raise Refusal("a Booking has its own name, receiver and notes: pass them there")
        return release
    if name is None:
        raise Refusal("a ledger books a release under a name: pass name=")
    if not hasattr(release, "doses") or not hasattr(release, "artefact"):
        kind = safe_text(type(release).__name__)
        raise Refusal(f"a {kind} is no release: book what fix, components, label or federate return")
    if not release.doses:
        raise Refusal("this release has no doses by person: name the column that says whose row it is (person=)")
    fingerprint = release.noise_fingerprint
    return Booking(name, release.recipe, release.artefact, release.doses, fingerprint, note, to, override)


def _limit(budget: LedgerLimit | str) -> LedgerLimit:
    return LedgerLimit.parse(budget) if isinstance(budget, str) else budget
