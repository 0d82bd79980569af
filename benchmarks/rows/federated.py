"""Client updates against a torch loop, pfl and Flower, each in its own environment."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from federated import LEAST, NETWORKS, SEVERAL, ours, peer, written_job
from harness.registry import Ratio, Settings, Skipped, row

SIDES = {"torch": "torch", "pfl": "pfl", "flower": "flower"}
"""Peer -> its environment."""


@row("federated", "A client update against torch, pfl and Flower", needs=("mnist",))
def against_simulators(settings: Settings) -> Iterator[Ratio | Skipped]:
    """MNIST in two shards, 784-32-10: seconds of an update, end to end; the first round is left out."""
    network, per_round, rounds = NETWORKS[0]
    per_round, rounds = (per_round // 2, 1) if settings.quick else (per_round, rounds)
    sizes = "-".join(map(str, network.widths))
    present = [name for name, environment in SIDES.items() if environment in settings.pythons]
    for name in SIDES:
        if name not in present:
            yield Skipped(f"{sizes}, {name}", "needs --peers")
    if not present:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.npz"
        job = written_job(settings.data, path)
        for name in present:
            cores = 2 if name in SEVERAL else 1
            of = "seconds" if cores > 1 else "own"
            mine, theirs = [], []
            for seed in range(1, min(settings.runs, 3) + 1):
                mine.append(ours(job, network, cores, per_round, rounds, seed))
                theirs.append(peer(settings.pythons[SIDES[name]], name, path, network, cores, per_round, rounds, seed))
            fastest, fewest = (min(run[of] / run["updates"] for run in side) for side in (mine, theirs))
            clock = ", 2 cores, by the clock" if cores > 1 else ""
            limit = 1 / LEAST.get(network.widths, {}).get(name, 1.0)
            yield Ratio(f"an update of {sizes}, {name}{clock}", fastest, fewest, theirs[-1]["how"], limit)
