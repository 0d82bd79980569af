"""Older ledgers brought up to date: numbered steps that only add, each in the transaction that raises the version."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, select, update

from dosimeter.ledger import schema
from dosimeter.ledger.database import Database


def _index_of_people(connection: Connection) -> None:
    """0 -> 1: a person's rows are found by an index."""
    for index in schema.dose.indexes:
        index.create(connection, checkfirst=True)


def _blocks(connection: Connection) -> None:
    """1 -> 2: Fisher blocks can be kept."""
    schema.block.create(connection, checkfirst=True)


STEPS: dict[int, Callable[[Connection], None]] = {0: _index_of_people, 1: _blocks}
"""version -> the step that leads to the next one."""


def version_of(connection: Connection, database: Database) -> int:
    """The version of the tables; a newer one than this program's is refused."""
    rows = connection.execute(select(schema.ledger.c.version)).scalars().all()
    if len(rows) != 1 or type(rows[0]) is not int or rows[0] < 0:
        raise database.tampered("the row that names the ledger is missing or altered")
    if rows[0] > schema.VERSION:
        what = f"the ledger is of version {rows[0]} and this program knows {schema.VERSION}"
        raise database.refusal(what, "use a newer dosimeter")
    return rows[0]


def migrate(database: Database) -> None:
    """Bring the tables to this program's version; all steps or none."""
    with database.reading() as connection:
        if version_of(connection, database) == schema.VERSION:
            return
    with database.writing() as connection:
        for version in range(version_of(connection, database), schema.VERSION):
            STEPS[version](connection)
        connection.execute(update(schema.ledger).values(version=schema.VERSION))
