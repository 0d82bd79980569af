"""Which requests are answered: from this machine, to this port, with the token, not from another page.

The check runs before any page is built. A web page elsewhere can make a browser send requests to 127.0.0.1, or let a
name of its own resolve to it (DNS rebinding). The cookie, which such requests do not carry, and Origin and
Sec-Fetch-Site prevent the first; Host prevents the second. There is no CORS, no method but GET and HEAD, and no body.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

METHODS = ("GET", "HEAD")
LONGEST = 2048
"""Bytes of a path with its query."""
SAFE: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_BARE = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


@dataclass(frozen=True)
class AccessGuard:
    """An ASGI application around another one that passes on permitted requests only."""

    app: ASGIApp
    port: int
    token: str = field(repr=False)

    @property
    def cookie(self) -> str:
        """Its name has the port: cookies of one machine are shared by all its ports."""
        return f"dosimeter-{self.port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] != "http":
            return  # no websockets; the lifespan protocol is switched off
        answer = self.refusal(scope)
        await (self.app if answer is None else answer)(scope, receive, send)

    def refusal(self, scope: Scope) -> Response | None:
        """The response to a request that is refused, or to the first visit; None for a permitted one."""
        headers = Headers(scope=scope)
        if scope["method"] not in METHODS:
            return plain_response(405, "this page is for reading: GET and HEAD only", {"Allow": ", ".join(METHODS)})
        if headers.getlist("host") not in [[host] for host in self.hosts]:
            return plain_response(421, "this page answers to 127.0.0.1 and its own port only")
        if any(origin not in self.origins for origin in headers.getlist("origin")):
            return plain_response(403, "another page may not request this one")
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return plain_response(413, "send the request without a body")
        if len(scope["path"]) + len(scope["query_string"]) > LONGEST:
            return plain_response(414, f"an address has at most {LONGEST} characters")
        return self._admitted(scope, headers)

    @property
    def hosts(self) -> tuple[str, str]:
        """What Host may say."""
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    @property
    def origins(self) -> tuple[str, str]:
        """What Origin may say, if there is one."""
        return f"http://127.0.0.1:{self.port}", f"http://localhost:{self.port}"

    def _admitted(self, scope: Scope, headers: Headers) -> Response | None:
        token = _token(scope["query_string"])
        if token is not None:
            if scope["path"] == "/" and self._same(token):
                return self._first_visit()
            return plain_response(403, "wrong token: open the address that dosimeter serve printed")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return plain_response(403, "another page may not request this one")
        if not self._same(_crumb(headers, self.cookie)):
            return plain_response(401, "no token: open the address that dosimeter serve printed")
        return None

    def _same(self, token: str) -> bool:
        """Compared in a time that does not depend on where they differ."""
        return hmac.compare_digest(token.encode("utf-8", "surrogateescape"), self.token.encode())

    def _first_visit(self) -> Response:
        """The token moves from the address into a cookie, and out of what the browser shows and keeps."""
        answer = RedirectResponse("/", status_code=303, headers={**SAFE, "Content-Security-Policy": _BARE})
        answer.set_cookie(self.cookie, self.token, path="/", httponly=True, samesite="strict")
        return answer


def plain_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """One sentence as plain text."""
    body = f"{message}\n"
    return Response(
        body, status, {**SAFE, "Content-Security-Policy": _BARE, **(headers or {})}, "text/plain; charset=utf-8"
    )


def _token(query: bytes) -> str | None:
    try:
        tokens = parse_qs(query.decode("latin-1"), keep_blank_values=True, max_num_fields=20).get("token")
    except ValueError:
        return None
    return None if tokens is None else tokens[0] if len(tokens) == 1 else ""


def _crumb(headers: Headers, name: str) -> str:
    jar: SimpleCookie = SimpleCookie()
    try:
        for line in headers.getlist("cookie"):
            jar.load(line)
    except CookieError:
        return ""
    return jar[name].value if name in jar else ""
