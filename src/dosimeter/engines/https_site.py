"""A site's end of plain HTTPS: it connects outwards, asks for questions and sends answers. It opens no port.

The site checks that the coordinator has a certificate of the consortium's authority, with the right address, and that
it is the very certificate that was agreed on: another site's certificate is not enough.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text
from dosimeter.engines.protocol.exchange import Answerer

WAIT = 60.0
"""Seconds after which a silent connection is opened anew."""
PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds between attempts to reach the coordinator; the last one again and again."""


class NotAdmitted(Refusal):
    """The two sides do not accept each other's certificates."""


def not_accepted(error: NotAdmitted | ssl.SSLCertVerificationError) -> NotAdmitted:
    """Why the two sides do not talk, with the reason that TLS gives."""
    reason = str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = f"its certificate is not valid for this site ({safe_text(error.verify_message, 120)})"
    return NotAdmitted(f"the coordinator was not accepted: {reason}")


@dataclass
class ConnectionNews:
    """Says at the site when the coordinator is reached and when it is lost, and why, once until that changes.

    >>> news = ConnectionNews("coordinator.example", 8443, print)
    >>> for _ in range(2):
    ...     news.lost(ConnectionRefusedError())
    no connection to coordinator.example port 8443 (ConnectionRefusedError), trying again
    >>> news.found()
    connected
    """

    host: str
    port: int
    say: Callable[[str], None]
    _said: set[str] = field(default_factory=set)
    """Since the last change."""

    def found(self) -> None:
        """The coordinator answered."""
        if "connected" not in self._said:
            self._said = {"connected"}
            self.say("connected")

    def lost(self, error: Exception) -> None:
        """There is no connection."""
        reason = "this name is not known here" if isinstance(error, socket.gaierror) else type(error).__name__
        text = f"no connection to {safe_text(self.host)} port {self.port} ({reason}), trying again"
        if text not in self._said:
            self._said = {*self._said, text} - {"connected"}
            self.say(text)


@dataclass(frozen=True)
class Coordinator:
    """Where the coordinator is, and how to know it."""

    host: str
    port: int
    certificate: str
    """SHA-256 of its certificate, hex."""
    authority: Path


def client_context(authority: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS 1.3 with the site's certificate; the other side must have one of this authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(authority)
    context.load_cert_chain(certificate, key)
    return context


def serve_site(
    coordinator: Coordinator,
    context: ssl.SSLContext,
    answer: Answerer,
    *,
    most: int,
    stop: Callable[[], bool],
    patience: float,
    say: Callable[[str], None],
) -> None:
    """Answer questions until `stop` says so; give up after `patience` seconds without the coordinator.

    most: bytes of a question at most.
    """
    reached, attempt = time.monotonic(), 0
    news = ConnectionNews(coordinator.host, coordinator.port, say)
    while not stop():
        connection = http.client.HTTPSConnection(coordinator.host, coordinator.port, context=context, timeout=WAIT)
        try:
            connection.connect()
            _check_certificate(connection, coordinator)
            while not stop():
                _one_question(connection, answer, most, news)
                reached, attempt = time.monotonic(), 0
        except (NotAdmitted, ssl.SSLCertVerificationError) as error:
            raise not_accepted(error) from None
        except (OSError, http.client.HTTPException) as error:
            if time.monotonic() - reached > patience:
                text = f"the coordinator was not reached for {patience:g} s ({type(error).__name__})"
                raise Refusal(f"{text}: check address, certificates and network") from None
            news.lost(error)
            time.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
            attempt += 1
        finally:
            connection.close()


def _check_certificate(connection: http.client.HTTPSConnection, coordinator: Coordinator) -> None:
    peer = getattr(connection.sock, "getpeercert", lambda **_: None)(binary_form=True)
    if not peer or sha256(peer).hexdigest() != coordinator.certificate:
        raise NotAdmitted("this is not the agreed coordinator's certificate")


def _one_question(connection: http.client.HTTPSConnection, answer: Answerer, most: int, news: ConnectionNews) -> None:
    status, question = _post(connection, "/v1/next", b"", most)
    if status == 403:
        raise NotAdmitted("this site's certificate is not on the coordinator's roster")
    if status in (200, 204):
        news.found()
    if status == 204:
        return
    if status != 200:  # a coordinator that is overloaded, or something before it: asking at once would make it worse
        raise http.client.HTTPException(f"status {status}")
    reply = answer(question)
    if reply:
        _post(connection, "/v1/answer", reply, 1 << 10)


def _post(connection: http.client.HTTPSConnection, path: str, body: bytes, most: int) -> tuple[int, bytes]:
    """Status and body of a response; a body beyond `most` is refused before it is read."""
    connection.request("POST", path, body, {"Content-Type": "application/octet-stream"})
    response = connection.getresponse()
    length = response.getheader("content-length", "0")
    if not length.isdecimal() or len(length) > 12 or int(length) > most:
        raise http.client.HTTPException("a response of another length than agreed")
    return response.status, response.read(most + 1)
