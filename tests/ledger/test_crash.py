"""Killed at any moment or failing at any statement: no release without its doses, none counted twice, one noise."""

from __future__ import annotations

import os
import random
import statistics
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

import dosimeter.ledger
from dosimeter.core.errors import Refusal
from dosimeter.ledger import OverBudget

from .crowd import child, finish, killed
from .samples import booking, dose

PACKAGE = str(Path(dosimeter.ledger.__file__).parent)
PEOPLE = [f"person {k}" for k in range(20)]
NANO = 10_000_001
"""η = 0.1 as an amount: the float 0.1² is above 0.01."""


def spends(ledger):
    """(seq, pseudonym) -> nano-units, for every dose in the ledger."""
    return {(row["seq"], row["pseudonym"]): row["nano"] for row in ledger.export()["doses"]}


def release(place, name, folder):
    """What `dosimeter release` does: draw noise, book, and write the stored bytes."""
    draw = os.urandom(16)
    with open(folder / "drawn", "ab") as file:
        file.write(draw)
    with place.open() as ledger:
        booked = ledger.book(
            booking(name, dose(dict.fromkeys(PEOPLE, 0.1)), artefact=b"model " + draw, noise_fingerprint=draw)
        )
    (folder / name).write_bytes(booked.artefact)


def survive(place, tmp_path, kills, seconds=600.0):
    """Kill that many releases at moments spread over the duration of one; (before, after) the commit.

    Or as many as fit into `seconds`, but at least until both kinds have occurred.
    """
    folder, log = tmp_path / "out", tmp_path / "log"
    folder.mkdir()
    ledger = place.create("fil=100")
    length = statistics.median(_length(lambda k=k: release(place, f"whole {k}", folder), log) for k in range(7))
    names, landed, rng = [f"whole {k}" for k in range(7)], [0, 0], random.Random(7)
    end = time.perf_counter() + seconds
    while (sum(landed) < kills and time.perf_counter() < end) or min(landed) == 0:
        names.append(f"killed {len(names)}")
        # Every second kill is aimed at the end, where the commit is, with no other process on the ledger: the last one
        # to close it also clears its log. Kills that come too late do not count.
        last = len(names) % 2 == 0
        moment = rng.uniform(0.6, 1.1) if last else rng.uniform(0.05, 1.05)
        if last:
            ledger.close()
        completed = not killed(lambda: release(place, names[-1], folder), moment * length, log)
        if last:
            ledger = place.open()
        # The machine may be busier, or idler, than when the duration was measured.
        if completed:
            length *= 0.98
            continue
        first = _stored(ledger, names[-1])
        landed[first is not None] += 1
        if first is None:
            length *= 1.01
        outside = folder / names[-1]
        assert first is not None or not outside.exists(), "a release went out without its spend"
        if len(names) % 4 == 0:  # run it again
            release(place, names[-1], folder)
            assert first in (None, _stored(ledger, names[-1])), "a second draw under one name"
    ledger.close()
    _hold(place, folder, names)
    return tuple(landed)


def _length(work, log):
    start = time.perf_counter()
    assert finish(child(work, log)) == 0, log.read_text()
    return time.perf_counter() - start


def _stored(ledger, name):
    """The bytes in the ledger, None if the name is not in it."""
    try:
        return ledger.artefact(name)
    except Refusal:
        return None


def _hold(place, folder, names):
    """Everything that must hold after any number of kills."""
    with place.open() as ledger:
        assert ledger.verify().entries == len(ledger.releases()) + 1
        booked = {entry.name: entry.seq for entry in ledger.releases()}
        assert set(booked) <= set(names)
        drawn = (folder / "drawn").read_bytes()
        for name in booked:
            artefact = ledger.artefact(name)
            assert artefact.removeprefix(b"model ") in drawn
            outside = folder / name
            assert not outside.exists() or outside.read_bytes() in (b"", artefact)
        rows = spends(ledger)
        assert len(rows) == len(booked) * len(PEOPLE)  # each release, each person, once
        assert set(rows.values()) == {NANO}
        assert len({pseudonym for _, pseudonym in rows}) == len(PEOPLE)


def test_kill_9_at_60_moments_of_a_release(file_place, tmp_path):
    """As many of the 60 as 20 s allow; all of them on an idle machine."""
    before, after = survive(file_place, tmp_path, 60, seconds=20.0)
    assert before >= 1
    assert after >= 1


@pytest.mark.slow
def test_kill_9_at_all_200_moments_of_a_release(file_place, tmp_path):
    before, after = survive(file_place, tmp_path, 200)
    assert before + after >= 200
    assert before >= 20
    assert after >= 5


