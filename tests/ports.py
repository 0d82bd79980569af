"""Ports of the loopback that belong to a test until the tests end, also while nobody listens there."""

from __future__ import annotations

import socket

HERE = "127.0.0.1"
_KEPT: list[socket.socket] = []
"""A socket that is bound and does not listen: the kernel gives its port to nobody else, not even to an outgoing
connection. A server with SO_REUSEADDR may still listen there, as ours do."""


def free_port() -> int:
    """A port that nobody else gets."""
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind((HERE, 0))
    _KEPT.append(kept)
    return int(kept.getsockname()[1])
