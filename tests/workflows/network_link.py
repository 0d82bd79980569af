"""A link between a site and the coordinator that can be cut, or that records what passes inside its TLS ends."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

HERE = "127.0.0.1"


class Link:
    """Passes bytes from its own port to the coordinator's, both ways; use it as a context manager.

    inside: (coordinator's folder, site's folder) ends TLS here with their keys and records the plain bytes.
    """

    def __init__(self, port: int, inside: tuple[Path, Path] | None = None) -> None:
        self._to = port
        self._listener = socket.create_server((HERE, 0))
        self.port = int(self._listener.getsockname()[1])
        self.recorded = bytearray()
        self._open = threading.Event()
        self._open.set()
        self._ended = False
        self._server: ssl.SSLContext | None = None
        self._client: ssl.SSLContext | None = None
        if inside is not None:
            from dosimeter.engines.https_server import server_context
            from dosimeter.engines.https_site import client_context

            coordinator, site = inside
            self._server = server_context(
                coordinator / "ca.crt", coordinator / "coordinator.crt", coordinator / "coordinator.key"
            )
            self._client = client_context(site / "ca.crt", site / "site.crt", site / "site.key")

    def __enter__(self) -> Link:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended = True
        self._open.set()
        self._listener.close()

    def cut_for(self, seconds: float) -> None:
        """No byte passes for a while; then everything that waited does."""
        self._open.clear()
        time.sleep(seconds)
        self._open.set()

    def _accept(self) -> None:
        with suppress(OSError):
            while not self._ended:
                near, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: Any) -> None:
        with suppress(OSError):
            far: Any = socket.create_connection((HERE, self._to), timeout=60)
            if self._server is not None and self._client is not None:
                near = self._server.wrap_socket(near, server_side=True)
                far = self._client.wrap_socket(far, server_hostname=HERE)
            far.settimeout(None)  # the limit was for the connection; a party on a busy machine may be silent for longer
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()
            return
        near.close()

    def _pass(self, one: Any, other: Any) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                self._open.wait(300)
                if self._server is not None:
                    self.recorded += data
                other.sendall(data)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
