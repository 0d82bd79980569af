"""The simulator: equal whatever the chunks and the processes, resumed anywhere, stopped by the budget, and honest."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dosimeter import federated
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.notion import Standing
from dosimeter.federated import (
    Constant,
    Curator,
    FixedClip,
    FixedSizeSampling,
    ListedSchedule,
    PoissonSampling,
    PrivacyBudget,
    State,
)
from dosimeter.federated.baseline import FedAvgBaseline, alone
from dosimeter.federated.history import Round
from dosimeter.federated.local_training import LocalSGD
from dosimeter.federated.networks import Network
from dosimeter.federated.partition import iid, two_shards
from dosimeter.federated.personalisation import personalise
from dosimeter.federated.simulate import simulate
from dosimeter.federated.task import Task
from dosimeter.reproduce.geyer19_algorithm import GeyerAlgorithm1

K = 40
CURATOR = Curator(PoissonSampling(K), Constant(20, 1.0), PrivacyBudget(8.0, 1e-2))


def task(hidden: tuple[int, ...] = (12,), clients: int = K) -> Task:
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    parts = two_shards(y[:1500], clients, np.random.default_rng(7), points=60)
    return Task(Network((64, *hidden, 10)), LocalSGD(2, 0.2, batch=10), X[:1500], y[:1500], parts, X[1500:], y[1500:])


def into(kept: list[State]) -> Any:
    """A `keep` that has everything in memory."""
    return lambda state, rounds: kept.append(state)


@pytest.fixture(scope="module")
def digits() -> Task:
    return task()


def test_the_chunks_change_rounding_only(digits: Task) -> None:
    whole = simulate(digits, CURATOR, seed=3, rounds=3, together=100)
    for together in (1, 7):
        parts = simulate(digits, CURATOR, seed=3, rounds=3, together=together)
        np.testing.assert_allclose(parts.state.model, whole.state.model, rtol=0, atol=1e-5)
        assert parts.columns["sampled"].tolist() == whole.columns["sampled"].tolist()


def test_another_seed_is_another_training(digits: Task) -> None:
    one, other = (simulate(digits, CURATOR, seed=s, rounds=1) for s in (3, 4))
    assert np.abs(one.state.model - other.state.model).max() > 1e-3


def test_several_processes_train_what_one_does_up_to_rounding(digits: Task) -> None:
    """Who is asked, the noise and the price are equal; updates in float32 round as the BLAS of each process likes."""
    one = simulate(digits, CURATOR, seed=3, rounds=2)
    two = simulate(digits, CURATOR, seed=3, rounds=2, processes=2)
    np.testing.assert_allclose(two.state.model, one.state.model, rtol=0, atol=1e-5)
    assert replace(two.state, model=one.state.model).same_as(one.state)
    for a, b in zip(one.rounds, two.rounds, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    other = simulate(digits, CURATOR, seed=4, rounds=2, processes=2)
    assert np.abs(other.state.model - one.state.model).max() > 1e-3


def test_several_processes_leave_the_variables_of_this_one_alone(digits: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    simulate(digits, CURATOR, seed=3, rounds=1, processes=2)
    assert os.environ["OPENBLAS_NUM_THREADS"] == "2"
    assert "MKL_NUM_THREADS" not in os.environ


def test_processes_that_cannot_start_are_refused_with_what_to_do(digits: Task) -> None:
    broken = replace(digits)
    object.__setattr__(broken, "clients", (np.array([10**6]),) * K)
    with pytest.raises(Refusal, match="did not start"):
        simulate(broken, CURATOR, seed=3, rounds=1, processes=2)


def test_a_script_with_several_processes_leaves_nothing_behind(tmp_path: Any) -> None:
    """Spawned processes read the script again; shared memory that is left behind is reported on stderr at the end."""
    script = tmp_path / "train.py"
    script.write_text(
        "import numpy as np\n"
        "from dosimeter import federated as f\n"
        "from dosimeter.federated.simulate import simulate\n"
        "from dosimeter.federated.task import Task\n"
        "from dosimeter.federated.local_training import Local\n"
        "from dosimeter.federated.networks import Network\n"
        "if __name__ == '__main__':\n"
        "    X, y = np.repeat(np.eye(2), 20, axis=0), np.repeat([0, 1], 20)\n"
        "    rows = tuple(np.arange(40).reshape(20, 2))\n"
        "    task = Task(Network((2, 2)), Local(1, 1.0, batch=2), X, y, rows, X, y)\n"
        "    c = f.Curator(f.Poisson(20), f.Constant(15, 2.0), f.EpsilonDelta(4.0, 1e-2))\n"
        "    print(simulate(task, c, seed=1, rounds=2, processes=2).state.round)\n"
    )
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, ran.stdout.strip(), ran.stderr) == (0, "2", "")


KILLED = """
import os, signal, sys
import numpy as np
from dosimeter import federated as f
from dosimeter.federated.simulate import simulate
from dosimeter.federated.task import Task
from dosimeter.federated.local_training import Local
from dosimeter.federated.networks import Network
if __name__ == '__main__':
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as the command line does
    X, y = np.repeat(np.eye(2), 20, axis=0), np.repeat([0, 1], 20)
    task = Task(Network((2, 2)), Local(1, 1.0, batch=2), X, y, tuple(np.arange(40).reshape(20, 2)), X, y)
    c = f.Curator(f.Poisson(20), f.Constant(15, 20.0), f.EpsilonDelta(4.0, 1e-2))

    def stop(entry):
        if entry.round == 1:
            children = [int(k) for k in open(f'/proc/{os.getpid()}/task/{os.getpid()}/children').read().split()]
            workers = [k for k in children if 'spawn_main' in open(f'/proc/{k}/cmdline').read()]
            maps = [line for line in open('/proc/self/maps') if '/psm_' in line]
            print(len(maps), sum('(deleted)' in line for line in maps), *workers, flush=True)
            os.kill(workers[0] if sys.argv[1] == 'worker' else os.getpid(), signal.SIGKILL)

    simulate(task, c, seed=1, rounds=400, processes=2, progress=stop)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="looks for processes in /proc")
