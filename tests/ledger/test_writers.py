"""Sixteen writers at once: nothing is lost, nobody sees a lock, and room for one is given to one."""

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
        # One person's rows are in every release; whoever made their salt first, all the others used it.
        assert sum(row["nano"] == 10_000_001 for row in rows) == 4 * WRITERS
        ann = ledger.person("ann")
        assert len(ann.entries) == 4 * WRITERS
        assert round(ann.totals[0].reading ** 2 * 1e9) == 4 * WRITERS * 10_000_001
        assert ledger.keys.made == 1 + WRITERS


def test_at_a_cap_with_room_for_one_exactly_one_wins(place, tmp_path):
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


def test_one_name_raced_by_sixteen_spends_once_and_all_get_the_same_bytes(place, tmp_path):
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


def test_one_draw_raced_under_sixteen_names_is_booked_once(place, tmp_path):
    place.create().close()

    def work(k):
        with place.open() as ledger:
            ledger.book(booking(f"writer {k}", draw=b"the same noise"))

    wrong = at_once(WRITERS, work, tmp_path)
    assert wrong.count("") == 1
    assert all("this noise was drawn for writer" in said for said in wrong if said)


def test_a_book_is_made_by_one_of_several_at_once(place, tmp_path):
    wrong = at_once(6, lambda k: place.create("fil=0.3").close(), tmp_path)
    assert wrong.count("") == 1
    assert all("Refusal" in said and "already" in said for said in wrong if said)
    with place.open() as ledger:
        assert ledger.verify().entries == 1


def test_a_reader_is_not_disturbed_by_writers(place, tmp_path):
    """Whatever it sees is a whole book: the chain, the parts and the doses of one moment."""
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
def test_a_writer_who_comes_between_a_readers_looks_is_not_taken_for_a_forger(place, monkeypatch, act):
    """The reader's snapshot is older than the key file by then."""
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
