"""A round of three clients over NVFlare 2.9 on the same number of parameters as `network_rounds.py`, and its faults.

    python benchmarks/network_nvflare.py [--rounds 6] [--parameters 12738] [--only rounds,killed,server,...]

Needs `pip install nvflare==2.9.*` in an environment of its own; nothing of dosimeter is used. NVFlare provisions its
proof-of-concept project (mutual TLS), server and clients are processes of their own, and the model is summed by its own
ScatterAndGather with its own NPTrainer: no custom code. A relay counts the bytes between clients and server as they are
on the wire. The server listens on all addresses: run it in a network namespace (`unshare -n`, `ip link set lo up`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from relay import Relay, process

CLIENTS, SERVER_PORT = 3, 8002
SITES = [f"site-{k}" for k in range(1, CLIENTS + 1)]
KIT = Path("example_project/prod_00")
ROUND = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}).*Round (\d+) started")


def processes_of(place: Path) -> list[Path]:
    """Folders in /proc of all processes that work in a folder: a client or the server, and the process of its job."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(place).encode() in (folder / "cmdline").read_bytes():
                found.append(folder)
    return found


def memory_of(place: Path) -> float:
    """Megabytes of these processes."""
    memory = 0.0
    for folder in processes_of(place):
        with suppress(OSError):
            rss = [line for line in (folder / "status").read_text().splitlines() if line.startswith("VmRSS")]
            memory += int(rss[0].split()[1]) / 1024 if rss else 0.0
    return memory


