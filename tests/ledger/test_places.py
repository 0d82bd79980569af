"""If a ledger cannot be created, opened or written, the error is one line and nothing has changed."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from dosimeter.core.errors import Refusal, Tampered
from dosimeter.core.face import speaking
from dosimeter.ledger import Ledger, schema
from dosimeter.ledger.migrations import STEPS

from .crowd import at_once
from .samples import booking, dose, of_all_kinds


def refused(work, match):
    with pytest.raises(Refusal, match=match) as caught:
        work()
    assert "\n" not in str(caught.value)
    assert not isinstance(caught.value, Tampered)


def test_a_missing_ledger_is_refused(tmp_path):
    refused(lambda: Ledger.open(tmp_path / "book.db"), r"create one with dosimeter.Ledger.create\(path\)")
    with speaking("command line"):
        refused(lambda: Ledger.open(tmp_path / "book.db"), "create one with dosimeter ledger init")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"id,age\n1,2\n", b"\x80\x04pickle", b"SQLite format 3"])
def test_a_file_that_is_not_a_ledger_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "book.db"
    path.write_bytes(content)
    refused(lambda: Ledger.open(path), "not a ledger")
    refused(lambda: Ledger.create(path), "already exists")
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_an_sqlite_file_of_another_program_is_refused(tmp_path):
    with closing(sqlite3.connect(tmp_path / "book.db")) as connection, connection:
        connection.execute("CREATE TABLE theirs (a)")
    Ledger.create(tmp_path / "other.db").close()
    before = (tmp_path / "book.db").read_bytes()
    refused(lambda: Ledger.open(tmp_path / "book.db", keys=tmp_path / "other.db.keys"), "holds no ledger")
    assert (tmp_path / "book.db").read_bytes() == before


def test_an_empty_database_on_a_server_is_not_a_ledger(new_place):
    place = new_place("postgresql")
    Ledger.create(place.keys.with_name("other.db"), keys=place.keys).close()
    refused(place.open, "holds no ledger")


def test_a_folder_a_missing_folder_and_a_pipe_are_refused(tmp_path):
    refused(lambda: Ledger.open(tmp_path), "not a regular file")
    refused(lambda: Ledger.create(tmp_path / "no" / "book.db"), "cannot be created")
    os.mkfifo(tmp_path / "pipe")
    refused(lambda: Ledger.open(tmp_path / "pipe"), "not a regular file")
    refused(lambda: Ledger.create(tmp_path / "book.db", keys=tmp_path / "no" / "keys"), "cannot be created")
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_name_taken_by_a_key_file_is_refused_and_nothing_is_left(tmp_path):
    (tmp_path / "book.db.keys").write_text("mine")
    refused(lambda: Ledger.create(tmp_path / "book.db"), "already exists")
    assert [path.name for path in tmp_path.iterdir()] == ["book.db.keys"]


@pytest.mark.parametrize(
    "url",
    ["mysql://host/db", "sqlite://", "sqlite:///:memory:", "postgresql+asyncpg:", "", "a\x00b", "http://x/y", "://"],
)
def test_what_is_neither_a_path_nor_a_known_database_is_refused(tmp_path, url, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if url == "postgresql+asyncpg:":
        refused(lambda: Ledger.open(url), "cannot be read")
    else:
        refused(lambda: Ledger.open(url), "path|file")
    assert list(tmp_path.iterdir()) == []


def test_a_url_of_a_file_is_its_path(tmp_path):
    with Ledger.create(f"sqlite:///{tmp_path}/book.db") as ledger:
        ledger.book(booking("may"))
    with Ledger.open(tmp_path / "book.db") as ledger:
        assert len(ledger.releases()) == 1


def test_a_server_that_does_not_run_is_reported(tmp_path):
    Ledger.create(tmp_path / "other.db", keys=tmp_path / "keys").close()
    refused(
        lambda: Ledger.open(f"postgresql://me:secret@/x?host={tmp_path}", keys=tmp_path / "keys"), "cannot be reached"
    )
    with pytest.raises(Refusal) as caught:
        Ledger.create(f"postgresql://me:secret@/x?host={tmp_path}", keys=tmp_path / "new")
    assert "secret" not in str(caught.value)
    assert not (tmp_path / "new").exists()


def test_a_full_disk_refuses_the_release_and_leaves_the_ledger_as_it_was(file_place, tmp_path):
    """A limit on file size simulates a full disk: the write fails at some page of the log."""
    with file_place.create() as ledger:
        ledger.book(booking("may"))
        before = ledger.export()

    def work(k):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        limit = 30_000 * (k + 1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            with file_place.open() as ledger:
                ledger.book(booking("june", artefact=os.urandom(400_000)))
        except Refusal as error:
            (tmp_path / f"message {k}").write_text(str(error))

    assert at_once(6, work, tmp_path) == [""] * 6
    messages = [path.read_text() for path in tmp_path.glob("message *")]
    assert len(messages) == 6
    assert all("cannot be written" in line or "cannot be used" in line for line in messages)
    assert not any("\n" in line for line in messages)
    with file_place.open() as ledger:
        ledger.verify()
        assert ledger.export() == before
        assert ledger.book(booking("june")).fresh


def test_a_full_disk_after_the_commit_does_not_affect_the_release(file_place, monkeypatch):
    """The head that the key file remembers may lag; the release is booked."""
    from dosimeter.ledger.pseudonyms import Keys

    def full(self, durable=True):
        raise Refusal("the disk is full")

    with file_place.create() as ledger:
        ledger.book(booking("may", dose({"ann": 0.1})))
        head = ledger.keys.head
        real = Keys._writing
        monkeypatch.setattr(Keys, "_writing", lambda self, durable=True: real(self) if durable else full(self))
        assert ledger.book(booking("june", dose({"ann": 0.1}))).fresh
        assert ledger.keys.head == head
    with file_place.open() as ledger:
        assert ledger.verify().entries == 3


@pytest.mark.skipif(os.geteuid() == 0 and not os.path.exists("/usr/sbin/runuser"), reason="root may write anywhere")
def test_a_read_only_folder_is_refused(tmp_path):
    folder = tmp_path / "book"
    folder.mkdir()
    with Ledger.create(folder / "book.db") as ledger:
        ledger.book(booking("may"))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def work(_):
        if os.geteuid() == 0:
            # A user who owns the folder and the files but may not write there.
            for path in (tmp_path, *tmp_path.parents):
                if path == Path("/tmp"):
                    break
                path.chmod(0o755)
            for path in (folder, *folder.iterdir()):
                os.chown(path, 65534, 65534)
            os.setgid(65534)
            os.setuid(65534)
        folder.chmod(0o500)
        for attempt in (
            lambda: Ledger.open(folder / "book.db").book(booking("june")),
            lambda: Ledger.create(folder / "other.db"),
        ):
            refused(attempt, "cannot be")

    assert at_once(1, work, tmp_path) == [""]
    folder.chmod(0o700)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def run(place, *statements):
    url = place.target.replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url if "://" in url else f"sqlite:///{url}")
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def test_a_ledger_of_a_newer_version_is_refused_and_left_alone(place):
    with place.create() as ledger:
        ledger.book(booking("may"))
    run(place, f"UPDATE dosimeter_ledger SET version = {schema.VERSION + 1}")
    refused(place.open, "use a newer dosimeter")
    refused(lambda: place.open(without_keys=True), "use a newer dosimeter")
    run(place, f"UPDATE dosimeter_ledger SET version = {schema.VERSION}")
    with place.open() as ledger:
        assert ledger.verify().entries == 2


def test_an_older_ledger_is_migrated_when_opened(place):
    """Version 0 had no index by person."""
    with place.create("fil=3") as ledger:
        ledger.book(of_all_kinds("may"))
        before = ledger.export()
    run(place, "DROP INDEX dosimeter_dose_by_pseudonym", "UPDATE dosimeter_ledger SET version = 0")
    with place.open() as ledger:
        assert ledger.export() == before
        assert ledger.verify().entries == 2
        ledger.book(of_all_kinds("june"))
        assert len(ledger.person("person 1").entries) == 2 * len(ledger.entry("may").accounts)
    engine = create_engine(ledger._database.url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version FROM dosimeter_ledger")).scalar() == schema.VERSION
    assert "dosimeter_dose_by_pseudonym" in _indexes(engine)
    engine.dispose()


def _indexes(engine):
    from sqlalchemy import inspect

    with engine.connect() as connection:
        return {index["name"] for index in inspect(connection).get_indexes("dosimeter_dose")}


def test_a_step_that_fails_leaves_the_old_version(place, monkeypatch):
    with place.create() as ledger:
        ledger.book(booking("may"))
        before = ledger.export()
    run(place, "DROP INDEX dosimeter_dose_by_pseudonym", "UPDATE dosimeter_ledger SET version = 0")

    def broken(connection):
        STEPS_OF_OLD(connection)
        raise Refusal("something was wrong")

    STEPS_OF_OLD = STEPS[0]
    monkeypatch.setitem(STEPS, 0, broken)
    refused(place.open, "something was wrong")
    monkeypatch.setitem(STEPS, 0, STEPS_OF_OLD)
    with place.open() as ledger:
        assert ledger.export() == before


def test_several_processes_migrate_an_older_ledger_at_once(place, tmp_path):
    with place.create() as ledger:
        ledger.book(booking("may"))
    run(place, "DROP INDEX dosimeter_dose_by_pseudonym", "UPDATE dosimeter_ledger SET version = 0")
    assert at_once(6, lambda k: place.open().close(), tmp_path) == [""] * 6
    with place.open() as ledger:
        assert ledger.verify().entries == 2


def test_there_is_a_step_from_every_version_to_the_next():
    assert sorted(STEPS) == list(range(schema.VERSION))
