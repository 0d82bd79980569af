"""Flower as a transport, on real processes: the same figures as HTTPS, and nobody runs code of theirs at a site."""

from __future__ import annotations

import http.client
import importlib
import importlib.util
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.core.errors import Refusal
from dosimeter.engines import flower
from dosimeter.engines.flower_gate import CALLS, public_key
from dosimeter.engines.https_site import client_context
from dosimeter.engines.protocol.assembly import SiteFault
from dosimeter.engines.tls_server import TlsServer, server_context
from dosimeter.engines.transports import ServerPlace, SitePlace, transport_named
from dosimeter.tables.consortium_schema import schema_of
from tests.deadlines import PATIENCE, deadlines_that_pass, wait_until
from tests.engines.clients import HERE, ClientNetwork
from tests.engines.test_client_faults import CLOCKS, TRANSPORTS, open_exchange, train
from tests.engines.test_https import Network
from tests.models.consortium import patients, schema_for
from tests.models.study_parts import COLUMNS
from tests.ports import free_port
from tests.workflows.network_link import Link
from tests.workflows.network_parts import RELEASED, Hospitals

flwr_installed = importlib.util.find_spec("flwr") is not None
needs_flower = pytest.mark.skipif(not flwr_installed, reason="flwr is not installed: `make flower` runs this")


@pytest.mark.skipif(flwr_installed, reason="flwr is installed")
def test_without_flower_the_transport_is_refused_in_one_line(tmp_path: Path) -> None:
    place = ServerPlace(HERE, 0, tmp_path, tmp_path, tmp_path, tmp_path)
    with pytest.raises(Refusal, match=r"pip install dosimeter\[flower\]") as refusal:
        transport_named("flower").open_exchange(place, {})
    assert "\n" not in str(refusal.value)


def python(code: str) -> subprocess.CompletedProcess[str]:
    """A new process in which nothing of Flower was set or imported."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FLWR")}
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=clean, capture_output=True, text=True)


@needs_flower
def test_telemetry_update_checks_and_installations_are_off_before_flower_is_imported() -> None:
    done = python(
        "import os, dosimeter.engines.flower_settings as s; s.prepare(); "
        "from flwr.supercore import telemetry; print(telemetry.FLWR_TELEMETRY_ENABLED, *(os.environ[k] for k in s.OFF))"
    )
    assert done.stdout.split() == ["0", "0", "1", "1"], done.stderr
    late = python("import flwr.supercore.telemetry, dosimeter.engines.flower_settings as s; s.prepare()")
    assert late.returncode == 1
    assert "flwr was imported earlier with its telemetry on" in late.stderr.splitlines()[-1]


class FlowerNetwork(Network):
    """Three hospitals with tables and ledgers, over Flower."""

    def exchange(self, port: int = 0) -> Any:
        roster = {site.certificate: site.number for site in self.schema.sites}
        place = ServerPlace(
            HERE, port, self.folder / "ca.crt", self.folder / "own.crt", self.folder / "own.key", self.folder
        )
        return flower.open_exchange(place, roster)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FlowerNetwork, Any]]:
    """Three processes and a coordinator, started once."""
    network = FlowerNetwork(tmp_path_factory.mktemp("flower"))
    facts = {"transport": "flower", "patience": PATIENCE}
    with (
        network.exchange() as exchange,
        network.site(1, exchange.port, **facts),
        network.site(2, exchange.port, **facts),
        network.site(3, exchange.port, **facts),
    ):
        assert wait_until(lambda: len(exchange.seen) == 3)
        yield network, exchange


@needs_flower
def test_the_fit_over_flower_is_that_of_the_joint_table(running: tuple[FlowerNetwork, Any]) -> None:
    network, exchange = running
    fitted = network.fit(network.assembly(exchange, deadline=PATIENCE))
    np.testing.assert_allclose(fitted.w, network.joint(), rtol=0, atol=1e-9)


def post(exchange: Any, place: Path, path: str, body: bytes, key_of: Path | None = None) -> int:
    """The status of a call with a site's certificate, and with the node key of a certificate."""
    context = client_context(place.parent / "ca.crt", place / "site.crt", place / "site.key")
    pem = ((key_of or place) / "site.crt").read_text()
    key = b64encode(public_key(ssl.PEM_cert_to_DER_cert(pem))).decode()
    connection = http.client.HTTPSConnection(HERE, exchange.port, context=context, timeout=PATIENCE)
    try:
        connection.request("POST", path, body, {"flwr-public-key": key, "Content-Type": "application/x-protobuf"})
        return connection.getresponse().status
    finally:
        connection.close()


