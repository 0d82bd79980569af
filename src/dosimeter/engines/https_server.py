"""The coordinator's end of plain HTTPS: sites connect outwards with their certificates and ask for work.

Two paths and no other: `POST /v1/next` waits for a question, `POST /v1/answer` takes the answer. TLS demands a
certificate of the consortium's own authority; the roster then decides by the SHA-256 of the certificate which site it
is. Bytes beyond the agreed length are refused before they are read. Nothing is written anywhere.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text

HOLD = 10.0
"""Seconds that a request for work waits before it is answered with nothing."""
CERTIFICATE = "dosimeter.certificate"
"""Where a request carries the certificate of its sender."""


class _CertifiedProtocol(H11Protocol):
    """HTTP that tells the application which certificate the connection has."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        certificate = None if tls is None else tls.getpeercert(binary_form=True)
        inner: Any = self.app
        mark = sha256(certificate).hexdigest() if certificate else ""

        async def certified(scope: Any, receive: Any, send: Any) -> None:
            await inner({**scope, CERTIFICATE: mark}, receive, send)

        self.app = certified


def server_context(authority: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS 1.3 that demands a certificate of this authority from the other side."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority)
    context.load_cert_chain(certificate, key)
    return context


class HttpsExchange:
    """An `Exchange` over HTTPS with mutual TLS; use it as a context manager.

    roster: SHA-256 of a certificate, hex -> number of its site.
    """

    def __init__(self, roster: Mapping[str, int], context: ssl.SSLContext, address: str, port: int = 0) -> None:
        self._roster = dict(roster)
        self._context = context
        self._listener = _listen(address, port)
        self.port = int(self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._questions: dict[int, bytes] = {}
        self._answers: dict[int, bytes] = {}
        self._most = 0
        self._accept: Callable[[int, bytes], bool] = lambda site, data: False
        self._changed = threading.Condition(self._lock)
        self._work: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.seen: dict[int, float] = {}
        """When each site was last heard of, in seconds of the monotonic clock."""
        self.bytes_in = self.bytes_out = 0
        """Bytes of messages so far, without HTTP and TLS."""
        self._server = self._create_server()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> HttpsExchange:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=10)
        self._listener.close()

    # --- the coordinator's thread ---

    def ask(
        self, questions: Mapping[int, bytes], *, deadline: float, most: int, accept: Callable[[int, bytes], bool]
    ) -> dict[int, bytes]:
        """The answers that arrived in time; see `Exchange`."""
        with self._changed:
            self._questions, self._answers = dict(questions), {}
            self._most, self._accept = most, accept
        self._wake()
        end = time.monotonic() + deadline
        with self._changed:
            while self._questions and (left := end - time.monotonic()) > 0:
                self._changed.wait(min(left, 1.0))
            answers = dict(self._answers)
            self._questions, self._answers = {}, {}
        return answers

    def _wake(self) -> None:
        if self._loop is not None and self._work is not None:
            self._loop.call_soon_threadsafe(self._work.set)

    # --- the server's thread ---

    def _create_server(self) -> Server:
        routes = [Route("/v1/next", self._next, methods=["POST"]), Route("/v1/answer", self._take, methods=["POST"])]
        config = Config(
            Starlette(routes=routes),
            http=_CertifiedProtocol,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            ws="none",
            timeout_keep_alive=60,
            timeout_graceful_shutdown=1,
            limit_concurrency=8 * max(8, len(self._roster)),
            h11_max_incomplete_event_size=16_384,
        )
        config.load()
        config.ssl = self._context
        server = Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        return server

    def _serve(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._loop, self._work = asyncio.get_running_loop(), asyncio.Event()
        await self._server.serve(sockets=[self._listener])

    def _site(self, request: Request) -> int | None:
        site = self._roster.get(request.scope.get(CERTIFICATE, ""))
        if site is not None:
            self.seen[site] = time.monotonic()
        return site

    async def _next(self, request: Request) -> Response:
        """A question for the site that asks; 204 if there is none for a while."""
        site = self._site(request)
        if site is None:
            return Response(status_code=403)
        end = time.monotonic() + HOLD
        while self._work is not None:
            self._work.clear()
            with self._lock:
                question = self._questions.get(site)
                self.bytes_out += len(question or b"")
            left = end - time.monotonic()
            if question is not None:
                return Response(question, media_type="application/octet-stream")
            if left <= 0 or self._server.should_exit:
                break
            try:
                await asyncio.wait_for(self._work.wait(), min(left, 1.0))
            except TimeoutError:
                continue
        return Response(status_code=204)

    async def _take(self, request: Request) -> Response:
        """An answer: taken once, from the site that was asked; anything else is dropped."""
        site = self._site(request)
        if site is None:
            return Response(status_code=403)
        with self._lock:
            most = self._most if site in self._questions else 0
        length = request.headers.get("content-length", "")
        if not length.isdecimal() or len(length) > 12 or int(length) > most:
            return Response(status_code=413, headers={"connection": "close"})
        data = bytearray()
        async for piece in request.stream():
            data += piece
            if len(data) > most:
                return Response(status_code=413, headers={"connection": "close"})
        with self._changed:
            self.bytes_in += len(data)
            if site not in self._questions or not self._accept(site, bytes(data)):
                return Response(status_code=409)
            self._answers[site] = bytes(data)
            del self._questions[site]
            self._changed.notify_all()
        return Response(status_code=204)


def _listen(address: str, port: int) -> socket.socket:
    """A socket of the named address, and of no other."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(64)
    except OSError as error:
        listener.close()
        shown = f"{safe_text(address)} port {port}"
        raise Refusal(f"cannot listen at {shown} ({error.strerror}): name an address of this computer") from None
    return listener
