"""The coordinator's end of plain HTTPS: sites connect outwards with their certificates and ask for work.

Two paths and no other: `POST /v1/next` waits for a question, `POST /v1/answer` takes the answer. TLS demands a
certificate of the consortium's own authority; the roster then decides by the SHA-256 of the certificate which site it
is. Bytes beyond the agreed length are refused before they are read. Nothing is written anywhere.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Callable, Mapping

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dosimeter.engines.tls_server import CERTIFICATE, MOST_OF_ONE, TlsServer, server_context

__all__ = ["HttpsExchange", "server_context"]

HOLD = 10.0
"""Seconds that a request for work waits before it is answered with nothing."""


class HttpsExchange:
    """An `Exchange` over HTTPS with mutual TLS; use it as a context manager.

    roster: SHA-256 of a certificate, hex -> number of its site.
    """

    def __init__(self, roster: Mapping[str, int], context: ssl.SSLContext, address: str, port: int = 0) -> None:
        self._roster = dict(roster)
        self._lock = threading.Lock()
        self._questions: dict[int, bytes] = {}
        self._answers: dict[int, bytes] = {}
        self._most = 0
        self._accept: Callable[[int, bytes], bool] = lambda site, data: False
        self._changed = threading.Condition(self._lock)
        self._work = asyncio.Event()
        self.seen: dict[int, float] = {}
        """When each site was last heard of, in seconds of the monotonic clock."""
        self.bytes_in = self.bytes_out = 0
        """Bytes of messages so far, without HTTP and TLS."""
        routes = [Route("/v1/next", self._next, methods=["POST"]), Route("/v1/answer", self._take, methods=["POST"])]
        connections = MOST_OF_ONE * max(8, len(self._roster))
        self._server = TlsServer(Starlette(routes=routes), context, address, port, connections=connections)
        self.port = self._server.port

    def __enter__(self) -> HttpsExchange:
        self._server.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.__exit__()

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
        if self._server.loop is not None:
            self._server.loop.call_soon_threadsafe(self._work.set)

    # --- the server's thread ---

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
        while True:
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
