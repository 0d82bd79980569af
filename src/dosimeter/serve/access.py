"""Who may ask: this machine, this port, the token, no other page. Asked before any page is made.

A web page elsewhere can make a browser send requests to 127.0.0.1, or let a name of its own resolve to it (DNS
rebinding). Against the first stand the cookie, which such requests do not carry, and Origin and Sec-Fetch-Site; against
the second stands Host. There is no CORS, no other method than GET and HEAD, and no body.
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
    """An ASGI application around another one that lets through what may be asked."""

    app: ASGIApp
    port: int
    token: str = field(repr=False)

    @property
    def cookie(self) -> str:
        """Its name has the port: cookies of one machine are shared by all its ports."""
        return f"dosimeter-{self.port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer by itself, or pass on."""
        if scope["type"] != "http":
            return  # no websockets; the lifespan protocol is switched off
        answer = self.refusal(scope)
        await (self.app if answer is None else answer)(scope, receive, send)

    def refusal(self, scope: Scope) -> Response | None:
        """The answer to what may not be asked, or to the first visit; None for what may be."""
        headers = Headers(scope=scope)
        if scope["method"] not in METHODS:
            return said(405, "this page is for reading: GET and HEAD only", {"Allow": ", ".join(METHODS)})
        if headers.getlist("host") not in [[host] for host in self.hosts]:
            return said(421, "this page answers to 127.0.0.1 and its own port only")
        if any(one not in self.origins for one in headers.getlist("origin")):
            return said(403, "another page may not ask for this one")
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return said(413, "a request without a body is all that is taken")
        if len(scope["path"]) + len(scope["query_string"]) > LONGEST:
            return said(414, f"an address has at most {LONGEST} characters")
        return self._admitted(scope, headers)

    @property
    def hosts(self) -> tuple[str, str]:
        """What Host may say."""
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    @property
    def origins(self) -> tuple[str, str]:
        """What Origin may say, where there is one."""
        return f"http://127.0.0.1:{self.port}", f"http://localhost:{self.port}"

    def _admitted(self, scope: Scope, headers: Headers) -> Response | None:
        given = _token(scope["query_string"])
        if given is not None:
            if scope["path"] == "/" and self._same(given):
                return self._first_visit()
            return said(403, "that is not the token; the address with the right one stands where the page was started")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return said(403, "another page may not ask for this one")
        if not self._same(_crumb(headers, self.cookie)):
            return said(401, "open the address that stands where the page was started: it carries the token")
        return None

    def _same(self, given: str) -> bool:
        """In a time that does not depend on where they differ."""
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self.token.encode())

    def _first_visit(self) -> Response:
        """The token moves from the address into a cookie, and out of what the browser shows and keeps."""
        answer = RedirectResponse("/", status_code=303, headers={**SAFE, "Content-Security-Policy": _BARE})
        answer.set_cookie(self.cookie, self.token, path="/", httponly=True, samesite="strict")
        return answer


def said(status: int, words: str, headers: Mapping[str, str] | None = None) -> Response:
    """A plain sentence."""
    body = f"{words}\n"
    return Response(
        body, status, {**SAFE, "Content-Security-Policy": _BARE, **(headers or {})}, "text/plain; charset=utf-8"
    )


def _token(query: bytes) -> str | None:
    try:
        found = parse_qs(query.decode("latin-1"), keep_blank_values=True, max_num_fields=20).get("token")
    except ValueError:
        return None
    return None if found is None else found[0] if len(found) == 1 else ""


def _crumb(headers: Headers, name: str) -> str:
    jar: SimpleCookie = SimpleCookie()
    try:
        for line in headers.getlist("cookie"):
            jar.load(line)
    except CookieError:
        return ""
    return jar[name].value if name in jar else ""
