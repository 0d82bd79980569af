"""A small SQLite file that only its owner can read: named values, transactions, and errors as refusals.

Each row carries a seal, a checksum against disk errors. Deleted rows are overwritten.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from dosimeter.core.errors import Refusal, Tampered
from dosimeter.core.text import safe_text

_LOCK_TIMEOUT = 120.0
_orphans: list[sqlite3.Connection] = []
"""Connections opened before a fork: garbage collection would close them in the child and could delete a log in use."""


class SealedFile:
    """An open file. Safe with threads, processes and forks; its content is not kept in memory between calls."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._owner = 0

    def stored_value(self, name: str) -> bytes:
        """The value stored under this name."""
        with self._using() as connection:
            return self._stored_value(connection, name)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a full copy under a new name, mode 0600. It still holds people erased later: destroy old copies."""
        target = Path(path)
        try:
            new_file(target)
        except OSError as error:
            raise refusal(target, f"the copy cannot be created ({error.strerror})", "choose another name") from None
        try:
            with self._using() as connection, closing(sqlite3.connect(target)) as copy:
                connection.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")
        except BaseException:
            remove(target)
            raise

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                if self._owner == os.getpid():
                    self._connection.close()
                else:
                    _orphans.append(self._connection)
            self._connection = None

    def _truncate_log(self) -> None:
        """Empty the log. If a reader prevents it, SQLite returns that as a value and raises nothing."""
        with self._using() as connection:
            if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                problem = "another process was reading the key file, so deleted data is still in its log"
                raise refusal(self.path, problem, "run the command again")

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._open_connection()
            except sqlite3.Error as error:
                raise _refusal_of(self.path, error) from None
            except UnicodeDecodeError:
                raise self._integrity_error("not text") from None

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is not None and self._owner != os.getpid():
            _orphans.append(self._connection)
            self._connection = None
        if self._connection is None:
            self._connection = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=_LOCK_TIMEOUT
            )
            self._owner = os.getpid()
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA secure_delete = ON")
        return self._connection

    @contextmanager
    def _writing(self, durable: bool = True) -> Iterator[sqlite3.Connection]:
        with self._using() as connection:
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    def _stored_value(self, connection: sqlite3.Connection, name: str) -> bytes:
        row = connection.execute("SELECT name, value, seal FROM ring WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise self._integrity_error(f"its {name} is missing")
        self._check_seal(row)
        if not isinstance(row[1], bytes):
            raise self._integrity_error(f"its {name} was altered")
        return row[1]

    def _put(self, connection: sqlite3.Connection, name: str, value: bytes) -> None:
        connection.execute("INSERT OR REPLACE INTO ring VALUES (?, ?, ?)", (name, value, seal(name, value)))

    def _check_seal(self, row: tuple[object, ...]) -> None:
        if row[-1] != seal(*row[:-1]):
            raise self._integrity_error("a row was altered")

    def _integrity_error(self, problem: str) -> Tampered:
        return Tampered(f"{safe_text(self.path, 120)}: the key file is damaged ({problem}): restore its newest copy")


def new_file(path: Path) -> None:
    """Create an empty file of mode 0600; the name must be free."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def remove(path: Path) -> None:
    """Remove a file that was just created, with its logs."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(OSError):
            os.unlink(f"{path}{suffix}")


def seal(*values: object) -> bytes:
    """8 bytes of SHA-256: protects against disk errors, not against the owner."""
    return hashlib.sha256(repr(values).encode()).digest()[:8]


def refusal(path: Path, problem: str, remedy: str) -> Refusal:
    """A refusal that names a file."""
    return Refusal(f"{safe_text(path, 120)}: {problem}: {remedy}")


def _refusal_of(path: Path, error: sqlite3.Error) -> Refusal:
    if isinstance(error, sqlite3.OperationalError):
        return refusal(path, f"the key file cannot be used ({safe_text(error)})", "check its folder, disk and owner")
    return Tampered(f"{safe_text(path, 120)}: not a key file, or damaged ({safe_text(error)}): restore its newest copy")
