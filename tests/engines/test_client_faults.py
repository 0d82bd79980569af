"""A training by clients in processes of their own over mutual TLS: killed, hostile, expired and unknown ones."""

from __future__ import annotations

import importlib
import importlib.util
import random
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dosimeter.engines.protocol.message import read_message
from dosimeter.files.federated_checkpoint import read_state
from dosimeter.models.client_desk import client_rows
from dosimeter.models.client_training import end_training, network_digest, train_over_network
from dosimeter.tables.bounds_file import bounds_of
from tests.deadlines import PATIENCE, Over, deadlines_that_pass, wait_until
from tests.engines.client_process import DROPPED, MODULES
from tests.engines.clients import COLUMNS, HERE, ClientNetwork, write_rows
from tests.ports import free_port

WITHOUT_FLOWER = pytest.mark.skipif(
    importlib.util.find_spec("flwr") is None, reason="flwr is not installed: `make flower` runs this"
)
TRANSPORTS = ["https", pytest.param("flower", marks=WITHOUT_FLOWER)]
CLOCKS = {"https": ("https_server",), "flower": ("flower_server", "flower_gate")}
"""The modules of a transport that read the clock for a deadline."""


@contextmanager
def open_exchange(network: ClientNetwork, port: int, over: Over | None = None) -> Iterator[Any]:
    """The coordinator's end in this process; with `over` deadlines pass when it holds."""
    name = network.facts["transport"]
    transport = importlib.import_module(MODULES[name])
    folder = network.folder
    place = SimpleNamespace(
        listen=HERE, port=port, authority=folder / "ca.crt", certificate=folder / "own.crt", key=folder / "own.key",
        folder=folder,
    )  # fmt: skip
    with transport.open_exchange(place, network.roster) as exchange:
        clocks = [importlib.import_module(f"dosimeter.engines.{each}") for each in CLOCKS[name]]
        with nullcontext() if over is None else deadlines_that_pass(exchange, clocks, over):
            yield exchange


def train(network: ClientNetwork, exchange: Any, deadline: float, progress: Any = None) -> Any:
    return train_over_network(
        network.job, exchange, study=network.study, checkpoint=network.folder / "state.npz", deadline=deadline,
        progress=progress,
    )  # fmt: skip


def models_by_round(network: ClientNetwork) -> dict[int, set[str]]:
    """What the clients saw: round -> digests of its models."""
    seen: dict[int, set[str]] = {}
    for log in network.folder.glob("client*/models.log"):
        for line in log.read_text().splitlines():
            operation, number, digest = line.rsplit(" ", 2)
            if operation == "train":
                seen.setdefault(int(number), set()).add(digest)
    return seen


def seen_by(network: ClientNetwork, number: int) -> str:
    """What one client was asked."""
    log = network.place(number) / "models.log"
    return log.read_text() if log.exists() else ""


def lines_of(network: ClientNetwork) -> int:
    log = network.folder / "coordinator_process.py.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def one_more_line(network: ClientNetwork, process: Any) -> bool:
    """Wait until the coordinator has finished one more round, or everything."""
    before = lines_of(network)
    return wait_until(lambda: lines_of(network) > before or process.poll() is not None)


def kill_coordinator(folder: Path, transport: str, times: int) -> None:
    """Kill it `times` times within rounds, let it finish, and compare what clients saw with what was paid."""
    network, port, rng = ClientNetwork(folder, 2, transport=transport, rounds=times + 2), free_port(), random.Random(1)
    with network.all_clients(port, slow=0.05, patience=PATIENCE):
        for _ in range(times):
            with network.coordinator(port) as process:
                assert one_more_line(network, process)
                time.sleep(rng.uniform(0.0, 0.2))
        with network.coordinator(port) as process:
            assert process.wait(timeout=PATIENCE) == 0
    state = read_state(folder / "state.npz", network_digest(network.job, network.study))
    assert state.round == sum(part.rounds for part in state.spent) == times + 2
    assert {t: len(digests) for t, digests in models_by_round(network).items()} == dict.fromkeys(range(times + 2), 1)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_coordinator_that_is_killed_noises_no_round_twice(tmp_path: Path, transport: str) -> None:
    kill_coordinator(tmp_path, transport, 2)


@pytest.mark.slow
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_coordinator_that_is_killed_fifty_times_noises_no_round_twice(tmp_path: Path, transport: str) -> None:
    kill_coordinator(tmp_path, transport, 50)