@needs_flower
@pytest.mark.parametrize(
    "path",
    [
        "/v1/control/start-run",
        "/v1/control/register-node",
        "/v1/runtime/push-messages",
        "/v1/fleet/register-node",
        "/v1/fleet/unregister-node",
        "/v1/fleet/get-fab",
        "/v1/fleet/get-run",
        "/v1/fleet/../control/start-run",
        "/docs",
        "/health",
        "/",
    ],
)
def test_not_even_a_site_reaches_anything_but_the_calls_that_carry_messages(
    running: tuple[FlowerNetwork, Any], path: str
) -> None:
    network, exchange = running
    assert post(exchange, network.folder / "site1", path, b"") == 403


@needs_flower
@pytest.mark.parametrize("call", CALLS)
def test_another_sites_node_key_and_an_unsigned_call_are_refused(running: tuple[FlowerNetwork, Any], call: str) -> None:
    network, exchange = running
    first, second = network.folder / "site1", network.folder / "site2"
    assert post(exchange, first, f"/v1/fleet/{call}", b"", key_of=second) == 403
    if not call.startswith("push"):
        assert post(exchange, first, f"/v1/fleet/{call}", b"") in (400, 401, 415)


@needs_flower
def test_an_answer_nobody_asked_for_and_a_large_one_are_refused_unread(running: tuple[FlowerNetwork, Any]) -> None:
    network, exchange = running
    place = network.folder / "site1"
    assert post(exchange, place, "/v1/fleet/push-object", bytes(64)) == 413
    assert post(exchange, place, "/v1/fleet/pull-messages", bytes(20_000)) == 413


def unused_port() -> int:
    """For a stock node, which shares no port that is kept: one that no outgoing connection gets meanwhile."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with socket.socket() as listener, suppress(OSError):
            listener.bind((HERE, port))
            return port
    raise AssertionError("every port is taken")


APP = {
    "pyproject.toml": """
        [build-system]
        requires = ["hatchling"]
        build-backend = "hatchling.build"
        [project]
        name = "reader"
        version = "1.0.0"
        description = ""
        license = "Apache-2.0"
        dependencies = ["flwr"]
        [tool.hatch.build.targets.wheel]
        packages = ["."]
        [tool.flwr.app]
        publisher = "stranger"
        [tool.flwr.app.components]
        serverapp = "reader.apps:server"
        clientapp = "reader.apps:client"
        [tool.flwr.app.config]
        """,
    "reader/__init__.py": "",
    "reader/apps.py": """
        import glob
        from flwr.app import ConfigRecord, Message, RecordDict
        from flwr.clientapp import ClientApp
        from flwr.serverapp import ServerApp
        client = ClientApp()
        server = ServerApp()

        @client.train()
        def read(message, context):
            open("STOLEN", "w").write("code of a stranger ran here")
            rows = "".join(open(name).read() for name in glob.glob("**/patients.csv", recursive=True))
            return Message(RecordDict({"rows": ConfigRecord({"rows": rows})}), reply_to=message)

        @server.main()
        def main(grid, context):
            messages = [Message(RecordDict(), dst_node_id=node, message_type="train") for node in grid.get_node_ids()]
            for reply in grid.send_and_receive(messages):
                print("ROWS", reply.content["rows"]["rows"])
        """,
}


def write_app(folder: Path, address: str, authority: Path) -> dict[str, str]:
    """An app that reads rows, and the environment of a stranger who has only the authority's certificate."""
    for name, text in APP.items():
        (folder / "app" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "app" / name).write_text(textwrap.dedent(text))
    shutil.copy(authority, folder / "ca.crt")
    (folder / "home").mkdir()
    (folder / "home" / "config.toml").write_text(
        f'[superlink]\ndefault = "hospitals"\n[superlink.hospitals]\naddress = "{address}"\n'
        f'root-certificates = "{folder / "ca.crt"}"\n'
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    off = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "PATH": path}
    return {**os.environ, **off, "FLWR_HOME": str(folder / "home"), "HOME": str(folder / "home")}


