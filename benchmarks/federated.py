"""Client updates per second, end to end: train, clip, add noise, evaluate. Ours beside peers, on the same job.

    python benchmarks/federated.py [--data DIR] [--runs 3] [--cores 1 2] [--quick]
                                   [--torch-python PY] [--flower-python PY] [--pfl-python PY]

MNIST in two shards, 100 clients of 600 rows, ten batches of 60, four epochs, rate 0.1, test on 10,000 rows after every
round; 784-32-10 with biases, and 784-600-100-10 without (that of [Geyer19]). The first round of everybody is left out:
it imports, compiles, starts processes, and prices the budget. Sides are measured in turn, run by run, and compared
within a run: by the clock, or where both are one process on one core by their own seconds, which do not count what
else the machine is doing. Run k of everybody has seed k. The accuracy after these few rounds is a sign of life and no
comparison: from seed to seed it goes from 0.35 to 0.61 (784-32-10; ten seeds of ours 0.511 on average, eight of the
torch loop 0.515), while from the same start on the same batches our update is torch's to 2e-7.

A peer is a script beside this one, run by the python of its own environment:

    PY benchmarks/federated_NAME.py JOB.npz --widths 784,32,10 --bias 1 --cores 2 [--per-round 50 --rounds 3 --seed 1]

It reads X, y, X_test, y_test and rows (clients, 600) from JOB.npz and prints one line of JSON:
{"updates": clients trained after the first round, "seconds": clock, "own": seconds of its process or null,
"accuracy": after the last round, "how": words and versions}. `federated_torch.py` is the sequential loop; a peer whose
python is not given is not run, and this is said. Environments in which the peers ran:

    pip install torch==2.13.0 "flwr[simulation]==1.41.0"        # for --flower-python; it brings ray 2.55.1
    pip install torch==2.13.0 "pfl[pytorch]==0.6.0"             # for --pfl-python
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dosimeter import federated
from dosimeter.datasets.digits import mnist
from dosimeter.federated.local_training import LocalSGD
from dosimeter.federated.networks import Network
from dosimeter.federated.partition import two_shards
from dosimeter.federated.simulate import simulate
from dosimeter.federated.task import Task

HERE = Path(__file__).resolve().parent
CLIENTS = 100
NETWORKS = ((Network((784, 32, 10)), 50, 6), (Network((784, 600, 100, 10), bias=False), 20, 3))
"""Network, clients a round, rounds that count."""
LEAST = {(784, 32, 10): {"torch": 3.0, "torch-processes": 3.0, "flower": 5.0, "pfl": 3.0}}
"""How many times as fast we are to be; at least as fast where nothing stands here."""
PEERS = ("torch", "torch-processes", "flower", "pfl")
SEVERAL = ("torch-processes", "flower")
"""Peers that are several processes whatever is asked, so that on one core there is nothing to compare."""


def written_job(data: Path, path: Path) -> dict[str, Any]:
    """The job as arrays, and in a file for the peers."""
    X, y, X_test, y_test = mnist(data)
    rows = np.array(two_shards(y, CLIENTS, np.random.default_rng(0)))
    job = {
        "X": X.reshape(len(X), -1).astype(np.float32),
        "y": y.astype(np.int64),
        "X_test": X_test.reshape(len(X_test), -1).astype(np.float32),
        "y_test": y_test.astype(np.int64),
        "rows": rows,
    }
    np.savez(path, **job)
    return job


def ours(job: dict[str, Any], network: Network, cores: int, per_round: int, rounds: int, seed: int) -> dict[str, Any]:
    """The simulator with the sound curator: Poisson cohorts, exact sums, noise, accounting, evaluation."""
    local = LocalSGD(4, 0.1, batches=10)
    task = Task(network, local, job["X"], job["y"], tuple(job["rows"]), job["X_test"], job["y_test"])
    curator = federated.Curator(
        federated.PoissonSampling(CLIENTS),
        federated.Constant(per_round, 1.0),
        federated.PrivacyBudget(50.0, 1e-3),
        federated.FixedClip(1.0),
    )
    marks: list[tuple[float, float, int]] = []
    history = simulate(
        task,
        curator,
        seed=seed,
        rounds=rounds + 1,
        processes=cores,
        update_statistics=False,
        progress=lambda r: marks.append((time.perf_counter(), time.process_time(), r.accepted)),
    )
    (clock, own, _), (end, own_end, _) = marks[0], marks[-1]
    return {
        "updates": sum(m[2] for m in marks[1:]),
        "seconds": end - clock,
        "own": own_end - own if cores == 1 else None,
        "accuracy": history.accuracy,
        "how": "stacked numpy" if cores == 1 else f"stacked numpy, {cores} processes",
    }


def peer(python: str, name: str, job: Path, network: Network, cores: int, *terms: int) -> dict[str, Any]:
    """What the peer's script prints; `terms` are clients a round, rounds that count, and the seed."""
    command = [python, str(HERE / f"federated_{name.partition('-')[0]}.py"), str(job)]
    command += ["--widths", ",".join(map(str, network.widths)), "--bias", str(int(network.bias)), "--cores", str(cores)]
    for option, value in zip(("--per-round", "--rounds", "--seed"), terms, strict=True):
        command += [option, str(value)]
    command += ["--processes"] if name.endswith("-processes") else []
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{name}: exit {ran.returncode}\n{ran.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(ran.stdout.strip().splitlines()[-1])
    return found


def rate(found: dict[str, Any], of: str) -> float:
    """Updates per second of the clock, or of the process's own time."""
    return float(found["updates"] / found[of])


def row(name: str, side: list[dict[str, Any]]) -> str:
    """Updates per second of every run, the accuracies, and how it was done."""
    rates = " ".join(f"{rate(f, 'seconds'):6.1f}" for f in side)
    own = "   own " + " ".join(f"{rate(f, 'own'):6.1f}" for f in side) if side[0]["own"] else ""
    right = " ".join(f"{f['accuracy']:.2f}" for f in side)
    return f"  {name:16s} clock {rates}{own}   accuracy {right}   {side[-1]['how']}"


def compared(job: dict[str, Any], path: Path, pythons: dict[str, str], runs: int, cores: int, quick: bool) -> bool:
    """One table for each network; True where every least ratio is met by the median run."""
    met = True
    for network, per_round, rounds in NETWORKS:
        per_round, rounds = (per_round // 2, 1) if quick else (per_round, rounds)
        base: list[dict[str, Any]] = []
        sides: dict[str, list[dict[str, Any]]] = {n: [] for n in pythons if cores > 1 or n not in SEVERAL}
        for seed in range(1, runs + 1):
            base.append(ours(job, network, cores, per_round, rounds, seed))
            for name, side in sides.items():
                side.append(peer(pythons[name], name, path, network, cores, per_round, rounds, seed))
        sizes = "-".join(map(str, network.widths))
        print(f"\n{sizes}, {network.size} parameters, {cores} core(s): client updates per second, run by run")
        print(row("ours", base))
        for name, side in sides.items():
            of = "own" if base[0]["own"] and side[0]["own"] else "seconds"
            ratios = [rate(b, of) / rate(f, of) for b, f in zip(base, side, strict=True)]
            least = LEAST.get(network.widths, {}).get(name, 1.0)
            fine = float(np.median(ratios)) >= least
            met &= fine
            found, by = " ".join(f"{r:.2f}" for r in ratios), "own seconds" if of == "own" else "the clock"
            print(row(name, side))
            print(
                f"  {'':16s} ours is {found} times as fast by {by}; at least {least:g}: {'met' if fine else 'NOT MET'}"
            )
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("DOSIMETER_DATA", "../shared/data")))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--flower-python")
    parser.add_argument("--pfl-python")
    given = parser.parse_args()
    pythons = {n: getattr(given, f"{n.partition('-')[0]}_python") for n in PEERS}
    for name in [n for n, python in pythons.items() if not python]:
        print(f"{name}: not run, give --{name}-python")
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        path = Path(folder) / "job.npz"
        job = written_job(given.data, path)
        chosen = {n: p for n, p in pythons.items() if p}
        met = [compared(job, path, chosen, given.runs, cores, given.quick) for cores in given.cores]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
