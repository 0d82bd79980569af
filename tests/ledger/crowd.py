"""Concurrent processes on one ledger: forked from a parent with all imports, so that each starts in milliseconds."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path


def child(work: Callable[[], None], log: Path) -> int:
    """Fork a child that does the work and exits, with its traceback in `log`. Returns its process id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        log.write_text(traceback.format_exc())
    finally:
        # No exit handler of the parent (pytest, coverage, connections) may run here.
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        os._exit(code)


def finish(pid: int) -> int:
    """Wait; the exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def at_once(count: int, work: Callable[[int], None], folder: Path) -> list[str]:
    """Run `count` processes that start together; the traceback of each, "" for success."""
    gate_out, gate_in = os.pipe()
    logs = [folder / f"log {k}" for k in range(count)]

    def start(k: int) -> Callable[[], None]:
        def go() -> None:
            os.close(gate_in)
            os.read(gate_out, 1)  # until the parent closes its end
            work(k)

        return go

    pids = [child(start(k), logs[k]) for k in range(count)]
    os.close(gate_in)
    os.close(gate_out)
    codes = [finish(pid) for pid in pids]
    return [
        "" if code == 0 else (log.read_text() if log.exists() else f"exit {code}")
        for code, log in zip(codes, logs, strict=True)
    ]


def killed(work: Callable[[], None], delay: float, log: Path) -> bool:
    """Run the work in a child and kill -9 it after `delay` seconds; True if the kill came before the end."""
    pid = child(work, log)
    end = time.perf_counter() + delay
    while time.perf_counter() < end:
        time.sleep(min(0.001, max(0.0, end - time.perf_counter())))
    os.kill(pid, signal.SIGKILL)
    code = finish(pid)
    if code not in (0, -signal.SIGKILL):
        raise AssertionError(log.read_text())
    return code != 0
