"""A ledger on each database. PostgreSQL is a temporary cluster on a socket, one per session; without its binaries its
tests are skipped."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from dosimeter.ledger import Ledger, LedgerLimit

_HOMES = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]


def _binaries() -> Path:
    initdb = shutil.which("initdb")
    for home in [*_HOMES, *([Path(initdb).resolve().parent] if initdb else [])]:
        if (home / "initdb").exists() and (home / "pg_ctl").exists():
            return home
    pytest.skip("PostgreSQL's server programs are not on this machine (Debian: apt install postgresql)")


@dataclass
class Cluster:
    """A temporary PostgreSQL server: data and socket in one folder, no port."""

    home: Path
    folder: Path
    user: str

    def run(self, *command: str) -> None:
        subprocess.run([*self._as_user(), *command], check=True, capture_output=True, cwd="/")

    def _as_user(self) -> list[str]:
        return ["runuser", "-u", self.user, "--"] if os.geteuid() == 0 else []

    def start(self) -> None:
        # No fsync: the tests kill processes, and never cut the machine's power.
        options = f"-k {self.folder} -c listen_addresses= -c fsync=off -c max_connections=60"
        log = str(self.folder / "log")
        try:
            self.run(
                str(self.home / "pg_ctl"), "-D", str(self.folder / "data"), "-w", "-t", "400", "-l", log,
                "-o", options, "start",
            )  # fmt: skip
        except subprocess.CalledProcessError:
            raise RuntimeError(Path(log).read_text()[-2000:]) from None

    def stop(self) -> None:
        self.run(str(self.home / "pg_ctl"), "-D", str(self.folder / "data"), "-m", "immediate", "stop")

    def kill(self) -> None:
        """kill -9 of the postmaster and its children, as in a crash; returns when they are gone."""
        pid = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
        family = [pid, *map(int, children.split())]
        for process in family:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        while any(_alive(process) for process in family):
            time.sleep(0.01)
        # If zombies are not reaped, the server would take its own zombie for a running server.
        for mark in (self.folder / "data" / "postmaster.pid", self.folder / ".s.PGSQL.5432.lock"):
            mark.unlink(missing_ok=True)

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"book_{uuid4().hex[:12]}"
        with psycopg.connect(host=str(self.folder), user=self.user, dbname="postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql://{self.user}@/{name}?host={self.folder}"


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A running server for this session's tests."""
    home = _binaries()
    user = pwd.getpwuid(os.geteuid()).pw_name
    if os.geteuid() == 0:
        user = "postgres"
        if user not in {account.pw_name for account in pwd.getpwall()}:
            pytest.skip("PostgreSQL refuses to run as root and there is no user postgres")
    # Not in pytest's folder: other users cannot enter it, and the path of a socket has at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="dosimeter-pg-"))
    if os.geteuid() == 0:
        shutil.chown(folder, user)
    server = Cluster(home, folder, user)
    try:
        server.run(str(home / "initdb"), "-D", str(folder / "data"), "-A", "trust", "-U", user, "--no-sync")
        server.start()
        yield server
    finally:
        with suppress(subprocess.CalledProcessError):
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Place:
    """The location of a test's ledger."""

    target: str
    keys: Path
    kind: str

    def create(self, *budgets: str, sign: bool = False) -> Ledger:
        return Ledger.create(self.target, [LedgerLimit.parse(b) for b in budgets], keys=self.keys, sign=sign)

    def open(self, **options: object) -> Ledger:
        return Ledger.open(self.target, keys=self.keys, **options)


@pytest.fixture
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Place]:
    """A location of this kind without a ledger."""

    def make(kind: str) -> Place:
        target = str(tmp_path / "book.db") if kind == "sqlite" else request.getfixturevalue("cluster").database()
        return Place(target, tmp_path / "book.keys", kind)

    return make


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, new_place: Callable[[str], Place]) -> Place:
    """Each database in turn."""
    return new_place(request.param)


@pytest.fixture
def file_place(new_place: Callable[[str], Place]) -> Place:
    """A ledger that is a file."""
    return new_place("sqlite")
