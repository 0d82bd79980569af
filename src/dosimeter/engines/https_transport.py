"""HTTPS with mutual TLS as a transport of a consortium."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dosimeter.engines import https_site
from dosimeter.engines.https_server import HttpsExchange, server_context
from dosimeter.engines.protocol.exchange import Answerer
from dosimeter.engines.transports import ServerPlace, SitePlace


def open_exchange(place: ServerPlace, roster: Mapping[str, int]) -> HttpsExchange:
    """The coordinator's end: listens at the named address and at no other."""
    context = server_context(place.authority, place.certificate, place.key)
    return HttpsExchange(roster, context, place.listen, place.port)


def serve_site(
    place: SitePlace,
    answer: Answerer,
    *,
    most: int,
    stop: Callable[[], bool],
    patience: float,
    say: Callable[[str], None],
) -> None:
    """A site's end: connects outwards and answers until `stop` says so."""
    coordinator = https_site.Coordinator(place.host, place.port, place.coordinator, place.authority)
    context = https_site.client_context(place.authority, place.certificate, place.key)
    https_site.serve_site(coordinator, context, answer, most=most, stop=stop, patience=patience, say=say)
