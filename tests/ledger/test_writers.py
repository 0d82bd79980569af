"""Sixteen concurrent writers: nothing is lost, nobody fails on a lock, and room for one release goes to one."""

from __future__ import annotations

import math
from contextlib import contextmanager

import pytest
from sqlalchemy import select

from dosimeter.ledger import OverBudget, schema
from dosimeter.ledger import ledger as ledger_module
from dosimeter.ledger.database import Database

from .crowd import at_once
from .samples import booking, dose

WRITERS = 16


def test_sixteen_writers_lose_nothing(place, tmp_path):
    place.create("fil=100").close()

    def work(k):
        with place.open() as ledger:
            for n in range(4):
                ledger.book(booking(f"writer {k} release {n}", dose({"ann": 0.1, f"own {k}": 0.2})))

    assert at_once(WRITERS, work, tmp_path) == [""] * WRITERS
    with place.open() as ledger:
        assert ledger.verify().entries == 1 + 4 * WRITERS
        rows = ledger.export()["doses"]
        # One person is in every release: the salt was created once, and all writers used it.
        assert sum(row["nano"] == 10_000_001 for row in rows) == 4 * WRITERS
        ann = ledger.person("ann")
        assert len(ann.entries) == 4 * WRITERS
        assert round(ann.totals[0].reading ** 2 * 1e9) == 4 * WRITERS * 10_000_001
        assert ledger.keys.salts_created == 1 + WRITERS


def test_with_room_for_one_release_exactly_one_is_booked(place, tmp_path):
    with place.create("fil=0.3") as ledger:
        ledger.book(booking("before", dose({"ann": 0.2})))

    def work(k):
        with place.open() as ledger:
            try:
                ledger.book(booking(f"writer {k}", dose({"ann": 0.2})))
            except OverBudget:
                (tmp_path / f"refused {k}").touch()

    assert at_once(WRITERS, work, tmp_path) == [""] * WRITERS
    assert len(list(tmp_path.glob("refused *"))) == WRITERS - 1
    with place.open() as ledger:
        assert len(ledger.releases()) == 2
        assert math.isclose(ledger.person("ann").totals[0].reading, math.hypot(0.2, 0.2), rel_tol=1e-7)
        assert ledger.verify().entries == 3


def test_one_name_booked_by_sixteen_is_counted_once_and_all_get_the_same_bytes(place, tmp_path):
    place.create("fil=0.15").close()

    def work(k):
        with place.open() as ledger:
            booked = ledger.book(booking("may", dose({"ann": 0.1})))
            (tmp_path / f"got {k}").write_bytes(booked.artefact)
            if booked.fresh:
                (tmp_path / f"fresh {k}").touch()

    assert at_once(WRITERS, work, tmp_path) == [""] * WRITERS
    assert len({path.read_bytes() for path in tmp_path.glob("got *")}) == 1
    assert len(list(tmp_path.glob("got *"))) == WRITERS
    assert len(list(tmp_path.glob("fresh *"))) == 1
    with place.open() as ledger:
        assert len(ledger.releases()) == 1
        assert ledger.artefact("may") == (tmp_path / "got 0").read_bytes()


def test_one_noise_booked_under_sixteen_names_is_booked_once(place, tmp_path):
    place.create().close()

    def work(k):
        with place.open() as ledger:
            ledger.book(booking(f"writer {k}", noise_fingerprint=b"the same noise"))

    wrong = at_once(WRITERS, work, tmp_path)
    assert wrong.count("") == 1
    assert all("this noise was already used for writer" in message for message in wrong if message)


def test_only_one_of_several_processes_creates_a_ledger(place, tmp_path):
    wrong = at_once(6, lambda k: place.create("fil=0.3").close(), tmp_path)
    assert wrong.count("") == 1
    assert all(
        ("Refusal" in message or "StorageFault" in message) and "already" in message for message in wrong if message
    )
    with place.open() as ledger:
        assert ledger.verify().entries == 1


def test_a_reader_is_not_disturbed_by_writers(place, tmp_path):
    """It always reads a consistent ledger: the chain, the parts and the doses of one moment."""
    place.create().close()

    def work(k):
        with place.open() as ledger:
            for n in range(5):
                if k == 0:
                    ledger.verify()
                else:
                    ledger.book(booking(f"writer {k} release {n}"))

    assert at_once(4, work, tmp_path) == [""] * 4


@pytest.mark.parametrize("act", ["open", "verify", "preview"])
def test_a_writer_between_two_reads_is_not_taken_for_tampering(place, monkeypatch, act):
    """The reader's snapshot is then older than the key file."""
    with place.create() as writer, place.open() as reader:
        writer.book(booking("may"))
        real = Database.reading

        @contextmanager
        def interrupted(self):
            with real(self) as connection:
                connection.execute(select(schema.entry.c.seq)).all()
                monkeypatch.setattr(Database, "reading", real)
                writer.book(booking("june", dose({"new": 0.1})))
                yield connection

        real_migrate = ledger_module.migrate
        monkeypatch.setattr(ledger_module, "migrate", lambda database: None)
        monkeypatch.setattr(Database, "reading", interrupted)
        {
            "open": lambda: place.open().close(),
            "verify": reader.verify,
            "preview": lambda: reader.preview(booking("x")),
        }[act]()
        monkeypatch.setattr(ledger_module, "migrate", real_migrate)
        assert len(reader.releases()) == 2


@pytest.mark.parametrize("used", ["before", "after"])
def test_a_ledger_is_used_on_both_sides_of_a_fork(place, tmp_path, used):
    with place.create() as ledger:
        if used == "before":
            ledger.book(booking("parent first"))
        assert at_once(2, lambda k: ledger.book(booking(f"child {k}")), tmp_path) == ["", ""]
        ledger.book(booking("parent"))
        assert len(ledger.releases()) == 3 + (used == "before")
        assert ledger.verify()
