"""Creating a ledger and its key file, and checking that the two belong together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert, inspect, select

from dosimeter.core.accounts import LedgerLimit
from dosimeter.core.face import option
from dosimeter.ledger import schema
from dosimeter.ledger.database import Database
from dosimeter.ledger.entry_log import append, check_head
from dosimeter.ledger.migrations import version_of
from dosimeter.ledger.pseudonyms import Keys
from dosimeter.ledger.sealed_file import new_file

Target = str | os.PathLike[str]


def keys_path(database: Database, keys: Target | None) -> Path:
    """The path of the key file: `keys`, else $DOSIMETER_LEDGER_KEYS, else beside the ledger."""
    path = keys or os.environ.get("DOSIMETER_LEDGER_KEYS")
    return Path(path).absolute() if path else database.default_keys()


def ledger_files(target: Target, keys: Target | None = None) -> tuple[Path, ...]:
    """Every file of a ledger, existing or not, with SQLite's logs beside it: no output may overwrite one.

    Parameters
    ----------
    target : str or Path
        The ledger: a file, or the address of a database.
    keys : str or Path, optional
        Its key file; default: beside the ledger.

    Returns
    -------
    tuple of Path
        None of them is opened.

    Examples
    --------
    >>> [path.name for path in ledger_files("book.db")][:2]
    ['book.db', 'book.db-wal']
    """
    database = Database(target)
    database.close()
    files = [*([database.path] if database.is_file else []), keys_path(database, keys)]
    return tuple(path.with_name(path.name + suffix) for path in files for suffix in ("", "-wal", "-shm", "-journal"))


def budget_to_dict(budget: LedgerLimit) -> dict[str, Any]:
    """A budget as stored in the chain."""
    return {"key": budget.key, "limit": budget.limit, "delta": budget.delta}


def create_file(database: Database) -> None:
    """Create an empty file for an SQLite ledger; refused if the name is taken."""
    try:
        new_file(database.path)
    except FileExistsError:
        raise database.refusal("a file of this name already exists", "open it, or choose another name") from None
    except OSError as error:
        raise database.refusal(f"the ledger cannot be created ({error.strerror})", "choose another folder") from None


def create_tables(
    database: Database, keys: Keys, uuid: str, key: str, budgets: Sequence[LedgerLimit]
) -> tuple[int, str]:
    """Create the tables and the first entry in one transaction; (seq, digest)."""
    if database.is_file:
        database.enable_wal()
    with database.writing(new=True) as connection:
        if inspect(connection).has_table(schema.ledger.name):
            raise database.refusal("this database already holds a ledger", "open it, or choose another database")
        schema.metadata.create_all(connection)
        connection.execute(insert(schema.ledger), [{"id": 1, "version": schema.VERSION, "uuid": uuid}])
        facts = {"uuid": uuid, "key": key, "budgets": [budget_to_dict(budget) for budget in budgets]}
        return append(connection, keys, "opened", facts)


def check_key_file(connection: Connection, database: Database, keys: Keys | None, remembered: tuple[int, str]) -> None:
    """Refuse a key file of another ledger, and a ledger older than the head that the key file remembers."""
    version_of(connection, database)
    uuid = connection.execute(select(schema.ledger.c.uuid)).scalar_one()
    if keys is None:
        return
    if keys.stored_value("uuid") != str(uuid).encode():
        raise database.refusal("the key file belongs to another ledger", f"name the right one with {option('keys')}")
    check_head(connection, database, keys, remembered)
