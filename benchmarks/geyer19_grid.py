"""The search behind `reproduce.geyer19_settings`: on a part of MNIST's training images, never on its test set.

python benchmarks/geyer19_grid.py --data DIR --clients 100        about three minutes on one core
python benchmarks/geyer19_grid.py --data DIR --clients 1000       about ten
python benchmarks/geyer19_grid.py --data DIR --not-private        about half an hour

Prints one JSON line a setting: the mean over the seeds of the accuracy on the 10,000 images held out. The search is not
accounted for, as in the paper.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import numpy as np

from dosimeter.reproductions.geyer19_arithmetic import NOT_PRIVATE
from dosimeter.reproductions.geyer19_training import Digits, TrainingSetting, train_not_private, train_sound

SEEDS = {100: (100, 101, 102), 1000: (100,)}
"""None of those of the reproduction."""
LOOKS = (95, 190, 285, 380)
"""Rounds after which averaging without privacy is scored; the last is the paper's."""


def first(clients: int) -> Iterator[TrainingSetting]:
    """Rounds and clients a round at no more than the printed communication, E, B, and the rate or the pooling."""
    if clients == 100:
        base = TrainingSetting(100, 1e-3, 50, 11)
        for pool, (m, rounds), epochs, rate in product(
            (2, 4), ((100, 5), (69, 8), (50, 11), (37, 15)), (1, 4), (0.1, 0.3)
        ):
            yield replace(base, pool=pool, per_round=m, rounds=rounds, epochs=epochs, rate=rate)
        return
    base = TrainingSetting(1000, 1e-5, 220, 54, hidden=(64,), rate=0.3, momentum=0.5, quantile=0.7)
    for (m, rounds), epochs in product(((297, 40), (220, 54), (165, 72)), (4, 2)):
        yield replace(base, per_round=m, rounds=rounds, epochs=epochs)


def second(best: TrainingSetting) -> Iterator[TrainingSetting]:
    """The curator's own choices for K = 100; for K = 1000 one change at a time, at the printed rounds."""
    if best.clients == 100:
        for quantile, clip, momentum in product((0.5, 0.7, 0.9), (0.3, 1.0, 3.0), (0.0, 0.5)):
            yield replace(best, quantile=quantile, clip=clip, momentum=momentum)
        return
    at = replace(best, per_round=220, rounds=54)
    yield from (replace(at, rate=0.1), replace(at, momentum=0.0), replace(at, quantile=0.5), replace(at, hidden=(32,)))
    yield from (replace(at, batches=5), replace(at, batches=20))


def plain() -> Iterator[TrainingSetting]:
    """Averaging without privacy, each of 100 clients in every round, the network of K = 1000: B, E and the rate."""
    base = TrainingSetting(100, 1e-3, 100, NOT_PRIVATE[1], hidden=(64,))
    for epochs, batches, rate in product((1, 4), (10, 20, 60), (0.1, 0.3)):
        yield replace(base, epochs=epochs, batches=batches, rate=rate)


def score_plain(digits: Digits, setting: TrainingSetting) -> None:
    """Accuracy on the validation images after each of `LOOKS` rounds, printed."""
    began = time.perf_counter()
    accuracy = train_not_private(digits, setting, SEEDS[1000][0], setting.rounds).columns["accuracy"]
    looks = {t: float(accuracy[t - 1]) for t in LOOKS}
    told = {"epochs": setting.epochs, "batches": setting.batches, "rate": setting.rate, "accuracy": looks}
    print(json.dumps({**told, "seconds": round(time.perf_counter() - began, 1)}), flush=True)


def score(digits: Digits, setting: TrainingSetting, seeds: Sequence[int]) -> float:
    """Mean accuracy on the validation images, printed."""
    began = time.perf_counter()
    found = [train_sound(digits, setting, seed).accuracy for seed in seeds]
    told = {**asdict(setting), "noise": setting.noise, "accuracy": found, "mean": float(np.mean(found))}
    print(json.dumps({**told, "seconds": round(time.perf_counter() - began, 1)}), flush=True)
    return float(np.mean(found))


def main() -> None:
    """Both stages; ties go to fewer rounds."""
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--data", type=Path, required=True)
    given.add_argument("--clients", type=int, choices=sorted(SEEDS), default=100)
    given.add_argument("--not-private", action="store_true")
    asked = given.parse_args()
    if asked.not_private:
        digits = Digits.read(asked.data).validation()
        for setting in plain():
            score_plain(digits, setting)
        return
    digits, seeds = Digits.read(asked.data).validation(), SEEDS[asked.clients]
    scored = [(score(digits, s, seeds), -s.rounds, s) for s in first(asked.clients)]
    best = max(scored, key=lambda one: one[:2])[2]
    for setting in second(best):
        score(digits, setting, seeds)


if __name__ == "__main__":
    main()
