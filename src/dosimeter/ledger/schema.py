"""The tables, the same for SQLite and PostgreSQL. They hold pseudonyms and no ids.

`entry.body` is canonical JSON and holds everything that the digest covers; the other columns repeat it for lookups.
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
"""One row: the identity of the ledger and the version of its tables. A writer on PostgreSQL locks it."""

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
"""The chain. Only releases have `name`, `artefact` (SHA-256) and `draw` (HMAC); `signature` is Ed25519 or an HMAC."""

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
"""One account's share of a release; `event` is canonical JSON if the account holds events."""

dose = Table(
    "dosimeter_dose",
    metadata,
    Column("part", Integer, ForeignKey("dosimeter_part.id"), primary_key=True, autoincrement=False),
    Column("pseudonym", LargeBinary(16), primary_key=True),
    Column("amount", BigInteger, nullable=False),
    # With the amount, so that a person's total is summed from the index alone.
    Index("dosimeter_dose_by_pseudonym", "pseudonym", "amount"),
    sqlite_with_rowid=False,
)
"""A person's dose from a release, in nano-units; 0 if the part has an event."""

block = Table(
    "dosimeter_block",
    metadata,
    Column("part", Integer, ForeignKey("dosimeter_part.id"), primary_key=True, autoincrement=False),
    Column("pseudonym", LargeBinary(16), primary_key=True),
    Column("unknowns", String(64), nullable=False),
    Column("data", LargeBinary, nullable=False),
)
"""A person's Fisher matrix, stored on request: an HMAC of its unknowns, and its float64 values, little-endian."""