@pytest.mark.parametrize("who", ["worker", "parent"])
def test_a_process_that_is_killed_is_told_of_and_nobody_stays_behind(who: str, tmp_path: Any) -> None:
    script = tmp_path / "train.py"
    script.write_text(KILLED)
    ran = subprocess.run([sys.executable, str(script), who], capture_output=True, text=True, timeout=120, check=False)
    if who == "worker":
        assert ran.returncode == 1
        assert "a process that trained clients ended" in ran.stderr
    else:
        assert ran.returncode == -9
    blocks, without_name, *workers = ran.stdout.split()
    assert len(workers) == 2
    assert int(blocks) == int(without_name) > 0  # memory that has no name is gone with its processes
    for _ in range(100):
        alive = [k for k in workers if os.path.exists(f"/proc/{k}/exe")]  # a zombie has none
        if not alive:
            break
        time.sleep(0.1)
    assert not alive


def test_a_training_resumed_from_any_kept_state_goes_on_as_if_it_had_never_stopped(digits: Task) -> None:
    kept: list[State] = []
    whole = simulate(digits, CURATOR, seed=5, rounds=3, keep=into(kept))
    assert [s.serial for s in kept] == list(range(1, 7))
    for state in kept:
        again = State.from_plain(state.plain())
        rest = simulate(digits, CURATOR, seed=5, rounds=3, state=again)
        assert rest.state.same_as(whole.state)
        joined = rest.after(whole.rounds[: state.round])
        assert joined.rounds == whole.rounds


def test_a_round_that_was_open_when_it_stopped_is_closed_even_where_no_further_one_is_asked_for(digits: Task) -> None:
    kept: list[State] = []
    simulate(digits, CURATOR, seed=5, rounds=1, keep=into(kept))
    rest = simulate(digits, CURATOR, seed=5, rounds=0, state=kept[0])
    assert rest.state.same_as(kept[1])


