"""A booking against the least that a durable book can do: one INSERT of the same bytes and one commit."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from sqlalchemy import create_engine, make_url, text

from dosimeter.core.accounts import LedgerLimit
from dosimeter.ledger import Ledger
from harness.registry import Ratio, Settings, Skipped, row
from ledger import booking

PEOPLE, SIZE = 100, 4000


def commit_seconds(folder: Path, releases: int) -> float:
    """Of the processor, for a bare commit in SQLite with the same bytes."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS t (data BLOB)")
    start = time.process_time()
    for _ in range(releases):
        connection.execute("INSERT INTO t VALUES (?)", (bytes(PEOPLE * 24 + SIZE),))
    spent = time.process_time() - start
    connection.close()
    return spent / releases


def booking_seconds(target: str, keys: Path, releases: int, series: int) -> float:
    """Of the processor, for a booking. What a server does on its own processor is not in it."""
    with Ledger.open(target, keys=keys) as ledger:
        entries = [booking(f"series {series} release {k}", PEOPLE, SIZE) for k in range(releases)]
        start = time.process_time()
        for entry in entries:
            ledger.book(entry)
        return (time.process_time() - start) / releases


@contextmanager
def new_database(server: str) -> Iterator[str]:
    """The URL of a database that is created on the server, and removed at the end."""
    url, name = make_url(server), f"dosimeter_bench_{uuid4().hex[:12]}"
    engine = create_engine(url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    try:
        yield url.set(database=name).render_as_string(hide_password=False)
    finally:
        with engine.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name}"))
        engine.dispose()


def compare(name: str, target: str, folder: Path, settings: Settings) -> Ratio:
    """Bookings and bare commits in turns."""
    releases, keys = 20 if settings.quick else 100, folder / f"{name}.keys"
    Ledger.create(target, [LedgerLimit("fil", 1000.0)], keys=keys).close()
    runs = range(min(settings.runs, 3))
    pairs = [(booking_seconds(target, keys, releases, k), commit_seconds(folder, releases)) for k in runs]
    ours, peer = (min(side) for side in zip(*pairs, strict=True))
    return Ratio(f"{name}, {PEOPLE} people", ours, peer, "INSERT and commit of the same bytes in SQLite")


@row("ledger", "A booking against a bare commit of the same bytes")
def against_commits(settings: Settings) -> Iterator[Ratio | Skipped]:
    """On both databases."""
    with tempfile.TemporaryDirectory() as place:
        yield compare("SQLite", str(Path(place) / "book.db"), Path(place), settings)
        if not settings.postgres:
            yield Skipped(f"PostgreSQL, {PEOPLE} people", "needs --postgres URL of a server")
            return
        with new_database(settings.postgres) as target:
            yield compare("PostgreSQL", target, Path(place), settings)
