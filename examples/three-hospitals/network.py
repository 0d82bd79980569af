"""Where the parties run: each in a network namespace of its own, joined by a bridge in a fifth one, or on the loopback.

Nothing outside these namespaces is changed, and they end with the program. They need root and `ip` of Linux; without,
everything runs on 127.0.0.1.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

PARTIES = 4
"""The coordinator and three hospitals."""
BASE, PORT = "10.213.77", 18_443


@dataclass(frozen=True)
class Network:
    """The coordinator's address, and how to start a command at a party."""

    coordinator: str
    port: int
    describe: str
    names: tuple[str, ...] = ()

    def inside(self, party: int, command: list[str]) -> list[str]:
        """The command as it is started at this party; 0 is the coordinator."""
        return ["ip", "netns", "exec", self.names[party], *command] if self.names else command


@contextmanager
def loopback() -> Iterator[Network]:
    """All parties on 127.0.0.1, and a port that nobody else gets."""
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        port = kept.getsockname()[1]
        if sys.platform != "linux":  # elsewhere nobody can listen at a port that is bound
            kept.close()
        yield Network("127.0.0.1", port, "all parties on the loopback")


@contextmanager
def namespaces() -> Iterator[Network]:
    """Each party in a namespace of its own; on the loopback if that is not possible here."""
    mark = f"dosimeter-{os.getpid()}"
    switch, names = f"{mark}-switch", tuple(f"{mark}-{k}" for k in range(PARTIES))
    try:
        if shutil.which("ip") is None:
            raise OSError("there is no ip command")
        _create(switch, names)
    except (OSError, subprocess.SubprocessError):
        _remove((switch, *names))
        with loopback() as network:
            yield network
        return
    try:
        yield Network(f"{BASE}.1", PORT, "each party in a network namespace of its own", names)
    finally:
        _remove((switch, *names))


def _create(switch: str, names: tuple[str, ...]) -> None:
    _ip("netns", "add", switch)
    _ip("-n", switch, "link", "add", "bridge0", "type", "bridge")
    _ip("-n", switch, "link", "set", "bridge0", "up")
    for k, name in enumerate(names):
        _ip("netns", "add", name)
        _ip("-n", switch, "link", "add", f"port{k}", "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("-n", switch, "link", "set", f"port{k}", "master", "bridge0", "up")
        _ip("-n", name, "addr", "add", f"{BASE}.{k + 1}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", name, "link", "set", "lo", "up")


def _remove(names: tuple[str, ...]) -> None:
    for name in names:
        with suppress(OSError, subprocess.SubprocessError):
            _ip("netns", "del", name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, timeout=20, capture_output=True)