@needs_flower
def test_a_stranger_with_the_authoritys_certificate_who_submits_an_app_that_reads_rows_is_refused(
    running: tuple[FlowerNetwork, Any], tmp_path: Path
) -> None:
    network, exchange = running
    environment = write_app(tmp_path, f"{HERE}:{exchange.port}", network.folder / "ca.crt")
    command = [str(Path(sys.executable).with_name("flwr")), "run", str(tmp_path / "app"), "hospitals", "--stream"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path)
    assert "ROWS" not in run.stdout + run.stderr
    assert run.returncode != 0, run.stdout
    assert "Connection to the SuperLink is unavailable" in run.stdout + run.stderr  # and not a fault of the app
    assert not list(network.folder.rglob("STOLEN"))
    assert not list(tmp_path.rglob("STOLEN"))
    network.assembly(exchange, deadline=PATIENCE, first_round=5000).ask("match")  # the study goes on


@needs_flower
def test_a_stock_node_of_flower_with_a_key_of_its_own_does_not_get_in(
    running: tuple[FlowerNetwork, Any], tmp_path: Path
) -> None:
    network, exchange = running
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", str(tmp_path / "key")], check=True)
    environment = write_app(tmp_path, f"{HERE}:{exchange.port}", network.folder / "ca.crt")
    before, log = dict(exchange.seen), tmp_path / "node.log"
    command = [
        str(Path(sys.executable).with_name("flower-supernode")), "--root-certificates", str(tmp_path / "ca.crt"),
        "--superlink", f"{HERE}:{exchange.port}", "--auth-supernode-private-key", str(tmp_path / "key"),
        "--host", HERE, "--port", str(unused_port()), "--max-retries", "1",
    ]  # fmt: skip
    with log.open("w") as output:
        node = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            assert node.wait(timeout=PATIENCE) != 0
        finally:
            with suppress(ProcessLookupError):
                os.killpg(node.pid, signal.SIGKILL)
            node.wait()
    assert "could not establish a connection" in log.read_text()
    assert set(exchange.seen) == set(before)


@needs_flower
def test_a_straggler_beyond_the_deadline_stops_the_question_and_the_next_one_is_answered(tmp_path: Path) -> None:
    network = FlowerNetwork(tmp_path)
    facts = {"transport": "flower", "patience": PATIENCE}
    with (
        network.exchange() as exchange,
        network.site(1, exchange.port, **facts),
        network.site(2, exchange.port, **facts),
    ):
        clocks = [importlib.import_module(f"dosimeter.engines.{each}") for each in CLOCKS["flower"]]
        with (
            deadlines_that_pass(exchange, clocks, lambda missing, question: set(missing) == {3}),
            pytest.raises(SiteFault, match=r"^site 3 did not answer match within 1 s$"),
        ):
            network.assembly(exchange, deadline=1.0, first_round=100).ask("match")
        with network.site(3, exchange.port, **facts):
            network.assembly(exchange, deadline=PATIENCE, first_round=200).ask("match")


@needs_flower
def test_a_site_that_is_killed_within_a_question_comes_back_and_answers_it(tmp_path: Path) -> None:
    network = FlowerNetwork(tmp_path)
    facts = {"transport": "flower", "patience": PATIENCE}
    answers: list[Any] = []
    with network.exchange() as exchange:
        only = network.assembly(exchange, deadline=PATIENCE)
        only.sites = (1,)
        worker = threading.Thread(target=lambda: answers.append(only.ask("match")))
        with network.site(1, exchange.port, slow=2 * PATIENCE, **facts) as process:
            worker.start()
            assert wait_until((network.folder / "site1" / "in hand").exists)
            process.kill()
        with network.site(1, exchange.port, **facts):
            worker.join(timeout=PATIENCE)
    assert answers == [{1: {}}]


