"""The database behind a ledger: a path (SQLite) or a URL (PostgreSQL), its transactions, and its errors as refusals.

A writer has an exclusive lock from its first statement: BEGIN IMMEDIATE on SQLite, the lock of one row on PostgreSQL.
Other writers wait for it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Pool, create_engine, event, exc, func, select, text
from sqlalchemy.engine import URL, make_url

from dosimeter.core.errors import Refusal, StorageFault, Tampered
from dosimeter.core.face import command_or_call
from dosimeter.core.text import safe_text
from dosimeter.ledger import schema

# SQLAlchemy logs a traceback for a connection to a damaged file that it cannot close; our own message is enough.
logging.getLogger("sqlalchemy").addHandler(logging.NullHandler())
_orphans: list[Pool] = []
LOCK_TIMEOUT = 120
"""Seconds that a writer waits for other writers."""
_CREATION = 0x646F7365
"""The advisory lock under which tables are created."""
_MAGIC = b"SQLite format 3\x00"

_RETRY = "book again under the same name: a release is counted once"


def _create() -> str:
    """What makes a ledger."""
    return command_or_call("dosimeter ledger init", "dosimeter.Ledger.create(path)")


class Database:
    """The database of a ledger. `target` is a path, a sqlite:/// URL or a postgresql:// URL."""

    def __init__(self, target: str | os.PathLike[str]) -> None:
        self.url = _url_of(target)
        self._owner = os.getpid()
        self._engine = _engine_of(self.url)
        self._file: tuple[int, int] | None = None

    @property
    def is_file(self) -> bool:
        """Whether it is SQLite, one file."""
        return self.url.get_backend_name() == "sqlite"

    @property
    def path(self) -> Path:
        """The file of an SQLite ledger."""
        return Path(self.url.database or "")

    @property
    def label(self) -> str:
        """The name of the ledger on one line, without a password."""
        return safe_text(self.path if self.is_file else self.url.render_as_string(hide_password=True), 120)

    def refusal(self, problem: str, remedy: str) -> Refusal:
        """A refusal that names this ledger."""
        return StorageFault(f"{self.label}: {problem}: {remedy}")

    def integrity_error(self, problem: str) -> Tampered:
        """An integrity error that names this ledger."""
        return Tampered(f"{self.label}: {problem}")

    def default_keys(self) -> Path:
        """`<file>.keys`; for a server, a file in the user's data folder, named by host and database."""
        if self.is_file:
            return self.path.with_name(self.path.name + ".keys")
        from platformdirs import user_data_path

        server = f"{self.url.host or self.url.query.get('host', '')}:{self.url.port or 5432}/{self.url.database}"
        return user_data_path("dosimeter") / f"{sha256(server.encode()).hexdigest()[:16]}.keys"

    def check_file(self) -> None:
        """Refuse a file that is not an SQLite file, before SQLite opens it."""
        if not self.is_file:
            return
        try:
            status = self.path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise self.refusal("not a regular file", "name the ledger's file")
            self._file = (status.st_dev, status.st_ino)
            with self.path.open("rb") as file:
                start = file.read(16)
        except OSError as error:
            remedy = f"create one with {_create()}" if isinstance(error, FileNotFoundError) else "check the path"
            raise self.refusal(f"the ledger cannot be read ({error.strerror})", remedy) from None
        if start != _MAGIC:
            raise self.refusal("this file is not a ledger", f"name another, or create one with {_create()}")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that reads one snapshot of the ledger."""
        with self._translate_errors(), self._engine_here().connect() as connection:
            if not self.is_file:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self, *, new: bool = False) -> Iterator[Connection]:
        """An exclusive transaction, committed if the block succeeds. new: it creates the tables."""
        with self._translate_errors(), self._engine_here().connect() as connection:
            connection = connection.execution_options(dosimeter_writes=True)
            with connection.begin():
                if self.is_file:
                    self._check_same_file()
                else:
                    self._lock(connection, new)
                yield connection

    def _check_same_file(self) -> None:
        """Refuse to write if the path names another file than at the first time: what is open would be lost."""
        try:
            status = self.path.stat()
        except OSError:
            raise self.refusal("the ledger was removed while it was open", "restore its newest copy") from None
        file = (status.st_dev, status.st_ino)
        self._file = self._file or file
        if file != self._file:
            raise self.integrity_error("another file was put in its place while it was open: open the ledger again")

    def _lock(self, connection: Connection, new: bool) -> None:
        """Wait for the other writers on PostgreSQL, as BEGIN IMMEDIATE does on SQLite."""
        connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}s'"))
        if new:
            connection.execute(select(func.pg_advisory_xact_lock(_CREATION)))
        elif len(connection.execute(select(schema.ledger.c.id).with_for_update()).all()) != 1:
            raise self.integrity_error("the row that names the ledger is missing or altered")

    def enable_wal(self) -> None:
        """Use a write-ahead log, so that readers never wait and a commit costs one disk flush."""
        with self._translate_errors(), self._engine_here().connect() as connection:
            connection.connection.driver_connection.execute("PRAGMA journal_mode = WAL")  # type: ignore[union-attr]

    def close(self) -> None:
        """Close the connections."""
        self._engine_here().dispose()

    def _engine_here(self) -> Engine:
        if self._owner != os.getpid():
            # After a fork, the parent's connections must be neither closed nor garbage-collected here.
            _orphans.append(self._engine.pool)
            self._engine.dispose(close=False)
            self._owner = os.getpid()
        return self._engine

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (exc.SQLAlchemyError, sqlite3.Error) as error:
            raise self._refusal_of(error) from None
        except (UnicodeDecodeError, JSONDecodeError) as error:
            # For a damaged file even the error message may not be text.
            raise self.integrity_error(f"a row cannot be read ({type(error).__name__}): altered or damaged") from None

    def _refusal_of(self, error: exc.SQLAlchemyError | sqlite3.Error) -> Refusal:
        message = safe_text(str(getattr(error, "orig", error)).strip().split("\n")[0], 160)
        if "locked" in message or "lock timeout" in message:
            return self.refusal(f"another writer has locked the ledger for {LOCK_TIMEOUT} s", _RETRY)
        if isinstance(error, exc.OperationalError | exc.InterfaceError) and not self.is_file:
            return self.refusal(f"the database cannot be reached ({message})", _RETRY)
        if any(part in message for part in ("full", "readonly", "unable to open", "I/O")):
            return self.refusal(f"the ledger cannot be written or read ({message})", "check its disk, folder and owner")
        if "no such table" in message or "does not exist" in message:
            return self.refusal("this database holds no ledger", f"create one with {_create()}")
        return self.integrity_error(f"the database is corrupt ({message}): restore a copy")


def _url_of(target: str | os.PathLike[str]) -> URL:
    text = os.fspath(target)
    if "://" not in text:
        if not text or "\x00" in text:
            raise Refusal("the name of a ledger must be a path or a URL")
        return URL.create("sqlite", database=os.path.abspath(text))
    try:
        url = make_url(text)
    except (exc.ArgumentError, ValueError):
        raise Refusal("the ledger's URL cannot be read: write a path, or postgresql://user@host/database") from None
    kind = url.drivername.split("+")[0]
    if kind == "sqlite":
        if not url.database or url.database == ":memory:" or url.query:
            raise Refusal("an SQLite ledger is a file: pass its path")
        return URL.create("sqlite", database=os.path.abspath(url.database))
    if kind in ("postgres", "postgresql"):
        return url.set(drivername="postgresql+psycopg")
    raise Refusal(f"a ledger is a path (SQLite) or a postgresql:// URL, not {safe_text(kind, 30)}://")


def _engine_of(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        try:
            return create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 10})
        except ModuleNotFoundError:
            raise Refusal("a ledger on PostgreSQL needs psycopg: pip install 'dosimeter[postgres]'") from None
    engine = create_engine(url, connect_args={"timeout": LOCK_TIMEOUT, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _: Any) -> None:
        # By default the driver begins a transaction itself, and only at the first change.
        connection.isolation_level = None
        for pragma in ("synchronous = FULL", "foreign_keys = ON", "trusted_schema = OFF", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if connection.get_execution_options().get("dosimeter_writes"):
            _begin_immediate(connection.connection.driver_connection)
        else:
            connection.exec_driver_sql("BEGIN")

    return engine


def _begin_immediate(driver: Any) -> None:
    """BEGIN IMMEDIATE as soon as the lock is free.

    SQLite's own wait sleeps up to 100 ms at a time: with 16 writers the database was idle most of the time.
    """
    driver.execute("PRAGMA busy_timeout = 0")
    end = time.monotonic() + LOCK_TIMEOUT
    try:
        while True:
            try:
                driver.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
            time.sleep(0.002)
    finally:
        driver.execute(f"PRAGMA busy_timeout = {1000 * LOCK_TIMEOUT}")
