"""Flower as a transport of a consortium or of many clients, hardened.

Flower's messages, node keys and fleet API carry the protocol. What is dangerous in a stock deployment does not exist
here. There is no control API on any port, so no app can be submitted. A site runs this package alone and takes no
code: what arrives is the bytes of a question from a fixed list. Messages are kept in memory. Each message has a ticket
and lives until the deadline. TLS is mutual, with the certificates and the roster that HTTPS has; the key of a site's
certificate is its node key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dosimeter.engines.flower_settings import prepare, quiet
from dosimeter.engines.protocol.exchange import Answerer
from dosimeter.engines.tls_server import server_context
from dosimeter.engines.transports import ServerPlace, SitePlace

if TYPE_CHECKING:
    from dosimeter.engines.flower_server import FlowerExchange


def open_exchange(place: ServerPlace, roster: Mapping[str, int]) -> FlowerExchange:
    """The coordinator's end: the fleet API at the named address and at no other."""
    prepare()
    with quiet():
        from dosimeter.engines.flower_server import FlowerExchange
    context = server_context(place.authority, place.certificate, place.key)
    return FlowerExchange(roster, context, place.listen, place.port)


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
    prepare()
    with quiet():
        from dosimeter.engines import flower_site
    flower_site.serve_site(place, answer, most=most, stop=stop, patience=patience, say=say)