@needs_flower
@pytest.mark.parametrize(("ahead", "text"), [(600.0, "ahead of"), (-3600.0, "behind")])
def test_a_site_whose_clock_is_wrong_says_so_and_stops(
    ahead: float, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flower signs the time and refuses one that is far away, without a reason."""
    interceptor: Any = importlib.import_module("flwr.supernode.node_auth_http_interceptor")
    flower_site = importlib.import_module("dosimeter.engines.flower_site")

    class Clock:
        monotonic, sleep = staticmethod(time.monotonic), staticmethod(time.sleep)

        @staticmethod
        def time() -> float:
            return time.time() + ahead

    signed = interceptor.now
    monkeypatch.setattr(interceptor, "now", lambda: signed() + timedelta(seconds=ahead))
    monkeypatch.setattr(flower_site, "time", Clock)
    network, place = FlowerNetwork(tmp_path), tmp_path / "site1"
    with network.exchange() as exchange:
        site = SitePlace(
            HERE, exchange.port, network.own, tmp_path / "ca.crt", place / "site.crt", place / "site.key", place
        )
        options: Any = {"most": 1000, "stop": lambda: False, "patience": PATIENCE, "say": lambda text: None}
        with pytest.raises(Refusal, match=r"this site's clock is \d+ s \w+") as refusal:
            flower.serve_site(site, lambda data: data, **options)
    said = int(re.search(r"(\d+) s", str(refusal.value))[1])  # type: ignore[index]
    assert abs(said - abs(ahead)) < 300  # the time in a response is that of its sending
    assert text in str(refusal.value)


@needs_flower
@pytest.mark.parametrize("kind", ["a redirect", "a long response"])
def test_a_site_follows_no_redirect_and_reads_no_long_response(tmp_path: Path, kind: str) -> None:
    """A coordinator must not send a site's calls into the hospital's network, nor fill its memory."""
    network, sent = FlowerNetwork(tmp_path), []

    async def coordinator(scope: Any, receive: Any, send: Any) -> None:
        sent.append(scope["path"])
        target = f"https://{HERE}:{hospital.getsockname()[1]}/v1/fleet/activate-node"
        headers = [(b"location", target.encode()), (b"content-length", b"0")]
        if kind == "a long response":
            headers = [(b"content-length", str(1 << 30).encode())]
        await send({"type": "http.response.start", "status": 307 if kind == "a redirect" else 200, "headers": headers})
        for _ in range(64 if kind == "a long response" else 1):
            body = bytes(1 << 16) if kind == "a long response" else b""
            await send({"type": "http.response.body", "body": body, "more_body": kind == "a long response"})

    context = server_context(tmp_path / "ca.crt", tmp_path / "own.crt", tmp_path / "own.key")
    place = tmp_path / "site1"
    with (
        socket.create_server((HERE, 0)) as hospital,
        TlsServer(coordinator, context, HERE, 0, connections=64) as server,
    ):
        site = SitePlace(
            HERE, server.port, network.own, tmp_path / "ca.crt", place / "site.crt", place / "site.key", place
        )
        options = {"most": 1000, "stop": lambda: False, "patience": 1.0, "say": lambda text: None}
        with pytest.raises(Refusal, match="was not reached"):
            flower.serve_site(site, lambda data: data, **options)  # type: ignore[arg-type]
        hospital.settimeout(0.2)
        with pytest.raises(TimeoutError):
            hospital.accept()
    assert set(sent) == {"/v1/fleet/activate-node"}


@needs_flower
def test_flower_writes_nothing_to_disk_at_the_coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stock Flower keeps un-noised updates in the write-ahead file of its database."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    folder = tmp_path / "training"
    folder.mkdir()
    network, port = ClientNetwork(folder, 2, transport="flower", rounds=1), free_port()
    before = set(folder.iterdir())
    with open_exchange(network, port) as exchange, network.all_clients(port, patience=PATIENCE):
        assert wait_until(lambda: len(exchange.seen) == 2)
        train(network, exchange, deadline=PATIENCE)
    assert {path.name for path in set(folder.iterdir()) - before} == {"state.npz", "state.npz.lock"}
    assert not (tmp_path / "home").exists()
    assert not list((tmp_path / "tmp").rglob("*"))
    assert (folder / "state.npz").stat().st_mode & 0o077 == 0


def over_flower(hospitals: Hospitals) -> Hospitals:
    for party in ("coordinator", 1, 2, 3):
        hospitals.set(party, "transport", '"flower"')
    return hospitals


@needs_flower
def test_a_study_runs_over_flower_with_the_same_commands_and_every_ledger_books_its_own_patients(
    tmp_path: Path,
) -> None:
    hospitals = over_flower(Hospitals(tmp_path, schema_for("logistic"), patients("logistic")))
    with hospitals.sites() as running:
        assert hospitals.coordinate() == RELEASED
        for process in running:
            process.join(PATIENCE)
        assert [process.exitcode for process in running] == [0, 0, 0]
    assert hospitals.people_booked_are_the_own_ones()
    for place in hospitals.places:
        with dm.Ledger.open(place / "ledger.db") as ledger:
            assert ledger.artefact("r1") == hospitals.release.read_bytes()


def cut_in_the_middle(folder: Path, seconds: float) -> None:
    """A study during which the link of the second site is cut."""
    hospitals = over_flower(Hospitals(folder, schema_for("logistic"), patients("logistic")))
    with Link(hospitals.port) as link:
        hospitals.set(2, "port", str(link.port))
        with hospitals.sites(delay=0.2), hospitals.coordinator_beside() as codes:
            assert wait_until(lambda: hospitals.has_in_hand(2, "newton"))
            link.cut_for(seconds)
            assert wait_until(lambda: codes)
    assert codes == [RELEASED]
    assert hospitals.people_booked_are_the_own_ones()


@needs_flower
def test_a_link_that_is_cut_for_a_while_only_costs_time(tmp_path: Path) -> None:
    cut_in_the_middle(tmp_path, 2.0)


@needs_flower
@pytest.mark.slow
def test_a_link_that_is_cut_for_a_minute_only_costs_time(tmp_path: Path) -> None:
    cut_in_the_middle(tmp_path, 60.0)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_no_id_and_no_cell_of_a_client_is_among_all_bytes_inside_the_tls_ends(tmp_path: Path, transport: str) -> None:
    """Clients send updates: no row, no id, and no field for a metric."""
    rows = patients("logistic")
    rows["id"] = [f"CANARY{person}" for person in rows["id"]]
    schema = schema_of(
        {
            "study": "practices", "target": "y", "release": {"name": "r1"},
            "clients": {"epsilon": 50.0, "delta": 1e-3, "rounds": 2, "noise-multiplier": 1.0, "epochs": 1},
            "columns": {**COLUMNS, "y": {"levels": ["no", "yes"]}},
            "sites": [{"name": name} for name in ("north", "south", "east")],
        },
        complete=False,
    )  # fmt: skip
    hospitals = Hospitals(tmp_path, schema, rows)
    if transport == "flower":
        over_flower(hospitals)
    with Link(hospitals.port, (hospitals.coordinator, hospitals.places[1])) as link:
        hospitals.set(2, "port", str(link.port))
        with hospitals.sites():
            assert hospitals.coordinate() == RELEASED, hospitals.said("coordinator")
        recorded = bytes(link.recorded)
    assert b"train" in recorded  # the recorder sees what is inside TLS
    assert b"CANARY" not in recorded
    part = hospitals.parts[1]
    for age, bmi in zip(np.asarray(part["age"]).tolist(), np.asarray(part["bmi"]).tolist(), strict=True):
        scaled = [(age - 59.0) / 41.0, (bmi - 36.0) / 24.0]
        for number in (age, bmi, *scaled):
            assert np.float64(number).tobytes() not in recorded
        assert np.array(scaled, dtype="<f4").tobytes() not in recorded
        assert repr(age).encode() not in recorded
