"""The application: five pages, each made anew from the ledger when it is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text
from dosimeter.ledger import Ledger
from dosimeter.serve import pages
from dosimeter.serve.access import AccessGuard, said
from dosimeter.serve.ledger_cache import LedgerCache
from dosimeter.serve.response import answer

_WHOLE = re.compile(r"[0-9]{1,9}")


def application(ledger: Ledger, port: int, token: str) -> AccessGuard:
    """An ASGI application for 127.0.0.1:port; only who knows the token gets in."""
    book = LedgerCache(ledger)
    made: dict[str, Callable[[Request], pages.ServedPage | None]] = {
        "/": lambda request: pages.overview(book) if _asks(request) else None,
        "/people": lambda request: _people(book, request),
        "/releases": lambda request: pages.releases(book) if _asks(request) else None,
        "/release": lambda request: _release(book, request),
        "/budgets": lambda request: pages.budgets(book) if _asks(request) else None,
    }
    routes = [Route(path, _endpoint(book, page), methods=["GET"]) for path, page in made.items()]
    handlers = {HTTPException: _not_found, Refusal: _refused}
    inner = Starlette(routes=routes, exception_handlers=handlers)  # type: ignore[arg-type]
    inner.router.redirect_slashes = False
    return AccessGuard(inner, port, token)


def _endpoint(book: LedgerCache, page: Callable[[Request], pages.ServedPage | None]) -> Callable[[Request], Response]:
    def endpoint(request: Request) -> Response:
        leaf = page(request)
        return answer(pages.nothing(book, 404, "There is no such page.") if leaf is None else leaf)

    return endpoint


def _asks(request: Request, *known: str) -> bool:
    """Whether the query has each of these whole numbers at most once, and nothing else."""
    given = request.query_params.multi_items()
    names = [name for name, _ in given]
    return set(names) <= set(known) and len(set(names)) == len(names) and all(_WHOLE.fullmatch(v) for _, v in given)


def _people(book: LedgerCache, request: Request) -> pages.ServedPage | None:
    if not _asks(request, "account", "page"):
        return None
    return pages.people(
        book, *(int(request.query_params.get(name, start)) for name, start in (("account", 0), ("page", 1)))
    )


def _release(book: LedgerCache, request: Request) -> pages.ServedPage | None:
    if not _asks(request, "seq") or "seq" not in request.query_params:
        return None
    return pages.release(book, int(request.query_params["seq"]))


async def _not_found(request: Request, error: HTTPException) -> Response:
    return said(error.status_code, "there is no such page")


async def _refused(request: Request, error: Refusal) -> Response:
    """A ledger that went away, is held by a writer or was tampered with: said in one line."""
    return said(409, safe_text(error, 400))
