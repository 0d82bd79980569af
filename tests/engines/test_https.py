"""Sites in processes of their own, over mutual TLS: the joint model, or a stop with one line."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Gaussian
from dosimeter.engines import https_server
from dosimeter.engines.certificates import Authority, fingerprint_of, write_certificate, write_key
from dosimeter.engines.client_rounds import FAREWELL
from dosimeter.engines.https_server import HttpsExchange, server_context
from dosimeter.engines.https_site import PAUSES, client_context
from dosimeter.engines.https_transport import serve_site
from dosimeter.engines.protocol.assembly import Assembly, SiteFault
from dosimeter.engines.sites import SitesEngine
from dosimeter.engines.tls_server import TlsServer
from dosimeter.engines.transports import SitePlace
from dosimeter.ledger import Ledger
from dosimeter.models.consortium_fit import check_totals, fit_sites, totals_of
from dosimeter.models.consortium_model import consortium_model, public_bounds
from dosimeter.models.consortium_study import AGAIN, GOODBYE
from dosimeter.tables.consortium_schema import ConsortiumSchema, schema_of
from tests import forked
from tests.deadlines import PATIENCE, deadlines_that_pass, wait_until
from tests.models.consortium import cut, patients
from tests.ports import free_port

SCRIPT = Path(__file__).with_name("site_process.py")
HERE = "127.0.0.1"


class Network:
    """Three sites on disk, an authority, and a coordinator."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rows = folder, patients("logistic")
        self.authority = Authority.create("study", 2)
        self.site_certificates = {}
        own, own_key = self.authority.coordinator(HERE, 2)
        self.own = fingerprint_of(own)
        write_certificate(folder / "ca.crt", self.authority.certificate)
        write_certificate(folder / "own.crt", own)
        write_key(folder / "own.key", own_key)
        sites = []
        for k, rows in enumerate(cut(self.rows), start=1):
            place = folder / f"site{k}"
            place.mkdir()
            self.identity(place, f"site{k}")
            sites.append({"name": f"site{k}", "certificate": self.site_certificates[f"site{k}"]})
            lines = [",".join(rows)] + [",".join(map(str, line)) for line in zip(*rows.values(), strict=True)]
            (place / "patients.csv").write_text("\n".join(lines) + "\n")
            Ledger.create(place / "ledger.db", ["fil=2"]).close()
        tables = {
            "study": "readmission", "person": "id", "target": "y", "loss": "logistic", "l2": 0.01,
            "release": {"name": "r1", "max-dose": 1.0},
            "columns": {
                "age": {"lower": 18, "upper": 100}, "bmi": {"lower": 12, "upper": 60},
                "sex": {"levels": ["f", "m", "x"]}, "y": {"levels": ["no", "yes"]},
            },
            "sites": sites,
        }  # fmt: skip
        (folder / "schema.json").write_text(json.dumps(tables))
        self.schema: ConsortiumSchema = schema_of(tables)

    def identity(self, place: Path, name: str, days: int = 2, authority: Authority | None = None) -> None:
        certificate, key = (authority or self.authority).site(name, days)
        for file in ("site.crt", "site.key", "ca.crt"):
            (place / file).unlink(missing_ok=True)
        write_certificate(place / "site.crt", certificate)
        write_key(place / "site.key", key)
        write_certificate(place / "ca.crt", self.authority.certificate)
        self.site_certificates[name] = fingerprint_of(certificate)

    def exchange(self, port: int = 0) -> HttpsExchange:
        roster = {site.certificate: site.number for site in self.schema.sites}
        context = server_context(self.folder / "ca.crt", self.folder / "own.crt", self.folder / "own.key")
        return HttpsExchange(roster, context, HERE, port)

    @contextmanager
    def site(self, number: int, port: int, place: Path | None = None, **facts: Any) -> Iterator[forked.Forked]:
        place = place or self.folder / f"site{number}"
        facts = {"coordinator": self.own, "patience": PATIENCE, **facts, "number": number, "port": port}
        (place / "site.json").write_text(json.dumps(facts))
        process = forked.start([SCRIPT, place], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def assembly(self, exchange: HttpsExchange, deadline: float = PATIENCE, first_round: int = 0) -> Assembly:
        sites = [site.number for site in self.schema.sites]
        return Assembly(
            exchange, self.schema.digest, sites, self.schema.sizes, deadline=deadline, first_round=first_round
        )

    def fit(self, assembly: Assembly) -> Any:
        answers = assembly.ask("moments", check=lambda site, values: check_totals(self.schema, values))
        each = {site: totals_of(values) for site, values in answers.items()}
        totals = sum(list(each.values())[1:], next(iter(each.values())))
        model = consortium_model(self.schema, totals, Gaussian(1.0))
        bounds = public_bounds(self.schema, model, totals)
        return fit_sites(SitesEngine(assembly, bounds, {s: own.rows for s, own in each.items()}), model, bounds)

    def joint(self) -> Any:
        return dm.measure(
            self.rows, target="y", person="id", bounds=self.schema.bounds, noise=dm.Gaussian(1.0), loss="logistic",
            l2=0.01,
        ).fit.w  # fmt: skip


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    return Network(tmp_path_factory.mktemp("network"))


@pytest.fixture(scope="module")
def running(network: Network) -> Iterator[tuple[Network, HttpsExchange]]:
    """Three processes and a coordinator, started once."""
    with (
        network.exchange() as exchange,
        network.site(1, exchange.port),
        network.site(2, exchange.port),
        network.site(3, exchange.port),
    ):
        yield network, exchange


def test_the_fit_over_tls_is_that_of_the_joint_table(running: tuple[Network, HttpsExchange]) -> None:
    network, exchange = running
    fitted = network.fit(network.assembly(exchange))
    np.testing.assert_allclose(fitted.w, network.joint(), rtol=0, atol=1e-9)


def post(network: Network, exchange: HttpsExchange, place: Path, path: str, body: bytes) -> int:
    context = client_context(place / "ca.crt", place / "site.crt", place / "site.key")
    connection = http.client.HTTPSConnection(HERE, exchange.port, context=context, timeout=PATIENCE)
    try:
        connection.request("POST", path, body)
        return connection.getresponse().status
    finally:
        connection.close()


def status_of(connection: http.client.HTTPConnection) -> int:
    connection.request("POST", "/v1/next", b"")
    return connection.getresponse().status


def stranger(network: Network, folder: Path, **options: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    network.identity(folder, folder.name, **options)
    return folder


@pytest.mark.parametrize("path", ["/v1/next", "/v1/answer"])
def test_a_certificate_that_is_not_on_the_roster_is_refused(
    running: tuple[Network, HttpsExchange], tmp_path: Path, path: str
) -> None:
    network, exchange = running
    assert post(network, exchange, stranger(network, tmp_path / "other"), path, b"x") == 403


@pytest.mark.parametrize("kind", ["no certificate", "own authority", "expired", "plain text"])
def test_a_stranger_gets_no_connection(running: tuple[Network, HttpsExchange], tmp_path: Path, kind: str) -> None:
    """Also with the authority's public certificate, which is all that a stranger can have."""
    network, exchange = running
    if kind in ("plain text", "no certificate"):
        context = ssl.create_default_context(cafile=str(network.folder / "ca.crt"))
        connection: http.client.HTTPConnection = (
            http.client.HTTPConnection(HERE, exchange.port, timeout=PATIENCE)
            if kind == "plain text"
            else http.client.HTTPSConnection(HERE, exchange.port, context=context, timeout=PATIENCE)
        )
        with pytest.raises((OSError, http.client.HTTPException)):
            status_of(connection)
        connection.close()
        return
    options = {"expired": {"days": -1}, "own authority": {"authority": Authority.create("mine", 2)}}[kind]
    place = stranger(network, tmp_path / "stranger", **options)
    with pytest.raises((OSError, http.client.HTTPException)):
        post(network, exchange, place, "/v1/next", b"")


def test_an_answer_nobody_asked_for_and_a_large_one_are_refused_unread(
    running: tuple[Network, HttpsExchange], tmp_path: Path
) -> None:
    network, exchange = running
    place = network.folder / "site1"
    assert post(network, exchange, place, "/v1/answer", bytes(64)) == 413
    assert post(network, exchange, place, "/v1/other", b"") == 404


def test_a_site_does_not_talk_to_somebody_else_with_a_certificate_of_the_authority(
    network: Network, tmp_path: Path
) -> None:
    with network.exchange() as exchange, network.site(1, exchange.port, coordinator="0" * 64) as process:
        text, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert "not the agreed coordinator's certificate" in text


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_site_that_meets_an_overloaded_coordinator_waits_between_its_questions_and_gives_up(
    status: int, network: Network
) -> None:
    asked: list[str] = []

    async def overloaded(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    folder = network.folder
    context = server_context(folder / "ca.crt", folder / "own.crt", folder / "own.key")
    own = folder / "site1"
    with TlsServer(overloaded, context, HERE, 0, connections=64) as server:
        site = SitePlace(HERE, server.port, network.own, folder / "ca.crt", own / "site.crt", own / "site.key", own)
        options: Any = {"most": 1000, "stop": lambda: len(asked) > 100, "patience": 0.5, "say": lambda text: None}
        with pytest.raises(Refusal, match=r"the coordinator was not reached for 0\.5 s"):
            serve_site(site, lambda data: data, **options)
    assert set(asked) == {"/v1/next"}


def test_who_tries_again_to_reach_a_coordinator_hears_that_a_study_has_ended() -> None:
    assert min(GOODBYE, AGAIN, FAREWELL) > 2 * max(PAUSES)


@pytest.mark.slow  # `tests/workflows/test_network.py` has the same with the commands
def test_a_site_that_is_killed_in_a_round_comes_back_and_the_model_is_right(tmp_path: Path) -> None:
    network = Network(tmp_path)
    fits: list[Any] = []
    with network.exchange() as exchange, network.site(1, exchange.port), network.site(2, exchange.port):
        with network.site(3, exchange.port, slow=2 * PATIENCE) as process:
            worker = threading.Thread(target=lambda: fits.append(network.fit(network.assembly(exchange))))
            worker.start()
            assert wait_until((network.folder / "site3" / "in hand").exists)
            process.kill()
        with network.site(3, exchange.port):
            worker.join(timeout=PATIENCE)
    np.testing.assert_allclose(fits[0].w, network.joint(), rtol=0, atol=1e-9)


def test_a_site_that_opens_many_connections_keeps_no_other_from_answering(
    running: tuple[Network, HttpsExchange],
) -> None:
    """The server takes 64 connections of three sites, and 503 would be the answer to all further ones."""
    network, exchange = running
    place = network.folder / "site1"
    context = client_context(place / "ca.crt", place / "site.crt", place / "site.key")
    many = []
    try:
        for _ in range(80):
            connection = http.client.HTTPSConnection(HERE, exchange.port, context=context, timeout=PATIENCE)
            connection.connect()
            many.append(connection)
        network.assembly(exchange, first_round=9000).ask("match")
    finally:
        for connection in many:
            connection.close()


def test_a_connection_that_cannot_be_accepted_leaves_no_traceback(
    running: tuple[Network, HttpsExchange], capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A stranger who opened 500 connections to a process with 256 files had made it write 40 MB of tracebacks."""
    network, exchange = running
    loop, heard = exchange._server.loop, threading.Event()
    assert loop is not None
    context = {"message": "socket.accept() out of system resource", "exception": OSError(24, "Too many open files")}
    loop.call_soon_threadsafe(lambda: (loop.call_exception_handler(context), heard.set()))
    assert heard.wait(PATIENCE)
    assert "accept" not in capfd.readouterr().err
    assert not [record for record in caplog.records if "accept" in record.getMessage()]
    network.assembly(exchange, first_round=12_000).ask("match")


def test_a_port_that_is_taken_says_so(running: tuple[Network, HttpsExchange]) -> None:
    network, exchange = running
    with pytest.raises(Refusal, match="another program listens there: end it, or use another port"):
        network.exchange(exchange.port)


def test_the_reason_of_tls_is_said_at_the_site(network: Network) -> None:
    """A coordinator under another name than its certificate has."""
    own, said = network.folder / "site1", []
    with network.exchange() as exchange:
        place = SitePlace(
            "localhost", exchange.port, network.own, network.folder / "ca.crt", own / "site.crt", own / "site.key", own
        )
        options: Any = {"most": 1000, "stop": lambda: False, "patience": PATIENCE, "say": said.append}
        with pytest.raises(Refusal, match=r"not valid for this site \(Hostname mismatch"):
            serve_site(place, lambda data: data, **options)


def test_a_straggler_and_a_site_that_is_not_there_stop_it_with_one_line(tmp_path: Path) -> None:
    network = Network(tmp_path)
    with (
        network.exchange() as exchange,
        network.site(1, exchange.port),
        network.site(2, exchange.port),
        deadlines_that_pass(exchange, [https_server], lambda missing, question: set(missing) == {3}),
        pytest.raises(SiteFault, match=r"^site 3 did not answer match within 1 s$"),
    ):
        network.assembly(exchange, deadline=1.0).ask("match")


@pytest.mark.slow
def test_a_coordinator_that_comes_back_finds_its_sites(tmp_path: Path) -> None:
    network = Network(tmp_path)
    with network.exchange(free_port()) as exchange:
        port = exchange.port
        with network.site(1, port), network.site(2, port), network.site(3, port):
            network.assembly(exchange).ask("match")
            exchange.__exit__()
            for k in (1, 2):
                with network.exchange(port) as again:
                    fitted = network.fit(network.assembly(again, first_round=1000 * k))
                np.testing.assert_allclose(fitted.w, network.joint(), rtol=0, atol=1e-9)
