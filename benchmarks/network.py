"""A joint logistic fit over three sites in processes of their own, HTTPS with mutual TLS, on the loopback.

python benchmarks/network.py [--rows 100000] [--columns 30]

Prints seconds of the clock and of the coordinator's processor, passes, bytes of messages, and the memory of a site.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.noise import Gaussian
from dosimeter.engines.certificates import Authority, fingerprint_of, write_certificate, write_key
from dosimeter.engines.https_server import HttpsExchange, server_context
from dosimeter.engines.https_site import Coordinator, client_context, serve_site
from dosimeter.engines.protocol.assembly import Assembly
from dosimeter.engines.protocol.operations import largest_question
from dosimeter.engines.sites import SitesEngine
from dosimeter.models.consortium_fit import check_totals, fit_sites, totals_of
from dosimeter.models.consortium_model import consortium_model, public_bounds
from dosimeter.models.site_desk import SiteDesk
from dosimeter.models.site_table import SiteTable
from dosimeter.tables.column_values import text_array
from dosimeter.tables.consortium_schema import schema_of
from dosimeter.tables.table import Table

HERE, SITES = "127.0.0.1", 3


def tables(columns: int, certificates: list[str]) -> dict[str, Any]:
    return {
        "study": "benchmark", "person": "id", "target": "y", "loss": "logistic", "l2": 0.001,
        "release": {"name": "benchmark", "max-dose": 1.0},
        "columns": {**{f"x{j}": {"lower": -5, "upper": 5} for j in range(columns)}, "y": {"levels": ["0", "1"]}},
        "sites": [{"name": f"site{k}", "certificate": c} for k, c in enumerate(certificates, start=1)],
    }  # fmt: skip


def rows(schema: Any, number: int, n: int) -> SiteTable:
    rng = np.random.default_rng(number)
    d = len(schema.numbers)
    X = rng.normal(size=(n, d)).clip(-5, 5)
    y = (rng.random(n) < 1 / (1 + np.exp(-X @ np.linspace(-1, 1, d)))).astype(float)
    ids = text_array(tuple(f"{number}-{k}" for k in range(n)))
    return SiteTable(schema, Table((*schema.numbers, "y", "id"), (*X.T, y, ids)), 0)


def site(folder: Path, number: int, content: dict[str, Any], port: int, own: str, n: int, memory: Any) -> None:
    schema = schema_of(content)
    place = folder / f"site{number}"
    table = rows(schema, number, n)
    desk = SiteDesk(schema, number, lambda: table, lambda: None, place, lambda text: None)  # type: ignore[arg-type, return-value]
    serve_site(
        Coordinator(HERE, port, own, folder / "ca.crt"),
        client_context(folder / "ca.crt", place / "site.crt", place / "site.key"),
        desk.answer,
        most=largest_question(schema.sizes),
        stop=lambda: desk.finished is not None,
        patience=120.0,
        say=lambda text: None,
    )
    memory.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def run(folder: Path, n: int, columns: int) -> None:
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
    content = tables(columns, certificates)
    schema = schema_of(content)
    roster = {each.certificate: each.number for each in schema.sites}
    context = multiprocessing.get_context("spawn")
    memory = context.Queue()
    tls = server_context(folder / "ca.crt", folder / "own.crt", folder / "own.key")
    with HttpsExchange(roster, tls, HERE) as exchange:
        arguments = (content, exchange.port, fingerprint_of(own), n, memory)
        processes = [context.Process(target=site, args=(folder, k, *arguments)) for k in roster.values()]
        for process in processes:
            process.start()
        assembly = Assembly(exchange, schema.digest, list(roster.values()), schema.sizes, deadline=300.0, first_round=0)
        assembly.ask("match")
        clock, processor = time.perf_counter(), time.process_time()
        answers = assembly.ask("moments", check=lambda number, values: check_totals(schema, values))
        each = {number: totals_of(values) for number, values in answers.items()}
        totals = sum(list(each.values())[1:], each[1])
        model = consortium_model(schema, totals, Gaussian(1.0))
        bounds = public_bounds(schema, model, totals)
        engine = SitesEngine(assembly, bounds, {number: own.rows for number, own in each.items()})
        fit_sites(engine, model, bounds)
        clock, processor = time.perf_counter() - clock, time.process_time() - processor
        passes = engine.passes
        sent, received = exchange.bytes_out, exchange.bytes_in
        assembly.ask("finish", {"released": False})
        peaks = [memory.get(timeout=60) for _ in processes]
        for process in processes:
            process.join(timeout=60)
    print(f"{SITES} x {n:,} x {columns}: {clock:.2f} s of the clock, {processor:.2f} s of the coordinator's processor")
    print(f"{passes} passes, {clock / passes:.3f} s each")
    print(f"bytes of messages: {sent / passes / SITES:,.0f} to and {received / passes / SITES:,.0f} from a site a pass")
    print(f"largest memory of a site with its rows: {max(peaks):.0f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        run(Path(name), options.rows, options.columns)
