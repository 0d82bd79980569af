"""A sealed SQLite file of its owner alone: named values, transactions, and errors in one line.

Each row carries a seal against decay of the disk. Deleted rows are overwritten.
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

_PATIENCE = 120.0
_orphans: list[sqlite3.Connection] = []
"""Connections of the parent of a fork: closing one in the child, as the collector would, could drop a log in use."""


class KeyFile:
    """An open file. Safe among threads, processes and forks; nothing of it is kept in memory between calls."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._owner = 0

    def ring(self, name: str) -> bytes:
        """A value of the ring."""
        with self._using() as connection:
            return self._ring(connection, name)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """A whole copy under a new name, 0600. It also holds who is erased later: destroy old copies."""
        target = Path(path)
        try:
            new_file(target)
        except OSError as error:
            raise refusal(target, f"the copy cannot be made ({error.strerror})", "choose another name") from None
        try:
            with self._using() as connection, closing(sqlite3.connect(target)) as copy:
                connection.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")
        except BaseException:
            remove(target)
            raise

    def close(self) -> None:
        """Give the file back."""
        with self._lock:
            if self._connection is not None:
                if self._owner == os.getpid():
                    self._connection.close()
                else:
                    _orphans.append(self._connection)
            self._connection = None

    def _settle(self) -> None:
        """Empty the log. SQLite says that a reader was in the way, and does not raise it."""
        with self._using() as connection:
            if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                what = "somebody else was reading the key file, and what was deleted is still in its log"
                raise refusal(self.path, what, "do it again")

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._connected()
            except sqlite3.Error as error:
                raise _broken(self.path, error) from None
            except UnicodeDecodeError:
                raise self._damaged("not even text") from None

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._owner != os.getpid():
            _orphans.append(self._connection)
            self._connection = None
        if self._connection is None:
            self._connection = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=_PATIENCE
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

    def _ring(self, connection: sqlite3.Connection, name: str) -> bytes:
        row = connection.execute("SELECT name, value, seal FROM ring WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise self._damaged(f"its {name} is missing")
        self._sealed(row)
        if not isinstance(row[1], bytes):
            raise self._damaged(f"its {name} was altered")
        return row[1]

    def _put(self, connection: sqlite3.Connection, name: str, value: bytes) -> None:
        connection.execute("INSERT OR REPLACE INTO ring VALUES (?, ?, ?)", (name, value, seal(name, value)))

    def _sealed(self, row: tuple[object, ...]) -> None:
        if row[-1] != seal(*row[:-1]):
            raise self._damaged("a row of it was altered")

    def _damaged(self, what: str) -> Tampered:
        return Tampered(f"{safe_text(self.path, 120)}: the key file is damaged ({what}): put back its newest copy")


def new_file(path: Path) -> None:
    """An empty file of mode 0600 under a name that is free."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def remove(path: Path) -> None:
    """Take away a file that was just made, with its logs."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(OSError):
            os.unlink(f"{path}{suffix}")


def seal(*values: object) -> bytes:
    """Against decay of the disk, not against its owner: 8 bytes of SHA-256."""
    return hashlib.sha256(repr(values).encode()).digest()[:8]


def refusal(path: Path, what: str, todo: str) -> Refusal:
    """One line about a file."""
    return Refusal(f"{safe_text(path, 120)}: {what}: {todo}")


def _broken(path: Path, error: sqlite3.Error) -> Refusal:
    if isinstance(error, sqlite3.OperationalError):
        return refusal(path, f"the key file cannot be used ({safe_text(error)})", "check its folder, disk and owner")
    return Tampered(
        f"{safe_text(path, 120)}: not a key file, or damaged ({safe_text(error)}): put back its newest copy"
    )
