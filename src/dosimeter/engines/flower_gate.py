"""The gate before Flower's fleet API: who may pass, to which paths, with how many bytes.

A certificate of the authority that is not on the roster passes nowhere. A site on the roster passes to the eight calls
that carry messages. Flower's control API, its runtime API, registration and the download of apps are not behind the
gate at all, and the gate refuses their paths too.
"""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from dosimeter.engines.tls_server import CERTIFICATE, CERTIFICATE_BYTES

Scope = Mapping[str, Any]
App = Callable[[Any, Any, Any], Awaitable[None]]
PREFIX = "/v1/fleet/"
PUSHES = ("push-messages", "push-object")
CALLS = (
    "activate-node",
    "deactivate-node",
    "send-node-heartbeat",
    "pull-messages",
    "pull-object",
    "confirm-message-received",
    *PUSHES,
)
SMALL = 16_384
"""Bytes of a call that carries no answer."""
KEY_HEADER = b"flwr-public-key"
HOLD = 5.0
"""Seconds that a call for messages waits before it is answered with none."""


class FleetGate:
    """An ASGI application around Flower's; knows each site by its certificate."""

    def __init__(self, inner: App, roster: Mapping[str, int], key_header: bytes = KEY_HEADER) -> None:
        self._inner = inner
        self._roster = dict(roster)
        self._key_header = key_header
        self.seen: dict[int, float] = {}
        """When each site was last heard of, in seconds of the monotonic clock."""
        self.allowance: dict[int, int] = {}
        """Bytes that each site may still send for the question that is open there."""
        self.bytes_in = self.bytes_out = 0
        """Bytes of requests and of responses so far, without HTTP headers and TLS."""
        self.arrives: Callable[[int, bytes], None] = lambda site, key: None
        """Called with a site and its public key (PEM) when it activates its node."""
        self.has_message: Callable[[int], bool] = lambda site: True
        self.work = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or refuse it before its body is read."""
        if scope["type"] != "http":
            return
        site = self._roster.get(scope.get(CERTIFICATE, ""))
        status = 403 if site is None else self._refusal(scope, site)
        if site is None or status:
            await _respond(send, status)
            return
        self.seen[site] = time.monotonic()
        call = _call(scope)
        if call == "activate-node":
            self.arrives(site, public_key(scope[CERTIFICATE_BYTES]))
        if call == "pull-messages":
            await self._hold(site)

        async def counted(event: Any) -> None:
            self.bytes_out += len(event.get("body", b""))
            await send(event)

        await self._inner(scope, receive, counted)

    def _refusal(self, scope: Scope, site: int) -> int:
        """The status of a refused request, 0 if it may pass. Counts its bytes."""
        call, headers = _call(scope), dict(scope["headers"])
        if scope["method"] != "POST" or call not in CALLS:
            return 403
        if headers.get(self._key_header) != b64encode(public_key(scope[CERTIFICATE_BYTES])):
            return 403  # the node key of another site
        length = headers.get(b"content-length", b"")
        if not length.isdigit() or len(length) > 12:
            return 411
        most = self.allowance.get(site, 0) if call in PUSHES else SMALL
        if int(length) > most:
            return 413
        if call in PUSHES:
            self.allowance[site] = most - int(length)
        self.bytes_in += int(length)
        return 0

    async def _hold(self, site: int) -> None:
        """Wait until there is a message for this site, for a while."""
        end = time.monotonic() + HOLD
        while not self.has_message(site) and (left := end - time.monotonic()) > 0:
            self.work.clear()
            try:
                await asyncio.wait_for(self.work.wait(), min(left, 0.5))
            except TimeoutError:
                continue


def public_key(certificate: bytes) -> bytes:
    """The public key of a certificate (DER) as Flower writes it (PEM)."""
    key = x509.load_der_x509_certificate(certificate).public_key()
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _call(scope: Scope) -> str:
    path = str(scope["path"])
    return path.removeprefix(PREFIX) if path.startswith(PREFIX) else ""


async def _respond(send: Any, status: int) -> None:
    headers = [(b"content-length", b"0"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