def test_rounds_that_do_not_follow_each_other_are_not_joined(digits: Task) -> None:
    history = simulate(digits, CURATOR, seed=5, rounds=2)
    with pytest.raises(Refusal, match="follow"):
        history.after(history.rounds)


def test_the_budget_ends_the_training_before_it_is_passed(digits: Task) -> None:
    history = simulate(digits, CURATOR, seed=1)
    allowed = federated.rounds_allowed(CURATOR.cohort, 20, 1.0, CURATOR.budget)
    assert history.state.round == len(history.rounds) == allowed > 1
    assert history.figure.epsilon <= 8.0
    assert "not opened" in history.stopped
    spent = history.columns["epsilon"]
    assert (np.diff(spent) > 0).all()
    assert spent[-1] == pytest.approx(history.figure.epsilon, abs=1e-3)


def test_a_schedule_that_ends_ends_the_training(digits: Task) -> None:
    curator = replace(CURATOR, schedule=ListedSchedule((10, 20), (2.0, 3.0)))
    history = simulate(digits, curator, seed=1)
    assert history.columns["per_round"].tolist() == [10, 20]
    assert history.columns["noise"].tolist() == [2.0, 3.0]
    assert "2 rounds" in history.stopped


def test_v_c_and_u_s_are_those_of_the_updates_themselves(digits: Task) -> None:
    kept: list[State] = []
    history = simulate(digits, CURATOR, seed=2, rounds=1, keep=into(kept), together=6)
    one_by_one = [digits.updates(kept[0].model, [k], seed=2)[0] for k in kept[0].participants]
    sent = np.array(one_by_one, dtype=np.float64)
    assert history.rounds[0].variance == pytest.approx(sent.var(axis=0).mean(), rel=1e-4)
    assert history.rounds[0].scale == pytest.approx((sent.mean(axis=0) ** 2).mean(), rel=1e-4)
    assert simulate(digits, CURATOR, seed=2, rounds=1, spread=False).rounds[0].variance == 0.0


def test_without_noise_and_clip_a_round_is_the_mean_of_the_updates(digits: Task) -> None:
    kept: list[State] = []
    history = simulate(digits, FedAvgBaseline(K, 15), seed=2, rounds=1, keep=into(kept))
    sent = [digits.updates(kept[0].model, [k], seed=2)[0] for k in kept[0].participants]
    np.testing.assert_allclose(history.state.model, kept[0].model + np.mean(sent, axis=0), atol=1e-6)
    assert len(kept[0].participants) == 15
    assert history.figure.epsilon == math.inf
    assert history.simulation


def test_a_wide_clip_and_hardly_any_noise_come_to_averaging(digits: Task) -> None:
    quiet = Curator(PoissonSampling(K), Constant(K, 0.01), PrivacyBudget(1e5, 0.5), FixedClip(4.0))
    ours, plain = (simulate(digits, c, seed=2, rounds=1) for c in (quiet, FedAvgBaseline(K, K)))
    assert len(ours.rounds) == len(plain.rounds) == 1
    # Six deviations of the noise on the mean, of 910 parameters: wrong once in half a million seeds.
    np.testing.assert_allclose(ours.state.model, plain.state.model, rtol=0, atol=6 * 0.01 * 4.0 / K)
    tight = replace(quiet, clip=FixedClip(1e-3))
    assert np.abs(simulate(digits, tight, seed=2, rounds=1).state.model - plain.state.model).max() > 1e-2


def test_what_was_published_runs_and_says_that_it_is_unaccounted(digits: Task) -> None:
    history = simulate(
        digits, GeyerAlgorithm1(FixedSizeSampling(K), Constant(20, 1.2), PrivacyBudget(8.0, 1e-2)), seed=1, rounds=2
    )
    assert history.columns["sampled"].tolist() == [20, 20]
    assert history.figure.standing is Standing.UNACCOUNTED
    assert (np.diff(history.columns["delta"]) > 0).all()


