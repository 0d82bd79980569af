"""A round of many clients over the network against Flower's own FedAvg without privacy, on the same model.

python benchmarks/network_rounds.py [--rounds 5] [--hidden 64] [--columns 196] [--repeats 1]
                                    [--only https,flower,https-fedavg,flower-fedavg,fedavg]

Coordinator and clients are processes of their own on the loopback, TLS everywhere. A relay counts the bytes of every
connection, as they are on the wire. All but `https` need flwr (`pip install dosimeter[flower]`).

- `https`, `flower`: our rounds, with sampling, budget, clip, noise, tickets and the state on disk.
- `https-fedavg`, `flower-fedavg`: Flower's FedAvg without privacy over the same carrier and between the same processes:
  its records, its serialisation, its weighted mean. No client waits for a poll or a start, so the ratio to the line
  above is what privacy and resumption cost.
- `fedavg`: FedAvg as Flower documents it: a SuperLink, SuperNodes with node keys, an app. A round is mostly polls and
  starts of processes.

With --repeats the lines take turns, and the last line has the least seconds of each. One JSON line for each.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.location import Location
from dosimeter.engines.certificates import Authority, fingerprint_of, write_certificate, write_key
from dosimeter.engines.transports import ServerPlace, SitePlace, transport_named
from dosimeter.models.client_desk import ClientDesk
from dosimeter.models.client_training import client_job, client_terms_of, end_training, train_over_network
from dosimeter.tables.bounds_file import bounds_of
from relay import HERE, Relay, process

CLIENTS, ROWS = 3, 200
TICKS = os.sysconf("SC_CLK_TCK")


def agreed(options: dict[str, Any]) -> tuple[Any, bytes]:
    """A training of noise that does not matter here, and the digest of it."""
    columns = {f"x{j}": {"lower": -1, "upper": 1} for j in range(options["columns"])} | {"y": {"levels": ["0", "1"]}}
    hidden = {"architecture": "mlp", "hidden": options["hidden"]} if options["hidden"] else {}
    section = {
        "epsilon": 100,
        "rounds": options["rounds"],
        "noise-multiplier": 5.0,
        "epochs": 1,
        "batches": 2,
        **hidden,
    }
    terms = client_terms_of(section, Location("benchmark"))
    job = client_job(terms, bounds_of(columns).columns, "y", [f"client{k}" for k in range(1, CLIENTS + 1)])
    return job, sha256(json.dumps(options, sort_keys=True).encode()).digest()


def rows(number: int, columns: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(number)
    X = rng.uniform(-1, 1, size=(ROWS, columns)).astype(np.float32)
    return X, (X[:, 0] > 0).astype(np.intp)


def session_figures(leader: int) -> tuple[float, float]:
    """(processor seconds, megabytes) of all processes of a session, and of their children that have ended."""
    seconds = memory = 0.0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[3]) == leader:
                seconds += sum(map(int, fields[11:15])) / TICKS
                rss = [line for line in (folder / "status").read_text().splitlines() if line.startswith("VmRSS")]
                memory += int(rss[0].split()[1]) / 1024 if rss else 0.0
        except (OSError, IndexError, ValueError):
            continue
    return seconds, memory


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HERE, 0))
        return int(listener.getsockname()[1])


def certificates(folder: Path) -> dict[str, int]:
    """An authority, the coordinator's and the clients' certificates; the roster."""
    authority = Authority.create("benchmark", 2)
    own, key = authority.coordinator(HERE, 2)
    write_certificate(folder / "ca.crt", authority.certificate)
    write_certificate(folder / "own.crt", own)
    write_key(folder / "own.key", key)
    (folder / "own.mark").write_text(fingerprint_of(own))
    roster = {}
    for number in range(1, CLIENTS + 1):
        place = folder / f"client{number}"
        place.mkdir()
        certificate, site_key = authority.site(place.name, 2)
        write_certificate(place / "site.crt", certificate)
        write_key(place / "site.key", site_key)
        roster[fingerprint_of(certificate)] = number
    return roster


def run_client(folder: Path, number: int, name: str, port: int, options: dict[str, Any]) -> None:
    """A client, in its process."""
    transport, _, plain = name.partition("-")
    job, study = agreed(options)
    place = folder / f"client{number}"
    desk = ClientDesk(study, number, job, lambda: rows(number, options["columns"]), place, lambda text: None)
    mark = (folder / "own.mark").read_text()
    where = SitePlace(HERE, port, mark, folder / "ca.crt", place / "site.crt", place / "site.key", place)
    carrier = transport_named(transport)
    answer = fedavg_client(job, rows(number, options["columns"])) if plain else desk.answer
    carrier.serve_site(
        where, answer, most=desk.most_question + RECORDS, stop=lambda: False, patience=120.0, say=lambda text: None
    )


RECORDS = 4096
"""Bytes of Flower's records besides the numbers, at most."""


