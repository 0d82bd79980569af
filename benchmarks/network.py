"""Studies over three sites in processes of their own, HTTPS with mutual TLS, on the loopback: seconds, bytes, memory.

python benchmarks/network.py [--kind model] [--rows 100000] [--columns 30] [--rounds 20] [--whole] [--transport https]

--kind is model (a joint logistic fit), components or training (patients as the unit). A model is fitted only; --whole
also chooses the noise, asks for limits, draws, and books every patient in the sites' ledgers. Prints, for each
operation, how often it was asked, seconds of the clock and bytes of messages a site; the coordinator's processor; the
largest memory of a site. Set OPENBLAS_NUM_THREADS=1: three sites with two threads each on two cores wait for each
other, and a Newton pass takes ten times as long.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import socket
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.engines.certificates import Authority, fingerprint_of, write_certificate, write_key
from dosimeter.engines.protocol.assembly import Assembly
from dosimeter.engines.protocol.operations import largest_question
from dosimeter.engines.transports import TRANSPORTS, ServerPlace, SitePlace, transport_named
from dosimeter.files.consortium_journal import open_journal
from dosimeter.ledger import Ledger
from dosimeter.models.consortium_kinds import coordinate
from dosimeter.models.consortium_study import CoordinatorStudy
from dosimeter.models.model_study import joint_fit
from dosimeter.models.site_desk import SiteDesk
from dosimeter.models.site_table import SiteTable
from dosimeter.tables.column_values import text_array
from dosimeter.tables.consortium_schema import schema_of
from dosimeter.tables.table import Table

HERE, SITES = "127.0.0.1", 3


def tables(kind: str, columns: int, rounds: int, n: int, certificates: list[str]) -> dict[str, Any]:
    budget = {"name": "benchmark", "epsilon": 2.0, "delta": 1e-7}
    kinds: dict[str, dict[str, Any]] = {
        "model": {"loss": "logistic", "l2": 0.001, "release": {"name": "benchmark", "max-dose": 1.0}},
        "components": {"components": {"components": 3}, "release": budget},
        "training": {
            "training": {"rounds": rounds, "patients-per-round": 0.1 * SITES * n, "noise-multiplier": 2.0},
            "release": budget,
        },
    }
    numbers = {f"x{j}": {"lower": -5, "upper": 5} for j in range(columns)}
    target = {} if kind == "components" else {"y": {"levels": ["no", "yes"]}}
    sites = [{"name": f"site{k}", "certificate": c, "patients": n} for k, c in enumerate(certificates, start=1)]
    named = {} if kind == "components" else {"target": "y"}
    return {"study": "benchmark", "person": "id", **named, **kinds[kind], "columns": {**numbers, **target},
            "sites": sites}  # fmt: skip


def rows(schema: Any, number: int, n: int) -> SiteTable:
    rng = np.random.default_rng(number)
    d = len(schema.numbers)
    X = rng.normal(size=(n, d)).clip(-5, 5)
    ids = text_array(tuple(f"{number}-{k}" for k in range(n)))
    if not schema.target:
        return SiteTable(schema, Table((*schema.numbers, "id"), (*X.T, ids)), 0)
    ill = rng.random(n) < 1 / (1 + np.exp(-X @ np.linspace(-1, 1, d)))
    y = text_array(tuple("yes" if each else "no" for each in ill))
    return SiteTable(schema, Table((*schema.numbers, "y", "id"), (*X.T, y, ids)), 0)


def site(
    folder: Path, number: int, content: dict[str, Any], transport: str, port: int, own: str, n: int, memory: Any
) -> None:
    schema = schema_of(content)
    place = folder / f"site{number}"
    table = rows(schema, number, n)
    ledger = place / "ledger.db"
    Ledger.create(ledger, ["fil=2", "eps=50@1e-7"]).close()
    desk = SiteDesk(schema, number, lambda: table, lambda: Ledger.open(ledger), place, lambda text: None)
    transport_named(transport).serve_site(
        SitePlace(HERE, port, own, folder / "ca.crt", place / "site.crt", place / "site.key", place),
        desk.answer,
        most=largest_question(schema.sizes),
        stop=lambda: desk.finished is not None,
        patience=300.0,
        say=lambda text: None,
    )
    memory.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


class Clock:
    """Seconds and bytes of each operation."""

    def __init__(self, exchange: Any) -> None:
        self._exchange = exchange
        self._last: tuple[str, float, int, int] | None = None
        self.spent: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0, 0])

    def __call__(self, operation: str) -> None:
        now = time.perf_counter()
        if self._last is not None:
            name, then, sent, received = self._last
            out, back = self._bytes
            for k, amount in enumerate((1, now - then, out - sent, back - received)):
                self.spent[name][k] += amount
        self._last = operation, now, *self._bytes

    @property
    def _bytes(self) -> tuple[int, int]:
        return getattr(self._exchange, "bytes_out", 0), getattr(self._exchange, "bytes_in", 0)

    def show(self) -> None:
        for name, (count, seconds, sent, received) in self.spent.items():
            each = f"{sent / count / SITES:>10,.0f} B to and {received / count / SITES:>8,.0f} B from a site"
            print(f"  {name:<24} {count:>3} x {seconds / count:7.3f} s  {each}")


def run(folder: Path, kind: str, n: int, columns: int, rounds: int, whole: bool, transport: str) -> None:
    authority = Authority.create("benchmark", 2)
    own, key = authority.coordinator(HERE, 2)
    write_certificate(folder / "ca.crt", authority.certificate)
    write_certificate(folder / "own.crt", own)
    write_key(folder / "own.key", key)
    certificates = []
    for k in range(1, SITES + 1):
        (folder / f"site{k}").mkdir()
        certificate, site_key = authority.site(f"site{k}", 2)
        write_certificate(folder / f"site{k}" / "site.crt", certificate)
        write_key(folder / f"site{k}" / "site.key", site_key)
        certificates.append(fingerprint_of(certificate))
    content = tables(kind, columns, rounds, n, certificates)
    schema = schema_of(content)
    roster = {each.certificate: each.number for each in schema.sites}
    context = multiprocessing.get_context("spawn")
    memory = context.Queue()
    (folder / "state").mkdir()
    with socket.create_server((HERE, 0)) as listener:
        port = listener.getsockname()[1]
    place = ServerPlace(HERE, port, folder / "ca.crt", folder / "own.crt", folder / "own.key", folder / "state")
    opened = transport_named(transport).open_exchange(place, roster)
    work: Callable[[CoordinatorStudy], Any] = coordinate if whole or kind != "model" else joint_fit
    with opened as exchange, open_journal(folder / "state", schema.digest) as journal:
        arguments = (content, transport, port, fingerprint_of(own), n, memory)
        processes = [context.Process(target=site, args=(folder, k, *arguments)) for k in roster.values()]
        for process in processes:
            process.start()
        assembly = Assembly(exchange, schema.digest, list(roster.values()), schema.sizes, deadline=500.0, first_round=0)
        assembly.ask("match")
        assembly.watch = clock = Clock(exchange)
        seconds, processor = time.perf_counter(), time.process_time()
        work(CoordinatorStudy(schema, assembly, journal, lambda text: None))
        seconds, processor = time.perf_counter() - seconds, time.process_time() - processor
        assembly.ask("finish", {"released": False})
        peaks = [memory.get(timeout=60) for _ in processes]
        for process in processes:
            process.join(timeout=60)
    print(f"{kind} over {transport}, {SITES} x {n:,} x {columns}: {seconds:.2f} s of the clock, {processor:.2f} s of "
          "the coordinator's processor")  # fmt: skip
    clock.show()
    print(f"largest memory of a site with its rows: {max(peaks):.0f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=["model", "components", "training"], default="model")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--transport", choices=list(TRANSPORTS), default="https")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        run(Path(name), options.kind, options.rows, options.columns, options.rounds, options.whole, options.transport)
