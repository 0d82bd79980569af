"""A training by clients in processes of their own over mutual TLS: killed, hostile, expired and unknown ones."""

from __future__ import annotations

import importlib
import importlib.util
import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dosimeter.files.federated_checkpoint import read_state
from dosimeter.models.client_desk import client_rows
from dosimeter.models.client_training import end_training, network_digest, train_over_network
from dosimeter.tables.bounds_file import bounds_of
from tests.engines.client_process import MODULES
from tests.engines.clients import COLUMNS, HERE, ClientNetwork, write_rows

WITHOUT_FLOWER = pytest.mark.skipif(
    importlib.util.find_spec("flwr") is None, reason="flwr is not installed: `make flower` runs this"
)
TRANSPORTS = ["https", pytest.param("flower", marks=WITHOUT_FLOWER)]
PATIENCE = 150.0
"""Seconds of the clock that a busy machine may take."""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HERE, 0))
        return int(listener.getsockname()[1])


def wait_until(condition: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@contextmanager
def open_exchange(network: ClientNetwork, port: int) -> Iterator[Any]:
    """The coordinator's end in this process."""
    transport = importlib.import_module(MODULES[network.facts["transport"]])
    folder = network.folder
    place = SimpleNamespace(
        listen=HERE, port=port, authority=folder / "ca.crt", certificate=folder / "own.crt", key=folder / "own.key",
        folder=folder,
    )  # fmt: skip
    with transport.open_exchange(place, network.roster) as exchange:
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


class EnoughRounds(Exception):
    """Both clients were there in one round; on a busy machine that may take several."""


def until_two_are_accepted(accepted: list[int]) -> Callable[[Any], None]:
    def progress(entry: Any) -> None:
        accepted.append(entry.accepted)
        if entry.accepted == 2:
            raise EnoughRounds

    return progress


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_hostile_clients_count_as_absent_and_huge_updates_are_clipped(tmp_path: Path, transport: str) -> None:
    """Two of eight clients send an update, one of them as long as float32 allows."""
    network, port = ClientNetwork(tmp_path, len(SENDS), transport=transport, rounds=20), free_port()
    accepted: list[int] = []
    with ExitStack() as stack, open_exchange(network, port) as exchange:
        for number, sends in enumerate(SENDS, start=1):
            stack.enter_context(network.client(number, port, sends=sends, patience=PATIENCE))
        assert wait_until(lambda: len(exchange.seen) == len(SENDS))
        with pytest.raises(EnoughRounds):
            train(network, exchange, deadline=2.0, progress=until_two_are_accepted(accepted))
    assert max(accepted) == 2
    state = read_state(tmp_path / "state.npz", network_digest(network.job, network.study))
    assert np.isfinite(state.model).all()
    assert state.round == len(accepted)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_killed_an_expired_and_an_unknown_client_are_absent(tmp_path: Path, transport: str) -> None:
    network, port = ClientNetwork(tmp_path, 4, transport=transport, rounds=20), free_port()
    expired = network.identity(network.place(3), "client3", days=-1)
    network.roster = {mark: k for mark, k in network.roster.items() if k != 3} | {expired: 3}
    network.identity(network.place(4), "client4")  # of the authority, and not on the roster
    accepted: list[int] = []
    with open_exchange(network, port) as exchange, ExitStack() as stack:
        stack.enter_context(network.client(1, port, patience=PATIENCE))
        second = stack.enter_context(network.client(2, port, slow=60.0, patience=PATIENCE))
        third = stack.enter_context(network.client(3, port, patience=1.0))
        fourth = stack.enter_context(network.client(4, port, patience=1.0))
        assert third.wait(timeout=PATIENCE) == 2
        assert fourth.wait(timeout=PATIENCE) == 2
        assert wait_until(lambda: {1, 2} <= set(exchange.seen))
        count = until_two_are_accepted(accepted)

        def then(entry: Any) -> None:
            count(entry)
            if len(accepted) == 1:  # it sleeps inside the round that has just ended
                second.kill()
                second.wait()
                stack.enter_context(network.client(2, port, patience=PATIENCE))
                exchange.seen.pop(2, None)
                assert wait_until(lambda: 2 in exchange.seen)

        with pytest.raises(EnoughRounds):
            train(network, exchange, deadline=2.0, progress=then)
    assert accepted[0] <= 1
    assert max(accepted) == 2
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