def packed(model: Any, **metrics: int) -> bytes:
    """A model as Flower's records serialise it, with its metrics."""
    from flwr.app import ArrayRecord, MetricRecord, RecordDict
    from flwr.common.serde import recorddict_to_proto

    records: dict[str, Any] = {"arrays": ArrayRecord([model])}
    if metrics:
        records["metrics"] = MetricRecord(metrics)
    return bytes(recorddict_to_proto(RecordDict(records)).SerializeToString())


def unpacked(data: bytes) -> Any:
    from flwr.common.serde import recorddict_from_proto
    from flwr.proto.recorddict_pb2 import RecordDict

    return recorddict_from_proto(RecordDict.FromString(data))


def fedavg_client(job: Any, own: tuple[Any, Any]) -> Callable[[bytes], bytes]:
    """A client of FedAvg: it trains on the model that arrives and sends the new one."""
    from dosimeter.engines.flower_settings import prepare
    from dosimeter.federated import client_update

    prepare()  # before anything of Flower is imported

    def answer(data: bytes) -> bytes:
        model = unpacked(data)["arrays"].to_numpy_ndarrays()[0]
        update = client_update(job.network, job.local, model, *own)
        return packed((model + update).astype(np.float32), **{"num-examples": ROWS})

    return answer


def fedavg_rounds(job: Any, exchange: Any, rounds: int, progress: Callable[[Any], None]) -> None:
    """Flower's FedAvg without privacy: the weighted mean of all models, round after round."""
    from dosimeter.engines.flower_settings import prepare

    prepare()
    from flwr.serverapp.strategy.strategy_utils import aggregate_arrayrecords

    model = np.zeros(job.network.size, dtype=np.float32)
    for _ in range(rounds):
        question = packed(model)
        answers = exchange.ask(
            dict.fromkeys(range(1, CLIENTS + 1), question),
            deadline=120.0,
            most=len(question) + RECORDS,
            accept=lambda site, data: True,
        )
        assert len(answers) == CLIENTS
        records = [unpacked(answers[k]) for k in sorted(answers)]
        mean = aggregate_arrayrecords(records, "num-examples").to_numpy_ndarrays()[0]
        model = np.asarray(mean, dtype=np.float32)
        progress(None)


