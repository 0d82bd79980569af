"""Clusters of separate processes with TLS, and functions that do harm on a worker."""

import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest

from dosimeter.engines.dask import DaskEngine
from tests.ports import free_port

distributed = pytest.importorskip("distributed", reason="Dask is not installed (the extra `dask`)")
cloudpickle = pytest.importorskip("cloudpickle")
dask = pytest.importorskip("dask")

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers have no copy of the tests


@contextmanager
def cluster(workers=2, memory="1GB", **settings):
    """A client of a scheduler with TLS and worker processes of one thread each.

    A LocalCluster ends the keeper of a worker that is away 15 s after it was lost: on a busy machine a test that kills
    workers again and again would lose them for good.
    """
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour", **settings}),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            security=distributed.Security.temporary(),
            memory_limit=memory,
            silence_logs=logging.CRITICAL,
        ) as here,
        distributed.Client(here) as client,
    ):
        yield client


def first_to(marker):
    """Whether this call is the first that asks for the marker, among all processes."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def dies_once(block, f, marker):
    """f, but the process of the first call ends in the middle."""
    result = f(block)
    if first_to(marker):
        os.kill(os.getpid(), signal.SIGKILL)
    return result


def stalls_once(block, f, marker, seconds):
    """f, but the first call is slow."""
    if first_to(marker):
        time.sleep(seconds)
    return f(block)


def fills_memory(block):
    """Takes more and more memory, slowly enough for who watches it on a busy machine."""
    held = []
    while True:
        held.append(np.ones(1 << 19))
        time.sleep(0.01)


class HarmedEngine(DaskEngine):
    """An engine whose functions are replaced by harm(function, number of the pass)."""

    def __init__(self, client, harm):
        super().__init__(client)
        self.harm = harm

    def sum_over(self, blocks, f):
        return super().sum_over(blocks, self.harm(f, self.passes))

    def map_over(self, blocks, f):
        return super().map_over(blocks, self.harm(f, self.passes))


class Separate:
    """A scheduler and a worker that were started by themselves, as on a cluster that already exists."""

    def __init__(self, folder, port):
        security = distributed.Security.temporary()
        self.folder, self.port, self.processes = folder, port, []
        pems = {"ca": security.tls_ca_file, "cert": security.tls_worker_cert, "key": security.tls_worker_key}
        self.files = {name: folder / f"{name}.pem" for name in pems}
        for name, text in pems.items():
            self.files[name].write_text(text)

    @property
    def address(self):
        return f"tls://127.0.0.1:{self.port}"

    @property
    def settings(self):
        """Dask's own settings of TLS, as a site keeps them in its configuration."""
        roles = ("client", "worker", "scheduler")
        pairs = {
            f"distributed.comm.tls.{role}.{name}": str(self.files[name]) for role in roles for name in ("cert", "key")
        }
        return {"distributed.comm.tls.ca-file": str(self.files["ca"]), **pairs}

    def start(self):
        tls = [
            f"--tls-{name}={path}" for name, path in zip(("ca-file", "cert", "key"), self.files.values(), strict=True)
        ]
        self._run("scheduler", f"--port={self.port}", "--host=127.0.0.1", "--no-dashboard", *tls)
        self._run("worker", self.address, "--nthreads=1", "--no-dashboard", "--no-nanny", *tls)

    def _run(self, *words):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        environment = {**os.environ, "DASK_LOGGING__DISTRIBUTED": "critical"}
        command = [sys.executable, "-m", "dask", *words]
        self.processes.append(subprocess.Popen(command, cwd=self.folder, env=environment, **quiet))

    def kill(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes = []


@contextmanager
def separate_cluster(folder):
    """A `Separate` that is not started yet; Dask's settings here are those of its site."""
    site = Separate(folder, free_port())
    try:
        with dask.config.set(site.settings):
            yield site
    finally:
        site.kill()
