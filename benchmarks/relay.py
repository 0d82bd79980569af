"""A relay that counts the bytes of connections, and processes with all that they start: standard library only."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

HERE = "127.0.0.1"


class Relay:
    """Passes connections on and counts their bytes: to the server (`up`) and from it (`down`)."""

    def __init__(self, target: int) -> None:
        self.up = self.down = 0
        self._target = target
        self._listener = socket.create_server((HERE, 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection((HERE, self._target), timeout=5)
            except OSError:
                if self._listener.fileno() < 0:
                    return
                near.close()
                continue
            far.settimeout(None)
            for source, sink, name in ((near, far, "up"), (far, near, "down")):
                threading.Thread(target=self._pass, args=(source, sink, name), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, name: str) -> None:
        try:
            while data := source.recv(1 << 16):
                setattr(self, name, getattr(self, name) + len(data))
                sink.sendall(data)
        except OSError:
            pass
        for each in (source, sink):
            each.close()

    def close(self) -> None:
        self._listener.close()


@contextmanager
def process(command: list[str], environment: dict[str, str] | None = None, log: Path | None = None) -> Any:
    """A process with a session of its own, which ends with everything that it started."""
    output = subprocess.DEVNULL if log is None else log.open("a")
    child = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
