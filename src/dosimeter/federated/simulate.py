"""Simulation: a curator's rounds with clients that are trained here, in batches, by one process or several.

Clients, noise and shuffles of round t depend on (seed, t) only, so a training resumed from a saved state continues as
if it had never stopped. Seeds are for experiments: with `for_release`, clients, noise and shuffles come from the
operating system's bits, and each client is trained by itself, so that its update depends on no other client.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from dosimeter.core.checks import whole
from dosimeter.core.errors import Refusal
from dosimeter.federated import accountant
from dosimeter.federated.accountant import WORKING_GRID
from dosimeter.federated.budget import BudgetSpent, EpsilonFigure
from dosimeter.federated.curator import Curator, Generator
from dosimeter.federated.exact_sum import Observer
from dosimeter.federated.history import History, Round
from dosimeter.federated.schedule import ScheduleEnded
from dosimeter.federated.state import State
from dosimeter.federated.task import Task
from dosimeter.federated.update_statistics import UpdateStatistics
from dosimeter.federated.worker_pool import Trainer, TrainerFactory, open_trainer

_SAMPLES, _NOISES = 0, 1
"""Purpose of the draws of a round, as part of their seed."""
SaveState = Callable[[State, Sequence[Round]], None]


class Rounds(Protocol):
    """What `simulate` runs: `Curator`, `FedAvgBaseline`, or another recipe with these methods."""

    def start(self, model: Any) -> State: ...

    def open_round(self, state: State, rng: Generator | None = None) -> State: ...

    def close_round(
        self, state: State, messages: Iterable[Any], rng: Generator | None = None, observe: Observer | None = None
    ) -> State: ...

    def figure(self, state: State, *, quick: bool = False) -> EpsilonFigure: ...


def simulate(
    task: Task,
    curator: Rounds,
    *,
    seed: int,
    rounds: int | None = None,
    state: State | None = None,
    processes: int = 1,
    trainer: TrainerFactory | None = None,
    clients_per_batch: int | None = None,
    update_statistics: bool = True,
    for_release: bool = False,
    save_state: SaveState | None = None,
    progress: Callable[[Round], None] | None = None,
) -> History:
    """Train in rounds until the budget or the schedule ends, or until `rounds` rounds are over.

    Parameters
    ----------
    task : Task
        Rows of the clients, the network, and the test rows.
    curator : Curator or FedAvgBaseline
        The recipe of the rounds.
    seed : int
        Seed of the start model and, unless `for_release`, of every draw.
    rounds : int, optional
        Most rounds, counted from the first of the training. Needed if the recipe has no budget.
    state : State, optional
        Where an earlier training stopped, possibly within a round; that round is closed first.
    processes : int, default 1
        Processes to train in, beside this one if more than 1. A script that uses them must keep its code under
        `if __name__ == "__main__":`, because each process imports the script again.
    trainer : callable, optional
        Where clients are trained instead of in processes of this machine: called with the task, a seed and the clients
        in a batch, it opens a `Trainer`. `dosimeter.engines.dask_trainer.dask_trainer` is one.
    clients_per_batch : int, optional
        Clients trained together; by default as many as the network allows. It changes rounding only. For a release
        even that is too much, so there each client is trained by itself.
    update_statistics : bool, default True
        Compute V_c and U_s of every round, which costs a few passes over all updates; otherwise they are 0.
    for_release : bool, default False
        Draw clients, noise and shuffles from the operating system's bits.
    save_state : callable, optional
        Called with every new state and the finished rounds of this call, before anything is released. Storing them
        makes the training resumable.
    progress : callable, optional
        Called with every finished round.

    Returns
    -------
    History

    Raises
    ------
    Refusal
        If the task and the recipe or state do not fit together, or nothing would end the training.

    Notes
    -----
    [Geyer19], Algorithm 1, with the changes described in docs/explanation/federated.md.

    Examples
    --------
    >>> from dosimeter import federated
    >>> X, y = np.repeat(np.eye(2), 20, axis=0), np.repeat([0, 1], 20)
    >>> network, local = federated.Network((2, 2)), federated.LocalSGD(1, 1.0, batch=2)
    >>> task = Task(network, local, X, y, tuple(np.arange(40).reshape(20, 2)), X, y)
    >>> sampling, schedule = federated.PoissonSampling(20), federated.Constant(15, 2.0)
    >>> curator = federated.Curator(sampling, schedule, federated.PrivacyBudget(4.0, 1e-2))
    >>> history = simulate(task, curator, seed=1, rounds=2)
    >>> len(history.rounds), history.state.round, history.simulation, history.stop_reason
    (2, 2, True, '2 rounds, as planned')
    """
    whole("seed", seed, 0, 1 << 62)
    _refuse_other_clients(task, curator)
    if for_release and clients_per_batch not in (None, 1):
        raise Refusal(
            f"clients_per_batch={clients_per_batch!r}: for release every client is trained by itself; leave it out"
        )
    if rounds is None and not hasattr(curator, "budget"):
        raise Refusal("no budget would end this training: give rounds=")
    most_rounds = 1 << 30 if rounds is None else whole("rounds", rounds, 0, 1 << 30)
    now = curator.start(task.start(seed)) if state is None else state
    if now.model.size != task.learner.size:
        raise Refusal(f"the state has {now.model.size} parameters, but the task has {task.learner.size}")
    finished: list[Round] = []
    stop_reason = f"{most_rounds} rounds, as planned"
    # A public seed would tie a client's shuffle to its number, which changes if a client before it joins or leaves.
    shuffle_seed, batch_size = (secrets.randbits(128), 1) if for_release else (seed, clients_per_batch)
    count = whole("processes", processes, 1, 1024)
    if trainer is not None and count > 1:
        raise Refusal("processes and trainer: clients are trained in one place; leave one of the two out")
    together = batch_size or task.learner.clients_per_batch
    here = partial(open_trainer, processes=count)
    with (trainer or here)(task, shuffle_seed, together) as opened:
        while now.is_open or now.round < most_rounds:
            draws = _Draws(seed, now.round, for_release)
            try:
                now = _open_round(curator, now, draws, finished, save_state)
            except (BudgetSpent, ScheduleEnded) as why:
                stop_reason = str(why)
                break
            now, entry = _close_round(curator, now, opened, draws, update_statistics=update_statistics)
            finished.append(entry)
            if save_state is not None:
                save_state(now, finished)
            if progress is not None:
                progress(entry)
    return History(tuple(finished), now, curator.figure(now), stop_reason)


class _Draws(NamedTuple):
    """Generators of round t; with `for_release` none, and the operating system draws."""

    seed: int
    t: int
    for_release: bool

    def of(self, purpose: int) -> Generator | None:
        return None if self.for_release else np.random.default_rng([self.seed, purpose, self.t])


def _open_round(
    curator: Rounds, state: State, draws: _Draws, finished: Sequence[Round], save_state: SaveState | None
) -> State:
    """Open a round, or resume the one already open."""
    if state.is_open:
        return state
    opened = curator.open_round(state, draws.of(_SAMPLES))
    if save_state is not None:
        save_state(opened, finished)
    return opened


def _close_round(
    curator: Rounds, state: State, trainer: Trainer, draws: _Draws, *, update_statistics: bool
) -> tuple[State, Round]:
    """The state after the round, and its entry in the history."""
    statistics = UpdateStatistics()
    updates = trainer.updates(state.model, state.participants, state.round)
    # The round is already paid for. Its cost is computed now, while other processes train, and not after them.
    epsilon, delta = _cost_so_far(curator, state)
    state = curator.close_round(state, updates, draws.of(_NOISES), statistics.observe if update_statistics else None)
    score, last = trainer.score(state.model), state.history[-1]
    variance_and_scale = (statistics.variance, statistics.scale) if statistics.clients else (0.0, 0.0)
    entry = Round(
        draws.t, score.accuracy, score.loss, epsilon, delta, last.per_round, last.noise, last.clip,
        last.sampled, last.accepted, last.refused, *variance_and_scale,
    )  # fmt: skip
    return state, entry


def _cost_so_far(curator: Rounds, state: State) -> tuple[float, float]:
    """(ε, δ) of the rounds opened so far, on the coarse grid: also an upper bound, in a tenth of the time."""
    if isinstance(curator, Curator):
        delta = curator.budget.delta
        return accountant.epsilon(state.spent, curator.cohort, delta, grid=WORKING_GRID), delta
    figure = curator.figure(state, quick=True)
    return figure.epsilon, figure.delta


def _refuse_other_clients(task: Task, curator: Any) -> None:
    cohort = getattr(curator, "cohort", curator)
    if cohort.clients != task.client_count:
        raise Refusal(f"the curator has {cohort.clients} clients, but the task has {task.client_count}")
