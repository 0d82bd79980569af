"""On a real socket: only 127.0.0.1 listens, the printed address works, and it ends when it is interrupted."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from dosimeter.cli.main import run
from dosimeter.core.errors import Refusal
from dosimeter.ledger import Ledger
from dosimeter.serve.server import Serving


@pytest.fixture
def serving(ledger: Ledger) -> Iterator[Serving]:
    """A page that is served in a thread."""
    page = Serving.on()
    server: Any = page.server(ledger)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [page.socket]}, daemon=True)
    thread.start()
    yield page
    server.should_exit = True
    thread.join(400)
    page.socket.close()


def _listening(port: int) -> set[str]:
    """Addresses in hex that listen on the port, as the kernel lists them."""
    hosts = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(name).read_text().splitlines()[1:]:
            address, _, state = line.split()[1:4]
            host, _, number = address.rpartition(":")
            if int(number, 16) == port and state == "0A":
                hosts.add(host)
    return hosts


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the kernel's list of sockets is read on Linux")
def test_nothing_but_the_loopback_address_listens(serving: Serving) -> None:
    assert _listening(serving.port) == {"0100007F"}


def test_another_address_of_this_machine_is_not_answered(serving: Serving) -> None:
    with socket.socket() as other:
        other.settimeout(400)
        assert other.connect_ex(("127.0.0.2", serving.port)) != 0


def test_the_printed_address_opens_the_page(serving: Serving) -> None:
    with httpx.Client(follow_redirects=True, timeout=400) as client:
        answer = client.get(serving.address)
        assert answer.status_code == 200
        assert serving.token not in answer.text
        assert serving.token not in str(answer.url)
        assert "server" not in answer.headers
        assert client.get(f"http://127.0.0.1:{serving.port}/people").status_code == 200
        head = client.head(f"http://127.0.0.1:{serving.port}/people")
        assert (head.status_code, head.content) == (200, b"")
        assert client.get(f"http://localhost:{serving.port}/").status_code == 401  # a cookie is of one name
    assert httpx.get(f"http://127.0.0.1:{serving.port}/", timeout=400).status_code == 401


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAA\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_raw_nonsense_gets_a_4xx(sent: bytes, serving: Serving) -> None:
    with socket.create_connection(("127.0.0.1", serving.port), timeout=400) as connection:
        with suppress(ConnectionError):  # it may be refused, and the connection closed, before all of it is sent
            connection.sendall(sent)
        answer = connection.recv(200)
    assert answer.startswith(b"HTTP/1.1 4")


def test_a_port_that_is_taken_or_impossible_is_refused(serving: Serving) -> None:
    for port in (serving.port, -1, 70_000):
        with pytest.raises(Refusal, match=f"--port {port}"):
            Serving.on(port)


def test_two_servings_have_two_tokens() -> None:
    first, second = Serving.on(), Serving.on()
    assert first.token != second.token
    assert len(first.token) >= 40
    assert first.token not in repr(first)
    first.socket.close()
    second.socket.close()


def test_the_command_prints_the_address_and_ends_on_interrupt(path: Path) -> None:
    command = [sys.executable, "-m", "dosimeter", "serve", "--ledger", str(path), "--json", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("}"):
                break
        printed = json.loads("".join(lines))
        with httpx.Client(follow_redirects=True, timeout=400) as client:
            # The socket listens before the address is printed, so that no try is too early.
            assert client.get(printed["address"]).status_code == 200
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=400)
    assert process.returncode == 0
    assert "Ctrl-C" in errors
    assert printed["address"].split("token=")[1] not in errors


def test_without_a_ledger_it_is_refused(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DOSIMETER_LEDGER", raising=False)
    assert run(["serve"]) == 2
    assert run(["serve", "--ledger", str(tmp_path / "none")]) == 2
    assert not os.listdir(tmp_path)
