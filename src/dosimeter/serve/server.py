"""The page on a socket of 127.0.0.1, until it is stopped."""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dosimeter.core.closed_pipes import closed_pipes_are_errors
from dosimeter.core.errors import Refusal
from dosimeter.ledger import Ledger
from dosimeter.serve.app import application

HERE = "127.0.0.1"


@dataclass(frozen=True)
class Serving:
    """A socket that listens, and the token. Nothing is answered before `run`."""

    socket: socket.socket = field(repr=False)
    token: str = field(repr=False)

    @classmethod
    def on(cls, port: int = 0) -> Serving:
        """Port 0 takes a free one."""
        if not 0 <= port <= 65535:
            raise Refusal(f"--port {port}: give a number from 0 (any that is free) to 65535")
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((HERE, port))
            listener.listen(64)
        except OSError as error:
            listener.close()
            raise Refusal(f"--port {port}: cannot listen there ({error.strerror}): give another, or 0") from None
        return cls(listener, secrets.token_urlsafe(32))

    @property
    def port(self) -> int:
        """The port that was taken."""
        return int(self.socket.getsockname()[1])

    @property
    def address(self) -> str:
        """What to open: it carries the token, and is for the person who started this."""
        return f"http://{HERE}:{self.port}/?token={self.token}"

    def server(self, ledger: Ledger | None, consortium: Path | None = None) -> Any:
        """The server, created but not yet running. Nothing is logged: addresses carry the token."""
        import uvicorn

        config = uvicorn.Config(
            application(ledger, self.port, self.token, consortium),
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            ws="none",
            timeout_keep_alive=5,
            timeout_graceful_shutdown=2,
            h11_max_incomplete_event_size=16_384,
        )
        return uvicorn.Server(config)

    def run(self, ledger: Ledger | None, consortium: Path | None = None) -> None:
        """Until it is interrupted."""
        try:
            with closed_pipes_are_errors():
                self.server(ledger, consortium).run(sockets=[self.socket])
        except KeyboardInterrupt:
            return
        finally:
            self.socket.close()