def over_carrier(name: str, options: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Our rounds over a transport, or FedAvg over it: the coordinator is this process."""
    transport, _, plain = name.partition("-")
    roster, (job, study) = certificates(folder), agreed(options)
    place = ServerPlace(HERE, 0, folder / "ca.crt", folder / "own.crt", folder / "own.key", folder)
    with ExitStack() as stack:
        exchange = stack.enter_context(transport_named(transport).open_exchange(place, roster))
        relay = Relay(exchange.port)
        stack.callback(relay.close)
        clients = []
        for number in range(1, CLIENTS + 1):
            arguments = [str(folder), str(number), name, str(relay.port), json.dumps(options)]
            clients.append(stack.enter_context(process([sys.executable, __file__, "client", *arguments])))
        while len(exchange.seen) < CLIENTS:
            time.sleep(0.05)
        time.sleep(1.0)
        marks: list[tuple[float, float, int]] = []

        def mark(entry: Any = None) -> None:
            marks.append((time.perf_counter(), time.process_time(), relay.up + relay.down))

        mark()
        if plain:
            fedavg_rounds(job, exchange, options["rounds"], mark)
            figures = [session_figures(client.pid) for client in clients]
        else:
            history = train_over_network(
                job, exchange, study=study, checkpoint=folder / "state.npz", deadline=120.0, progress=mark
            )
            assert all(entry.accepted == CLIENTS for entry in history.rounds)
            figures = [session_figures(client.pid) for client in clients]
            end_training(job, exchange, history, study=study, released=False)
    # The first round also reads rows and computes the budget.
    n = len(marks) - 2
    seconds, processor, size = ((marks[-1][k] - marks[1][k]) / n for k in range(3))
    return {
        "what": name,
        "parameters": job.network.size,
        "seconds a round": round(seconds, 3),
        "coordinator's processor seconds a round": round(processor, 3),
        "bytes a round and client": round(size / CLIENTS),
        "memory of a client, MB": round(max(memory for _, memory in figures)),
        "processor seconds of a client in all": round(max(each for each, _ in figures), 2),
    }


APP = {
    "pyproject.toml": """
        [build-system]
        requires = ["hatchling"]
        build-backend = "hatchling.build"
        [project]
        name = "fedavg"
        version = "1.0.0"
        description = ""
        license = "Apache-2.0"
        dependencies = ["flwr"]
        [tool.hatch.build.targets.wheel]
        packages = ["."]
        [tool.flwr.app]
        publisher = "benchmark"
        [tool.flwr.app.components]
        serverapp = "fedavg.apps:server"
        clientapp = "fedavg.apps:client"
        [tool.flwr.app.config]
        """,
    "fedavg/__init__.py": "",
    "fedavg/apps.py": """
        import json, os, sys, time
        sys.path.insert(0, {folder!r})
        import numpy as np
        from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
        from flwr.clientapp import ClientApp
        from flwr.serverapp import ServerApp
        from flwr.serverapp.strategy import FedAvg
        from dosimeter.federated import client_update
        from network_rounds import CLIENTS, agreed, rows
        options = json.loads({options!r})
        client = ClientApp()
        server = ServerApp()

        @client.train()
        def train(message, context):
            job, _ = agreed(options)
            model = message.content["arrays"].to_numpy_ndarrays()[0]
            number = int(context.node_config["number"])
            update = client_update(job.network, job.local, model, *rows(number, options["columns"]))
            content = RecordDict({{
                "arrays": ArrayRecord([(model + update).astype(np.float32)]),
                "metrics": MetricRecord({{"num-examples": 200}}),
            }})
            return Message(content, reply_to=message)

        class Timed(FedAvg):
            def aggregate_train(self, server_round, replies):
                result = super().aggregate_train(server_round, replies)
                with open({marks!r}, "a") as file:
                    file.write(f"{{time.time()}}\\n")
                return result

        @server.main()
        def main(grid, context):
            job, _ = agreed(options)
            strategy = Timed(fraction_evaluate=0.0, min_train_nodes=CLIENTS, min_available_nodes=CLIENTS)
            start = ArrayRecord([np.zeros(job.network.size, dtype=np.float32)])
            strategy.start(grid=grid, initial_arrays=start, num_rounds=options["rounds"], timeout=600)
        """,
}


def fedavg(options: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Flower's FedAvg without privacy, as Flower documents a deployment."""
    certificates(folder)
    binary, marks = Path(sys.executable).parent, folder / "marks"
    facts = {"folder": str(Path(__file__).parent), "options": json.dumps(options), "marks": str(marks)}
    for name, text in APP.items():
        (folder / "app" / name).parent.mkdir(parents=True, exist_ok=True)
        content = textwrap.dedent(text)
        (folder / "app" / name).write_text(content.format(**facts) if name.endswith("apps.py") else content)
    base = {
        **os.environ, "PATH": f"{binary}{os.pathsep}{os.environ['PATH']}", "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1", "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    }  # fmt: skip

    def home(name: str) -> dict[str, str]:
        (folder / name).mkdir(exist_ok=True)
        return {**base, "FLWR_HOME": str(folder / name)}

    port = free_port()
    with ExitStack() as stack:
        link = [
            str(binary / "flower-superlink"), "--ssl-ca-certfile", str(folder / "ca.crt"), "--ssl-certfile",
            str(folder / "own.crt"), "--ssl-keyfile", str(folder / "own.key"), "--enable-supernode-auth",
            "--disable-runtime-dependency-installation", "--database", str(folder / "link.db"), "--host", HERE,
            "--port", str(port),
        ]  # fmt: skip
        stack.enter_context(process(link, home("link"), folder / "link.log"))
        wait_for(port)
        relay = Relay(port)
        stack.callback(relay.close)
        user = home("user")
        (folder / "user" / "config.toml").write_text(
            f'[superlink]\ndefault = "local"\n[superlink.local]\naddress = "{HERE}:{port}"\n'
            f'root-certificates = "{folder / "ca.crt"}"\n'
        )
        nodes = []
        for number in range(1, CLIENTS + 1):
            key = folder / f"node{number}"
            subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", str(key)], check=True)
            register = [str(binary / "flwr"), "supernode", "register", f"{key}.pub", "local"]
            subprocess.run(register, env=user, check=True, stdout=subprocess.DEVNULL, timeout=120)
            node = [
                str(binary / "flower-supernode"), "--root-certificates", str(folder / "ca.crt"), "--superlink",
                f"{HERE}:{relay.port}", "--auth-supernode-private-key", str(key), "--host", HERE, "--port",
                str(free_port()), "--node-config", f"number={number}",
            ]  # fmt: skip
            nodes.append(stack.enter_context(process(node, home(f"home{number}"), folder / f"node{number}.log")))
        command = [str(binary / "flwr"), "run", str(folder / "app"), "local", "--stream"]
        run = stack.enter_context(process(command, user, folder / "run.log"))
        sizes: list[int] = []
        peaks, end = [0.0] * CLIENTS, time.monotonic() + 900
        while len(sizes) < options["rounds"] and time.monotonic() < end and run.poll() in (None, 0):
            done = len(marks.read_text().splitlines()) if marks.exists() else 0
            sizes += [relay.up + relay.down] * (done - len(sizes))
            peaks = [max(peak, session_figures(node.pid)[1]) for peak, node in zip(peaks, nodes, strict=True)]
            time.sleep(0.2)
        processor = max(session_figures(node.pid)[0] for node in nodes)
        if len(sizes) < options["rounds"]:
            return {"what": "FedAvg of Flower", "failed": (folder / "run.log").read_text()[-2000:]}
    times = [float(line) for line in marks.read_text().splitlines()]
    n = len(times) - 1
    job, _ = agreed(options)
    return {
        "what": "FedAvg of Flower",
        "parameters": job.network.size,
        "seconds a round": round((times[-1] - times[0]) / n, 3),
        "bytes a round and client": round((sizes[-1] - sizes[0]) / n / CLIENTS),
        "memory of a client, MB": round(max(peaks)),
        "processor seconds of a client in all": round(processor, 2),
    }


def wait_for(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection((HERE, port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the SuperLink did not start")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--columns", type=int, default=196)
    parser.add_argument("--hidden", default="64")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--only", default="https,https-fedavg,flower,flower-fedavg,fedavg")
    chosen = parser.parse_args()
    hidden = [int(width) for width in chosen.hidden.split(",") if width]
    options = {"rounds": chosen.rounds, "columns": chosen.columns, "hidden": hidden}
    least: dict[str, float] = {}
    for _ in range(chosen.repeats):
        for what in chosen.only.split(","):
            with tempfile.TemporaryDirectory() as name:
                figures = (fedavg if what == "fedavg" else partial(over_carrier, what))(options, Path(name))
            print(json.dumps(figures), flush=True)
            least[what] = min(least.get(what, math.inf), figures.get("seconds a round", math.inf))
    print(json.dumps({"least seconds a round": least}), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["client"]:
        run_client(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5]), json.loads(sys.argv[6]))
    else:
        main()
