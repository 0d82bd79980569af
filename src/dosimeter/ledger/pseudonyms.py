"""The key file, which links people to pseudonyms: a small SQLite file, mode 0600, beside the ledger and never in it.

It holds a salt for each person (looked up by an HMAC of the id, so the file lists no ids), the secret for fingerprints
of noise, the newest head, and the signing key. Once a salt is deleted, that person's entries can no longer be linked to
anyone.
"""

from __future__ import annotations

import hmac
import os
import secrets
import sqlite3
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.ledger.hash_chain import sign
from dosimeter.ledger.sealed_file import SealedFile, new_file, refusal, remove, seal

_BATCH = 500
PRIVATE_BYTES = 32
"""Length of an Ed25519 private key."""
PSEUDONYM_BYTES = 16
"""Of the 32 bytes of HMAC-SHA256: two of n people share a pseudonym with probability n² 2^-129."""

_TABLES = """
CREATE TABLE ring (name TEXT PRIMARY KEY, value BLOB NOT NULL, seal BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE person (lookup BLOB PRIMARY KEY, master INTEGER NOT NULL, salt BLOB NOT NULL, seal BLOB NOT NULL)
WITHOUT ROWID;
"""


class Keys(SealedFile):
    """An open key file: salts, master keys, the ledger's secret, the newest head, the signing key."""

    @classmethod
    def create(cls, path: Path, uuid: str, private: bytes = b"") -> Keys:
        """Create a key file for the ledger `uuid`; refused if the name is taken."""
        try:
            new_file(path)
        except FileExistsError:
            remedy = f"move it away or choose another with {option('keys')}"
            raise refusal(path, "a file of this name already exists", remedy) from None
        except OSError as error:
            raise refusal(path, f"the key file cannot be created ({error.strerror})", "choose another folder") from None
        keys = cls(path)
        try:
            with keys._writing() as connection:
                for statement in _TABLES.split(";"):
                    connection.execute(statement)
                ring = {"uuid": uuid.encode(), "secret": secrets.token_bytes(32), "private": private}
                ring |= {"master 1": secrets.token_bytes(32), "made": b"0", "erased": b"0", "head": b"0:"}
                for name, value in ring.items():
                    keys._put(connection, name, value)
        except BaseException:
            keys.close()
            remove(path)
            raise
        return keys

    @classmethod
    def open(cls, path: Path) -> Keys:
        """Open an existing key file, which only its owner may be able to read."""
        try:
            status = path.stat()
        except OSError as error:
            raise refusal(
                path,
                f"the key file cannot be read ({error.strerror}): without it nobody can be identified",
                f"restore its newest copy, or name it with {option('keys')}",
            ) from None
        if os.name != "nt" and stat.S_IMODE(status.st_mode) & 0o077:
            raise refusal(path, f"others can read the key file (mode {stat.S_IMODE(status.st_mode):04o})", "chmod 600")
        keys = cls(path)
        try:
            keys.stored_value("uuid")
        except BaseException:
            keys.close()
            raise
        return keys

    def remember_head(self, seq: int, digest: str) -> None:
        """Remember the newest head. A failure is ignored: the ledger holds the entry, and the key file may lag."""
        with suppress(Refusal), self._writing(durable=False) as connection:
            if (_count(self._stored_value(connection, "head").split(b":")[0].decode("ascii", "replace")) or 0) < seq:
                self._put(connection, "head", f"{seq}:{digest}".encode())

    @property
    def head(self) -> tuple[int, str]:
        """(seq, digest) of the newest entry that was written or checked with this key file."""
        seq, colon, digest = self.stored_value("head").decode("ascii", "replace").partition(":")
        number = _count(seq)
        if not colon or number is None:
            raise self._integrity_error("its head cannot be read")
        return number, digest

    @property
    def salts_created(self) -> int:
        """The number of salts ever created; it never decreases."""
        with self._using() as connection:
            return self._counter(connection, "made")

    @property
    def salts_erased(self) -> int:
        """The number of salts ever erased."""
        with self._using() as connection:
            return self._counter(connection, "erased")

    def noise_mark(self, fingerprint: bytes) -> str:
        """HMAC of the noise under the ledger's secret, in hex: a plain hash could be searched for likely noise."""
        return hmac.digest(self.stored_value("secret"), fingerprint, "sha256").hex()

    def seal_of(self, digest: str) -> str:
        """The seal of an entry written with this key file: its signature, or an HMAC without a signing key."""
        private = self.stored_value("private")
        if private and len(private) != PRIVATE_BYTES:
            raise self._integrity_error("its signing key was altered")
        if private:
            return sign(private, digest)
        entry_key = hmac.digest(self.stored_value("secret"), b"entries of the chain", "sha256")
        return hmac.digest(entry_key, digest.encode("ascii"), "sha256").hex()

    def pseudonyms(self, ids: Sequence[str]) -> dict[str, bytes]:
        """The pseudonyms of the ids that are known; nothing is written."""
        with self._using() as connection:
            return {i: _pseudonym(salt, i) for i, (_, salt) in self._salts(connection, ids).items()}

    def admit(self, ids: Sequence[str], known: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """The pseudonyms of all ids; salts for new ones are created and stored. Call it under the ledger's lock.

        known: the result of `pseudonyms` for them under the same lock.
        """
        if len(known) == len(ids) and not self._has_old_masters():
            return known
        with self._writing() as connection:
            masters = self._masters(connection)
            salts = {i: salt for i, (_, salt) in self._salts(connection, ids).items()}
            self._move_to_newest(connection, masters, salts)
            fresh = {i: secrets.token_bytes(16) for i in ids if i not in salts}
            if fresh:
                # With a damaged row a known person would look new, and their total would start again at zero.
                self._check(connection)
                newest = max(masters)
                rows = [_row(_lookup(masters[newest], i), newest, salt) for i, salt in fresh.items()]
                connection.executemany(_INSERT, rows)
                self._put(connection, "made", str(self._counter(connection, "made") + len(fresh)).encode())
        return {i: _pseudonym(salt, i) for i, salt in (salts | fresh).items()}

    def _has_old_masters(self) -> bool:
        with self._using() as connection:
            return len(self._masters(connection)) > 1

    def _move_to_newest(
        self, connection: sqlite3.Connection, masters: Mapping[int, bytes], salts: Mapping[str, bytes]
    ) -> None:
        """Move people who are stored under an older master key to the newest."""
        newest = max(masters)
        for number in set(masters) - {newest}:
            old = {_lookup(masters[number], i): (i, salt) for i, salt in salts.items()}
            for lookup, (i, salt) in old.items():
                if connection.execute("DELETE FROM person WHERE lookup = ?", (lookup,)).rowcount:
                    connection.execute(_INSERT, _row(_lookup(masters[newest], i), newest, salt))

    def forget(self, person: str) -> bool:
        """Erase a person's salt, also from the pages and the log of the file; False if the person is unknown."""
        with self._writing() as connection:
            salts = self._salts(connection, [person])
            for lookup, _ in salts.values():
                connection.execute("DELETE FROM person WHERE lookup = ?", (lookup,))
                self._put(connection, "erased", str(self._counter(connection, "erased") + 1).encode())
        self._truncate_log()
        return bool(salts)

    def check(self) -> None:
        """Refuse a file in which anything was altered."""
        with self._using() as connection:
            if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                raise self._integrity_error("integrity_check")
            self._check(connection)

    def rotate(self) -> int:
        """Create a new master key for lookups; its number. People move to it when booked; pseudonyms stay."""
        with self._writing() as connection:
            masters = self._masters(connection)
            used = {row[0] for row in connection.execute("SELECT DISTINCT master FROM person")}
            for old in set(masters) - used:
                connection.execute("DELETE FROM ring WHERE name = ?", (f"master {old}",))
            self._put(connection, f"master {max(masters) + 1}", secrets.token_bytes(32))
        self._truncate_log()
        return max(masters) + 1

    def _salts(self, connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, tuple[bytes, bytes]]:
        """id -> (lookup, salt), the newest master first."""
        salts: dict[str, tuple[bytes, bytes]] = {}
        masters = self._masters(connection)
        for number in sorted(masters, reverse=True):
            missing = {_lookup(masters[number], i): i for i in ids if i not in salts}
            lookups = list(missing)
            for start in range(0, len(lookups), _BATCH):
                batch = lookups[start : start + _BATCH]
                marks = ",".join("?" * len(batch))
                query = f"SELECT lookup, master, salt, seal FROM person WHERE lookup IN ({marks})"
                for row in connection.execute(query, batch):
                    self._check_seal(row)
                    if not isinstance(row[2], bytes):
                        raise self._integrity_error("a salt was altered")
                    salts[missing[row[0]]] = (row[0], row[2])
        return salts

    def _counter(self, connection: sqlite3.Connection, name: str) -> int:
        number = _count(self._stored_value(connection, name).decode("ascii", "replace"))
        if number is None:
            raise self._integrity_error(f"its counter {name} is not a number")
        return number

    def _masters(self, connection: sqlite3.Connection) -> dict[int, bytes]:
        rows = connection.execute("SELECT name FROM ring WHERE name LIKE 'master %'").fetchall()
        masters = {_count(name[7:]): self._stored_value(connection, name) for (name,) in rows}
        if not masters or None in masters:
            raise self._integrity_error("its master keys are missing or altered")
        return {number: value for number, value in masters.items() if number is not None}

    def _check(self, connection: sqlite3.Connection) -> None:
        """Check that every row is unaltered, and that the number of people is salts created minus salts erased."""
        for row in connection.execute("SELECT name, value, seal FROM ring"):
            self._check_seal(row)
        count = 0
        for row in connection.execute("SELECT lookup, master, salt, seal FROM person"):
            self._check_seal(row)
            count += 1
        if count != self._counter(connection, "made") - self._counter(connection, "erased"):
            raise self._integrity_error("people are missing")


_INSERT = "INSERT INTO person VALUES (?, ?, ?, ?)"


def _row(lookup: bytes, master: int, salt: bytes) -> tuple[bytes, int, bytes, bytes]:
    return lookup, master, salt, seal(lookup, master, salt)


def _count(text: str) -> int | None:
    """The whole number in the text, None if there is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _lookup(master: bytes, person: str) -> bytes:
    return hmac.digest(master, person.encode("utf-8", "surrogatepass"), "sha256")


def _pseudonym(salt: bytes, person: str) -> bytes:
    return hmac.digest(salt, person.encode("utf-8", "surrogatepass"), "sha256")[:PSEUDONYM_BYTES]
