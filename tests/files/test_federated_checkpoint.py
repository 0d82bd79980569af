"""Checkpoints of a training: read back bit for bit, refused if foreign or altered, resumed after any kill."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import time
import zipfile

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.federated import ClientUpdate, Constant, Curator, PoissonSampling, PrivacyBudget
from dosimeter.federated.state import State
from dosimeter.files.federated_checkpoint import (
    CheckpointWriter,
    checkpoint_lock,
    read_checkpoint,
    read_state,
    stored_serial,
    training_digest,
    write_state,
)
from dosimeter.files.safetensors import read_network, write_network
from tests import forked
from tests.deadlines import PATIENCE, wait_until

CURATOR = Curator(PoissonSampling(50), Constant(20, 2.0), PrivacyBudget(8.0, 1e-3))


def trained(rounds=3, opened=False):
    rng = np.random.default_rng(4)
    state = CURATOR.start(np.zeros(7))
    for _ in range(rounds):
        state = CURATOR.open_round(state, rng)
        state = CURATOR.close_round(state, [ClientUpdate(int(k), rng.normal(size=7)) for k in state.participants], rng)
    return CURATOR.open_round(state, rng) if opened else state


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.npz"


@pytest.mark.parametrize("opened", [False, True])
def test_a_state_comes_back_bit_for_bit(path, opened):
    state = trained(opened=opened)
    write_state(path, state, "name")
    assert read_state(path, "name").same_as(state)
    assert stored_serial(path) == state.serial


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes")
def test_only_the_owner_can_read_the_file(path):
    write_state(path, trained(opened=True), "name")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_state_of_another_training_is_refused(path):
    write_state(path, trained(), "name")
    with pytest.raises(Refusal, match="another training"):
        read_state(path, "other")


def test_the_digest_of_a_training_depends_on_its_rows_and_its_recipe():
    X, seed = np.arange(6.0).reshape(2, 3), {"seed": 1}
    name = training_digest(seed, [X])
    assert name == training_digest({"seed": 1}, [X.copy()])
    others = [
        training_digest(seed, [X.reshape(3, 2)]),
        training_digest(seed, [X + 1]),
        training_digest({"seed": 2}, [X]),
    ]
    others += [training_digest(seed, [X.astype(np.float32)]), training_digest(seed, [X, X])]
    assert len({name, *others}) == 6


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path, parts):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    path.write_bytes(buffer.getvalue())


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def with_facts(parts, **changed):
    facts = json.loads(np.load(io.BytesIO(parts["facts.npy"])).tobytes()) | changed
    return {**parts, "facts.npy": npy(np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8))}


ALTERED = {
    "budget forgotten": lambda p: {**p, "spent.npy": npy(np.zeros((0, 3)))},
    "a round fewer paid": lambda p: {**p, "spent.npy": npy(np.array([[20, 2.0, 1]]))},
    "another model": lambda p: {**p, "model.npy": npy(np.ones(7))},
    "a model of text": lambda p: {**p, "model.npy": npy(np.array(["x"] * 7))},
    "a model of objects": lambda p: {**p, "model.npy": npy(np.array([{}] * 7, dtype=object))},
    "a member missing": lambda p: {k: v for k, v in p.items() if k != "velocity.npy"},
    "a member too many": lambda p: {**p, "more.npy": npy(np.zeros(1))},
    "simulation washed off": lambda p: with_facts(p, simulation=False),
    "an earlier step": lambda p: with_facts(p, serial=2),
    "another schema": lambda p: with_facts(p, schema="x"),
    "a clip of text": lambda p: with_facts(p, clip="1"),
    "facts that are no JSON": lambda p: {**p, "facts.npy": npy(np.frombuffer(b"{", dtype=np.uint8))},
    "facts nested deep": lambda p: {**p, "facts.npy": npy(np.frombuffer(b"[" * 100000, dtype=np.uint8))},
    "half an array": lambda p: {**p, "model.npy": p["model.npy"][:-8]},
}


@pytest.mark.parametrize("case", list(ALTERED))
def test_an_altered_file_is_refused_in_one_line(path, case):
    write_state(path, trained(), "name")
    rewrite(path, ALTERED[case](members(path)))
    with pytest.raises(Refusal) as error:
        read_state(path, "name")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("cut", [1, 20, 400])
def test_half_a_file_is_refused(path, cut):
    write_state(path, trained(), "name")
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(Refusal):
        read_state(path, "name")


def test_rounds_are_read_back_and_must_be_those_of_the_state(path):
    from dosimeter.federated.history import Round

    state = trained(rounds=2)
    records = tuple(Round(t, 0.5, 1.25, 0.1 * t, 1e-3, 20, 2.0, 0.7, 21, 20, 1, 1e-9, 1e-7) for t in range(2))
    write_state(path, state, "name", rounds=records)
    saved = read_checkpoint(path, "name")
    assert saved.rounds == records
    assert [type(v) for v in saved.rounds[0]] == [type(v) for v in records[0]._replace(per_round=20.0)]
    assert saved.state.same_as(state)
    write_state(path, state, "name", rounds=records[1:])
    with pytest.raises(Refusal, match="rounds are not those"):
        read_checkpoint(path, "name")


def test_a_writer_continues_with_the_rounds_of_the_previous_run(path):
    from dosimeter.federated.history import Round

    first, second = (Round(t, 0.5, 1.0, 0.1, 1e-3, 20, 2.0, 0.7, 21, 20, 1, 0.0, 0.0) for t in range(2))
    write_state(path, trained(rounds=1, opened=True), "name", rounds=[first])
    state, rounds = read_checkpoint(path, "name")
    CheckpointWriter(path, "name", state.serial, earlier=rounds).keep(trained(rounds=2), [second])
    assert read_checkpoint(path, "name").rounds == (first, second)


def test_a_step_is_written_only_over_the_step_before(path):
    first, second = CheckpointWriter(path, "name"), CheckpointWriter(path, "name")
    opened = trained(rounds=0, opened=True)
    first.keep(opened)
    with pytest.raises(Refusal, match="another run"):  # it also began at step 0, and comes second
        second.keep(opened)
    with pytest.raises(Refusal, match="another run"):  # a skipped step
        first.keep(trained(rounds=1, opened=True))
    path.unlink()
    with pytest.raises(Refusal, match="moved"):
        first.keep(trained(rounds=1))


def test_two_runs_do_not_continue_from_one_file(path):
    with checkpoint_lock(path), pytest.raises(Refusal, match="another run"), checkpoint_lock(path):
        pass
    with checkpoint_lock(path):
        pass


def test_a_network_comes_back_from_its_file_and_torch_reads_it(tmp_path):
    from dosimeter.federated.networks import Network

    network = Network((3, 4, 2))
    model = np.random.default_rng(0).normal(size=network.size).astype(np.float32).astype(np.float64)
    path = tmp_path / "m.safetensors"
    write_network(path, network, model, {"guarantee": {"epsilon": 8.0}})
    back, same, description = read_network(path)
    assert back == network
    np.testing.assert_array_equal(same, model)
    assert description["guarantee"] == {"epsilon": 8.0}
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    from safetensors.torch import load_file

    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    module.load_state_dict(load_file(path))
    X = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
    predicted = module(torch.from_numpy(X)).argmax(dim=1).numpy()
    assert network.score(model, X, predicted).accuracy == 1.0


def test_a_parameter_beyond_float32_is_refused_and_not_written_as_infinity(tmp_path):
    from dosimeter.federated.networks import Network

    path = tmp_path / "m.safetensors"
    with pytest.raises(Refusal, match="does not fit into float32"):
        write_network(path, Network((1, 2)), np.array([1e60, 0, 0, 0]), {})
    assert not path.exists()


def test_a_file_that_is_not_a_network_is_refused(tmp_path):
    path = tmp_path / "m.safetensors"
    for data in (b"x", b"\x08" + bytes(7) + b"{}      ", bytes(100), b"\xff" * 100):
        path.write_bytes(data)
        with pytest.raises(Refusal):
            read_network(path)


COMMAND = (
    "federate --dataset digits --clients 60 --epsilon 8 --delta 1e-3 --clients-per-round 20 --noise-multiplier 12 "
    "--epochs 1 --architecture softmax --quiet --resume"
)


# It stops after so many states, so that a kill is never too late, however busy the machine is.
STOPS = """
import sys, time
from dosimeter.files.federated_checkpoint import CheckpointWriter
left, keep = [int(sys.argv.pop(1))], CheckpointWriter.keep
def keep_and_stop(self, *arguments):
    keep(self, *arguments)
    left[0] -= 1
    time.sleep(0 if left[0] else 600)
