"""[Geyer19] section 4: MNIST split among clients of two shards, trained under each curator that is compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.datasets.digits import mnist, pool_pixels
from dosimeter.federated.adaptive_clipping import QuantileClip
from dosimeter.federated.baseline import FedAvgBaseline
from dosimeter.federated.budget import EpsilonFigure, PrivacyBudget, noise_needed
from dosimeter.federated.client_messages import AcceptedUpdates
from dosimeter.federated.client_sampling import FixedSizeSampling, PoissonSampling
from dosimeter.federated.curator import Curator, Generator
from dosimeter.federated.exact_sum import Observer
from dosimeter.federated.history import History
from dosimeter.federated.local_training import LocalSGD
from dosimeter.federated.networks import Network
from dosimeter.federated.partition import two_shards
from dosimeter.federated.schedule import Constant, Schedule
from dosimeter.federated.simulate import simulate
from dosimeter.federated.state import State
from dosimeter.federated.task import Task
from dosimeter.federated.update_statistics import UpdateStatistics
from dosimeter.reproductions import geyer19_moments as moments
from dosimeter.reproductions.geyer19_algorithm import GeyerAlgorithm1

POINTS, VALIDATION_ROWS, EPSILON, _DEALS = 600, 10_000, 8.0, 5
"""Rows of a client, rows of the validation split, ε of Table 1; and the purpose of the shards' draw in its seed."""


