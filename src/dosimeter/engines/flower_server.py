"""The coordinator's end of Flower: its fleet API behind a gate, its state in memory, and no other API of it.

Import after `flower_settings.prepare`. Every question is a run of its own. It ends with the answers or the deadline,
and an answer to an earlier run is refused by Flower itself; the ticket inside is checked as well.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI
from flwr.app.message import remove_content_from_message
from flwr.common.constant import (
    HEARTBEAT_MAX_INTERVAL,
    NOOP_ACCOUNT_NAME,
    NOOP_FLWR_AID,
    SUPERLINK_NODE_ID,
    SubStatus,
)
from flwr.server.superlink.linkstate import LinkState
from flwr.supercore.constant import (
    FLEET_HTTP_PUBLIC_KEY_HEADER,
    FLWR_IN_MEMORY_DB_NAME,
    NOOP_FEDERATION_ID,
    NodeStatus,
    TaskType,
)
from flwr.supercore.error import http_error_translator
from flwr.supercore.protobuf.translation import ProtobufTranslationMiddleware
from flwr.superlink.config_loader import get_objectstore_linkstate_factories
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.routers.fleet.node_auth import NodeAuthMiddleware
from flwr.superlink.routers.fleet.router import router as fleet_router
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware

from dosimeter.core.errors import Refusal
from dosimeter.engines.flower_gate import FleetGate
from dosimeter.engines.flower_messages import OVERHEAD, objects_of, unwrapped, wrapped
from dosimeter.engines.tls_server import MOST_OF_ONE, TlsServer

TICK = 0.02
"""Seconds between two looks for answers."""
HEARTBEAT = 10.0
"""Seconds between two signs of life of a run; Flower ends it after 60 s without one."""


@dataclass
class _OpenQuestions:
    """One run of Flower: the questions that are open in it."""

    run: int
    task: int
    questions: dict[int, bytes]
    end: float
    sent: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Site -> the message it was sent, and how often the site had arrived then."""
    arrived: dict[int, Any] = field(default_factory=dict)
    """Site -> the object tree of its answer, which may still be on its way."""