SENDS = ["", "huge", "nan", "1e300", "wrong shape", "100 MB", "old round", "other ticket"]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_hostile_clients_count_as_absent_and_huge_updates_are_clipped(tmp_path: Path, transport: str) -> None:
    """Two of eight clients send an update, one of them as long as float32 allows; in the first round none is old."""
    network, port = ClientNetwork(tmp_path, len(SENDS), transport=transport, rounds=2), free_port()
    silent = {number: sends for number, sends in enumerate(SENDS, start=1) if sends in DROPPED}

    def over(missing: Collection[int], question: bytes) -> bool:
        """Whether all others have answered, and what these sent was dropped; Flower does not ask for it again."""
        t = read_message(question).round
        bad = {k for k, sends in silent.items() if t > 0 or sends != "old round"}
        if transport == "https":
            dropped = all((network.place(k) / f"asked again {t}").exists() for k in bad)
        else:
            dropped = all(f"train {t}" in seen_by(network, k) for k in bad)
        return dropped and set(missing) <= bad

    with ExitStack() as stack, open_exchange(network, port, over) as exchange:
        for number, sends in enumerate(SENDS, start=1):
            stack.enter_context(network.client(number, port, sends=sends, patience=PATIENCE))
        assert wait_until(lambda: len(exchange.seen) == len(SENDS))
        history = train(network, exchange, deadline=2.0)
    assert [entry.accepted for entry in history.rounds] == [3, 2]
    state = read_state(tmp_path / "state.npz", network_digest(network.job, network.study))
    assert np.isfinite(state.model).all()
    assert state.round == 2


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_killed_an_expired_and_an_unknown_client_are_absent(tmp_path: Path, transport: str) -> None:
    network, port = ClientNetwork(tmp_path, 4, transport=transport, rounds=2), free_port()
    expired = network.identity(network.place(3), "client3", days=-1)
    network.roster = {mark: k for mark, k in network.roster.items() if k != 3} | {expired: 3}
    network.identity(network.place(4), "client4")  # of the authority, and not on the roster
    accepted: list[int] = []

    def over(missing: Collection[int], question: bytes) -> bool:
        """In the first round the second client is asleep, in the second one it is there again."""
        asleep = not accepted and "train 0" in seen_by(network, 2)
        return set(missing) <= ({2, 3, 4} if asleep else {3, 4})

    with open_exchange(network, port, over) as exchange, ExitStack() as stack:
        stack.enter_context(network.client(1, port, patience=PATIENCE))
        second = stack.enter_context(network.client(2, port, slow=2 * PATIENCE, patience=PATIENCE))
        third = stack.enter_context(network.client(3, port, patience=1.0))
        fourth = stack.enter_context(network.client(4, port, patience=1.0))
        assert third.wait(timeout=PATIENCE) == 2
        assert fourth.wait(timeout=PATIENCE) == 2

        def then(entry: Any) -> None:
            accepted.append(entry.accepted)
            if len(accepted) == 1:
                second.kill()
                second.wait()
                stack.enter_context(network.client(2, port, patience=PATIENCE))

        train(network, exchange, deadline=2.0, progress=then)
    assert accepted == [1, 2]
    assert not {3, 4} & set(exchange.seen)


def hostile_training(folder: Path, transport: str, hostile: int, rounds: int) -> tuple[float, Any]:
    """Accuracy on public rows after these rounds with 10 clients, some of which send the opposite of their update."""
    terms = {"rounds": rounds, "epsilon": 100, "noise-multiplier": 1.5, "learning-rate": 1.0, "epochs": 4}
    network, port = ClientNetwork(folder, 10, transport=transport, **terms), free_port()
    with ExitStack() as stack, open_exchange(network, port) as exchange:
        for number in range(1, 11):
            sends = "opposite" if number <= hostile else ""
            stack.enter_context(network.client(number, port, sends=sends, patience=PATIENCE))
        assert wait_until(lambda: len(exchange.seen) == 10)
        history = train(network, exchange, deadline=PATIENCE)
        end_training(network.job, exchange, history, study=network.study, released=False)
    write_rows(folder / "public.csv", seed=99, n=2000)
    X, y = client_rows(folder / "public.csv", bounds_of(COLUMNS).columns, "ill")
    return network.job.network.score(history.state.model, X, y).accuracy, history


@pytest.mark.slow
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_third_of_hostile_clients_for_a_hundred_rounds_changes_no_dose(tmp_path: Path, transport: str) -> None:
    """The training ends, the model is finite and (ε, δ) is that of the plan. What the model learns is not protected."""
    _, history = hostile_training(tmp_path, transport, hostile=3, rounds=100)
    assert np.isfinite(history.state.model).all()
    assert [entry.accepted for entry in history.rounds] == [10] * 100
    assert history.figure.epsilon <= 100
