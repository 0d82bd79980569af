"""A web server in a thread that demands mutual TLS and tells its application which certificate a connection has.

It listens at the named address and at no other, logs nothing, and writes nothing.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import threading
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text

MOST_OF_ONE = 8
"""Connections of one certificate. A site needs one or two; those of a cut link stay for a while."""
BACKLOG = 64
"""Connections that wait to be accepted."""
_REMEDIES = {
    errno.EADDRINUSE: "another program listens there: end it, or use another port here and at all sites",
    errno.EACCES: "use a port from 1024 on, here and at all sites",
}
CERTIFICATE = "dosimeter.certificate"
"""Where a request carries the SHA-256 of its sender's certificate, hex; "" without one."""
CERTIFICATE_BYTES = "dosimeter.certificate-bytes"
"""Where it carries the certificate itself (DER)."""


class _CertifiedProtocol(H11Protocol):
    """HTTP that tells the application which certificate the connection has.

    A certificate has a few connections, and a new one ends the oldest: one site cannot take those of the others.
    """

    mark, since = "", 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        certificate = None if tls is None else tls.getpeercert(binary_form=True)
        inner: Any = self.app
        mark = sha256(certificate).hexdigest() if certificate else ""
        self.mark, self.since = mark, time.monotonic()
        same: list[Any] = [each for each in self.connections if getattr(each, "mark", None) == mark]
        for old in sorted(same, key=lambda each: each.since)[:-MOST_OF_ONE]:
            old.transport.abort()

        async def certified(scope: Any, receive: Any, send: Any) -> None:
            await inner({**scope, CERTIFICATE: mark, CERTIFICATE_BYTES: certificate or b""}, receive, send)

        self.app = certified


def server_context(authority: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS 1.3 that demands a certificate of this authority from the other side."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority)
    context.load_cert_chain(certificate, key)
    return context


class TlsServer:
    """The server; use it as a context manager. `loop` is its event loop once it runs."""

    def __init__(self, app: Any, context: ssl.SSLContext, address: str, port: int, *, connections: int) -> None:
        self._listener = _listen(address, port)
        self.port = int(self._listener.getsockname()[1])
        config = Config(
            app,
            http=_CertifiedProtocol,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            ws="none",
            timeout_keep_alive=60,
            timeout_graceful_shutdown=1,
            limit_concurrency=connections,
            backlog=BACKLOG,
            h11_max_incomplete_event_size=16_384,
        )
        config.load()
        config.ssl = context
        self._server = Server(config)
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        self.loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> TlsServer:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=10)
        self._listener.close()

    @property
    def should_exit(self) -> bool:
        """Whether the server is being stopped."""
        return bool(self._server.should_exit)

    async def _run(self) -> None:
        self.loop = asyncio.get_running_loop()
        # With more connections than this process may have files, tracebacks of accept() would fill the disk.
        self.loop.set_exception_handler(lambda loop, context: None)
        await self._server.serve(sockets=[self._listener])
        # A connection whose other side was killed waits for the end of TLS; it would stay open after the loop.
        for transport in list(getattr(self.loop, "_transports", {}).values()):
            transport.abort()
        await asyncio.sleep(0.05)


def _listen(address: str, port: int) -> socket.socket:
    """A socket of the named address, and of no other."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        shown = f"{safe_text(address)} port {port}"
        todo = _REMEDIES.get(error.errno or 0, "name an address of this computer")
        raise Refusal(f"cannot listen at {shown} ({error.strerror}): {todo}") from None
    return listener
