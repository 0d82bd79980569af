"""Asking an ASGI application the way a server does. Nothing is cleaned on the way, as a client library would."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import anyio

PORT = 4321
TOKEN = "the-right-token-" + "k" * 30
HOST = f"http://127.0.0.1:{PORT}"


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status_code: int
    pairs: tuple[tuple[str, str], ...]
    content: bytes

    @cached_property
    def headers(self) -> dict[str, str]:
        return dict(self.pairs)

    @property
    def text(self) -> str:
        return self.content.decode()


@dataclass
class Client:
    """A browser without a page: it keeps cookies, and sends Host unless it is asked not to."""

    app: Any
    host: str = f"127.0.0.1:{PORT}"
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, headers: dict[str, str] | None = None) -> Answer:
        return self.request("GET", path, headers)

    def request(self, method: str, path: str, headers: dict[str, str] | None = None) -> Answer:
        crumbs = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        sent = {"host": self.host, **({"cookie": crumbs} if crumbs else {}), **(headers or {})}
        where, _, query = path.partition("?")
        answer = asked(self.app, method, unquote(where), query, list(sent.items()))
        if "set-cookie" in answer.headers:
            name, _, value = answer.headers["set-cookie"].split(";")[0].partition("=")
            self.cookies[name] = value
        return answer


def asked(app: Any, method: str, path: str, query: str, headers: list[tuple[str, str]]) -> Answer:
    """One request."""
    messages: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    sent = [(name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in headers]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode("utf-8", "surrogateescape"), "root_path": "", "headers": sent,
        "query_string": query.encode("utf-8", "surrogateescape"), "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", PORT),
    }  # fmt: skip

    async def call() -> None:
        await app(scope, receive, send)

    anyio.run(call)
    pairs = tuple((name.decode().lower(), value.decode()) for name, value in messages[0]["headers"])
    return Answer(messages[0]["status"], pairs, b"".join(message.get("body", b"") for message in messages[1:]))
