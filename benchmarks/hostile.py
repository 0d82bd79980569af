"""Accuracy of a federated model when some clients lie: digits, softmax regression, 100 rounds; mean ± deviation.

    python benchmarks/hostile.py [--seeds 10] [--clients 500] [--rounds 100] [--epsilon 8] [--delta 1e-4]

A hostile client sends the opposite of its honest update, at the length of the clip or beyond. The clip bounds what each
of them adds, and nothing detects it. Seeds change shards, clients, noise and who is hostile.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from dosimeter.federated import (
    Constant,
    Curator,
    LocalSGD,
    Network,
    PoissonSampling,
    PrivacyBudget,
    QuantileClip,
    Task,
    noise_needed,
    simulate,
    two_shards,
)

PRIVATE, ROWS = 1300, 20


@dataclass(frozen=True)
class Hostile:
    """A learner whose hostile clients send the opposite of their update, a thousandfold: the clip cuts it to C."""

    network: Network
    share: float

    size = property(lambda self: self.network.size)
    clients_per_batch = property(lambda self: self.network.clients_per_batch)

    def check(self, columns: int, classes: int) -> None:
        self.network.check(columns - 1, classes)

    def start(self, rng: np.random.Generator) -> Any:
        return self.network.start(rng)

    def updates(self, model: Any, stack: Any, local: LocalSGD, rate: float) -> Any:
        honest = self.network.updates(model, stack._replace(X=stack.X[..., :-1]), local, rate)
        lies = stack.X[..., -1].max(axis=(1, 2)) > 0
        honest[lies] *= -1000
        return honest

    def score(self, model: Any, X: Any, y: Any) -> Any:
        return self.network.score(model, X[:, :-1], y)


def accuracy(options: argparse.Namespace, share: float, noise: float, seed: int) -> float:
    digits = load_digits()
    X, y = digits.data / 16.0, digits.target
    rng = np.random.default_rng([seed, 11])
    clients = two_shards(y[:PRIVATE], options.clients, rng, points=ROWS)
    hostile = rng.permutation(options.clients) < round(share * options.clients)
    rows = np.concatenate(clients)
    mark = np.repeat(hostile, [len(part) for part in clients])  # a last column says whose row it is
    table = np.column_stack([X[rows], mark])
    starts = np.cumsum([0, *(len(part) for part in clients)])
    own = tuple(np.arange(a, b) for a, b in pairwise(starts))
    test = np.column_stack([X[PRIVATE:], np.zeros(len(X) - PRIVATE)])
    learner = Hostile(Network((64, 10)), share)
    task = Task(learner, LocalSGD(4, 0.3, batches=10), table, y[rows], own, test, y[PRIVATE:])  # type: ignore[arg-type]
    budget = PrivacyBudget(options.epsilon, options.delta)
    cohort, schedule = PoissonSampling(options.clients), Constant(options.clients, noise)
    recipe = Curator(cohort, schedule, budget, QuantileClip(1.0, 0.7), 0.5)
    return simulate(task, recipe, seed=seed, rounds=options.rounds, update_statistics=False).accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--delta", type=float, default=1e-4)
    options = parser.parse_args()
    cohort = PoissonSampling(options.clients)
    z = noise_needed(cohort, options.clients, options.rounds, PrivacyBudget(options.epsilon, options.delta))
    for share in (0.0, 0.1, 0.3):
        values = [accuracy(options, share, z, seed) for seed in range(options.seeds)]
        mean, deviation = np.mean(values), np.std(values, ddof=1)
        print(f"{share:.0%} hostile: {mean:.3f} ± {deviation:.3f} over {options.seeds} seeds", flush=True)


if __name__ == "__main__":
    main()
