"""Ports of the loopback that belong to a test until the tests end, also while nobody listens there."""

from __future__ import annotations

import socket
import sys

HERE = "127.0.0.1"


def free_port() -> int:
    """A port that nobody else gets.

    A socket stays bound to it and does not listen. Linux then gives the port to nobody else, not even to an outgoing
    connection. A server with SO_REUSEADDR may still listen there, as ours do. Other systems would refuse the server.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind((HERE, 0))
    port = int(kept.getsockname()[1])
    if sys.platform == "linux":
        kept.detach()  # open until this process ends
    kept.close()
    return port