class Federation:
    """A provisioned project in a folder, with a relay before the server's port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "HOME": str(folder), "NVFLARE_POC_WORKSPACE": str(folder / "poc")}
        self.environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        prepare = [str(Path(sys.executable).with_name("nvflare")), "poc", "prepare", "-n", str(CLIENTS), "--force"]
        subprocess.run(prepare, env=self.environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.kit = folder / "poc" / KIT
        self.relay = Relay(SERVER_PORT)
        for name in SITES:
            config = self.kit / name / "startup" / "fed_client.json"
            config.write_text(config.read_text().replace(f":{SERVER_PORT}", f":{self.relay.port}"))

    def start(self, stack: ExitStack, name: str) -> Any:
        side = "server" if name == "server" else "client"
        uid = [] if side == "server" else [f"uid={name}"]
        command = [
            sys.executable, "-u", "-m", f"nvflare.private.fed.app.{side}.{side}_train", "-m", str(self.kit / name),
            "-s", f"fed_{side}.json", "--set", "secure_train=true", *uid, "org=nvidia", "config_folder=config",
        ]  # fmt: skip
        return stack.enter_context(process(command, self.environment, self.folder / f"{name}.log"))

    def session(self) -> Any:
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        os.environ["HOME"] = str(self.folder)
        return new_secure_session("admin@nvidia.com", str(self.kit / "admin@nvidia.com"), timeout=60.0)

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        texts = [path.read_text(errors="replace")] if path.exists() else []
        texts += [each.read_text(errors="replace") for each in sorted((self.kit / name).glob("*/log.txt"))]
        return "\n".join(texts)


def write_job(folder: Path, parameters: int, rounds: int, seconds: float) -> Path:
    """A job without custom code; a client sleeps for some seconds in each round."""
    import numpy as np

    app = folder / "job" / "app" / "config"
    app.mkdir(parents=True, exist_ok=True)
    everyone = ["server", *SITES]
    meta = {"name": "job", "min_clients": CLIENTS, "resource_spec": {}, "deploy_map": {"app": everyone}}
    (folder / "job" / "meta.json").write_text(json.dumps(meta))
    source, model = "nvflare.app_common", folder / "start.npy"
    np.save(model, np.zeros(parameters, dtype=np.float32))
    generator = "shareablegenerators.full_model_shareable_generator.FullModelShareableGenerator"
    flow = {
        "min_clients": CLIENTS, "num_rounds": rounds, "wait_time_after_min_received": 0, "aggregator_id": "aggregator",
        "persistor_id": "persistor", "shareable_generator_id": "generator", "train_task_name": "train",
        "train_timeout": 60,
    }  # fmt: skip
    components = [
        {
            "id": "persistor", "path": f"{source}.np.np_model_persistor.NPModelPersistor",
            "args": {"source_ckpt_file_full_name": str(model)},
        },
        {"id": "generator", "path": f"{source}.{generator}", "args": {}},
        {
            "id": "aggregator",
            "path": f"{source}.aggregators.intime_accumulate_model_aggregator.InTimeAccumulateWeightedAggregator",
            "args": {"expected_data_kind": "WEIGHTS"},
        },
    ]  # fmt: skip
    work = {"id": "flow", "path": f"{source}.workflows.scatter_and_gather.ScatterAndGather", "args": flow}
    server = {"format_version": 2, "components": components, "workflows": [work]}
    trainer = {"path": f"{source}.np.np_trainer.NPTrainer", "args": {"sleep_time": seconds}}
    client = {
        "format_version": 2, "components": [],
        "executors": [{"tasks": ["train", "submit_model"], "executor": trainer}],
    }  # fmt: skip
    (app / "config_fed_server.json").write_text(json.dumps(server))
    (app / "config_fed_client.json").write_text(json.dumps(client))
    return folder / "job"


def rounds_started(text: str) -> dict[int, float]:
    """Round -> when it started, from the server's log."""
    found = {}
    for line in text.splitlines():
        if match := ROUND.search(line):
            found.setdefault(int(match[2]), datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S,%f").timestamp())
    return found


class Watch:
    """A running job: when rounds started, bytes by then, memory; and a fault after the third round has started."""

    def __init__(self, federation: Federation, stack: ExitStack, fault: str) -> None:
        self.federation, self.stack, self.fault = federation, stack, fault
        self.started: dict[int, float] = {}
        self.sizes: dict[int, int] = {}
        self.peak, self.killed_at, self.back = 0.0, 0.0, False
        federation.start(stack, "server")
        time.sleep(8)
        for name in SITES:
            federation.start(stack, name)
        self.session = federation.session()
        end = time.monotonic() + 90
        while len(self.session.get_connected_client_list()) < CLIENTS and time.monotonic() < end:
            time.sleep(1)
        self.idle = self._memory()

    def _memory(self) -> float:
        return max(memory_of(self.federation.kit / name) for name in SITES)

    def look(self) -> None:
        """Read the server's log, and do what the fault asks for."""
        relay = self.federation.relay
        self.started = rounds_started(self.federation.log("server"))
        for number in self.started:
            self.sizes.setdefault(number, relay.up + relay.down)
        self.peak = max(self.peak, self._memory())
        victim = {"killed": "site-1", "server": "server"}.get(self.fault)
        if victim and not self.killed_at and len(self.started) >= 3:
            time.sleep(1.0)
            for folder in processes_of(self.federation.kit / victim):
                with suppress(ProcessLookupError):
                    os.kill(int(folder.name), signal.SIGKILL)
            self.killed_at = time.monotonic()
        if victim and self.killed_at and not self.back and time.monotonic() - self.killed_at > 20:
            self.federation.start(self.stack, victim)
            self.back = True
            if victim == "server":
                time.sleep(10)
                self.session = self.federation.session()

    def status(self, job: str) -> str:
        """What the server says about a job."""
        try:
            return str(self.session.get_job_meta(job).get("status"))
        except Exception as error:
            return type(error).__name__


def run(federation: Federation, options: argparse.Namespace, fault: str) -> dict[str, Any]:
    """A job of some rounds, with a fault."""
    job = write_job(federation.folder, options.parameters, options.rounds, 0.0 if fault == "rounds" else 3.0)
    with ExitStack() as stack:
        watch = Watch(federation, stack, fault)
        number, end, status = watch.session.submit_job(str(job)), time.monotonic() + options.seconds, ""
        while time.monotonic() < end and not status.startswith("FINISHED"):
            watch.look()
            status = watch.status(number)
            time.sleep(0.2)
    facts: dict[str, Any] = {
        "what": fault, "parameters": options.parameters, "job": status, "rounds started": len(watch.started),
        "memory of an idle client, MB": round(watch.idle), "memory of a client in a job, MB": round(watch.peak),
    }  # fmt: skip
    if watch.killed_at:
        facts["seconds watched after the kill"] = round(time.monotonic() - watch.killed_at)
    elif len(watch.started) > 2:
        first, last = sorted(watch.started)[1], sorted(watch.started)[-1]
        facts["seconds a round"] = round((watch.started[last] - watch.started[first]) / (last - first), 3)
        size = watch.sizes[last] - watch.sizes[first]
        facts["bytes a round and client"] = round(size / (last - first) / CLIENTS)
    return facts


def replace_certificate(federation: Federation, kind: str) -> None:
    """Site 1 gets a new certificate: a valid one (renewed), one that has expired, or one of another authority."""
    from datetime import UTC, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    place = federation.kit / "site-1" / "startup"
    authority: Any
    own: Any
    old = x509.load_pem_x509_certificate((place / "client.crt").read_bytes())
    state = json.loads((federation.folder / "poc" / "example_project" / "state" / "cert.json").read_text())
    if kind in ("renewed", "expired"):
        authority = serialization.load_pem_private_key(state["root_pri_key"].encode(), None)
    else:
        authority = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    own = serialization.load_pem_private_key((place / "client.key").read_bytes(), None)
    now = datetime.now(UTC)
    ends = now - timedelta(days=1) if kind == "expired" else now + timedelta(days=300)
    builder = x509.CertificateBuilder(
        issuer_name=old.issuer, subject_name=old.subject, public_key=own.public_key(),
        serial_number=x509.random_serial_number(), not_valid_before=now - timedelta(days=30), not_valid_after=ends,
    )  # fmt: skip
    for extension in old.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    made = builder.sign(authority, hashes.SHA256())
    (place / "client.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))


def admitted(federation: Federation, kind: str) -> dict[str, Any]:
    """Whether a client with such a certificate is connected after half a minute."""
    replace_certificate(federation, kind)
    with ExitStack() as stack:
        federation.start(stack, "server")
        time.sleep(8)
        federation.start(stack, "site-2")
        session = federation.session()
        stack.callback(session.close)
        federation.start(stack, "site-1")
        time.sleep(30)
        connected = sorted(client.name for client in session.get_connected_client_list())
    said = [line for line in federation.log("site-1").splitlines() if re.search("error|cert|ssl", line, re.I)]
    return {
        "what": f"{kind} certificate at site-1",
        "connected": connected,
        "site-1 says": [line[:200] for line in said[-3:]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--parameters", type=int, default=12_738)
    parser.add_argument("--seconds", type=float, default=240.0, help="of a job at most")
    parser.add_argument("--only", default="rounds,killed,server,renewed,expired,unknown")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    for what in options.only.split(","):
        folder = Path(tempfile.mkdtemp(prefix="nvflare"))
        federation = Federation(folder)
        facts = (
            admitted(federation, what) if what in ("renewed", "expired", "unknown") else run(federation, options, what)
        )
        print(json.dumps(facts), flush=True)
        if options.keep:
            shutil.move(str(folder), str(options.keep / what))
        else:
            shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)  # threads of a session with a server that was killed stay


if __name__ == "__main__":
    main()
