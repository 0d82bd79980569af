"""What a coordinator pays for clients that wait for a question: memory and processor of each open connection.

python benchmarks/network_idle.py [--connections 200] [--seconds 30]

Clients hold one TLS connection each and ask again whenever the coordinator answers that there is nothing to do. Prints
what a connection costs, and the same for 10,000 of them.
"""

from __future__ import annotations

import argparse
import http.client
import multiprocessing
import resource
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from dosimeter.engines.certificates import Authority, fingerprint_of, write_certificate, write_key
from dosimeter.engines.https_server import HOLD, HttpsExchange, server_context
from dosimeter.engines.https_site import client_context

HERE, MANY = "127.0.0.1", 10_000


def memory() -> float:
    """Resident bytes of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def coordinator(folder: Path, certificates: list[str], seconds: float, out: Any) -> None:
    tls = server_context(folder / "ca.crt", folder / "own.crt", folder / "own.key")
    roster = {certificate: k for k, certificate in enumerate(certificates, start=1)}
    with HttpsExchange(roster, tls, HERE) as exchange:
        time.sleep(1)
        before = memory()
        out.put(exchange.port)
        time.sleep(seconds / 2)  # everyone connects
        held, processor, clock = memory(), time.process_time(), time.perf_counter()
        time.sleep(seconds)
        share = (time.process_time() - processor) / (time.perf_counter() - clock)
        out.put((held - before, share))


def wait(port: int, context: Any, end: float) -> None:
    connection = http.client.HTTPSConnection(HERE, port, context=context, timeout=60)
    with suppress(OSError, http.client.HTTPException):  # the coordinator ends first
        while time.monotonic() < end:
            connection.request("POST", "/v1/next", b"")
            connection.getresponse().read()


def main(connections: int, seconds: float) -> None:
    authority = Authority.create("benchmark", 2)
    own, key = authority.coordinator(HERE, 2)
    clients = [authority.site(f"client {k}", 2) for k in range(connections)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_certificate(folder / "ca.crt", authority.certificate)
        named = [(f"client{k}", *client) for k, client in enumerate(clients)]
        for stem, issued, private in (("own", own, key), *named):
            write_certificate(folder / f"{stem}.crt", issued)
            write_key(folder / f"{stem}.key", private)
        context = multiprocessing.get_context("spawn")
        out = context.Queue()
        arguments = (folder, [fingerprint_of(certificate) for certificate, _ in clients], seconds, out)
        process = context.Process(target=coordinator, args=arguments)
        process.start()
        port = out.get(timeout=60)
        files = [(folder / f"client{k}.crt", folder / f"client{k}.key") for k in range(connections)]
        contexts = [client_context(folder / "ca.crt", *own_files) for own_files in files]
        end = time.monotonic() + 1.5 * seconds + 1
        for tls in contexts:
            threading.Thread(target=wait, args=(port, tls, end), daemon=True).start()
        held, share = out.get(timeout=2 * seconds + 60)
        process.join(20)
    each = held / connections
    print(f"{connections} connections, each asks every {HOLD:g} s")
    print(f"memory of a connection: {each / 1024:.0f} kB; of {MANY:,}: {each * MANY / 2**30:.2f} GB")
    print(f"processor: {share:.3f} of a core, {1000 * share * HOLD / connections:.2f} ms a request; of {MANY:,}: "
          f"{share * MANY / connections:.1f} cores")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    main(options.connections, options.seconds)
