"""The key file: whose pseudonym is whose. A small SQLite file, 0600, beside the ledger and never in it.

It holds a salt for each person (found by an HMAC of the id, so the file lists no ids either), the secret under which
draws are kept, the last head seen, and the signing key. Deleting a salt makes that person's rows nobody's.
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
from dosimeter.ledger.hash_chain import sign
from dosimeter.ledger.sealed_file import KeyFile, new_file, refusal, remove, seal

_AT_ONCE = 500
PRIVATE_BYTES = 32
"""Of an Ed25519 key."""
PSEUDONYM_BYTES = 16
"""Of the 32 of HMAC-SHA256: two people share a pseudonym with a chance of n² 2^-129."""

_TABLES = """
CREATE TABLE ring (name TEXT PRIMARY KEY, value BLOB NOT NULL, seal BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE person (lookup BLOB PRIMARY KEY, master INTEGER NOT NULL, salt BLOB NOT NULL, seal BLOB NOT NULL)
WITHOUT ROWID;
"""


class Keys(KeyFile):
    """An open key file: salts, masters, the secret of the draws, the last head seen, the signing key."""

    @classmethod
    def create(cls, path: Path, uuid: str, private: bytes = b"") -> Keys:
        """A new key file for the ledger `uuid`; refused where the name is taken."""
        try:
            new_file(path)
        except FileExistsError:
            raise refusal(path, "there is already a file of this name", "move it away or choose --keys") from None
        except OSError as error:
            raise refusal(path, f"the key file cannot be made ({error.strerror})", "choose another folder") from None
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
        """An existing key file of its owner alone."""
        try:
            found = path.stat()
        except OSError as error:
            raise refusal(
                path,
                f"the key file cannot be read ({error.strerror}): without it nobody can be told from anybody else",
                "put back its newest copy, or name it with --keys",
            ) from None
        if os.name != "nt" and stat.S_IMODE(found.st_mode) & 0o077:
            raise refusal(path, f"others can read the key file (mode {stat.S_IMODE(found.st_mode):04o})", "chmod 600")
        keys = cls(path)
        try:
            keys.ring("uuid")
        except BaseException:
            keys.close()
            raise
        return keys

    def saw(self, seq: int, digest: str) -> None:
        """Remember the newest head. It stands in the ledger already, so a failure here is none of the release: the key
        file then lags behind, which is allowed.
        """
        with suppress(Refusal), self._writing(durable=False) as connection:
            if (_count(self._ring(connection, "head").split(b":")[0].decode("ascii", "replace")) or 0) < seq:
                self._put(connection, "head", f"{seq}:{digest}".encode())

    @property
    def head(self) -> tuple[int, str]:
        """(seq, digest) of the newest entry seen through this key file."""
        seq, colon, digest = self.ring("head").decode("ascii", "replace").partition(":")
        number = _count(seq)
        if not colon or number is None:
            raise self._damaged("its head is no head")
        return number, digest

    @property
    def made(self) -> int:
        """How many salts were ever made; it never falls."""
        with self._using() as connection:
            return self._counted(connection, "made")

    @property
    def erased(self) -> int:
        """How many salts were ever erased."""
        with self._using() as connection:
            return self._counted(connection, "erased")

    def draw_mark(self, draw: bytes) -> str:
        """HMAC of a draw under the ledger's secret, in hex: a plain hash could be searched for likely noise."""
        return hmac.digest(self.ring("secret"), draw, "sha256").hex()

    def seal_of(self, digest: str) -> str:
        """What shows that an entry was written with this key file: its signature, or an HMAC where there is no key."""
        private = self.ring("private")
        if private and len(private) != PRIVATE_BYTES:
            raise self._damaged("its signing key was altered")
        if private:
            return sign(private, digest)
        mine = hmac.digest(self.ring("secret"), b"entries of the chain", "sha256")
        return hmac.digest(mine, digest.encode("ascii"), "sha256").hex()

    def pseudonyms(self, ids: Sequence[str]) -> dict[str, bytes]:
        """Pseudonyms of those ids that are known; nothing is written."""
        with self._using() as connection:
            return {i: _pseudonym(salt, i) for i, (_, salt) in self._salts(connection, ids).items()}

    def admit(self, ids: Sequence[str], known: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Pseudonyms of all of them, salts made and on the disk for the new ones. Call it under the ledger's lock.

        known: what `pseudonyms` said of them under the same lock.
        """
        if len(known) == len(ids) and not self._rotating():
            return known
        with self._writing() as connection:
            masters = self._masters(connection)
            salts = {i: salt for i, (_, salt) in self._salts(connection, ids).items()}
            self._move(connection, masters, salts)
            fresh = {i: secrets.token_bytes(16) for i in ids if i not in salts}
            if fresh:
                # A damaged row would make somebody known look new, and their total begin again.
                self._check(connection)
                newest = max(masters)
                rows = [_row(_lookup(masters[newest], i), newest, salt) for i, salt in fresh.items()]
                connection.executemany(_INSERT, rows)
                self._put(connection, "made", str(self._counted(connection, "made") + len(fresh)).encode())
        return {i: _pseudonym(salt, i) for i, salt in (salts | fresh).items()}

    def _rotating(self) -> bool:
        with self._using() as connection:
            return len(self._masters(connection)) > 1

    def _move(self, connection: sqlite3.Connection, masters: Mapping[int, bytes], salts: Mapping[str, bytes]) -> None:
        """Whoever stands under an older master stands under the newest from now on."""
        newest = max(masters)
        for number in set(masters) - {newest}:
            old = {_lookup(masters[number], i): (i, salt) for i, salt in salts.items()}
            for lookup, (i, salt) in old.items():
                if connection.execute("DELETE FROM person WHERE lookup = ?", (lookup,)).rowcount:
                    connection.execute(_INSERT, _row(_lookup(masters[newest], i), newest, salt))

    def forget(self, person: str) -> bool:
        """Erase a person's salt, also from the pages and the log of the file; False where nobody is known."""
        with self._writing() as connection:
            found = self._salts(connection, [person])
            for lookup, _ in found.values():
                connection.execute("DELETE FROM person WHERE lookup = ?", (lookup,))
                self._put(connection, "erased", str(self._counted(connection, "erased") + 1).encode())
        self._settle()
        return bool(found)

    def check(self) -> None:
        """Refuse a file in which anything is not as it was written."""
        with self._using() as connection:
            if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                raise self._damaged("integrity_check")
            self._check(connection)

    def rotate(self) -> int:
        """A new master for looking people up; they move to it as they are booked. Pseudonyms stay. Its number."""
        with self._writing() as connection:
            masters = self._masters(connection)
            used = {row[0] for row in connection.execute("SELECT DISTINCT master FROM person")}
            for old in set(masters) - used:
                connection.execute("DELETE FROM ring WHERE name = ?", (f"master {old}",))
            self._put(connection, f"master {max(masters) + 1}", secrets.token_bytes(32))
        self._settle()
        return max(masters) + 1

    def _salts(self, connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, tuple[bytes, bytes]]:
        """id -> (lookup, salt), the newest master first."""
        found: dict[str, tuple[bytes, bytes]] = {}
        masters = self._masters(connection)
        for number in sorted(masters, reverse=True):
            missing = {_lookup(masters[number], i): i for i in ids if i not in found}
            wanted = list(missing)
            for start in range(0, len(wanted), _AT_ONCE):
                some = wanted[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                query = f"SELECT lookup, master, salt, seal FROM person WHERE lookup IN ({marks})"
                for row in connection.execute(query, some):
                    self._sealed(row)
                    if not isinstance(row[2], bytes):
                        raise self._damaged("a salt of it was altered")
                    found[missing[row[0]]] = (row[0], row[2])
        return found

    def _counted(self, connection: sqlite3.Connection, name: str) -> int:
        number = _count(self._ring(connection, name).decode("ascii", "replace"))
        if number is None:
            raise self._damaged(f"its {name} is no number")
        return number

    def _masters(self, connection: sqlite3.Connection) -> dict[int, bytes]:
        rows = connection.execute("SELECT name FROM ring WHERE name LIKE 'master %'").fetchall()
        found = {_count(name[7:]): self._ring(connection, name) for (name,) in rows}
        if not found or None in found:
            raise self._damaged("its masters are missing or altered")
        return {number: value for number, value in found.items() if number is not None}

    def _check(self, connection: sqlite3.Connection) -> None:
        """Every row as it was written, and as many people as were made and not erased."""
        for row in connection.execute("SELECT name, value, seal FROM ring"):
            self._sealed(row)
        count = 0
        for row in connection.execute("SELECT lookup, master, salt, seal FROM person"):
            self._sealed(row)
            count += 1
        if count != self._counted(connection, "made") - self._counted(connection, "erased"):
            raise self._damaged("people are missing from it")


_INSERT = "INSERT INTO person VALUES (?, ?, ?, ?)"


def _row(lookup: bytes, master: int, salt: bytes) -> tuple[bytes, int, bytes, bytes]:
    return lookup, master, salt, seal(lookup, master, salt)


def _count(text: str) -> int | None:
    """A whole number as it was written, None where it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _lookup(master: bytes, person: str) -> bytes:
    return hmac.digest(master, person.encode("utf-8", "surrogatepass"), "sha256")


def _pseudonym(salt: bytes, person: str) -> bytes:
    return hmac.digest(salt, person.encode("utf-8", "surrogatepass"), "sha256")[:PSEUDONYM_BYTES]