@dataclass(frozen=True)
class TrainingSetting:
    """One training of Table 1: clients and budget as printed, everything else ours."""

    clients: int
    delta: float
    per_round: float
    rounds: int
    hidden: tuple[int, ...] = ()
    pool: int = 2
    """Side of the squares of pixels that are averaged: 784 become 196 at 2, 49 at 4."""
    epochs: int = 4
    batches: int = 10
    rate: float = 0.1
    momentum: float = 0.0
    quantile: float = 0.5
    clip: float = 1.0
    """C of the first round."""

    @property
    def budget(self) -> PrivacyBudget:
        """ε = 8 and the printed δ."""
        return PrivacyBudget(EPSILON, self.delta)

    @property
    def noise(self) -> float:
        """z: the least with which these rounds stay within the budget, by privacy loss distributions."""
        return least_noise(self.clients, self.per_round, self.rounds, self.delta)

    @property
    def network(self) -> Network:
        """Inputs, hidden layers, ten digits."""
        return Network(((28 // self.pool) ** 2, *self.hidden, 10))


@lru_cache(maxsize=64)
def least_noise(clients: int, per_round: float, rounds: int, delta: float) -> float:
    """`noise_needed` at ε = 8, cached."""
    return noise_needed(PoissonSampling(clients), per_round, rounds, PrivacyBudget(EPSILON, delta))


@dataclass(frozen=True, eq=False)
class Digits:
    """Images to train on and to score on."""

    X: FloatArray
    """(n, 28, 28) in [0, 1]."""
    y: Index
    X_test: FloatArray
    y_test: Index

    @classmethod
    def read(cls, data: Path) -> Digits:
        """The 60,000 training images and the 10,000 of the test set."""
        return cls(*mnist(data))

    def validation(self) -> Digits:
        """The training images only: all but the last 10,000 to train, the rest to choose settings."""
        cut = len(self.y) - VALIDATION_ROWS
        return Digits(self.X[:cut], self.y[:cut], self.X[cut:], self.y[cut:])

    def task(self, setting: TrainingSetting, seed: int, learner: Network | None = None) -> Task:
        """Clients of two shards; 600 rows each, or as many as make whole shards if there are fewer rows."""
        points = POINTS if len(self.y) >= 100 * POINTS else len(self.y) // 100
        clients = two_shards(self.y, setting.clients, np.random.default_rng([seed, _DEALS]), points=points)
        local = LocalSGD(setting.epochs, setting.rate, batches=setting.batches)
        X, X_test = (pool_pixels(images, setting.pool) for images in (self.X, self.X_test))
        return Task(learner or setting.network, local, X, self.y, clients, X_test, self.y_test)


def train_sound(
    digits: Digits, setting: TrainingSetting, seed: int, *, schedule: Schedule | None = None, processes: int = 1
) -> History:
    """Poisson sampling, private quantile clip, privacy loss distributions; until the budget ends it."""
    parameters = schedule or Constant(setting.per_round, setting.noise)
    clip = QuantileClip(setting.clip, setting.quantile)
    curator = Curator(PoissonSampling(setting.clients), parameters, setting.budget, clip, setting.momentum)
    # A given schedule runs until the budget ends; the constant one has exactly the rounds it was made for.
    rounds = None if schedule else setting.rounds
    return simulate(
        digits.task(setting, seed), curator, seed=seed, rounds=rounds, processes=processes, update_statistics=False
    )


def train_as_published(digits: Digits, setting: TrainingSetting, seed: int, *, processes: int = 1) -> History:
    """Algorithm 1 with the least σ that the moments accountant allows for these rounds; unaccounted."""
    cohort, m = FixedSizeSampling(setting.clients), int(setting.per_round)
    sigma = moments.noise_needed(PoissonSampling(setting.clients), m, setting.rounds, EPSILON, setting.delta)
    curator = GeyerAlgorithm1(cohort, Constant(m, sigma), setting.budget)
    task = digits.task(setting, seed)
    return simulate(task, curator, seed=seed, rounds=setting.rounds, processes=processes, update_statistics=False)


def train_not_private(
    digits: Digits,
    setting: TrainingSetting,
    seed: int,
    rounds: int,
    *,
    processes: int = 1,
    learner: Network | None = None,
) -> History:
    """Plain averaging over all clients, with V_c and U_s."""
    curator = FedAvgBaseline(setting.clients, setting.clients)
    task = digits.task(setting, seed, learner)
    return simulate(task, curator, seed=seed, rounds=rounds, processes=processes)


@dataclass(frozen=True, eq=False)
class UnitNorms:
    """Plain averaging, and V_c of the updates each scaled to norm 1, round by round."""

    averaging: FedAvgBaseline
    variance: list[float] = field(default_factory=list)

    @property
    def clients(self) -> int:
        """K."""
        return self.averaging.clients

    def start(self, model: Any) -> State:
        """As in plain averaging."""
        return self.averaging.start(model)

    def open_round(self, state: State, rng: Generator | None = None) -> State:
        """As in plain averaging."""
        return self.averaging.open_round(state, rng)

    def close_round(
        self, state: State, messages: Iterable[Any], rng: Generator | None = None, observe: Observer | None = None
    ) -> State:
        """As in plain averaging; the updates are observed twice."""
        statistics = UpdateStatistics()

        def observe_both(accepted: AcceptedUpdates) -> None:
            if observe is not None:
                observe(accepted)
            statistics.add(at_unit_norm(accepted.updates))

        closed = self.averaging.close_round(state, messages, rng, observe_both)
        self.variance.append(statistics.variance)
        return closed

    def figure(self, state: State, *, quick: bool = False) -> EpsilonFigure:
        """As in plain averaging: nothing is hidden."""
        return self.averaging.figure(state, quick=quick)


def at_unit_norm(updates: Any) -> FloatArray:
    """(c, d) each row divided by its norm; a row of zeros stays zero.

    >>> at_unit_norm([[3.0, 4.0], [0.0, 0.0]]).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    rows = np.asarray(updates, dtype=np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0, norms, 1.0))


def train_not_private_with_unit_norms(
    digits: Digits, setting: TrainingSetting, seed: int, rounds: int, *, processes: int = 1
) -> tuple[History, FloatArray]:
    """`train_not_private`, and V_c (rounds,) with every update scaled to norm 1."""
    averaging = UnitNorms(FedAvgBaseline(setting.clients, setting.clients))
    history = simulate(digits.task(setting, seed), averaging, seed=seed, rounds=rounds, processes=processes)
    return history, np.array(averaging.variance)
