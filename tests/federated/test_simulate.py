"""Simulation: independent of batches and processes, resumable anywhere, stopped by the budget."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dosimeter import federated
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.federated import (
    Constant,
    Curator,
    FixedClip,
    ListedSchedule,
    PoissonSampling,
    PrivacyBudget,
    State,
)
from dosimeter.federated.baseline import FedAvgBaseline, local_only_accuracy
from dosimeter.federated.history import Round
from dosimeter.federated.local_training import LocalSGD
from dosimeter.federated.networks import Network
from dosimeter.federated.partition import iid, two_shards
from dosimeter.federated.personalisation import personalise
from dosimeter.federated.simulate import simulate
from dosimeter.federated.task import Task
from tests.deadlines import wait_until

K = 40
CURATOR = Curator(PoissonSampling(K), Constant(20, 1.0), PrivacyBudget(8.0, 1e-2))


def task(hidden: tuple[int, ...] = (12,), clients: int = K) -> Task:
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    parts = two_shards(y[:1500], clients, np.random.default_rng(7), points=60)
    return Task(Network((64, *hidden, 10)), LocalSGD(2, 0.2, batch=10), X[:1500], y[:1500], parts, X[1500:], y[1500:])


def saving_to(saved: list[State]) -> Any:
    """A `save_state` that keeps every state in memory."""
    return lambda state, rounds: saved.append(state)


@pytest.fixture(scope="module")
def digits() -> Task:
    return task()


def test_the_batches_change_rounding_only(digits: Task) -> None:
    whole = simulate(digits, CURATOR, seed=3, rounds=3, clients_per_batch=100)
    for clients_per_batch in (1, 7):
        parts = simulate(digits, CURATOR, seed=3, rounds=3, clients_per_batch=clients_per_batch)
        np.testing.assert_allclose(parts.state.model, whole.state.model, rtol=0, atol=1e-5)
        assert parts.columns["sampled"].tolist() == whole.columns["sampled"].tolist()


def test_another_seed_is_another_training(digits: Task) -> None:
    first, other = (simulate(digits, CURATOR, seed=s, rounds=1) for s in (3, 4))
    assert np.abs(first.state.model - other.state.model).max() > 1e-3


def test_several_processes_train_what_one_does_up_to_rounding(digits: Task) -> None:
    """Sampled clients, noise and cost are equal; updates in float32 round differently in the BLAS of each process."""
    single = simulate(digits, CURATOR, seed=3, rounds=2)
    double = simulate(digits, CURATOR, seed=3, rounds=2, processes=2)
    np.testing.assert_allclose(double.state.model, single.state.model, rtol=0, atol=1e-5)
    assert replace(double.state, model=single.state.model).same_as(single.state)
    for a, b in zip(single.rounds, double.rounds, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    other = simulate(digits, CURATOR, seed=4, rounds=2, processes=2)
    assert np.abs(other.state.model - single.state.model).max() > 1e-3


def test_several_processes_do_not_change_this_ones_environment(digits: Task, monkeypatch: pytest.MonkeyPatch) -> None:
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
    """Spawned processes import the script again; shared memory left behind would be reported on stderr at the end."""
    script = tmp_path / "train.py"
    script.write_text(
        "import numpy as np\n"
        "from dosimeter import federated as f\n"
        "from dosimeter.federated.simulate import simulate\n"
        "from dosimeter.federated.task import Task\n"
        "from dosimeter.federated.local_training import LocalSGD\n"
        "from dosimeter.federated.networks import Network\n"
        "if __name__ == '__main__':\n"
        "    X, y = np.repeat(np.eye(2), 20, axis=0), np.repeat([0, 1], 20)\n"
        "    rows = tuple(np.arange(40).reshape(20, 2))\n"
        "    task = Task(Network((2, 2)), LocalSGD(1, 1.0, batch=2), X, y, rows, X, y)\n"
        "    c = f.Curator(f.PoissonSampling(20), f.Constant(15, 2.0), f.PrivacyBudget(4.0, 1e-2))\n"
        "    print(simulate(task, c, seed=1, rounds=2, processes=2).state.round)\n"
    )
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=600, check=False)
    assert (ran.returncode, ran.stdout.strip(), ran.stderr) == (0, "2", "")


KILLED = """
import os, signal, sys
import numpy as np
from dosimeter import federated as f
from dosimeter.federated.simulate import simulate
from dosimeter.federated.task import Task
from dosimeter.federated.local_training import LocalSGD
from dosimeter.federated.networks import Network
if __name__ == '__main__':
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as the command line does
    X, y = np.repeat(np.eye(2), 20, axis=0), np.repeat([0, 1], 20)
    task = Task(Network((2, 2)), LocalSGD(1, 1.0, batch=2), X, y, tuple(np.arange(40).reshape(20, 2)), X, y)
    c = f.Curator(f.PoissonSampling(20), f.Constant(15, 20.0), f.PrivacyBudget(4.0, 1e-2))

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
@pytest.mark.parametrize("victim", ["worker", "parent"])
def test_a_killed_process_is_reported_and_none_stays_behind(victim: str, tmp_path: Any) -> None:
    script = tmp_path / "train.py"
    script.write_text(KILLED)
    ran = subprocess.run(
        [sys.executable, str(script), victim], capture_output=True, text=True, timeout=600, check=False
    )
    if victim == "worker":
        assert ran.returncode == 1
        assert "a process that trained clients ended" in ran.stderr
    else:
        assert ran.returncode == -9
    blocks, without_name, *workers = ran.stdout.split()
    assert len(workers) == 2
    assert int(blocks) == int(without_name) > 0  # memory without a name disappears with its processes
    assert wait_until(lambda: not any(os.path.exists(f"/proc/{k}/exe") for k in workers))  # a zombie has none


