"""Making a ledger and its key file, and finding out whether the two belong together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert, inspect, select

from dosimeter.core.accounts import LedgerLimit
from dosimeter.ledger import schema
from dosimeter.ledger.database import Database
from dosimeter.ledger.entry_log import append, check_head
from dosimeter.ledger.migrations import version_of
from dosimeter.ledger.pseudonyms import Keys
from dosimeter.ledger.sealed_file import new_file

Target = str | os.PathLike[str]


def keys_path(database: Database, keys: Target | None) -> Path:
    """Where the key file lies: as given, as the variable says, or beside the ledger."""
    given = keys or os.environ.get("DOSIMETER_LEDGER_KEYS")
    return Path(given).absolute() if given else database.default_keys()


def files_of(target: Target, keys: Target | None = None) -> tuple[Path, ...]:
    """Every file of a ledger, there or not, with the logs that SQLite keeps beside them: no output may lie over one."""
    database = Database(target)
    database.close()
    own = [*([database.path] if database.is_file else []), keys_path(database, keys)]
    return tuple(path.with_name(path.name + suffix) for path in own for suffix in ("", "-wal", "-shm", "-journal"))


def plain_budget(budget: LedgerLimit) -> dict[str, Any]:
    """A budget as the chain keeps it."""
    return {"key": budget.key, "limit": budget.limit, "delta": budget.delta}


def new_book_file(database: Database) -> None:
    """An empty file for an SQLite ledger; refused where the name is taken."""
    try:
        new_file(database.path)
    except FileExistsError:
        raise database.refusal("there is already a file of this name", "open it, or choose another name") from None
    except OSError as error:
        raise database.refusal(f"the ledger cannot be made ({error.strerror})", "choose another folder") from None


def open_book(database: Database, keys: Keys, uuid: str, key: str, budgets: Sequence[LedgerLimit]) -> tuple[int, str]:
    """The tables and the first entry, in one transaction; (seq, digest)."""
    if database.is_file:
        database.keep_a_log()
    with database.writing(new=True) as connection:
        if inspect(connection).has_table(schema.ledger.name):
            raise database.refusal("this database holds a ledger already", "open it, or choose another database")
        schema.metadata.create_all(connection)
        connection.execute(insert(schema.ledger), [{"id": 1, "version": schema.VERSION, "uuid": uuid}])
        facts = {"uuid": uuid, "key": key, "budgets": [plain_budget(budget) for budget in budgets]}
        return append(connection, keys, "opened", facts)


def belong(connection: Connection, database: Database, keys: Keys | None, seen: tuple[int, str]) -> None:
    """The key file is this ledger's, and has not seen more than the ledger holds."""
    version_of(connection, database)
    uuid = connection.execute(select(schema.ledger.c.uuid)).scalar_one()
    if keys is None:
        return
    if keys.ring("uuid") != str(uuid).encode():
        raise database.refusal("the key file belongs to another ledger", "name the right one with --keys")
    check_head(connection, database, keys, seen)
