"""Training that protects patients, on one machine: sites draw, clip and sum their patients, the curator adds noise.

The same functions run over a network: a site needs `draw_patients` and `site_sum`, the coordinator `open_site_round`,
`request` and `close_site_round`. Here one process plays all of them, one site after another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.checks import number, whole
from dosimeter.core.errors import Refusal
from dosimeter.federated import accountant
from dosimeter.federated.accountant import WORKING_GRID
from dosimeter.federated.budget import BudgetSpent
from dosimeter.federated.curator import Curator, Generator
from dosimeter.federated.history import History, Round
from dosimeter.federated.networks import Network, Score
from dosimeter.federated.patient_updates import PatientRows
from dosimeter.federated.schedule import ScheduleEnded
from dosimeter.federated.simulate import SaveState
from dosimeter.federated.site_sums import RoundRequest, SiteSum, draw_patients, site_sum
from dosimeter.federated.state import State
from dosimeter.federated.task import classes_in, labels_of
from dosimeter.noise_addition.bits import Bits, fresh_bits
from dosimeter.noise_addition.simulation import seeded_bits

_NOISES, _STARTS, _SITES = 1, 3, 6
"""Purpose of a draw, as part of its seed; the others are taken by clients and shards."""


@dataclass(frozen=True, eq=False)
class PatientTask:
    """Everything that a training over patients uses. Private throughout: it holds the rows of all sites.

    Parameters
    ----------
    network : Network
        What is trained.
    learning_rate : float
        Of a patient's gradient step.
    sites : tuple of PatientRows
        The patients of each site.
    X_test, y_test : arrays
        Public rows for the score.
    declared_patients : int
        K, the declared patients of all sites together.

    Raises
    ------
    Refusal
        If there are more patients than declared, or rows do not fit the network.

    Examples
    --------
    >>> rows = PatientRows.of(np.eye(2), [0, 1], [np.array([0]), np.array([1])])
    >>> PatientTask(Network((2, 2)), 0.5, (rows, rows), np.eye(2), [0, 1], 10)
    <PatientTask of 4 patients (10 declared) at 2 sites, 6 parameters, 2 test rows>
    """

    network: Network
    learning_rate: float
    sites: tuple[PatientRows, ...]
    X_test: Any
    y_test: Any
    declared_patients: int

    def __post_init__(self) -> None:
        number("learning_rate", self.learning_rate, 0, 1e6)
        object.__setattr__(self, "X_test", np.ascontiguousarray(self.X_test, dtype=np.float64))
        object.__setattr__(self, "y_test", labels_of("y_test", self.y_test, len(self.X_test)))
        if not self.sites:
            raise Refusal("there is no site")
        if self.patients > whole("declared_patients", self.declared_patients, 1, 1 << 30):
            raise Refusal(f"{self.patients} patients have rows, more than declared_patients={self.declared_patients}")
        for labels, columns in ((rows.y, rows.X.shape[1]) for rows in self.sites if len(rows.X)):
            self.network.check(columns, classes_in(labels, self.y_test))

    @property
    def patients(self) -> int:
        """Patients that have rows here."""
        return sum(rows.patients for rows in self.sites)

    def start(self, seed: int) -> FloatArray:
        """(d,) the public model before the first round."""
        return self.network.start(np.random.default_rng([seed, _STARTS]))

    def score(self, model: Any) -> Score:
        """Accuracy and loss of the model on the test rows."""
        return self.network.score(model, self.X_test, self.y_test)

    def answers(self, request: RoundRequest, bits_of: Callable[[int], Bits]) -> Iterator[SiteSum]:
        """The answer of each site; bits_of: the source of random words of a site."""
        for k, rows in enumerate(self.sites):
            yield site_sum(self.network, rows, request, draw_patients(rows.patients, request.rate, bits_of(k)))

    def __repr__(self) -> str:
        return (
            f"<PatientTask of {self.patients} patients ({self.declared_patients} declared) at {len(self.sites)} sites, "
            f"{self.network.size} parameters, {len(self.X_test)} test rows>"
        )


def train_patients(
    task: PatientTask,
    curator: Curator,
    *,
    seed: int,
    rounds: int | None = None,
    state: State | None = None,
    for_release: bool = False,
    save_state: SaveState | None = None,
    progress: Callable[[Round], None] | None = None,
) -> History:
    """Train in rounds until the budget or the schedule ends, or until `rounds` rounds are over.

    Parameters
    ----------
    task : PatientTask
        Rows of the sites, the network, and the test rows.
    curator : Curator
        The recipe, with K = all declared patients and unit="person".
    seed : int
        Seed of the start model and, unless `for_release`, of every draw.
    rounds : int, optional
        Most rounds, counted from the first of the training.
    state : State, optional
        Where an earlier training stopped, possibly within a round; that round is closed first, with a new draw at the
        sites: of the first draw nothing was released.
    for_release : bool, default False
        Draw patients and noise from the operating system's bits.
    save_state : callable, optional
        Called with every new state and the finished rounds of this call, before anything is released.
    progress : callable, optional
        Called with every finished round.

    Returns
    -------
    History
        `sampled` of its rounds is 0: nobody but the site knows how many were drawn. `accepted` counts sites.

    Raises
    ------
    Refusal
        If the task and the recipe or state do not fit together.

    Notes
    -----
    [Geyer19], Algorithm 1, with a patient as the client (docs/explanation/federated.md, Patients).

    Examples
    --------
    >>> from dosimeter import federated
    >>> X, y = np.repeat(np.eye(2), 200, axis=0), np.repeat([0, 1], 200)
    >>> sites = tuple(PatientRows.of(X[k::4], y[k::4], np.arange(100)[:, None]) for k in range(4))
    >>> task = PatientTask(Network((2, 2)), 1.0, sites, X, y, 400)
    >>> sampling, schedule = federated.PoissonSampling(400), federated.Constant(400, 20.0)
    >>> recipe = federated.Curator(sampling, schedule, federated.PrivacyBudget(1.0, 1e-3), unit="person")
    >>> history = train_patients(task, recipe, seed=1, rounds=5)
    >>> history.accuracy, history.figure.unit, history.rounds[0].accepted
    (1.0, 'person', 4)
    """
    whole("seed", seed, 0, 1 << 62)
    if curator.cohort.clients != task.declared_patients:
        raise Refusal(f"the recipe has {curator.cohort.clients} patients, the task declares {task.declared_patients}")
    most_rounds = 1 << 30 if rounds is None else whole("rounds", rounds, 0, 1 << 30)
    now = curator.start(task.start(seed)) if state is None else state
    if now.model.size != task.network.size:
        raise Refusal(f"the state has {now.model.size} parameters, but the task has {task.network.size}")
    finished: list[Round] = []
    stop_reason = f"{most_rounds} rounds, as planned"
    while now.is_open or now.round < most_rounds:
        noises = None if for_release else np.random.default_rng([seed, _NOISES, now.round])
        if not now.is_open:
            try:
                now = curator.open_site_round(now, noises)
            except (BudgetSpent, ScheduleEnded) as why:
                stop_reason = str(why)
                break
            if save_state is not None:
                save_state(now, finished)
        now, entry = _close_round(task, curator, now, None if for_release else seed, noises)
        finished.append(entry)
        if save_state is not None:
            save_state(now, finished)
        if progress is not None:
            progress(entry)
    return History(tuple(finished), now, curator.figure(now), stop_reason)


def _close_round(
    task: PatientTask, curator: Curator, state: State, seed: int | None, noises: Generator | None
) -> tuple[State, Round]:
    """The state after the round, and its entry in the history."""
    t, delta = state.round, curator.budget.delta

    def bits_of(site: int) -> Bits:
        return fresh_bits() if seed is None else seeded_bits(np.random.default_rng([seed, _SITES, t, site]))

    answers = task.answers(curator.request(state, task.learning_rate), bits_of)
    after = curator.close_site_round(state, answers, noises)
    score, last = task.score(after.model), after.history[-1]
    epsilon = accountant.epsilon(after.spent, curator.cohort, delta, grid=WORKING_GRID)
    entry = Round(
        t, score.accuracy, score.loss, epsilon, delta, last.per_round, last.noise, last.clip,
        last.sampled, last.accepted, last.refused, 0.0, 0.0,
    )  # fmt: skip
    return after, entry
