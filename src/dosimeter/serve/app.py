"""The application: five pages, each made anew from the ledger when it is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dosimeter.core.refusal import Refusal
from dosimeter.io.text import harmless
from dosimeter.serve import pages
from dosimeter.serve.answer import answer
from dosimeter.serve.book import Book
from dosimeter.serve.guard import Guard, said
from dosimeter.store import Ledger

_WHOLE = re.compile(r"[0-9]{1,9}")


def application(ledger: Ledger, port: int, token: str) -> Guard:
    """An ASGI application for 127.0.0.1:port; only who knows the token gets in."""
    book = Book(ledger)
    made: dict[str, Callable[[Request], pages.Leaf | None]] = {
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
    return Guard(inner, port, token)


def _endpoint(book: Book, page: Callable[[Request], pages.Leaf | None]) -> Callable[[Request], Response]:
    def endpoint(request: Request) -> Response:
        leaf = page(request)
        return answer(pages.nothing(book, 404, "There is no such page.") if leaf is None else leaf)

    return endpoint


def _asks(request: Request, *known: str) -> bool:
    """Whether the query has each of these whole numbers at most once, and nothing else."""
    given = request.query_params.multi_items()
    names = [name for name, _ in given]
    return set(names) <= set(known) and len(set(names)) == len(names) and all(_WHOLE.fullmatch(v) for _, v in given)


def _people(book: Book, request: Request) -> pages.Leaf | None:
    if not _asks(request, "account", "page"):
        return None
    return pages.people(
        book, *(int(request.query_params.get(name, start)) for name, start in (("account", 0), ("page", 1)))
    )


def _release(book: Book, request: Request) -> pages.Leaf | None:
    if not _asks(request, "seq") or "seq" not in request.query_params:
        return None
    return pages.release(book, int(request.query_params["seq"]))


async def _not_found(request: Request, error: HTTPException) -> Response:
    return said(error.status_code, "there is no such page")


async def _refused(request: Request, error: Refusal) -> Response:
    """A ledger that went away, is held by a writer or was tampered with: said in one line."""
    return said(409, harmless(error, 400))
