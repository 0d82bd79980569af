"""What a booking costs: releases a second (100 people each, forced to the disk), sixteen writers, and a large one.

    python benchmarks/ledger.py [--releases 200] [--people 100] [--large 100000] [--ledger postgresql://...]

The peer is the least that a durable book can do: one INSERT of the same bytes and one commit in SQLite, in the same
folder and process. The ratio is what the rules, the chain, the pseudonyms and the key file cost on top.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from dp_accounting import GaussianDpEvent

from dosimeter.core.accounts import Booking, LedgerLimit, SharedEventDose
from dosimeter.core.dose import Dose, EventDose
from dosimeter.core.notion import FISHER
from dosimeter.core.release import Recipe
from dosimeter.ledger import Ledger

RECIPE = Recipe("weights", "Gaussian(sigma=0.5)", {"loss": "squared", "l2": 0.01})


def booking(name: str, people: int, size: int = 4000) -> Booking:
    """A release of `size` bytes about so many people."""
    ids = [f"person {k}" for k in range(people)]
    dose = Dose.of_figures(FISHER, "person", ids, np.full(people, 1e-3), measured_in="standard deviations")
    return Booking(name, RECIPE, os.urandom(size), (dose,), os.urandom(16))


def bare(folder: Path, releases: int, size: int) -> float:
    """Commits a second of bare SQLite with the same bytes: people · 24 and the artefact."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE t (data BLOB)")
    start = time.perf_counter()
    for _ in range(releases):
        connection.execute("INSERT INTO t VALUES (?)", (os.urandom(size),))
    spent = time.perf_counter() - start
    connection.close()
    return releases / spent


def alone(target: str, keys: Path, releases: int, people: int) -> tuple[float, float]:
    """Releases a second of one writer, and the processor's seconds for one: the same on a busy machine."""
    with Ledger.open(target, keys=keys) as ledger:
        ledger.book(booking("warm", people))
        given = [booking(f"alone {k}", people) for k in range(releases)]
        start, worked = time.perf_counter(), time.process_time()
        for one in given:
            ledger.book(one)
        return releases / (time.perf_counter() - start), (time.process_time() - worked) / releases


def together(target: str, keys: Path, writers: int, releases: int, people: int) -> float:
    """Releases a second of so many processes at once, from the first fork to the last exit."""
    start = time.perf_counter()
    pids = []
    for w in range(writers):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                with Ledger.open(target, keys=keys) as ledger:
                    for k in range(releases // writers):
                        ledger.book(booking(f"writer {w} release {k}", people))
                code = 0
            finally:
                os._exit(code)
        pids.append(pid)
    if any(os.waitpid(pid, 0)[1] for pid in pids):
        raise SystemExit("a writer failed")
    return releases // writers * writers / (time.perf_counter() - start)


def large(target: str, keys: Path, people: int) -> None:
    """A booking of very many: the first, the second, one with events, a person's book, and the whole verified."""
    with Ledger.open(target, keys=keys) as ledger:
        for name in ("first", "second"):
            given = booking(f"large {name}", people)
            print(f"  {people} people, {name} time: {took(lambda g=given: ledger.book(g))}")
        ids = tuple(f"person {k}" for k in range(people))
        for name in ("first", "second"):
            events = SharedEventDose(ids, EventDose(GaussianDpEvent(10.0), "person", "replace-one"))
            given = Booking(f"events {name}", RECIPE, os.urandom(4000), (events,), os.urandom(16))
            print(f"  {people} people with one event, {name} time: {took(lambda g=given: ledger.book(g))}")
        print(f"  a person's book: {took(lambda: ledger.person('person 7'))}")
        print(f"  verify: {took(ledger.verify)} for {len(ledger.entries())} entries")


def took(call: Callable[[], object]) -> str:
    """How long it takes, and what of it the processor worked."""
    start, worked = time.perf_counter(), time.process_time()
    call()
    return f"{time.perf_counter() - start:.2f} s ({time.process_time() - worked:.2f} s of the processor)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--people", type=int, default=100)
    parser.add_argument("--large", type=int, default=100_000)
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--ledger", default="", help="the URL of an empty PostgreSQL database; default: SQLite")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target, keys = given.ledger or str(folder / "book.db"), folder / "book.keys"
        Ledger.create(target, [LedgerLimit("fil", 10.0), LedgerLimit("eps", 10.0, 1e-6)], keys=keys).close()
        limit = bare(folder, given.releases, given.people * 24 + 4000)
        print(f"bare SQLite, same bytes: {limit:.0f} commits/s")
        one, work = alone(target, keys, given.releases, given.people)
        print(f"one writer: {one:.0f} releases/s of {given.people} people ({limit / one:.1f} times the bare commit)")
        print(f"  of which the processor: {1e3 * work:.1f} ms a release")
        many = together(target, keys, given.writers, given.releases, given.people)
        print(f"{given.writers} writers: {many:.0f} releases/s together")
        large(target, keys, given.large)


if __name__ == "__main__":
    main()