def test_a_private_model_beats_clients_who_train_alone(digits: Task) -> None:
    history = simulate(task(hidden=()), replace(CURATOR, schedule=Constant(20, 0.8)), seed=1)
    by_themselves = alone(task(hidden=()), seed=1, epochs=20)
    assert by_themselves.shape == (K,)
    assert by_themselves.mean() < history.accuracy < 1.0


def test_alone_a_client_tells_no_more_classes_apart_than_it_has_seen() -> None:
    """Of ten even classes a client with one or two labels can get two tenths at most; classes here are even to 10 %."""
    own = task()
    accuracy = alone(own, seed=1, epochs=30, clients=range(10))
    seen = np.array([np.isin(own.y_test, own.y[own.clients[k]]).mean() for k in range(10)])
    assert (accuracy <= seen + 1e-12).all()
    assert accuracy.max() > 0.1


def test_personal_models_know_their_client_better() -> None:
    X, y = load_digits(return_X_y=True)
    parts = two_shards(y[:1500], 25, np.random.default_rng(7), points=60)
    whole = Task(Network((64, 10)), LocalSGD(2, 0.2, batch=10), X[:1500] / 16, y[:1500], parts, X[1500:] / 16, y[1500:])
    held = whole.hold_out(0.25, seed=3)
    for k in range(25):
        assert sorted([*held.clients[k], *held.held[k]]) == sorted(parts[k])
        assert len(held.held[k]) == 15
    curator = Curator(PoissonSampling(25), Constant(20, 1.0), PrivacyBudget(8.0, 1e-2))
    model = simulate(held, curator, seed=1).state.model
    personal = personalise(held, model, seed=1, local=LocalSGD(10, 0.5, batch=10))
    assert personal.before.shape == personal.after.shape == personal.alone.shape == (25,)
    assert personal.after.mean() > personal.before.mean()
    first = personalise(held, model, seed=1, local=LocalSGD(10, 0.5, batch=10), clients=[4])
    assert first.after[0] == personal.after[4]
    rows = held.held[4]
    assert first.before[0] == held.learner.score(model, held.X[rows], held.y[rows]).accuracy


def test_rows_are_not_held_out_where_another_client_trains_on_them(digits: Task) -> None:
    with pytest.raises(Refusal, match="several clients"):
        digits.hold_out(0.2, seed=1)
    with pytest.raises(Refusal, match="hold_out"):
        personalise(digits, np.zeros(digits.learner.size), seed=1)


def test_clients_of_unequal_size_take_part() -> None:
    X, y = load_digits(return_X_y=True)
    parts = tuple(np.split(np.random.default_rng(1).permutation(1500), [3, 10, 400, 450]))
    own = Task(Network((64, 10)), LocalSGD(1, 0.2, batch=16), X[:1500] / 16, y[:1500], parts, X[1500:] / 16, y[1500:])
    curator = Curator(PoissonSampling(5), Constant(5, 1.0), PrivacyBudget(50.0, 1e-2))
    one, other = (simulate(own, curator, seed=1, rounds=1, together=c) for c in (1, 3))
    np.testing.assert_allclose(one.state.model, other.state.model, rtol=0, atol=1e-5)
    assert one.rounds[0].accepted == 5


def test_clients_whose_training_explodes_are_refused_and_the_round_goes_on(digits: Task) -> None:
    X = np.array(digits.X)
    X[digits.clients[3]] *= np.float32(1e30)
    history = simulate(
        replace(digits, X=X), Curator(PoissonSampling(K), Constant(K, 2.0), PrivacyBudget(8.0, 0.5)), seed=1, rounds=1
    )
    assert 0 < history.rounds[0].refused < history.rounds[0].accepted
    assert np.isfinite(history.state.model).all()


