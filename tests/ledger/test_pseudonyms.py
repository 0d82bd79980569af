"""The key file: private, backed up, rotated, lost, and people erased from it."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from dosimeter.core.errors import Refusal
from dosimeter.ledger import Keys, Ledger

from .samples import booking, dose

posix = pytest.mark.skipif(os.name == "nt", reason="POSIX modes")


@posix
def test_only_the_owner_can_read_both_files(tmp_path):
    with Ledger.create(tmp_path / "book.db") as ledger:
        ledger.book(booking("may"))
        assert {path.name for path in tmp_path.iterdir()} >= {"book.db", "book.db.keys"}
        assert {oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()} == {"0o600"}


@posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_file_that_others_can_read_is_refused(file_place, mode):
    file_place.create().close()
    file_place.keys.chmod(mode)
    with pytest.raises(Refusal, match="others can read the key file"):
        file_place.open()


def test_without_its_key_file_a_ledger_can_be_listed_and_verified_but_not_booked(place):
    with place.create("fil=0.3") as ledger:
        ledger.book(booking("may", dose({"ann": 0.1})))
    place.keys.rename(place.keys.with_name("away"))
    with pytest.raises(Refusal, match="restore its newest copy"):
        place.open()
    with place.open(without_keys=True) as ledger:
        assert [entry.name for entry in ledger.releases()] == ["may"]
        assert ledger.verify().entries == 2
        assert len(ledger.totals()[0].readings) == 1
        assert ledger.export()["doses"]
        for needs in (
            lambda: ledger.person("ann"),
            lambda: ledger.book(booking("june")),
            lambda: ledger.preview(booking("june")),
            lambda: ledger.erase("ann"),
            lambda: ledger.set_budget(ledger.budgets[0]),
        ):
            with pytest.raises(Refusal, match=r"key file .* is missing"):
                needs()
        assert len(ledger.releases()) == 1


def test_the_key_file_of_another_ledger_is_refused(place, tmp_path):
    place.create().close()
    Ledger.create(tmp_path / "other.db").close()
    place.keys = tmp_path / "other.db.keys"
    with pytest.raises(Refusal, match="belongs to another ledger"):
        place.open()


def test_a_backup_is_complete_and_private(place, tmp_path):
    with place.create() as ledger:
        ledger.book(booking("may", dose({"ann": 0.1})))
        before = ledger.person("ann")
        ledger.keys.backup(tmp_path / "copy")
        with pytest.raises(Refusal, match="cannot be created"):
            ledger.keys.backup(tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600
    place.keys = tmp_path / "copy"
    with place.open() as ledger:
        assert ledger.person("ann") == before
        ledger.book(booking("june", dose({"ann": 0.1})))
        assert len(ledger.person("ann").entries) == 2


def test_an_older_backup_that_lacks_people_is_refused(place, tmp_path):
    """Otherwise the totals of the missing people would start at zero."""
    with place.create() as ledger:
        ledger.book(booking("may", dose({"ann": 0.1})))
        ledger.keys.backup(tmp_path / "copy")
        ledger.book(booking("june", dose({"bob": 0.1, "eve": 0.1})))
    place.keys = tmp_path / "copy"
    with pytest.raises(Refusal, match="it lacks the salts of 2 people"):
        place.open()


def test_two_diverged_copies_of_a_key_file_cannot_both_book(place, tmp_path):
    with place.create() as ledger:
        ledger.book(booking("may", dose({"ann": 0.1})))
        ledger.keys.backup(tmp_path / "copy")
        with Ledger.open(place.target, keys=tmp_path / "copy") as other:
            other.book(booking("june", dose({"bob": 0.1})))
            with pytest.raises(Refusal, match="older copy"):
                ledger.book(booking("july", dose({"bob": 0.1})))


def test_erasing_a_person_unlinks_their_rows_and_leaves_the_chain_intact(place):
    with place.create("fil=0.15") as ledger:
        ledger.book(booking("may", dose({"ann": 0.1, "bob": 0.1})))
        salt = _salt_of(place.keys, ledger, "ann")
        assert _holding(place.keys, salt)
        assert ledger.erase("ann")
        assert not _holding(place.keys, salt)
        assert not ledger.erase("ann")
        assert not ledger.person("ann").known
        assert ledger.person("bob").known
        assert len(ledger.totals()[0].readings) == 2
        assert ledger.verify().entries == 3
        last = ledger.entries()[-1]
        assert (last.kind, last.body["count"]) == ("erasure", 1)
        assert "ann" not in str(last.body)
        ledger.book(booking("june", dose({"ann": 0.1})))  # booked again, the total starts at zero
        assert len(ledger.person("ann").entries) == 1
    with place.open() as ledger:
        assert ledger.verify().people == 3


def test_an_older_backup_with_erased_people_is_refused(place, tmp_path):
    with place.create() as ledger:
        ledger.book(booking("may", dose({"ann": 0.1})))
        ledger.keys.backup(tmp_path / "copy")
        ledger.erase("ann")
    place.keys = tmp_path / "copy"
    with pytest.raises(Refusal, match="holds 1 erased people"):
        place.open()


def _salt_of(path, ledger, person):
    with ledger.keys._using() as connection:
        return ledger.keys._salts(connection, [person])[person][1]


def _holding(path, secret):
    """The files, among the key file and its logs, that contain these bytes."""
    return [file.name for file in path.parent.glob(path.name + "*") if secret in file.read_bytes()]


def test_rotation_keeps_pseudonyms_and_people_move_over_as_they_are_booked(place):
    with place.create() as ledger:
        ledger.book(booking("may", dose({"ann": 0.1, "bob": 0.1})))
        before = {person: ledger.person(person) for person in ("ann", "bob")}
        assert ledger.rotate() == 2
        assert {person: ledger.person(person) for person in ("ann", "bob")} == before
        ledger.book(booking("june", dose({"ann": 0.1, "eve": 0.1})))
        assert _masters(place.keys) == {"ann, eve": 2, "bob": 1}
        assert ledger.person("ann").pseudonym == before["ann"].pseudonym
        ledger.book(booking("july", dose({"bob": 0.1})))
        assert ledger.rotate() == 3
        assert len(ledger.person("ann").entries) == len(ledger.person("bob").entries) == 2
        with closing(sqlite3.connect(place.keys)) as connection:
            names = {row[0] for row in connection.execute("SELECT name FROM ring WHERE name LIKE 'master%'")}
        assert names == {"master 2", "master 3"}  # nobody is stored under the first any more
        assert ledger.verify().entries == 4


def _masters(path):
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT master, count(*) FROM person GROUP BY master ORDER BY master DESC").fetchall()
    return dict(zip(("ann, eve", "bob"), (master for master, _ in rows), strict=True))


def test_of_100_flipped_bytes_of_the_key_file_none_makes_a_known_person_new(file_place):
    with file_place.create() as ledger:
        ledger.book(booking("may", dose({f"person {k}": 0.01 for k in range(200)})))
        before = {f"person {k}": ledger.person(f"person {k}") for k in range(0, 200, 20)}
    intact, book = file_place.keys.read_bytes(), Path(file_place.target).read_bytes()
    rng, refusals = random.Random(3), 0
    for place in rng.sample(range(len(intact)), 100):
        altered = bytearray(intact)
        altered[place] ^= rng.randrange(1, 256)
        file_place.keys.write_bytes(altered)
        Path(file_place.target).write_bytes(book)
        try:
            with file_place.open() as ledger:
                ledger.verify()
                assert {person: ledger.person(person) for person in before} == before
                ledger.book(booking("june", dose({f"person {k}": 0.01 for k in range(200)})))
                assert ledger.keys.salts_created == 200
        except Refusal:
            refusals += 1
    assert refusals > 20


def test_nobody_is_booked_as_new_while_the_key_file_is_damaged(file_place):
    """Even without verify: with a damaged lookup a total would start at zero."""
    with file_place.create() as ledger:
        ledger.book(booking("may", dose({"ann": 0.1})))
    with closing(sqlite3.connect(file_place.keys)) as connection, connection:
        connection.execute("UPDATE person SET lookup = zeroblob(32)")
    with file_place.open() as ledger, pytest.raises(Refusal, match="key file is damaged"):
        ledger.book(booking("june", dose({"ann": 0.1})))
    with closing(sqlite3.connect(file_place.keys)) as connection, connection:
        connection.execute("DELETE FROM person")
    with file_place.open() as ledger, pytest.raises(Refusal, match="people are missing"):
        ledger.book(booking("june", dose({"ann": 0.1})))


def test_pseudonyms_of_two_ledgers_have_nothing_in_common(tmp_path):
    pairs = []
    for name in ("a.db", "b.db"):
        with Ledger.create(tmp_path / name) as ledger:
            ledger.book(booking("may", dose({"ann": 0.1}), noise_fingerprint=b"the same"))
            pairs.append((ledger.export()["doses"][0]["pseudonym"], ledger.entry("may").body["draw"]))
    assert pairs[0][0] != pairs[1][0]
    assert pairs[0][1] != pairs[1][1]


def test_the_path_of_the_keys_follows_option_variable_and_default(tmp_path, monkeypatch):
    monkeypatch.setenv("DOSIMETER_LEDGER_KEYS", str(tmp_path / "by variable"))
    with Ledger.create(tmp_path / "a.db") as ledger:
        assert ledger.keys_path == tmp_path / "by variable"
    with Ledger.create(tmp_path / "b.db", keys=tmp_path / "by option") as ledger:
        assert ledger.keys_path == tmp_path / "by option"
    monkeypatch.delenv("DOSIMETER_LEDGER_KEYS")
    with Ledger.create(tmp_path / "c.db") as ledger:
        assert ledger.keys_path == tmp_path / "c.db.keys"


def test_the_keys_of_a_server_are_in_the_users_data_folder(new_place, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    place = new_place("postgresql")
    with Ledger.create(place.target) as ledger:
        assert ledger.keys_path.parent == tmp_path / "share" / "dosimeter"
        ledger.book(booking("may"))
    with Ledger.open(place.target) as ledger:
        assert ledger.person("ann").known
    with suppress(FileNotFoundError):
        shutil.rmtree(tmp_path / "share")


def test_a_file_that_is_not_a_key_file_is_refused(tmp_path):
    Ledger.create(tmp_path / "book.db").close()
    for content in (b"", b"x" * 5000, b"SQLite format 3\x00" + b"\x01" * 4000):
        (tmp_path / "other").write_bytes(content)
        (tmp_path / "other").chmod(0o600)
        with pytest.raises(Refusal, match="key file"):
            Keys.open(tmp_path / "other")


def test_an_erasure_is_not_complete_while_the_log_still_holds_the_salt(file_place, monkeypatch):
    """A concurrent reader stops SQLite from emptying the log, and SQLite raises no error."""
    from dosimeter.ledger import sealed_file

    monkeypatch.setattr(sealed_file, "_LOCK_TIMEOUT", 0.1)
    with file_place.create() as ledger:
        ledger.book(booking("may", dose({"ann": 0.1, "bob": 0.1})))
        salts = _salts(file_place.keys)
        with closing(sqlite3.connect(file_place.keys, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM person").fetchone()
            with pytest.raises(Refusal, match="still in its log"):
                ledger.erase("ann")
        ledger.erase("ann")
        (gone,) = salts - _salts(file_place.keys)
        files = [file_place.keys, file_place.keys.with_name(file_place.keys.name + "-wal")]
        assert not any(gone in path.read_bytes() for path in files)
        assert [entry.body["count"] for entry in ledger.entries() if entry.kind == "erasure"] == [1]


def _salts(path):
    with closing(sqlite3.connect(path)) as connection:
        return {row[0] for row in connection.execute("SELECT salt FROM person")}


def test_a_late_writer_does_not_move_the_remembered_head_back(file_place):
    with file_place.create() as ledger:
        ledger.book(booking("may"))
        ledger.book(booking("june"))
        newest = ledger.keys.head
        ledger.keys.remember_head(2, ledger.entry("may").digest)
        ledger.erase("nobody")  # writes no entry
        assert ledger.keys.head == newest
        assert newest[0] == 3
