"""Migrations of older ledgers: numbered steps that only add, in the transaction that raises the version."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, select, update

from dosimeter.ledger import schema
from dosimeter.ledger.database import Database


def _index_of_people(connection: Connection) -> None:
    """0 -> 1: an index finds the rows of a person."""
    for index in schema.dose.indexes:
        index.create(connection, checkfirst=True)


def _blocks(connection: Connection) -> None:
    """1 -> 2: a table for Fisher blocks."""
    schema.block.create(connection, checkfirst=True)


STEPS: dict[int, Callable[[Connection], None]] = {0: _index_of_people, 1: _blocks}
"""Version -> the step to the next version."""


def version_of(connection: Connection, database: Database) -> int:
    """The version of the tables; refused if newer than this program's."""
    rows = connection.execute(select(schema.ledger.c.version)).scalars().all()
    if len(rows) != 1 or type(rows[0]) is not int or rows[0] < 0:
        raise database.integrity_error("the row that names the ledger is missing or altered")
    if rows[0] > schema.VERSION:
        problem = f"the ledger has version {rows[0]} and this program supports {schema.VERSION}"
        raise database.refusal(problem, "use a newer dosimeter")
    return rows[0]


def migrate(database: Database) -> None:
    """Migrate the tables to this program's version, all steps or none."""
    with database.reading() as connection:
        if version_of(connection, database) == schema.VERSION:
            return
    with database.writing() as connection:
        for version in range(version_of(connection, database), schema.VERSION):
            STEPS[version](connection)
        connection.execute(update(schema.ledger).values(version=schema.VERSION))
