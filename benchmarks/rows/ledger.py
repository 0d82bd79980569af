"""A booking against the least that a durable book can do: one INSERT of the same bytes and one commit."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from dosimeter.core.accounts import LedgerLimit
from dosimeter.ledger import Ledger
from harness.registry import Ratio, Settings, Skipped, row
from ledger import booking

PEOPLE, SIZE = 100, 4000


def _commits(folder: Path, releases: int) -> float:
    """Seconds of the clock of a bare commit in SQLite with the same bytes."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS t (data BLOB)")
    start = time.perf_counter()
    for _ in range(releases):
        connection.execute("INSERT INTO t VALUES (?)", (bytes(PEOPLE * 24 + SIZE),))
    spent = time.perf_counter() - start
    connection.close()
    return spent / releases


def _bookings(target: str, keys: Path, releases: int, series: int) -> float:
    """Seconds of the clock of a booking."""
    with Ledger.open(target, keys=keys) as ledger:
        entries = [booking(f"series {series} release {k}", PEOPLE, SIZE) for k in range(releases)]
        start = time.perf_counter()
        for entry in entries:
            ledger.book(entry)
        return (time.perf_counter() - start) / releases


@row("ledger", "A booking against a bare commit of the same bytes")
def against_commits(settings: Settings) -> Iterator[Ratio | Skipped]:
    """On both databases, by the clock: most of it is the disk's."""
    releases = 20 if settings.quick else 100
    for database in ("SQLite", "PostgreSQL"):
        name = f"{database}, {PEOPLE} people, by the clock"
        if database == "PostgreSQL" and not settings.postgres:
            yield Skipped(name, "needs --postgres URL of an empty database")
            continue
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            target = settings.postgres if database == "PostgreSQL" else str(folder / "book.db")
            Ledger.create(target, [LedgerLimit("fil", 1000.0)], keys=folder / "book.keys").close()
            pairs = [
                (_bookings(target, folder / "book.keys", releases, k), _commits(folder, releases))
                for k in range(min(settings.runs, 3))
            ]
        ours, peer = (min(side) for side in zip(*pairs, strict=True))
        yield Ratio(name, ours, peer, "INSERT and commit of the same bytes in SQLite")
