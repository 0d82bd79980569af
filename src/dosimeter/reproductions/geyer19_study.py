"""The trainings behind Table 1 and figures 2 and 3 of [Geyer19], each run once."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.federated.baseline import local_only_accuracy
from dosimeter.federated.history import History
from dosimeter.federated.schedule import Ramp
from dosimeter.reproductions.geyer19_settings import CHOSEN, FIRST_SEED, PLAIN, RAMP_FROM, SEEDS, seeds
from dosimeter.reproductions.geyer19_training import (
    Digits,
    train_as_published,
    train_not_private_with_unit_norms,
    train_sound,
)

QUICK_ROUNDS, ALONE_EPOCHS = 60, 20
PAIRS = 3
"""Most seeds with which constant and rising m_t are compared."""


@dataclass(frozen=True, eq=False)
class TrainingStudy:
    """Every training that a row or a figure needs. All are simulations."""

    digits: Digits
    quick: bool = False
    processes: int = 1
    seeds: int = SEEDS
    """Trainings of a line; K = 10,000 has a tenth of them."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """K of the lines that are trained."""
        return (100,) if self.quick else tuple(CHOSEN)

    @cached_property
    def sound(self) -> dict[int, tuple[History, ...]]:
        """By K, a history for each seed."""
        return {K: tuple(self._sound(K, seed) for seed in seeds(K, self.seeds)) for K in self.sizes}

    def _sound(self, K: int, seed: int) -> History:
        processes = self.processes if K > 100 else 1
        return train_sound(self.digits, CHOSEN[K], seed, processes=processes)

    @cached_property
    def published(self) -> dict[int, tuple[History, ...]]:
        """Algorithm 1 at the same settings except momentum, which it does not have: K = 100, and one seed of 1000."""
        seeds_of = {100: seeds(100, self.seeds)} | ({} if self.quick else {1000: seeds(1000, 1)})
        processes_of = {100: 1, 1000: self.processes}
        return {
            K: tuple(
                train_as_published(self.digits, CHOSEN[K], seed, processes=processes_of[K]) for seed in seeds_of_line
            )
            for K, seeds_of_line in seeds_of.items()
        }

    @property
    def not_private(self) -> History:
        """Averaging without privacy, K = 100, all clients in every round; the network of K = 1000."""
        return self._not_private[0]

    @property
    def unit_variance(self) -> FloatArray:
        """(rounds,) V_c of that training with every update scaled to norm 1."""
        return self._not_private[1]

    @cached_property
    def _not_private(self) -> tuple[History, FloatArray]:
        rounds = QUICK_ROUNDS if self.quick else PLAIN.rounds
        return train_not_private_with_unit_norms(self.digits, PLAIN, FIRST_SEED, rounds, processes=self.processes)

    @cached_property
    def local_only(self) -> FloatArray:
        """(100,) accuracy of each of 100 clients that trains the larger network on its own rows only."""
        task = self.digits.task(replace(CHOSEN[100], hidden=(64,)), FIRST_SEED)
        return local_only_accuracy(task, seed=FIRST_SEED, epochs=ALONE_EPOCHS)

    @cached_property
    def rising(self) -> tuple[History, ...]:
        """K = 1000 with m_t rising at constant σ²/m, at the same (ε, δ), for as many rounds as that allows."""
        setting = CHOSEN[1000]
        ramp = Ramp(RAMP_FROM, setting.per_round, setting.noise, setting.rounds)
        ramp_seeds = seeds(1000, min(PAIRS, self.seeds))
        return tuple(
            train_sound(self.digits, setting, seed, schedule=ramp, processes=self.processes) for seed in ramp_seeds
        )


def training_study(data: Path, quick: bool = False, seeds: int = SEEDS) -> TrainingStudy:
    """The study of MNIST; at most two processes, if there are two cores."""
    return TrainingStudy(Digits.read(data), quick, min(2, os.cpu_count() or 1), seeds)


def mean(histories: tuple[History, ...]) -> float:
    """Accuracy after the last round, mean over the seeds."""
    return float(np.mean([h.accuracy for h in histories]))


def describe_accuracy(histories: tuple[History, ...]) -> str:
    """Mean ± standard deviation of the accuracy, and the number of seeds."""
    if len(histories) == 1:
        return f"{mean(histories):.4f} (n = 1)"
    deviation = np.std([h.accuracy for h in histories], ddof=1)
    return f"{mean(histories):.4f} ± {deviation:.4f} (standard deviation, n = {len(histories)})"


def communication(histories: tuple[History, ...]) -> float:
    """CC: updates sent, mean over the seeds."""
    return float(np.mean([h.columns["sampled"].sum() for h in histories]))
