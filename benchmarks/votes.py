"""What labels by a vote cost for many queries: processor seconds of each pass, and the memory of the process.

    python benchmarks/votes.py --folder DIR [--queries 1e6] [--large] [--order C | F] [--keep]

100 teachers, 10 classes, votes as bytes with a consensus Beta(8, 1), written in blocks into DIR (100 bytes a query;
--large: 1e8 queries, 10 GB, and 1.1 GB of labels). Each size runs in a process of its own, from the file of votes to
the file of labels: votes checked, labels drawn by the operating system's bits, exact leakage measured, labels written.
Memory is what the operating system says the process held at most. The slope is that of log seconds against log queries.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

TEACHERS, CLASSES, SCALE = 100, 10, 10.0
BLOCK = 1 << 16
MOST_MEMORY = 2.0
"""Gigabytes."""
PASSES = ("checking votes", "labelling", "measuring votes", "writing labels")


def generate(path: Path, queries: int, order: str) -> None:
    """(teachers, queries) bytes: a share Beta(8, 1) of the teachers agrees, the rest favours some of the classes."""
    shape, fortran = (TEACHERS, queries), order == "F"
    votes = np.lib.format.open_memmap(path, mode="w+", dtype=np.int8, shape=shape, fortran_order=fortran)
    rng = np.random.default_rng(1)
    for start in range(0, queries, BLOCK):
        k = min(BLOCK, queries - start)
        agree, label = rng.beta(8, 1, k).astype(np.float32), rng.integers(0, CLASSES, k, dtype=np.int8)
        favour = rng.integers(0, CLASSES, (3, k), dtype=np.int8)
        others = np.take_along_axis(favour, rng.integers(0, 3, (TEACHERS, k)), axis=0)
        stray = rng.integers(0, CLASSES, (TEACHERS, k), dtype=np.int8)
        others = np.where(rng.random((TEACHERS, k), dtype=np.float32) < 0.3, stray, others)
        votes[:, start : start + k] = np.where(rng.random((TEACHERS, k), dtype=np.float32) < agree, label, others)
    votes.flush()


class PassTimes:
    """Listens to the stages of the work: processor seconds from the beginning of each to its last block."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._stage, self._since = "", 0.0

    def __call__(self, stage: str | None, share: float | None) -> None:
        """A stage begins, or a share of it is finished."""
        if stage is not None:
            self._stage, self._since = stage, time.process_time()
        if share == 1.0 and self._stage:
            self.seconds[self._stage] = time.process_time() - self._since


def most_memory() -> float:
    """Gigabytes that this process held at most, mapped pages of files included.

    From Linux's VmHWM: getrusage also counts what the parent held when it started this process.
    """
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 2**20


def run_one(path: Path) -> None:
    """From the file of votes to the file of labels, in this process; figures as JSON to stdout."""
    import dosimeter as dm
    from dosimeter.core.progress import listening

    passes, since = PassTimes(), time.monotonic()
    with listening(passes):
        released = dm.label(votes=path, classes=CLASSES, scale=SCALE)
        released.write(path.with_suffix(".csv"))
    figures = {
        "passes": passes.seconds,
        "whole": time.process_time(),
        "wall": time.monotonic() - since,
        "gigabytes": most_memory(),
        "nats": released.result.internal.highest_nats,
    }
    print(json.dumps(figures))


def measure(folder: Path, queries: int, order: str, keep: bool) -> float:
    """Print a row; the processor seconds of the passes."""
    path = folder / f"votes-{queries}-{order}.npy"
    if not path.exists():
        generate(path, queries, order)
    command = [sys.executable, __file__, "--one", str(path)]
    child = subprocess.run(command, stdout=subprocess.PIPE, check=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    figures = json.loads(child.stdout)
    path.with_suffix(".csv").unlink()
    if not keep:
        path.unlink()
    seconds = [figures["passes"].get(name, 0.0) for name in PASSES]
    millions = queries / 1e6
    cells = "".join(f"{s / millions:>10.3f}" for s in (*seconds, sum(seconds)))
    print(
        f"{queries:>12,}{cells}{figures['whole']:>10.1f}{figures['wall']:>9.1f}{figures['gigabytes']:>8.2f}", flush=True
    )
    return sum(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description="What labels by a vote cost for many queries.")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--queries", type=float, default=1e6)
    parser.add_argument("--large", action="store_true", help="1e8 queries")
    parser.add_argument("--order", choices=["C", "F"], default="C", help="C: stored by teacher, F: by query")
    parser.add_argument("--keep", action="store_true", help="keep the files of votes")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one is not None:
        run_one(args.one)
        return
    if args.folder is None:
        parser.error("--folder: name a folder for the votes")
    most = 10**8 if args.large else int(args.queries)
    sizes = [n for n in (10**5, 10**6, 10**7, 10**8) if n < most] + [most]
    print(f"{TEACHERS} teachers, {CLASSES} classes, order {args.order}; at most {MOST_MEMORY:g} GB")
    print("processor seconds per million queries of each pass, then of all; of the whole process; wall; gigabytes")
    print(
        f"{'queries':>12}{'check':>10}{'label':>10}{'measure':>10}{'write':>10}{'all':>10}{'whole':>10}{'wall':>9}{'GB':>8}"
    )
    seconds = [measure(args.folder, n, args.order, args.keep) for n in sizes]
    if len(sizes) > 1:
        slope = math.log(seconds[-1] / seconds[0]) / math.log(sizes[-1] / sizes[0])
        print(f"slope of log seconds against log queries, {sizes[0]:,} to {sizes[-1]:,}: {slope:.3f}")


if __name__ == "__main__":
    main()
