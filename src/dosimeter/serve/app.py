"""The application: five pages of the ledger and one of a running consortium, built when they are requested."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text
from dosimeter.ledger import Ledger
from dosimeter.serve import pages
from dosimeter.serve.access import AccessGuard, plain_response
from dosimeter.serve.consortium_page import consortium as running
from dosimeter.serve.ledger_cache import LedgerCache
from dosimeter.serve.response import answer

_WHOLE = re.compile(r"[0-9]{1,9}")


def application(ledger: Ledger | None, port: int, token: str, consortium: Path | None = None) -> AccessGuard:
    """An ASGI application for 127.0.0.1:port; only requests with the token are answered.

    consortium: the state folder of a coordinator or a site. Without a ledger its page is the only one.
    """
    if ledger is None:
        return _consortium_alone(consortium, port, token)
    cache = LedgerCache(ledger)
    builders: dict[str, Callable[[Request], pages.ServedPage | None]] = {
        "/": lambda request: pages.overview(cache) if _has_only(request) else None,
        "/people": lambda request: _people(cache, request),
        "/releases": lambda request: pages.releases(cache) if _has_only(request) else None,
        "/release": lambda request: _release(cache, request),
        "/budgets": lambda request: pages.budgets(cache) if _has_only(request) else None,
    }
    if consortium is not None:
        folder = consortium
        builders[pages.CONSORTIUM[0]] = lambda request: (
            running(folder, label=cache.label, head=cache.head) if _has_only(request) else None
        )
    more = () if consortium is None else (pages.CONSORTIUM,)
    routes = [Route(path, _endpoint(cache, page, more), methods=["GET"]) for path, page in builders.items()]
    return _guarded(routes, port, token)


def _consortium_alone(folder: Path | None, port: int, token: str) -> AccessGuard:
    if folder is None:
        raise Refusal("no ledger and no consortium: there is nothing to show")

    def endpoint(request: Request) -> Response:
        return answer(running(folder, alone=True))

    return _guarded([Route("/", endpoint, methods=["GET"])], port, token)


def _guarded(routes: list[Route], port: int, token: str) -> AccessGuard:
    handlers = {HTTPException: _not_found, Refusal: _refused}
    inner = Starlette(routes=routes, exception_handlers=handlers)  # type: ignore[arg-type]
    inner.router.redirect_slashes = False
    return AccessGuard(inner, port, token)


def _endpoint(
    cache: LedgerCache,
    page: Callable[[Request], pages.ServedPage | None],
    more: tuple[tuple[str, str], ...] = (),
) -> Callable[[Request], Response]:
    """more: entries of the menu besides the ledger's."""

    def endpoint(request: Request) -> Response:
        served = page(request)
        shown = pages.no_page(cache, 404, "There is no such page.") if served is None else served
        return answer(replace(shown, menu=(*pages.MENU, *more)))

    return endpoint


def _has_only(request: Request, *known: str) -> bool:
    """Whether the query has each of these whole numbers at most once, and nothing else."""
    items = request.query_params.multi_items()
    names = [name for name, _ in items]
    return set(names) <= set(known) and len(set(names)) == len(names) and all(_WHOLE.fullmatch(v) for _, v in items)


def _people(cache: LedgerCache, request: Request) -> pages.ServedPage | None:
    if not _has_only(request, "account", "page"):
        return None
    return pages.people(
        cache, *(int(request.query_params.get(name, start)) for name, start in (("account", 0), ("page", 1)))
    )


def _release(cache: LedgerCache, request: Request) -> pages.ServedPage | None:
    if not _has_only(request, "seq") or "seq" not in request.query_params:
        return None
    return pages.release(cache, int(request.query_params["seq"]))


async def _not_found(request: Request, error: HTTPException) -> Response:
    return plain_response(error.status_code, "there is no such page")


async def _refused(request: Request, error: Refusal) -> Response:
    """A ledger that is gone, locked by a writer or altered: one line."""
    return plain_response(409, safe_text(error, 400))