class FlowerExchange:
    """An `Exchange` over Flower's fleet API with mutual TLS; use it as a context manager.

    roster: SHA-256 of a certificate, hex -> number of its site.
    """

    def __init__(self, roster: Mapping[str, int], context: ssl.SSLContext, address: str, port: int = 0) -> None:
        self._state, app = _fleet_app()
        self._gate = FleetGate(app, roster, FLEET_HTTP_PUBLIC_KEY_HEADER.encode())
        self._gate.arrives, self._gate.has_message = self._activate, self._has_message
        self._nodes: dict[int, int] = {}
        self._arrivals: dict[int, int] = {}
        self._waiting: set[int] = set()
        connections = MOST_OF_ONE * max(8, len(roster))
        self._server = TlsServer(self._gate, context, address, port, connections=connections)
        self.port = self._server.port

    def __enter__(self) -> FlowerExchange:
        self._server.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.__exit__()

    @property
    def seen(self) -> dict[int, float]:
        """When each site was last heard of, in seconds of the monotonic clock."""
        return self._gate.seen

    @property
    def bytes_in(self) -> int:
        """Bytes of requests so far, without HTTP headers and TLS."""
        return self._gate.bytes_in

    @property
    def bytes_out(self) -> int:
        """Bytes of responses so far, without HTTP headers and TLS."""
        return self._gate.bytes_out

    # --- the coordinator's thread ---

    def ask(
        self, questions: Mapping[int, bytes], *, deadline: float, most: int, accept: Callable[[int, bytes], bool]
    ) -> dict[int, bytes]:
        """The answers that arrived in time; see `Exchange`."""
        if not questions:
            return {}
        # Twice, for a site that starts again within the question.
        self._gate.allowance = dict.fromkeys(questions, 2 * (most + OVERHEAD))
        opened = self._open(questions, deadline)
        answers: dict[int, bytes] = {}
        beat = time.monotonic()
        try:
            while opened.questions and time.monotonic() < opened.end:
                self._send(opened)
                answers |= self._collect(opened, most, accept)
                if time.monotonic() - beat > HEARTBEAT:
                    self._state.acknowledge_task_heartbeat(opened.task)
                    beat = time.monotonic()
                time.sleep(TICK)
        finally:
            self._gate.allowance, self._waiting = {}, set()
            self._state.finish_task(opened.task, SubStatus.COMPLETED, "")
            self._state.cleanup_run(opened.run)
        return answers

    def _open(self, questions: Mapping[int, bytes], deadline: float) -> _OpenQuestions:
        run = self._state.create_run(
            fab_id=None, fab_version=None, fab_hash=None, override_config={}, federation_id=NOOP_FEDERATION_ID,
            federation_config=None, flwr_aid=NOOP_FLWR_AID, primary_task_type=TaskType.SERVER_APP,
        )  # fmt: skip
        task = self._state.get_run_info(run_ids=[run])[0].primary_task_id
        if task is None or not self._state.claim_task(task) or not self._state.activate_task(task):
            raise Refusal("Flower did not open a run: start the coordinator again")
        return _OpenQuestions(run, task, dict(questions), time.monotonic() + deadline)

    def _send(self, opened: _OpenQuestions) -> None:
        """Send each open question to its site if it is there and does not have it yet, or has started again."""
        sent = False
        for site, question in opened.questions.items():
            arrivals = self._arrivals.get(site, 0)
            if not self._is_online(site) or (site in opened.sent and opened.sent[site][1] == arrivals):
                continue
            ttl = max(opened.end - time.monotonic(), 0.1)
            message = wrapped(question, run=opened.run, source=SUPERLINK_NODE_ID, to=self._nodes[site], ttl=ttl)
            tree, contents = objects_of(message)
            session = self._state.start_session(opened.run)
            stored, missing = self._state.store_message_and_object_tree(
                remove_content_from_message(message), tree, session
            )
            for key in missing:
                self._state.store_object(opened.run, session, key, contents[key])
            if stored:
                opened.sent[site] = message.metadata.message_id, arrivals
                opened.arrived.pop(site, None)
                self._waiting.add(site)
                sent = True
        if sent and self._server.loop is not None:
            self._server.loop.call_soon_threadsafe(self._gate.work.set)

    def _collect(self, opened: _OpenQuestions, most: int, accept: Callable[[int, bytes], bool]) -> dict[int, bytes]:
        """The answers that are complete; one that is not accepted is dropped, and its question is not asked again."""
        waiting = {key: site for site, (key, _) in opened.sent.items() if site not in opened.arrived}
        for reply in self._state.get_message_res(set(waiting), opened.run) if waiting else ():
            site = waiting.get(reply.metadata.reply_to_message_id)
            if site is not None and not reply.has_error():
                opened.arrived[site] = self._state.object_store.get_object_tree(reply.metadata.message_id)
            elif site is not None:  # the node is away: asked again when it is back
                del opened.sent[site]
        answers = {}
        for site, tree in list(opened.arrived.items()):
            if tree is None or site not in opened.questions:
                continue
            data = unwrapped(tree, lambda key: self._state.get_object(opened.run, key))
            if data is None:
                continue
            opened.arrived[site] = None
            if len(data) <= most and accept(site, data):
                answers[site] = data
                del opened.questions[site]
        return answers

    def _is_online(self, site: int) -> bool:
        node = self._nodes.get(site)
        return node is not None and self._state.get_node_info(node_ids=[node])[0].status == NodeStatus.ONLINE

    # --- the server's thread ---

    def _activate(self, site: int, key: bytes) -> None:
        """Register the node of a site on the roster, or let it start again while Flower still has it as online."""
        if site not in self._nodes:
            self._nodes[site] = self._state.create_node(NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, key, 0)
        self._state.deactivate_node(self._nodes[site])
        self._arrivals[site] = self._arrivals.get(site, 0) + 1

    def _has_message(self, site: int) -> bool:
        """Whether a message may wait for this site; it is then delivered once. A site that asks is online."""
        if site in self._nodes and not self._is_online(site):
            self._state.activate_node(self._nodes[site], HEARTBEAT_MAX_INTERVAL)
        if site in self._waiting:
            self._waiting.discard(site)
            return True
        return self._server.should_exit


def _fleet_app() -> tuple[LinkState, FastAPI]:
    """Flower's state in memory, and an application with its fleet API alone."""
    _, factory = get_objectstore_linkstate_factories(FLWR_IN_MEMORY_DB_NAME, NoOpFederationManager())
    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        middleware=[
            Middleware(BaseHTTPMiddleware, dispatch=http_error_translator),
            Middleware(ProtobufTranslationMiddleware),
            Middleware(NodeAuthMiddleware),
        ],
    )
    app.state.linkstate_factory = factory
    app.state.enable_supernode_auth = True
    app.include_router(fleet_router)
    return factory.state(), app