CheckpointWriter.keep = keep_and_stop
from dosimeter.cli.main import main
main(sys.argv[1:])
"""


def start(folder, *extra, states=0):
    """Start the command line in its own process; it stops after so many states, if any are named."""
    arguments = [*COMMAND.split(), "--checkpoint", "ck.npz", "--out", "m.safetensors", *extra]
    command = ["-c", STOPS, str(states)] if states else ["-m", "dosimeter"]
    return forked.start([*command, *arguments], cwd=folder, stderr=subprocess.PIPE, text=True)


def last(folder) -> State | None:
    """The state on disk, read with the digest in the file."""
    path = folder / "ck.npz"
    if not path.exists():
        return None
    facts = json.loads(np.load(io.BytesIO(members(path)["facts.npy"])).tobytes())
    return read_state(path, facts["digest"])


def follows(before: State | None, after: State | None) -> bool:
    """Whether nothing stored was lost or rewritten: the rounds on disk begin with the earlier ones."""
    if before is None or after is None:
        return before is None
    paid = [sum(s.rounds for s in state.spent) for state in (before, after)]
    same = after.history[: before.round] == before.history
    open_one = (
        not before.is_open
        or after.serial == before.serial
        or after.history[before.round].sampled == len(before.participants)
    )
    return same and paid[1] >= paid[0] and paid[1] == after.round + after.is_open and open_one


def killed_and_resumed(folder, kills, seed, rounds):
    """Kill at random moments after the first state appears; how many hit a running process, and the last state."""
    rng, hits = random.Random(seed), 0
    stored: State | None = None
    for _ in range(kills):
        # A round has two states: all these runs together do not reach the last one.
        process = start(folder, "--rounds", str(rounds), states=2 * rounds // (kills + 1))
        # A process takes time to start; the kill comes once it writes, or soon after.
        mark = None if stored is None else stored.serial

        def writes(process=process, mark=mark) -> bool:
            now = last(folder)
            return process.poll() is not None or (now is not None and now.serial != mark)

        assert wait_until(writes)
        time.sleep(rng.uniform(0, 0.15))
        alive = process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.communicate()
        hits += alive
        now = last(folder)
        assert follows(stored, now)
        assert not list(folder.glob("m.safetensors"))  # nothing released before the end
        stored = now
    return hits, stored


def check_kills(folder, kills, seed, rounds):
    """Every kill hits a running process."""
    hits, stored = killed_and_resumed(folder, kills, seed, rounds)
    assert hits == kills
    process = start(folder, "--rounds", str(rounds))
    _, error = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == 0, error
    end = last(folder)
    assert follows(stored, end)
    assert (end.round, end.is_open, sum(s.rounds for s in end.spent)) == (rounds, False, rounds)
    network, model, description = read_network(folder / "m.safetensors")
    np.testing.assert_allclose(model, end.model, rtol=1e-6, atol=1e-7)
    assert description["guarantee"]["rounds"] == rounds
    assert network.widths == (64, 10)


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is POSIX only")
def test_a_training_killed_at_random_moments_resumes_and_loses_nothing(tmp_path):
    check_kills(tmp_path, kills=4, seed=1, rounds=150)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is POSIX only")
def test_a_training_killed_fifty_times_resumes_and_loses_nothing(tmp_path):
    check_kills(tmp_path, kills=50, seed=2, rounds=300)


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is POSIX only")
def test_a_simulation_that_was_killed_ends_in_the_same_state(tmp_path):
    ends = []
    for name in ("whole", "killed"):
        folder = tmp_path / name
        folder.mkdir()
        if name == "killed":
            process = start(folder, "--rounds", "6", "--simulation-seed", "7", states=5)
            assert wait_until(lambda folder=folder: last(folder) is not None and last(folder).serial >= 4)
            process.kill()
            process.communicate()
        process = start(folder, "--rounds", "6", "--simulation-seed", "7")
        _, error = process.communicate(timeout=2 * PATIENCE)
        assert process.returncode == 0, error
        ends.append(last(folder))
    assert ends[0].same_as(ends[1])
    assert ends[0].simulation
