"""A site's end of Flower: it connects outwards, pulls messages and pushes answers. It opens no port and runs no app.

Import after `flower_settings.prepare`. The stock node of Flower starts a process that loads an app which came over the
network. Here the only thing that is done with a message is to pass its bytes to `answer`, which is installed at the
site and raises nothing.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Any

import httpx
from cryptography.hazmat.primitives import serialization
from flwr.app.message import remove_content_from_message
from flwr.common.constant import HEARTBEAT_MAX_INTERVAL, SUPERLINK_NODE_ID
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import ActivateNodeRequest, PullMessagesRequest, PushMessagesRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from dosimeter.core.errors import Refusal
from dosimeter.engines.flower_messages import OVERHEAD, objects_of, unwrapped, wrapped
from dosimeter.engines.https_site import PAUSES, ConnectionNews, NotAdmitted, client_context, not_accepted
from dosimeter.engines.protocol.exchange import Answerer
from dosimeter.engines.transports import SitePlace

BEHIND, AHEAD = 240.0, 4.0
"""Seconds by which this site's clock may differ: Flower takes a signature from 5 s ahead to 305 s behind."""
FAULTS = (httpx.HTTPError, OSError, ValueError, RuntimeError)
"""What a broken connection or a broken response raises."""


def serve_site(
    place: SitePlace,
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
    news = ConnectionNews(place.host, place.port, say)
    while not stop():
        try:
            with _client(place, most) as client:
                node = _Node(client, place, most)
                news.found()
                while not stop():
                    node.serve_one(answer)
                    reached, attempt = time.monotonic(), 0
        except (NotAdmitted, ssl.SSLCertVerificationError) as error:
            raise not_accepted(error) from None
        except FAULTS as error:
            if time.monotonic() - reached > patience:
                text = f"the coordinator was not reached for {patience:g} s ({type(error).__name__})"
                raise Refusal(f"{text}: check address, certificates and network") from None
            news.lost(error)
            time.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
            attempt += 1


class _Node:
    """An activated node, for as long as its connection lasts."""

    def __init__(self, client: FleetHttpClient, place: SitePlace, most: int) -> None:
        self._client, self._most = client, most
        request = ActivateNodeRequest(
            public_key=public_key_to_bytes(_key(place).public_key()), heartbeat_interval=HEARTBEAT_MAX_INTERVAL
        )
        self.node = Node(node_id=_admitted(lambda: client.ActivateNode(request)).node_id)

    def serve_one(self, answer: Answerer) -> None:
        """Wait for a message, answer it."""
        response = self._client.PullMessages(PullMessagesRequest(node=self.node))
        if not response.messages_list:
            return
        metadata, tree = response.messages_list[0].metadata, response.message_object_trees[0]
        question = unwrapped(tree, lambda key: self._pull(metadata.run_id, key))
        confirmation = ConfirmMessageReceivedRequest(
            node=self.node, run_id=metadata.run_id, message_object_id=metadata.message_id
        )
        self._client.ConfirmMessageReceived(confirmation)
        reply = answer(question) if question and len(question) <= self._most else b""
        left = metadata.created_at + metadata.ttl - time.time()
        if reply and left > 0:
            self._push(reply, metadata, left)

    def _pull(self, run: int, key: str) -> bytes | None:
        response = self._client.PullObject(PullObjectRequest(node=self.node, run_id=run, object_id=key))
        content = bytes(response.object_content)
        known = response.object_found and response.object_available and len(content) <= self._most + OVERHEAD
        return content if known and sha256(content).hexdigest() == key else None

    def _push(self, data: bytes, metadata: Any, ttl: float) -> None:
        message = wrapped(
            data, run=metadata.run_id, source=self.node.node_id, to=SUPERLINK_NODE_ID, ttl=ttl,
            replies_to=metadata.message_id,
        )  # fmt: skip
        tree, contents = objects_of(message)
        try:
            response = self._client.PushMessages(
                PushMessagesRequest(
                    node=self.node,
                    messages_list=[message_to_proto(remove_content_from_message(message))],
                    message_object_trees=[tree],
                    clientapp_runtime_list=[0.0],
                )
            )
            facts = {"node": self.node, "run_id": metadata.run_id, "session_id": response.session_id}
            for key in response.objects_to_push:
                self._client.PushObject(PushObjectRequest(object_id=key, object_content=contents[key], **facts))
        except httpx.HTTPStatusError as error:
            if error.response.status_code not in (400, 403, 404, 409, 412, 413):  # the question has ended meanwhile
                raise


def _client(place: SitePlace, most: int) -> FleetHttpClient:
    """A client that speaks to the agreed coordinator alone, with the site's certificate and node key.

    Flower's own follows redirects, into the hospital's network too, and reads responses of any length.
    """
    key = _key(place)
    interceptors = [
        RuntimeVersionHttpInterceptor(component_name="SuperNode"),
        NodeAuthHttpInterceptor(key, key.public_key()),
    ]
    host = f"[{place.host}]" if ":" in place.host else place.host
    context = _pinned_context(place)
    client = FleetHttpClient(f"https://{host}:{place.port}", interceptors=interceptors, verify=context)
    connection: httpx.Client = client._client

    def check(response: httpx.Response) -> None:
        """Refuse a response of another length than agreed before it is read."""
        length = response.headers.get("content-length", "")
        if not length.isdecimal() or len(length) > 12 or int(length) > most + OVERHEAD:
            raise httpx.RemoteProtocolError("a response of another length than agreed")

    connection.follow_redirects = False
    connection.event_hooks = {"response": [check]}
    return client


def _pinned_context(place: SitePlace) -> ssl.SSLContext:
    """TLS that accepts the agreed certificate of the coordinator and no other one of the authority."""
    context = client_context(place.authority, place.certificate, place.key)
    with (
        socket.create_connection((place.host, place.port), timeout=30) as connection,
        context.wrap_socket(connection, server_hostname=place.host) as tls,
    ):
        certificate = tls.getpeercert(binary_form=True)
    if not certificate or sha256(certificate).hexdigest() != place.coordinator:
        raise NotAdmitted("this is not the agreed coordinator's certificate")
    pinned = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    pinned.minimum_version = ssl.TLSVersion.TLSv1_3
    pinned.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    pinned.load_verify_locations(cadata=ssl.DER_cert_to_PEM_cert(certificate))
    pinned.load_cert_chain(place.certificate, place.key)
    return pinned


def _key(place: SitePlace) -> Any:
    return serialization.load_pem_private_key(place.key.read_bytes(), password=None)


def _admitted(call: Callable[[], Any]) -> Any:
    """The response; a refusal by the roster, or of this site's clock, ends the site instead of being tried again."""
    try:
        return call()
    except httpx.HTTPStatusError as error:
        if error.response.status_code == 403:
            raise NotAdmitted("this site's certificate is not on the coordinator's roster") from None
        ahead = _seconds_ahead(error.response)
        if error.response.status_code == 401 and not -BEHIND < ahead < AHEAD:
            apart = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'}"
            raise NotAdmitted(f"this site's clock is {apart} the coordinator's: set the clock") from None
        raise


def _seconds_ahead(response: httpx.Response) -> float:
    """How far this site's clock is ahead of the coordinator's, which stands in the response; 0 without it."""
    try:
        theirs = parsedate_to_datetime(response.headers["date"])
    except (KeyError, ValueError, TypeError):
        return 0.0
    return time.time() - theirs.timestamp()
