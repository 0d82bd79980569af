"""The database behind a ledger: a path (SQLite) or a URL (PostgreSQL), its transactions, and its errors in one line.

A writer is alone from its first statement on: BEGIN IMMEDIATE on SQLite, the lock of one row on PostgreSQL. Everybody
else waits; nobody is told that the database is locked.
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

from dosimeter.core.errors import Refusal, Tampered
from dosimeter.core.text import safe_text
from dosimeter.ledger import schema

# What SQLAlchemy cannot close of a damaged file it would print, with a traceback, beside our own line.
logging.getLogger("sqlalchemy").addHandler(logging.NullHandler())
_orphans: list[Pool] = []
PATIENCE = 120
"""Seconds that a writer waits for the others."""
_CREATION = 0x646F7365
"""The advisory lock under which tables are made."""
_MAGIC = b"SQLite format 3\x00"
_AGAIN = "book again under the same name: a release is spent once"


class Database:
    """Where a ledger lives. `target` is a path, a sqlite:/// URL or a postgresql:// URL."""

    def __init__(self, target: str | os.PathLike[str]) -> None:
        self.url = _url_of(target)
        self._owner = os.getpid()
        self._engine = _engine_of(self.url)

    @property
    def is_file(self) -> bool:
        """SQLite, that is: one file."""
        return self.url.get_backend_name() == "sqlite"

    @property
    def path(self) -> Path:
        """The file of an SQLite ledger."""
        return Path(self.url.database or "")

    @property
    def label(self) -> str:
        """The ledger's name on one line, without a password."""
        return safe_text(self.path if self.is_file else self.url.render_as_string(hide_password=True), 120)

    def refusal(self, what: str, todo: str) -> Refusal:
        """One line about this ledger."""
        return Refusal(f"{self.label}: {what}: {todo}")

    def tampered(self, what: str) -> Tampered:
        """One line about this ledger's integrity."""
        return Tampered(f"{self.label}: {what}")

    def default_keys(self) -> Path:
        """`<file>.keys`, or for a server a file in the user's data folder that is named by host and database."""
        if self.is_file:
            return self.path.with_name(self.path.name + ".keys")
        from platformdirs import user_data_path

        server = f"{self.url.host or self.url.query.get('host', '')}:{self.url.port or 5432}/{self.url.database}"
        return user_data_path("dosimeter") / f"{sha256(server.encode()).hexdigest()[:16]}.keys"

    def check_file(self) -> None:
        """Refuse, before SQLite opens it, what is no SQLite file."""
        if not self.is_file:
            return
        try:
            found = self.path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise self.refusal("not a regular file", "name the ledger's file")
            with self.path.open("rb") as file:
                start = file.read(16)
        except OSError as error:
            todo = "make one with dosimeter ledger init" if isinstance(error, FileNotFoundError) else "check the path"
            raise self.refusal(f"the ledger cannot be read ({error.strerror})", todo) from None
        if start != _MAGIC:
            raise self.refusal("this file is not a ledger", "name another, or make one with dosimeter ledger init")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One snapshot of the book."""
        with self._translated(), self._connected().connect() as connection:
            if not self.is_file:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self, *, new: bool = False) -> Iterator[Connection]:
        """A transaction alone; kept when the block ends well. new: the tables are made in it, so no row can be held."""
        with self._translated(), self._connected().connect() as connection:
            connection = connection.execution_options(dosimeter_writes=True)
            with connection.begin():
                if not self.is_file:
                    self._hold(connection, new)
                yield connection

    def _hold(self, connection: Connection, new: bool) -> None:
        """Wait for the other writers on PostgreSQL, as BEGIN IMMEDIATE does on SQLite."""
        connection.execute(text(f"SET LOCAL lock_timeout = '{PATIENCE}s'"))
        if new:
            connection.execute(select(func.pg_advisory_xact_lock(_CREATION)))
        elif len(connection.execute(select(schema.ledger.c.id).with_for_update()).all()) != 1:
            raise self.tampered("the row that names the ledger is missing or altered")

    def keep_a_log(self) -> None:
        """SQLite writes ahead into a log, so that readers never wait and a commit costs one visit to the disk."""
        with self._translated(), self._connected().connect() as connection:
            connection.connection.driver_connection.execute("PRAGMA journal_mode = WAL")  # type: ignore[union-attr]

    def close(self) -> None:
        """Give the connections back."""
        self._connected().dispose()

    def _connected(self) -> Engine:
        if self._owner != os.getpid():
            # Connections of the parent of a fork are the parent's: neither closed nor collected here.
            _orphans.append(self._engine.pool)
            self._engine.dispose(close=False)
            self._owner = os.getpid()
        return self._engine

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (exc.SQLAlchemyError, sqlite3.Error) as error:
            raise self._refused(error) from None
        except (UnicodeDecodeError, JSONDecodeError) as error:
            # Of a damaged file even the complaint about it can be no text.
            raise self.tampered(f"a row cannot be read ({type(error).__name__}): altered or damaged") from None

    def _refused(self, error: exc.SQLAlchemyError | sqlite3.Error) -> Refusal:
        said = safe_text(str(getattr(error, "orig", error)).strip().split("\n")[0], 160)
        if "locked" in said or "lock timeout" in said:
            return self.refusal(f"another writer has held the ledger for {PATIENCE} s", _AGAIN)
        if isinstance(error, exc.OperationalError | exc.InterfaceError) and not self.is_file:
            return self.refusal(f"the database cannot be reached or went away ({said})", _AGAIN)
        if any(word in said for word in ("full", "readonly", "unable to open", "I/O")):
            return self.refusal(f"the ledger cannot be written or read ({said})", "check its disk, folder and owner")
        if "no such table" in said or "does not exist" in said:
            return self.refusal("this database holds no ledger", "make one with dosimeter ledger init")
        return self.tampered(f"the database does not hold together ({said}): put back a copy")


def _url_of(target: str | os.PathLike[str]) -> URL:
    text = os.fspath(target)
    if "://" not in text:
        if not text or "\x00" in text:
            raise Refusal("the name of a ledger is a path or a URL")
        return URL.create("sqlite", database=os.path.abspath(text))
    try:
        url = make_url(text)
    except (exc.ArgumentError, ValueError):
        raise Refusal("the ledger's URL cannot be read: write a path, or postgresql://user@host/database") from None
    kind = url.drivername.split("+")[0]
    if kind == "sqlite":
        if not url.database or url.database == ":memory:" or url.query:
            raise Refusal("an SQLite ledger is a file: give its path")
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
    engine = create_engine(url, connect_args={"timeout": PATIENCE, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _: Any) -> None:
        # The driver would begin transactions by itself, and only at the first change.
        connection.isolation_level = None
        for pragma in ("synchronous = FULL", "foreign_keys = ON", "trusted_schema = OFF", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if connection.get_execution_options().get("dosimeter_writes"):
            _begin_alone(connection.connection.driver_connection)
        else:
            connection.exec_driver_sql("BEGIN")

    return engine


def _begin_alone(driver: Any) -> None:
    """BEGIN IMMEDIATE as soon as it can be had.

    SQLite's own waiting sleeps up to 100 ms at a time: with 16 writers the book lay idle for most of it.
    """
    driver.execute("PRAGMA busy_timeout = 0")
    end = time.monotonic() + PATIENCE
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
        driver.execute(f"PRAGMA busy_timeout = {1000 * PATIENCE}")
