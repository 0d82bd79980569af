"""Whatever a file holds, the answer is one line and an exit code: never a traceback, a warning, or another file."""

from __future__ import annotations

import random
import resource
import shutil
import sqlite3
import time
import warnings
from contextlib import closing, redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from hashlib import sha256
from io import StringIO
from pathlib import Path

import pytest

from dosimeter.cli.main import run
from dosimeter.ledger import schema
from tests.readers.databases import free
from tests.readers.samples import READERS, Reader, prepare

COUNT, MANY = 6, 400
SECONDS = 20.0
"""Of the processor, for one file of some kilobytes. An ordinary one takes a hundredth of a second."""
MEMORY = 1 << 30
"""Bytes by which the whole process may grow; a header that asks for a terabyte would pass it."""


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DOSIMETER_LEDGER", "DOSIMETER_LEDGER_KEYS", "DOSIMETER_TRACEBACK"):
            patch.delenv(name, raising=False)
        patch.chdir(folder)
        prepare(folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: sha256(path.read_bytes()).digest() for path in folder.iterdir()}


def attempt(reader: Reader, folder: Path) -> str:
    """What is wrong with the answer to the file as it now stands, "" for nothing."""
    before = contents(folder)
    out, err = StringIO(), StringIO()
    begin = time.process_time()
    with warnings.catch_warnings(record=True) as warned, redirect_stdout(out), redirect_stderr(err):
        warnings.simplefilter("always")
        code = run([word.replace("{}", reader.file) for word in reader.command.split()])
    took = time.process_time() - begin
    said = err.getvalue().splitlines()
    if code not in reader.codes:
        return f"exit {code}: {said[-1:]}"
    if warned:
        return f"exit {code}, warning: {warned[0].message} ({warned[0].filename}:{warned[0].lineno})"
    if took > SECONDS:
        return f"exit {code} after {took:.0f} s"
    changed = {name for name, seen in contents(folder).items() if before.get(name) != seen}
    if code in (0, 1) or (code == 3 and not said):  # a scan that saw no rows, of a file that it could not read whole
        older = {"book.db"} if reader.file == "book.db" else set()  # a ledger of an older version is brought up to date
        return f"exit {code}, wrote {changed}" if changed - {*reader.writes} - older - _logs(reader) else ""
    if len(said) != 1 or not said[0].startswith("dosimeter: error: ") or not said[0].isprintable():
        return f"exit {code}, {len(said)} lines: {said[:3]}"
    if out.getvalue():
        return f"exit {code}, and words on stdout"
    if changed - _logs(reader):
        return f"exit {code}, wrote {changed}"
    return ""


def _logs(reader: Reader) -> set[str]:
    """SQLite leaves its logs beside a file that it cannot close well; a lock file lies beside a checkpoint."""
    books = ("book.db", "book.db.keys", "spare.db", "spare.db.keys")
    return {f"{name}{end}" for name in books for end in ("-wal", "-shm", "-journal")} | {
        "training.npz.lock",
        "patients.npz.lock",
    }


def damaged(name: str, samples: Path, folder: Path, seed: int, count: int) -> None:
    reader = READERS[name]
    rng = random.Random(f"{name} {seed}")
    good = (samples / reader.file).read_bytes()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    here = folder / "here"
    here.mkdir()
    faults = []
    for k in range(count):
        lay_out(reader, samples, here)
        bad = good if k == 0 else reader.mutate(good, rng)
        (here / reader.file).write_bytes(bad)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(here)
            fault = attempt(replace(reader, codes=reader.good) if k == 0 else reader, here)
        if fault:
            kept = folder / f"{k}-{reader.file}"
            kept.write_bytes(bad)
            faults.append(f"{fault} ({kept})")
    assert faults == []
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most) * 1024 < MEMORY


def lay_out(reader: Reader, samples: Path, here: Path) -> None:
    """The samples as they were; without what the command writes, and without settings unless it is about them."""
    outputs = {name for name in reader.writes if name != reader.file and not name.startswith(("book.db", "spare.db"))}
    wanted = {path.name: path for path in samples.iterdir() if path.name not in outputs}
    if reader.file != "dosimeter.toml":
        del wanted["dosimeter.toml"]
    for path in here.iterdir():
        if path.name not in wanted:
            path.unlink()
    for name, path in wanted.items():
        if not (here / name).exists() or (here / name).read_bytes() != path.read_bytes():
            shutil.copy(path, here / name)


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_one_line(name, samples, tmp_path):
    damaged(name, samples, tmp_path, 0, COUNT)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_file_damaged_in_many_ways_is_one_line(name, samples, tmp_path):
    damaged(name, samples, tmp_path, 1, MANY)


COLUMNS = [(table.name, column.name) for table in schema.metadata.tables.values() for column in table.columns]
IDENTITY = [("dosimeter_ledger", "uuid"), ("dosimeter_ledger", "version")]
"""Another ledger's number, or a newer version's: nobody can say that it was altered."""


def set_to(path: Path, table: str, column: str, value: object) -> bool:
    """One value for a column of every row, or of one row where each must have its own; whether it is there now."""
    free(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        try:
            connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
        except sqlite3.IntegrityError:
            key = connection.execute(f"SELECT {column} FROM {table} ORDER BY {column} DESC").fetchone()[0]
            with suppress(sqlite3.IntegrityError):  # a number of a row, which is never NULL
                connection.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {column} = ?", (value, key))
        done = connection.execute(f"SELECT count(*) FROM {table} WHERE {column} IS ?", (value,)).fetchone()[0] > 0
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return done


def is_never_null(path, table, column):
    """Whether the database itself keeps NULL out of the column, as out of the number of a row."""
    with closing(sqlite3.connect(path)) as connection:
        columns = list(connection.execute(f"PRAGMA table_info({table})"))
    keys = [name for _, name, _, _, _, key in columns if key]
    ((kind, required),) = [(kind, required) for _, name, kind, required, _, _ in columns if name == column]
    return required or (kind == "INTEGER" and keys == [column])


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_a_null_in_a_column_of_the_ledger_is_found(table, column, samples, tmp_path):
    """Verified, it is an altered ledger; asked anything else, an answer or an altered ledger, and never a traceback."""
    for name, found in (("ledger verify", (4,)), ("ledger person", (0, 4))):
        here = tmp_path / name
        here.mkdir()
        lay_out(READERS[name], samples, here)
        if not set_to(here / "book.db", table, column, None):
            assert is_never_null(here / "book.db", table, column)
            continue
        allowed = (*found, 2) if (table, column) in IDENTITY else found
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(here)
            assert attempt(replace(READERS[name], codes=allowed), here) == "", name


@pytest.mark.slow
@pytest.mark.parametrize(("table", "column"), COLUMNS)
@pytest.mark.parametrize("value", [None, 7, 1.5, "x", "{}", b"\xff" * 16], ids=repr)
@pytest.mark.parametrize("name", [name for name in READERS if name.startswith("ledger")])
def test_any_value_in_any_column_of_the_ledger_is_an_answer_or_one_line(name, value, table, column, samples, tmp_path):
    reader = READERS[name]
    lay_out(reader, samples, tmp_path)
    set_to(tmp_path / "book.db", table, column, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert attempt(reader, tmp_path) == ""