def test_a_training_resumed_from_any_saved_state_continues_as_if_it_had_never_stopped(digits: Task) -> None:
    saved: list[State] = []
    whole = simulate(digits, CURATOR, seed=5, rounds=3, save_state=saving_to(saved))
    assert [s.serial for s in saved] == list(range(1, 7))
    for state in saved:
        again = State.from_dict(state.to_dict())
        rest = simulate(digits, CURATOR, seed=5, rounds=3, state=again)
        assert rest.state.same_as(whole.state)
        joined = rest.after(whole.rounds[: state.round])
        assert joined.rounds == whole.rounds


def test_a_round_left_open_is_closed_even_if_no_further_one_is_requested(digits: Task) -> None:
    saved: list[State] = []
    simulate(digits, CURATOR, seed=5, rounds=1, save_state=saving_to(saved))
    rest = simulate(digits, CURATOR, seed=5, rounds=0, state=saved[0])
    assert rest.state.same_as(saved[1])


def test_rounds_that_are_not_consecutive_are_not_joined(digits: Task) -> None:
    history = simulate(digits, CURATOR, seed=5, rounds=2)
    with pytest.raises(Refusal, match="consecutive"):
        history.after(history.rounds)


def test_the_budget_ends_the_training_before_it_is_exceeded(digits: Task) -> None:
    history = simulate(digits, CURATOR, seed=1)
    allowed = federated.rounds_allowed(CURATOR.cohort, 20, 1.0, CURATOR.budget)
    assert history.state.round == len(history.rounds) == allowed > 1
    assert history.figure.epsilon <= 8.0
    assert "not opened" in history.stop_reason
    spent = history.columns["epsilon"]
    assert (np.diff(spent) > 0).all()
    assert spent[-1] == pytest.approx(history.figure.epsilon, abs=1e-3)


def test_the_end_of_a_schedule_ends_the_training(digits: Task) -> None:
    curator = replace(CURATOR, schedule=ListedSchedule((10, 20), (2.0, 3.0)))
    history = simulate(digits, curator, seed=1)
    assert history.columns["per_round"].tolist() == [10, 20]
    assert history.columns["noise"].tolist() == [2.0, 3.0]
    assert "2 rounds" in history.stop_reason


