"""A training kept on disk: read back bit for bit, refused where foreign or altered, gone on with after any kill."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import dosimeter
from dosimeter.core.errors import Refusal
from dosimeter.federated import ClientUpdate, Constant, Curator, PoissonSampling, PrivacyBudget
from dosimeter.federated.state import State
from dosimeter.files.federated_checkpoint import (
    CheckpointWriter,
    alone_with,
    digest_of,
    read_kept,
    read_state,
    serial_in,
    write_state,
)
from dosimeter.files.safetensors import read_network, write_network

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
    assert serial_in(path) == state.serial


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes")
def test_the_file_is_its_owners_alone(path):
    write_state(path, trained(opened=True), "name")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_state_of_another_training_is_refused(path):
    write_state(path, trained(), "name")
    with pytest.raises(Refusal, match="another training"):
        read_state(path, "other")


def test_the_name_of_a_training_follows_its_rows_and_its_recipe():
    X, seed = np.arange(6.0).reshape(2, 3), {"seed": 1}
    name = digest_of(seed, [X])
    assert name == digest_of({"seed": 1}, [X.copy()])
    others = [digest_of(seed, [X.reshape(3, 2)]), digest_of(seed, [X + 1]), digest_of({"seed": 2}, [X])]
    others += [digest_of(seed, [X.astype(np.float32)]), digest_of(seed, [X, X])]
    assert len({name, *others}) == 6


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path, parts):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    path.write_bytes(made.getvalue())


def npy(array):
    made = io.BytesIO()
    np.save(made, array)
    return made.getvalue()


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


def test_rounds_come_back_as_they_were_told_and_must_be_those_of_the_state(path):
    from dosimeter.federated.history import Round

    state = trained(rounds=2)
    told = tuple(Round(t, 0.5, 1.25, 0.1 * t, 1e-3, 20, 2.0, 0.7, 21, 20, 1, 1e-9, 1e-7) for t in range(2))
    write_state(path, state, "name", rounds=told)
    kept = read_kept(path, "name")
    assert kept.rounds == told
    assert [type(v) for v in kept.rounds[0]] == [type(v) for v in told[0]._replace(per_round=20.0)]
    assert kept.state.same_as(state)
    write_state(path, state, "name", rounds=told[1:])
    with pytest.raises(Refusal, match="rounds are not those"):
        read_kept(path, "name")


def test_a_keeper_goes_on_with_the_rounds_of_the_run_before(path):
    from dosimeter.federated.history import Round

    zero, one = (Round(t, 0.5, 1.0, 0.1, 1e-3, 20, 2.0, 0.7, 21, 20, 1, 0.0, 0.0) for t in range(2))
    write_state(path, trained(rounds=1, opened=True), "name", rounds=[zero])
    state, rounds = read_kept(path, "name")
    CheckpointWriter(path, "name", state.serial, earlier=rounds).keep(trained(rounds=2), [one])
    assert read_kept(path, "name").rounds == (zero, one)


def test_a_step_is_written_only_over_the_step_before(path):
    one, two = CheckpointWriter(path, "name"), CheckpointWriter(path, "name")
    opened = trained(rounds=0, opened=True)
    one.keep(opened)
    with pytest.raises(Refusal, match="another run"):  # it began at step 0 as well, and comes second
        two.keep(opened)
    with pytest.raises(Refusal, match="another run"):  # a step left out
        one.keep(trained(rounds=1, opened=True))
    path.unlink()
    with pytest.raises(Refusal, match="moved"):
        one.keep(trained(rounds=1))


def test_two_runs_do_not_go_on_from_one_file(path):
    with alone_with(path), pytest.raises(Refusal, match="another run"), alone_with(path):
        pass
    with alone_with(path):
        pass


def test_a_network_comes_back_from_its_file_and_torch_reads_it(tmp_path):
    from dosimeter.federated.networks import Network

    network = Network((3, 4, 2))
    model = np.random.default_rng(0).normal(size=network.size).astype(np.float32).astype(np.float64)
    path = tmp_path / "m.safetensors"
    write_network(path, network, model, {"guarantee": {"epsilon": 8.0}})
    back, same, story = read_network(path)
    assert back == network
    np.testing.assert_array_equal(same, model)
    assert story["guarantee"] == {"epsilon": 8.0}
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    from safetensors.torch import load_file

    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    module.load_state_dict(load_file(path))
    X = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
    said = module(torch.from_numpy(X)).argmax(dim=1).numpy()
    assert network.score(model, X, said).accuracy == 1.0


def test_a_parameter_beyond_float32_is_refused_and_not_written_as_infinity(tmp_path):
    from dosimeter.federated.networks import Network

    path = tmp_path / "m.safetensors"
    with pytest.raises(Refusal, match="no float32"):
        write_network(path, Network((1, 2)), np.array([1e60, 0, 0, 0]), {})
    assert not path.exists()


def test_a_file_that_is_no_network_is_refused(tmp_path):
    path = tmp_path / "m.safetensors"
    for data in (b"x", b"\x08" + bytes(7) + b"{}      ", bytes(100), b"\xff" * 100):
        path.write_bytes(data)
        with pytest.raises(Refusal):
            read_network(path)


COMMAND = (
    "federate --dataset digits --clients 60 --epsilon 8 --delta 1e-3 --per-round 20 --noise 12 --epochs 1 "
    "--model softmax --quiet --resume"
)


ROUNDS = 300
"""More than a test needs to be killed in: a kill must meet a live process."""


def start(folder, *extra):
    """The real program, in a process of its own."""
    arguments = [*COMMAND.split(), "--checkpoint", "ck.npz", "--out", "m.safetensors", *extra]
    return subprocess.Popen(
        [sys.executable, "-m", "dosimeter", *arguments],
        cwd=folder,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(Path(dosimeter.__file__).parents[1])},
        stderr=subprocess.PIPE,
        text=True,
    )


def last(folder) -> State | None:
    """The state on disk, read without its name: this test knows none."""
    path = folder / "ck.npz"
    if not path.exists():
        return None
    facts = json.loads(np.load(io.BytesIO(members(path)["facts.npy"])).tobytes())
    return read_state(path, facts["digest"])


def follows(before: State | None, after: State | None) -> bool:
    """Nothing that was kept is lost or written anew: the rounds on disk begin with those that were there before."""
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


def killed_and_resumed(folder, kills, seed):
    """Kill at random moments after the first state appeared, then let it end; how many kills met a live process."""
    rng, met = random.Random(seed), 0
    seen: State | None = None
    for _ in range(kills):
        process = start(folder, "--rounds", str(ROUNDS))
        until, began = rng.uniform(0, 0.15), time.monotonic()
        while process.poll() is None and last(folder) is None and time.monotonic() - began < 60:
            time.sleep(0.01)
        # A process that goes on from a file needs its time to start; the kill comes once it writes, or soon after.
        mark = None if seen is None else seen.serial
        while process.poll() is None and time.monotonic() - began < 60:
            now = last(folder)
            if now is not None and now.serial != mark:
                break
            time.sleep(0.01)
        time.sleep(until)
        alive = process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.communicate()
        met += alive
        now = last(folder)
        assert follows(seen, now)
        assert not list(folder.glob("m.safetensors"))  # nothing left before the end
        seen = now
    return met, seen


def check_kills(folder, kills, seed):
    met, seen = killed_and_resumed(folder, kills, seed)
    assert met == kills
    process = start(folder, "--rounds", str(ROUNDS))
    _, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    end = last(folder)
    assert follows(seen, end)
    assert (end.round, end.is_open, sum(s.rounds for s in end.spent)) == (ROUNDS, False, ROUNDS)
    network, model, story = read_network(folder / "m.safetensors")
    np.testing.assert_allclose(model, end.model, rtol=1e-6, atol=1e-7)
    assert story["guarantee"]["rounds"] == ROUNDS
    assert network.widths == (64, 10)


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is of POSIX")
def test_a_training_killed_at_random_moments_goes_on_and_forgets_nothing(tmp_path):
    check_kills(tmp_path, kills=4, seed=1)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is of POSIX")
def test_a_training_killed_fifty_times_goes_on_and_forgets_nothing(tmp_path):
    check_kills(tmp_path, kills=50, seed=2)


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is of POSIX")
def test_a_simulation_that_was_killed_ends_where_one_that_was_not_ends(tmp_path):
    ends = []
    for name in ("whole", "killed"):
        folder = tmp_path / name
        folder.mkdir()
        if name == "killed":
            process = start(folder, "--rounds", "6", "--simulate", "7")
            while process.poll() is None and (last(folder) is None or last(folder).serial < 4):
                time.sleep(0.01)
            process.kill()
            process.communicate()
        process = start(folder, "--rounds", "6", "--simulate", "7")
        _, error = process.communicate(timeout=300)
        assert process.returncode == 0, error
        ends.append(last(folder))
    assert ends[0].same_as(ends[1])
    assert ends[0].simulation
