"""SQLite files damaged on purpose: flipped bytes of their pages, and any value in any column."""

from __future__ import annotations

import random
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from dosimeter.ledger.sealed_file import seal
from tests.readers.mutations import HOSTILE, any_bytes, as_json, bits, splice

VALUES: tuple[Any, ...] = (
    None, 0, -1, 2**62, 1.5, 1e300, "", "x", "\x1b[2J", "{}", "[]", "null", "a|b|c", "fil|person|", "9" * 30,
    b"", b"\x00", b"\xff" * 16, b"x" * 33, "η" * 50,
)  # fmt: skip


def pages(data: bytes, rng: random.Random) -> bytes:
    """Bytes behind the first ones, which say what the file is."""
    return data[:16] + rng.choice((bits, bits, bits, splice, any_bytes))(data[16:], rng)


def columns(data: bytes, rng: random.Random) -> bytes:
    """One cell, or a whole column, with a value of another kind; rows dropped or doubled."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "book.db"
        path.write_bytes(data)
        free(path)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            with suppress(sqlite3.Error):  # a unique key given twice, say
                _change(connection, rng.choice(tables), rng)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path.read_bytes()


def free(path: Path) -> None:
    """Take NOT NULL out of the tables, so that a damaged record can be imitated."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE type = 'table'")


def _change(connection: sqlite3.Connection, table: str, rng: random.Random) -> None:
    fields = connection.execute(f"PRAGMA table_info({table})").fetchall()
    name = rng.choice(fields)[1]
    keys = [field[1] for field in sorted(fields, key=lambda field: field[5]) if field[5]] or [fields[0][1]]
    rows = connection.execute(f"SELECT {', '.join(keys)}, {name} FROM {table}").fetchall()
    if not rows:
        return
    *key, old = rng.choice(rows)
    which = " AND ".join(f"{one} IS ?" for one in keys)
    way = rng.randrange(8)
    if way == 0:
        connection.execute(f"DELETE FROM {table} WHERE {which}", key)
    elif way == 1:
        connection.execute(f"UPDATE {table} SET {name} = ?", (rng.choice(VALUES),))
    elif way <= 4 and isinstance(old, str) and old[:1] in "{[":
        connection.execute(f"UPDATE {table} SET {name} = ? WHERE {which}", (as_json(old.encode(), rng).decode(), *key))
    elif way == 5 and isinstance(old, bytes):
        connection.execute(f"UPDATE {table} SET {name} = ? WHERE {which}", (any_bytes(old, rng), *key))
    else:
        value = rng.choice((*VALUES, *(one for one in HOSTILE if isinstance(one, float | str))))
        connection.execute(f"UPDATE {table} SET {name} = ? WHERE {which}", (value, *key))


def book(data: bytes, rng: random.Random) -> bytes:
    """A ledger or a key file."""
    return columns(data, rng) if rng.random() < 0.6 else pages(data, rng)


def sealed(data: bytes, rng: random.Random) -> bytes:
    """A key file whose rows were altered and sealed again: the seal is against decay of the disk, not against hands."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "book.db.keys"
        path.write_bytes(columns(data, rng))
        with closing(sqlite3.connect(path, isolation_level=None)) as connection, suppress(sqlite3.Error):
            for table, width in (("ring", 2), ("person", 3)):
                for row in connection.execute(f"SELECT * FROM {table}").fetchall():
                    key = connection.execute(f"PRAGMA table_info({table})").fetchall()[0][1]
                    connection.execute(f"UPDATE {table} SET seal = ? WHERE {key} IS ?", (seal(*row[:width]), row[0]))
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path.read_bytes()


def keys(data: bytes, rng: random.Random) -> bytes:
    """A key file."""
    return rng.choice((book, sealed))(data, rng)