def test_v_c_and_u_s_are_those_of_the_updates_themselves(digits: Task) -> None:
    saved: list[State] = []
    history = simulate(digits, CURATOR, seed=2, rounds=1, save_state=saving_to(saved), clients_per_batch=6)
    updates = [digits.updates(saved[0].model, [k], seed=2)[0] for k in saved[0].participants]
    update_matrix = np.array(updates, dtype=np.float64)
    assert history.rounds[0].variance == pytest.approx(update_matrix.var(axis=0).mean(), rel=1e-4)
    assert history.rounds[0].scale == pytest.approx((update_matrix.mean(axis=0) ** 2).mean(), rel=1e-4)
    assert simulate(digits, CURATOR, seed=2, rounds=1, update_statistics=False).rounds[0].variance == 0.0


def test_without_noise_and_clip_a_round_is_the_mean_of_the_updates(digits: Task) -> None:
    saved: list[State] = []
    history = simulate(digits, FedAvgBaseline(K, 15), seed=2, rounds=1, save_state=saving_to(saved))
    updates = [digits.updates(saved[0].model, [k], seed=2)[0] for k in saved[0].participants]
    np.testing.assert_allclose(history.state.model, saved[0].model + np.mean(updates, axis=0), atol=1e-6)
    assert len(saved[0].participants) == 15
    assert history.figure.epsilon == math.inf
    assert history.simulation


def test_a_wide_clip_and_hardly_any_noise_amount_to_averaging(digits: Task) -> None:
    quiet = Curator(PoissonSampling(K), Constant(K, 0.01), PrivacyBudget(1e5, 0.5), FixedClip(4.0))
    ours, plain = (simulate(digits, c, seed=2, rounds=1) for c in (quiet, FedAvgBaseline(K, K)))
    assert len(ours.rounds) == len(plain.rounds) == 1
    # Six standard deviations of the noise on the mean, for 910 parameters: exceeded for one seed in half a million.
    np.testing.assert_allclose(ours.state.model, plain.state.model, rtol=0, atol=6 * 0.01 * 4.0 / K)
    tight = replace(quiet, clip=FixedClip(1e-3))
    assert np.abs(simulate(digits, tight, seed=2, rounds=1).state.model - plain.state.model).max() > 1e-2


def test_a_private_model_beats_clients_who_train_alone(digits: Task) -> None:
    history = simulate(task(hidden=()), replace(CURATOR, schedule=Constant(20, 0.8)), seed=1)
    local_only = local_only_accuracy(task(hidden=()), seed=1, epochs=20)
    assert local_only.shape == (K,)
    assert local_only.mean() < history.accuracy < 1.0


def test_alone_a_client_predicts_no_more_classes_than_it_has_rows_of() -> None:
    """Of ten equal classes a client with one or two labels can get at most two tenths; classes are equal to 10 %."""
    digits_task = task()
    accuracy = local_only_accuracy(digits_task, seed=1, epochs=30, clients=range(10))
    known_share = np.array(
        [np.isin(digits_task.y_test, digits_task.y[digits_task.clients[k]]).mean() for k in range(10)]
    )
    assert (accuracy <= known_share + 1e-12).all()
    assert accuracy.max() > 0.1


def test_personal_models_fit_their_client_better() -> None:
    X, y = load_digits(return_X_y=True)
    parts = two_shards(y[:1500], 25, np.random.default_rng(7), points=60)
    whole = Task(Network((64, 10)), LocalSGD(2, 0.2, batch=10), X[:1500] / 16, y[:1500], parts, X[1500:] / 16, y[1500:])
    split = whole.hold_out(0.25, seed=3)
    for k in range(25):
        assert sorted([*split.clients[k], *split.held_out[k]]) == sorted(parts[k])
        assert len(split.held_out[k]) == 15
    curator = Curator(PoissonSampling(25), Constant(20, 1.0), PrivacyBudget(8.0, 1e-2))
    model = simulate(split, curator, seed=1).state.model
    personal = personalise(split, model, seed=1, local=LocalSGD(10, 0.5, batch=10))
    assert personal.before.shape == personal.after.shape == personal.local_only.shape == (25,)
    assert personal.after.mean() > personal.before.mean()
    first = personalise(split, model, seed=1, local=LocalSGD(10, 0.5, batch=10), clients=[4])
    assert first.after[0] == personal.after[4]
    rows = split.held_out[4]
    assert first.before[0] == split.learner.score(model, split.X[rows], split.y[rows]).accuracy