def test_kill_9_at_moments_of_a_release_on_postgresql(new_place, tmp_path):
    before, after = survive(new_place("postgresql"), tmp_path, 60, seconds=10.0)
    assert before >= 1
    assert after >= 1


@pytest.mark.slow
def test_kill_9_at_200_moments_of_a_release_on_postgresql(new_place, tmp_path):
    before, after = survive(new_place("postgresql"), tmp_path, 200)
    assert before + after >= 200
    assert before >= 20
    assert after >= 5


class Fault(Exception):
    """An unexpected error."""


def _failing_at(n, ledger, new_booking):
    """Book with a fault at the n-th line of the ledger's code; False if fewer lines ran."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            count += 1
            if count == n:
                raise Fault
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        ledger.book(new_booking)
    except (Fault, Refusal):
        return True
    finally:
        sys.settrace(before)
    return count >= n


@pytest.mark.slow
def test_a_fault_at_any_line_leaves_all_of_a_release_or_nothing(file_place):
    with file_place.create("fil=100") as ledger:
        n, hit = 0, True
        while hit:
            n += 1
            new_booking = booking(f"at line {n}", dose({"ann": 0.1, "new": 0.1}))
            hit = _failing_at(n, ledger, new_booking)
            stored = _stored(ledger, new_booking.name)
            assert stored in (None, new_booking.artefact)
            assert len(ledger.person("new").entries) == (stored is not None)
            assert ledger.book(booking(new_booking.name, *new_booking.doses)).fresh == (stored is None)
            assert ledger.erase("new")  # new again next time; the key file does not grow
        assert n > 150
        assert ledger.verify().entries == 1 + 2 * n
        assert len(ledger.person("ann").entries) == n


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_fault_at_any_statement_of_sql_leaves_all_of_a_release_or_nothing(place, when):
    """Also around the commit, where a lost server leaves the caller in doubt."""
    hook = {"before": "before_cursor_execute", "after": "after_cursor_execute"}[when]
    left = 0

    def fail(*_):
        nonlocal left
        left -= 1
        if left == 0:
            raise Fault

    with place.create("fil=100") as ledger:
        event.listen(Engine, hook, fail)
        event.listen(Engine, "commit", fail)
        try:
            n = 0
            while True:
                n += 1
                new_booking, left = booking(f"statement {n}", dose({"ann": 0.1, f"new {n}": 0.1})), n
                try:
                    ledger.book(new_booking)
                except Fault:
                    left = 0
                    assert new_booking.name not in {entry.name for entry in ledger.releases()}
                    assert ledger.book(new_booking).fresh
                    continue
                break
        finally:
            event.remove(Engine, hook, fail)
            event.remove(Engine, "commit", fail)
        assert n > 10
        assert ledger.verify().entries == n + 1
        assert len(ledger.person("ann").entries) == n


def test_a_killed_server_loses_nothing_and_counts_once(new_place, cluster, tmp_path):
    place, log = new_place("postgresql"), tmp_path / "log"
    place.create("fil=100").close()

    def busy():
        with place.open() as ledger:
            for k in range(10_000):
                ledger.book(booking(f"release {k}", dose(dict.fromkeys(PEOPLE, 0.1))))
                (tmp_path / "reported").write_text(str(k))

    pid = child(busy, log)
    while not (tmp_path / "reported").exists() or int((tmp_path / "reported").read_text() or 0) < 5:
        time.sleep(0.01)
    cluster.kill()
    assert finish(pid) == 1
    assert "StorageFault" in log.read_text().splitlines()[-1]
    assert "book again under the same name" in log.read_text()
    cluster.start()
    reported = int((tmp_path / "reported").read_text())
    with place.open() as ledger:
        names = [entry.name for entry in ledger.releases()]
        assert names in ([f"release {k}" for k in range(n)] for n in (reported + 1, reported + 2))
        again = ledger.book(booking(f"release {reported + 1}", dose(dict.fromkeys(PEOPLE, 0.1))))
        assert again.fresh == (len(names) == reported + 1)
        assert ledger.verify().entries == reported + 3
        assert len(spends(ledger)) == (reported + 2) * len(PEOPLE)


def test_a_refused_release_is_refused_again_after_a_crash(file_place, tmp_path):
    file_place.create("fil=0.12").close()
    folder = tmp_path / "out"
    folder.mkdir()
    release(file_place, "may", folder)
    for delay in (0.001, 0.005, 0.02):
        killed(lambda: _ignored(file_place, folder), delay, tmp_path / "log")
    with file_place.open() as ledger:
        assert [entry.name for entry in ledger.releases()] == ["may"]
        assert ledger.verify().entries == 2
    assert not (folder / "june").exists()


def _ignored(place, folder):
    try:
        release(place, "june", folder)
    except OverBudget:
        return
