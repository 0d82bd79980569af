"""The connection to a cluster: who may be connected to, what must be installed there, and how long is waited."""

from __future__ import annotations

import ipaddress
import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dosimeter.core.closed_pipes import ignore_closed_pipes
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.progress import advance
from dosimeter.core.text import safe_text

CONNECT = 30.0
"""Seconds to wait for a scheduler."""
PATIENCE = 60.0
"""Seconds without a worker that takes tasks, after which the computation is given up."""
TICK = 0.5
"""Seconds between two looks at the cluster."""
NEEDED = ("dosimeter", "numpy", "scipy")
"""Packages whose versions must be the same on all workers: the figures depend on them."""


class ClusterLost(Refusal):
    """The scheduler went away in the middle of a pass. The pass can be begun again."""


def open_client(address: str | None) -> Any:
    """A client of the scheduler at this address; without one the client that is open already, or None.

    Certificates come from Dask's own configuration (`distributed.comm.tls`).
    """
    try:
        from distributed import Client, Security
    except ImportError:
        raise Refusal(f"{option('engine', 'dask')} needs Dask: pip install 'dosimeter[dask]'") from None
    if address is None:
        return _client_of_this_process()
    refuse_open_transport(address)
    where = option("scheduler", safe_text(address, 120))
    ignore_closed_pipes()  # a worker or scheduler that goes away would end this program without a word
    try:
        return Client(address, security=Security(), timeout=CONNECT, set_as_default=False)
    except Exception as error:  # no route, no certificate, a certificate of another authority, another protocol
        raise Refusal(
            f"{where}: no scheduler can be reached ({safe_text(error, 120)}); check the address, and the certificates "
            "in Dask's configuration (distributed.comm.tls)"
        ) from None


def _client_of_this_process() -> Any:
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def refuse_open_transport(address: str) -> None:
    """Refuse an address without TLS, unless it is on this machine.

    >>> refuse_open_transport("tcp://127.0.0.1:8786")
    >>> refuse_open_transport("tls://scheduler.example:8786")
    """
    try:
        parts = urlsplit(address)
        host, scheme = parts.hostname or "", parts.scheme
    except ValueError:
        host = scheme = ""
    if scheme == "tls" and host:
        return
    if scheme == "tcp" and _is_here(host):
        return
    fault = "it is not encrypted, and anyone who reaches it can run code" if scheme == "tcp" else "it is no address"
    todo = "use tls://HOST:PORT with certificates"
    raise Refusal(f"{option('scheduler', safe_text(address, 120))}: {fault}; {todo}")


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def software() -> tuple[str, ...]:
    """Versions of what the figures depend on, where this function runs."""
    from importlib.metadata import PackageNotFoundError, version

    def installed(name: str) -> str:
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            return f"{name}, not installed as a package"

    return tuple(installed(name) for name in NEEDED)


def check_software(client: Any) -> None:
    """Refuse workers that cannot import this package, or that have other versions of it."""
    here = software()
    try:
        there = client.run(software, on_error="return")
    except Exception as error:
        raise Refusal(f"the workers do not answer ({safe_text(error, 120)}): check the cluster") from None
    for worker, versions in there.items():
        if isinstance(versions, BaseException):
            todo = f"install {here[0]} there"
            raise Refusal(f"worker {safe_text(worker, 80)} cannot run dosimeter ({safe_text(versions, 100)}): {todo}")
        for mine, its in zip(here, versions, strict=True):
            if mine != its:
                todo = "install the same versions on all workers"
                raise Refusal(f"worker {safe_text(worker, 80)} has {safe_text(its)} and this computer {mine}: {todo}")


def check_folder(client: Any, folder: Path) -> None:
    """Refuse workers that do not write into the folder of the readings as this computer sees it."""
    probe = folder / f".seen-{uuid.uuid4().hex}"
    probe.write_bytes(b"")
    try:
        for worker, seen in client.run(_sees, str(probe), on_error="return").items():
            if seen is not True:
                raise Refusal(
                    f"worker {safe_text(worker, 80)} does not share the folder {safe_text(folder, 120)}, where it "
                    f"would write readings: name one that all of them share with {option('checkpoint')}"
                )
    finally:
        probe.unlink(missing_ok=True)


def _sees(probe: str) -> bool:
    return os.path.exists(probe) and os.access(os.path.dirname(probe), os.W_OK)


def collect(client: Any, nodes: list[Any], watched: Sequence[Any]) -> Sequence[Any]:
    """The values of the nodes of a graph. watched: nodes whose ends are reported as progress.

    Nothing is left on the cluster, whatever happens.
    """
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError, FuturesCancelledError
    from distributed.comm import CommClosedError

    futures: list[Any] = []
    lost = (FutureCancelledError, FuturesCancelledError, CommClosedError, OSError)
    try:
        _wait_until_connected(client)
        futures = client.compute([*nodes, *watched], optimize_graph=False)
        results, progress = futures[: len(nodes)], futures[len(nodes) :]
        with client.as_current():  # `wait` asks for the client of this process, and ours is not its default
            _wait(client, results, progress)
        # From the workers themselves; the scheduler carries only what the client cannot fetch.
        values: Sequence[Any] = client.gather(results, direct=True)
        return values
    except KilledWorker as error:
        deaths = error.allowed_failures + 1
        raise Refusal(
            f"workers died {deaths} times at the same rows, most likely for want of memory: give them more "
            "memory, or write the table in smaller row groups or partitions"
        ) from None
    except Refusal:
        raise
    except lost as error:
        if isinstance(error, OSError) and not isinstance(error, CommClosedError) and client.status == "running":
            raise  # an error of a task, not of the connection
        raise ClusterLost(
            f"the connection to the scheduler was lost ({safe_text(error, 100)}): start the cluster and run it again"
        ) from None
    finally:
        _release(futures)


def _wait_until_connected(client: Any) -> None:
    deadline = time.monotonic() + CONNECT
    while client.status == "connecting" and time.monotonic() < deadline:
        time.sleep(TICK)
    if client.status != "running":
        raise ClusterLost("the scheduler went away and did not come back: start the cluster and run it again")


def _wait(client: Any, results: list[Any], progress: list[Any]) -> None:
    """Until the results are there. Refused if for a while no worker can take a task."""
    from distributed import wait

    useful = time.monotonic()
    while True:
        try:
            wait(results, timeout=TICK)
            advance(1.0)
            return
        except TimeoutError:
            pass
        advance(sum(each.done() for each in progress) / len(progress))
        if client.status != "running" or _can_work(client):
            useful = time.monotonic()
        elif time.monotonic() - useful > PATIENCE:
            raise Refusal(
                f"no worker took a task for {PATIENCE:.0f} s: there is none, or all are paused because their memory is "
                "full; start workers, or give them more memory"
            )


def _can_work(client: Any) -> bool:
    """Whether some worker takes tasks."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return any(worker.get("status", "running") == "running" for worker in workers.values())


def _release(futures: list[Any]) -> None:
    """Nobody wants them any more, so the scheduler forgets them and what they need; a cancellation would do no more."""
    for future in futures:
        future.release()