def test_a_round_in_which_nobody_is_asked_is_a_round_of_noise() -> None:
    own = task(clients=25)
    curator = Curator(PoissonSampling(25), Constant(0.001, 1.0), PrivacyBudget(8.0, 1e-2), FixedClip(1.0))
    history = simulate(own, curator, seed=1, rounds=1, processes=2)
    assert history.rounds[0].sampled == 0
    assert (history.rounds[0].variance, history.rounds[0].scale) == (0.0, 0.0)
    assert history.state.round == 1


def test_a_seed_is_marked_as_simulation_and_the_systems_bits_are_not(digits: Task) -> None:
    seeded = simulate(digits, CURATOR, seed=1, rounds=1)
    assert seeded.simulation
    assert "simulation, not for release" in repr(seeded)
    real = [simulate(digits, CURATOR, seed=1, rounds=1, for_release=True) for _ in range(2)]
    assert not real[0].simulation
    assert (real[0].state.model != real[1].state.model).any()
    assert "simulation" not in repr(real[0])
    with pytest.raises(Refusal, match="simulation"):
        simulate(digits, FedAvgBaseline(K, 5), seed=1, rounds=1, for_release=True)


def unequal(left_out: int | None = None) -> Task:
    """Twelve clients of 5 to 16 rows; all but the last use every second column only. One of them may be missing."""
    rng = np.random.default_rng(4)
    sizes, X, y = np.arange(5, 17), rng.random((200, 1000)), rng.integers(0, 3, 200)
    parts = [np.arange(end - size, end) for end, size in zip(np.cumsum(sizes), sizes, strict=True)]
    X[: parts[-1][0], ::2] = 0.0
    kept = tuple(rows for k, rows in enumerate(parts) if k != left_out)
    return Task(Network((1000, 8, 3)), LocalSGD(3, 0.3, batch=5), X, y, kept, X[:9], y[:9], declared=14)


def sent_by(own: Task, together: int, **how: Any) -> dict[int, np.ndarray]:
    """What each client sends when all are asked, by its first row."""
    sent: dict[int, np.ndarray] = {}

    class Listening(Curator):
        def close_round(self, state: State, messages: Any, rng: Any = None, observe: Any = None) -> State:
            came = [(np.array(m.clients), np.array(m.updates)) for m in messages]
            for clients, updates in came:
                sent.update({int(own.clients[k][0]): u for k, u in zip(clients, updates, strict=True)})
            return super().close_round(state, [federated.UpdateBatch(*part) for part in came], rng, observe)

    curator = Listening(PoissonSampling(14), Constant(14, 3.0), PrivacyBudget(50.0, 1e-2))
    simulate(own, curator, seed=1, rounds=1, together=together, **how)
    return sent


@pytest.fixture
def equal_shuffles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same draw for everybody: what is left is the arithmetic."""
    draws = np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda seed=None: draws([7]))


@pytest.mark.usefixtures("equal_shuffles")
@pytest.mark.parametrize("left_out", [0, 5, 11])
def test_what_a_client_sends_for_release_does_not_depend_on_who_else_is_there(left_out: int) -> None:
    with_it, without = (sent_by(unequal(k), 1, for_release=True) for k in (None, left_out))
    assert len(with_it) == len(without) + 1 == 12
    assert all(with_it[k].tobytes() == u.tobytes() for k, u in without.items())


@pytest.mark.usefixtures("equal_shuffles")
def test_stacks_let_one_client_change_the_last_digits_of_another() -> None:
    """Why a release has none: columns that nobody in the stack uses are left out, and sums change their order."""
    both = [sent_by(unequal(k), 8) for k in (None, 11)]
    assert any(both[0][k].tobytes() != u.tobytes() for k, u in both[1].items())
    with pytest.raises(Refusal, match="by itself"):
        sent_by(unequal(), 8, for_release=True)


def test_a_seed_ties_shuffles_to_numbers_and_a_release_has_none() -> None:
    """Without client 0 everybody's number is one less: by a public seed all others would send something else."""
    seeded = [sent_by(unequal(k), 1) for k in (None, 0)]
    moved = [np.linalg.norm(seeded[0][k] - u) for k, u in seeded[1].items()]
    assert max(moved) > 0.01
    released = [sent_by(unequal(), 1, for_release=True) for _ in range(2)]
    assert any((released[0][k] != released[1][k]).any() for k in released[0])