def test_rows_are_not_held_out_if_another_client_trains_on_them(digits: Task) -> None:
    with pytest.raises(Refusal, match="several clients"):
        digits.hold_out(0.2, seed=1)
    with pytest.raises(Refusal, match="hold_out"):
        personalise(digits, np.zeros(digits.learner.size), seed=1)


def test_clients_of_unequal_size_take_part() -> None:
    X, y = load_digits(return_X_y=True)
    parts = tuple(np.split(np.random.default_rng(1).permutation(1500), [3, 10, 400, 450]))
    digits_task = Task(
        Network((64, 10)), LocalSGD(1, 0.2, batch=16), X[:1500] / 16, y[:1500], parts, X[1500:] / 16, y[1500:]
    )
    curator = Curator(PoissonSampling(5), Constant(5, 1.0), PrivacyBudget(50.0, 1e-2))
    first, other = (simulate(digits_task, curator, seed=1, rounds=1, clients_per_batch=c) for c in (1, 3))
    np.testing.assert_allclose(first.state.model, other.state.model, rtol=0, atol=1e-5)
    assert first.rounds[0].accepted == 5


def test_clients_whose_training_explodes_are_refused_and_the_round_continues(digits: Task) -> None:
    X = np.array(digits.X)
    X[digits.clients[3]] *= np.float32(1e30)
    history = simulate(
        replace(digits, X=X), Curator(PoissonSampling(K), Constant(K, 2.0), PrivacyBudget(8.0, 0.5)), seed=1, rounds=1
    )
    assert 0 < history.rounds[0].refused < history.rounds[0].accepted
    assert np.isfinite(history.state.model).all()


def test_a_round_without_clients_is_a_round_of_noise() -> None:
    digits_task = task(clients=25)
    curator = Curator(PoissonSampling(25), Constant(0.001, 1.0), PrivacyBudget(8.0, 1e-2), FixedClip(1.0))
    history = simulate(digits_task, curator, seed=1, rounds=1, processes=2)
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
    remaining = tuple(rows for k, rows in enumerate(parts) if k != left_out)
    return Task(Network((1000, 8, 3)), LocalSGD(3, 0.3, batch=5), X, y, remaining, X[:9], y[:9], declared_clients=14)


def sent_by(task: Task, clients_per_batch: int, **options: Any) -> dict[int, np.ndarray]:
    """What each client sends if all are sampled, by its first row."""
    sent: dict[int, np.ndarray] = {}

    class Listening(Curator):
        def close_round(self, state: State, messages: Any, rng: Any = None, observe: Any = None) -> State:
            answers = [(np.array(m.clients), np.array(m.updates)) for m in messages]
            for clients, updates in answers:
                sent.update({int(task.clients[k][0]): u for k, u in zip(clients, updates, strict=True)})
            return super().close_round(state, [federated.UpdateBatch(*part) for part in answers], rng, observe)

    curator = Listening(PoissonSampling(14), Constant(14, 3.0), PrivacyBudget(50.0, 1e-2))
    simulate(task, curator, seed=1, rounds=1, clients_per_batch=clients_per_batch, **options)
    return sent


