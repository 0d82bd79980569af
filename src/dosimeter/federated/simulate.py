"""The simulator: a curator's rounds with clients that are trained here, in stacks, by one process or several.

Clients, noise and shuffles of round t come from (seed, t) alone, so that a training that is resumed from a kept state
goes on as if it had never stopped. A seed is for experiments: with `for_release` clients, noise and shuffles come from
the operating system's bits, and each client is trained by itself, so that what it sends depends on nobody else.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
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
from dosimeter.federated.worker_pool import Trainer, crew

_SAMPLES, _NOISES = 0, 1
"""What the draws of a round are for, as part of their seed."""
Keep = Callable[[State, Sequence[Round]], None]


class Rounds(Protocol):
    """What takes the rounds: `Curator`, `GeyerAlgorithm1`, `FedAvgBaseline`."""

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
    together: int | None = None,
    spread: bool = True,
    for_release: bool = False,
    keep: Keep | None = None,
    progress: Callable[[Round], None] | None = None,
) -> History:
    """Rounds until the budget or the schedule ends, or until `rounds` are over, counted from the first.

    state: where an earlier training stopped, possibly within a round; that round is closed first.
    processes: trained in so many processes beside this one, if more than 1. A script that asks for them must have its
    own code under `if __name__ == "__main__":`, as each process reads the script again.
    together: clients in a stack; chosen by the size of the network where not given. It changes rounding only, and that
    is too much for a release: there every client is alone.
    spread: V_c and U_s of every round, which cost a few passes over all updates; 0 throughout without.
    keep: called with every new state, and the rounds of this call that are over, before anything is told to anybody;
    whoever keeps them can resume.
    progress: called with every round that is over.

    >>> from dosimeter import federated
    >>> from dosimeter.federated.local_training import Local
    >>> from dosimeter.federated.networks import Network
    >>> X, y = np.repeat(np.eye(2), 20, axis=0), np.repeat([0, 1], 20)
    >>> task = Task(Network((2, 2)), Local(1, 1.0, batch=2), X, y, tuple(np.arange(40).reshape(20, 2)), X, y)
    >>> sampling, schedule = federated.PoissonSampling(20), federated.Constant(15, 2.0)
    >>> curator = federated.Curator(sampling, schedule, federated.PrivacyBudget(4.0, 1e-2))
    >>> history = simulate(task, curator, seed=1, rounds=2)
    >>> len(history.rounds), history.state.round, history.simulation, history.stopped
    (2, 2, True, '2 rounds, as planned')
    """
    whole("seed", seed, 0, 1 << 62)
    _refuse_other_clients(task, curator)
    if for_release and together not in (None, 1):
        raise Refusal(f"together={together!r}: for release every client is trained by itself; leave it out")
    if rounds is None and not hasattr(curator, "budget"):
        raise Refusal("there is no budget that would end this training: say how many rounds=")
    most = 1 << 30 if rounds is None else whole("rounds", rounds, 0, 1 << 30)
    now = curator.start(task.start(seed)) if state is None else state
    if now.model.size != task.learner.size:
        raise Refusal(f"the state has {now.model.size} parameters, the task {task.learner.size}")
    done: list[Round] = []
    stopped = f"{most} rounds, as planned"
    # A public seed would tie a client's shuffle to its number, which moves when a client before it comes or goes.
    shuffles, stack = (secrets.randbits(128), 1) if for_release else (seed, together)
    with crew(task, shuffles, whole("processes", processes, 1, 1024), stack) as who:
        while now.is_open or now.round < most:
            draws = _Draws(seed, now.round, for_release)
            try:
                now = _opened(curator, now, draws, done, keep)
            except (BudgetSpent, ScheduleEnded) as why:
                stopped = str(why)
                break
            now, entry = _closed(curator, now, who, draws, spread=spread)
            done.append(entry)
            if keep is not None:
                keep(now, done)
            if progress is not None:
                progress(entry)
    return History(tuple(done), now, curator.figure(now), stopped)


class _Draws(NamedTuple):
    """Generators of round t, or none: then the operating system draws."""

    seed: int
    t: int
    for_release: bool

    def of(self, purpose: int) -> Generator | None:
        return None if self.for_release else np.random.default_rng([self.seed, purpose, self.t])


def _opened(curator: Rounds, state: State, draws: _Draws, done: Sequence[Round], keep: Keep | None) -> State:
    """The state with its round open; one that was found open is gone on with."""
    if state.is_open:
        return state
    opened = curator.open_round(state, draws.of(_SAMPLES))
    if keep is not None:
        keep(opened, done)
    return opened


def _closed(curator: Rounds, state: State, who: Trainer, draws: _Draws, *, spread: bool) -> tuple[State, Round]:
    """The state after the round, and what happened in it."""
    seen = UpdateStatistics()
    updates = who.updates(state.model, state.participants, state.round)
    # An open round is paid for. Priced here, while other processes train, and not after them.
    epsilon, delta = _spent(curator, state)
    state = curator.close_round(state, updates, draws.of(_NOISES), seen.observe if spread else None)
    score, last = who.score(state.model), state.history[-1]
    found = (seen.variance, seen.scale) if seen.clients else (0.0, 0.0)
    entry = Round(
        draws.t, score.accuracy, score.loss, epsilon, delta, last.per_round, last.noise, last.clip,
        last.sampled, last.accepted, last.refused, *found,
    )  # fmt: skip
    return state, entry


def _spent(curator: Rounds, state: State) -> tuple[float, float]:
    """(ε, δ) of the rounds opened so far, on the coarse grid: an upper bound too, in a tenth of the time."""
    if isinstance(curator, Curator):
        at = curator.budget.delta
        return accountant.epsilon(state.spent, curator.cohort, at, grid=WORKING_GRID), at
    figure = curator.figure(state, quick=True)
    return figure.epsilon, figure.delta


def _refuse_other_clients(task: Task, curator: Any) -> None:
    cohort = getattr(curator, "cohort", curator)
    if cohort.clients != task.enrolled:
        raise Refusal(f"the curator knows {cohort.clients} clients, the task has {task.enrolled}")