def test_clients_that_were_declared_and_are_not_there_never_answer() -> None:
    own = unequal()
    assert own.enrolled == 14
    everybody = Curator(PoissonSampling(14), Constant(14, 3.0), PrivacyBudget(50.0, 1e-2))
    for processes in (1, 2):
        history = simulate(own, everybody, seed=1, rounds=1, processes=processes)
        assert (history.rounds[0].sampled, history.rounds[0].accepted, history.rounds[0].refused) == (14, 12, 0)
    with pytest.raises(Refusal, match="the curator knows 12 clients, the task has 14"):
        simulate(own, replace(everybody, cohort=PoissonSampling(12), schedule=Constant(12, 3.0)), seed=1)
    with pytest.raises(Refusal, match="declared=11"):
        replace(own, declared=11)


def test_progress_is_told_every_round_and_columns_make_a_dataframe(digits: Task) -> None:
    import pandas as pd

    told: list[Round] = []
    history = simulate(digits, CURATOR, seed=1, rounds=3, progress=told.append)
    assert tuple(told) == history.rounds
    frame = pd.DataFrame(history.columns)
    assert frame["round"].tolist() == [0, 1, 2]
    assert frame["accuracy"].iloc[-1] == history.accuracy == digits.score(history.state.model).accuracy
    json.dumps({name: column.tolist() for name, column in history.columns.items()})


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"curator": replace(CURATOR, cohort=PoissonSampling(41))}, "41 clients"),
        ({"curator": FedAvgBaseline(K, 5)}, "rounds="),
        ({"rounds": -1}, "rounds"),
        ({"processes": 0}, "processes"),
        ({"seed": -1}, "seed"),
        ({"state": State.of(np.zeros(3), 1.0)}, "parameters"),
    ],
)
def test_what_cannot_be_simulated_is_refused(digits: Task, wrong: dict[str, Any], says: str) -> None:
    curator = wrong.pop("curator", CURATOR) if "curator" in wrong else CURATOR
    with pytest.raises(Refusal, match=says):
        simulate(digits, curator, **{"seed": 1, **wrong})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"clients": ()}, "0 clients"),
        ({"clients": ([],)}, "no rows"),
        ({"clients": ([1797],)}, "not in the table"),
        ({"y": np.full(1500, 10)}, "classes"),
        ({"y": np.zeros(3, dtype=int)}, "1500 whole numbers"),
        ({"y": np.zeros(1500)}, "whole numbers"),
        ({"X": np.full((1500, 64), np.nan)}, "finite"),
        ({"X": np.zeros((1500, 63))}, "63 columns"),
        ({"held": ([1],)}, "held rows"),
    ],
)
def test_a_task_that_is_not_whole_is_refused(digits: Task, change: dict[str, Any], says: str) -> None:
    with pytest.raises(Refusal, match=says):
        replace(digits, **change)


def test_clients_that_are_not_there_are_refused(digits: Task) -> None:
    with pytest.raises(CannotMeasure, match="from 0 to 39"):
        alone(digits, seed=1, clients=[40])


def test_iid_clients_learn_in_fewer_rounds_than_clients_with_two_labels() -> None:
    X, y = load_digits(return_X_y=True)
    found = []
    for parts in (
        iid(1500, 25, np.random.default_rng(1)),
        two_shards(y[:1500], 25, np.random.default_rng(1), points=60),
    ):
        own = Task(
            Network((64, 10)), LocalSGD(2, 0.2, batch=10), X[:1500] / 16, y[:1500], parts, X[1500:] / 16, y[1500:]
        )
        found.append(simulate(own, FedAvgBaseline(25, 5), seed=1, rounds=3).accuracy)
    assert found[0] > found[1]