@pytest.fixture
def equal_shuffles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same draw for all clients: only the arithmetic remains."""
    draws = np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda seed=None: draws([7]))


@pytest.mark.usefixtures("equal_shuffles")
@pytest.mark.parametrize("left_out", [0, 5, 11])
def test_what_a_client_sends_for_release_does_not_depend_on_who_else_is_there(left_out: int) -> None:
    with_it, without = (sent_by(unequal(k), 1, for_release=True) for k in (None, left_out))
    assert len(with_it) == len(without) + 1 == 12
    assert all(with_it[k].tobytes() == u.tobytes() for k, u in without.items())


@pytest.mark.usefixtures("equal_shuffles")
def test_batches_let_one_client_change_the_last_digits_of_another() -> None:
    """Why a release uses none: columns that no client of the batch uses are left out, and sums change their order."""
    runs = [sent_by(unequal(k), 8) for k in (None, 11)]
    assert any(runs[0][k].tobytes() != u.tobytes() for k, u in runs[1].items())
    with pytest.raises(Refusal, match="by itself"):
        sent_by(unequal(), 8, for_release=True)


def test_a_seed_ties_shuffles_to_numbers_and_a_release_has_none() -> None:
    """Without client 0 all other numbers are one less: with a public seed all others would send something else."""
    seeded = [sent_by(unequal(k), 1) for k in (None, 0)]
    distances = [np.linalg.norm(seeded[0][k] - u) for k, u in seeded[1].items()]
    assert max(distances) > 0.01
    released = [sent_by(unequal(), 1, for_release=True) for _ in range(2)]
    assert any((released[0][k] != released[1][k]).any() for k in released[0])


def test_declared_clients_without_rows_never_answer() -> None:
    task = unequal()
    assert task.client_count == 14
    curator = Curator(PoissonSampling(14), Constant(14, 3.0), PrivacyBudget(50.0, 1e-2))
    for processes in (1, 2):
        history = simulate(task, curator, seed=1, rounds=1, processes=processes)
        assert (history.rounds[0].sampled, history.rounds[0].accepted, history.rounds[0].refused) == (14, 12, 0)
    with pytest.raises(Refusal, match="the curator has 12 clients, but the task has 14"):
        simulate(task, replace(curator, cohort=PoissonSampling(12), schedule=Constant(12, 3.0)), seed=1)
    with pytest.raises(Refusal, match="declared_clients=11"):
        replace(task, declared_clients=11)


def test_progress_gets_every_round_and_columns_make_a_dataframe(digits: Task) -> None:
    import pandas as pd

    reported: list[Round] = []
    history = simulate(digits, CURATOR, seed=1, rounds=3, progress=reported.append)
    assert tuple(reported) == history.rounds
    frame = pd.DataFrame(history.columns)
    assert frame["round"].tolist() == [0, 1, 2]
    assert frame["accuracy"].iloc[-1] == history.accuracy == digits.score(history.state.model).accuracy
    json.dumps({name: column.tolist() for name, column in history.columns.items()})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"curator": replace(CURATOR, cohort=PoissonSampling(41))}, "41 clients"),
        ({"curator": FedAvgBaseline(K, 5)}, "rounds="),
        ({"rounds": -1}, "rounds"),
        ({"processes": 0}, "processes"),
        ({"seed": -1}, "seed"),
        ({"state": State.of(np.zeros(3), 1.0)}, "parameters"),
    ],
)
def test_what_cannot_be_simulated_is_refused(digits: Task, wrong: dict[str, Any], message: str) -> None:
    curator = wrong.pop("curator", CURATOR) if "curator" in wrong else CURATOR
    with pytest.raises(Refusal, match=message):
        simulate(digits, curator, **{"seed": 1, **wrong})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clients": ()}, "0 clients"),
        ({"clients": ([],)}, "no rows"),
        ({"clients": ([1797],)}, "outside the table"),
        ({"y": np.full(1500, 10)}, "classes"),
        ({"y": np.zeros(3, dtype=int)}, "1500 whole numbers"),
        ({"y": np.zeros(1500)}, "whole numbers"),
        ({"X": np.full((1500, 64), np.nan)}, "finite"),
        ({"X": np.zeros((1500, 63))}, "63 columns"),
        ({"held_out": ([1],)}, "held-out rows"),
    ],
)
def test_an_inconsistent_task_is_refused(digits: Task, change: dict[str, Any], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        replace(digits, **change)


def test_unknown_clients_are_refused(digits: Task) -> None:
    with pytest.raises(CannotMeasure, match="from 0 to 39"):
        local_only_accuracy(digits, seed=1, clients=[40])


def test_iid_clients_learn_in_fewer_rounds_than_clients_with_two_labels() -> None:
    X, y = load_digits(return_X_y=True)
    accuracies = []
    for parts in (
        iid(1500, 25, np.random.default_rng(1)),
        two_shards(y[:1500], 25, np.random.default_rng(1), points=60),
    ):
        task = Task(
            Network((64, 10)), LocalSGD(2, 0.2, batch=10), X[:1500] / 16, y[:1500], parts, X[1500:] / 16, y[1500:]
        )
        accuracies.append(simulate(task, FedAvgBaseline(25, 5), seed=1, rounds=3).accuracy)
    assert accuracies[0] > accuracies[1]
