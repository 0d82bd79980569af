"""The tables, for SQLite and PostgreSQL alike. Nothing here names a person: pseudonyms only.

`entry.body` is canonical JSON and holds everything the chain vouches for; the other columns repeat what is looked up.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, MetaData, String, Table, Text

VERSION = 2

metadata = MetaData()

ledger = Table(
    "dosimeter_ledger",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
    Column("uuid", String(32), nullable=False),
)
"""One row: which ledger this is, and the version of its tables. A writer on PostgreSQL holds its lock."""

entry = Table(
    "dosimeter_entry",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("kind", String(16), nullable=False, index=True),
    Column("name", String(120), unique=True),
    Column("artefact", String(64), index=True),
    Column("draw", String(64), unique=True),
    Column("body", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("signature", String(128)),
)
"""The chain. `name`, `artefact` (SHA-256) and `draw` (HMAC) are of releases only; `signature` is Ed25519 or an HMAC."""

artefact = Table(
    "dosimeter_artefact",
    metadata,
    Column("seq", Integer, ForeignKey("dosimeter_entry.seq"), primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)

part = Table(
    "dosimeter_part",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("seq", Integer, ForeignKey("dosimeter_entry.seq"), nullable=False, index=True),
    Column("account", String(160), nullable=False),
    Column("event", Text),
)
"""One account's share of a release; `event` is canonical JSON where the account is of events."""

dose = Table(
    "dosimeter_dose",
    metadata,
    Column("part", Integer, ForeignKey("dosimeter_part.id"), primary_key=True, autoincrement=False),
    Column("pseudonym", LargeBinary(16), primary_key=True),
    Column("amount", BigInteger, nullable=False),
    # With the amount, so that a person's total is summed without a look at the table.
    Index("dosimeter_dose_by_pseudonym", "pseudonym", "amount"),
    sqlite_with_rowid=False,
)
"""What a release costs one person: whole nano-units, 0 where the part has an event."""

block = Table(
    "dosimeter_block",
    metadata,
    Column("part", Integer, ForeignKey("dosimeter_part.id"), primary_key=True, autoincrement=False),
    Column("pseudonym", LargeBinary(16), primary_key=True),
    Column("unknowns", String(64), nullable=False),
    Column("data", LargeBinary, nullable=False),
)
"""A person's Fisher matrix, kept on request: what it is about (HMAC), and its float64 numbers, little-endian."""
