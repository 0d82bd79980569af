"""Clients of a training: what they agreed on, their rows, and processes of their own over mutual TLS."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.location import Location
from dosimeter.engines.certificates import Authority, fingerprint_of, write_certificate, write_key
from dosimeter.models.client_training import client_job, client_terms_of
from dosimeter.models.federated_training import Job
from dosimeter.tables.bounds_file import bounds_of
from tests.deadlines import PATIENCE

HERE = "127.0.0.1"
COLUMNS = {
    "age": {"lower": 18, "upper": 100},
    "ward": {"levels": ["a", "b"]},
    "ill": {"levels": ["no", "yes"]},
}
SECTION = {"epsilon": 8, "delta": 1e-3, "rounds": 6, "noise-multiplier": 4.0, "epochs": 1, "batches": 2}


def agreed(clients: int, **changed: Any) -> tuple[Job, bytes]:
    """The training and the digest of what was agreed."""
    section = SECTION | changed
    names = [f"client{k}" for k in range(1, clients + 1)]
    columns = bounds_of(COLUMNS).columns
    study = sha256(json.dumps([section, COLUMNS, names], sort_keys=True).encode()).digest()
    return client_job(client_terms_of(section, Location("schema")), columns, "ill", names), study


def write_rows(path: Path, seed: int, n: int = 30) -> None:
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 95, n)
    ill = np.where(rng.random(n) < (age - 18) / 82, "yes", "no")
    lines = [f"{a:.6f},{w},{y}" for a, w, y in zip(age, rng.choice(["a", "b"], n), ill, strict=True)]
    path.write_text("\n".join(["age,ward,ill", *lines]) + "\n")


class ClientNetwork:
    """Folders, certificates and processes of a coordinator and its clients."""

    def __init__(self, folder: Path, clients: int, *, transport: str = "https", **changed: Any) -> None:
        self.folder, self.clients = folder, clients
        self.job, self.study = agreed(clients, **changed)
        self.facts = {"clients": clients, "changed": changed, "transport": transport}
        self.authority = Authority.create("training", 2)
        own, key = self.authority.coordinator(HERE, 2)
        write_certificate(folder / "ca.crt", self.authority.certificate)
        write_certificate(folder / "own.crt", own)
        write_key(folder / "own.key", key)
        self.own = fingerprint_of(own)
        self.roster: dict[str, int] = {}
        for number in range(1, clients + 1):
            self.roster[self.identity(self.place(number), f"client{number}")] = number
            write_rows(self.place(number) / "rows.csv", number)

    def place(self, number: int) -> Path:
        return self.folder / f"client{number}"

    def identity(self, place: Path, name: str, days: int = 2, authority: Authority | None = None) -> str:
        place.mkdir(exist_ok=True)
        certificate, key = (authority or self.authority).site(name, days)
        for file in ("site.crt", "site.key"):
            (place / file).unlink(missing_ok=True)
        write_certificate(place / "site.crt", certificate)
        write_key(place / "site.key", key)
        return fingerprint_of(certificate)

    @contextmanager
    def client(self, number: int, port: int, **facts: Any) -> Iterator[subprocess.Popen[str]]:
        """A client in a process of its own; `facts` go to `client_process.py`."""
        own = {**self.facts, "number": number, "port": port, "coordinator": self.own, **facts}
        (self.place(number) / "client.json").write_text(json.dumps(own))
        with _process("client_process.py", self.place(number)) as process:
            yield process

    @contextmanager
    def all_clients(self, port: int, **facts: Any) -> Iterator[list[subprocess.Popen[str]]]:
        with ExitStack() as stack:
            yield [stack.enter_context(self.client(k, port, **facts)) for k in range(1, self.clients + 1)]

    @contextmanager
    def coordinator(self, port: int, deadline: float = PATIENCE) -> Iterator[subprocess.Popen[str]]:
        """A coordinator in a process of its own, on a fixed port."""
        facts = {**self.facts, "port": port, "deadline": deadline, "roster": self.roster}
        (self.folder / "coordinator.json").write_text(json.dumps(facts))
        with _process("coordinator_process.py", self.folder) as process:
            yield process


@contextmanager
def _process(script: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(Path(__file__).with_name(script)), str(folder)]
    with (folder / f"{script}.log").open("a") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
