"""Answers a second through the gateway with an SQLite ledger: of the processor and of the clock.

python benchmarks/gateway.py [--rows 2000] [--columns 8] [--seconds 3] [--budget 3] [--batch K --threads T]

Without --batch: batches of 1, 10, 100 and 1000 from one thread, then single answers from 8, 64 and 256 threads, which
share transactions. One transaction is one flush of the disk; its time alone is printed first.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from typing import Any

import numpy as np

import dosimeter as dm

CASES = ((1, 1), (10, 1), (100, 1), (1000, 1), (1, 8), (1, 64), (1, 256))
"""Queries in a batch, and threads that ask."""


def people(rows: int, columns: int, rng: np.random.Generator) -> dict[str, Any]:
    """Two rows a person, numbers, and two classes."""
    X = rng.normal(size=(rows, columns))
    table: dict[str, Any] = {f"x{j}": X[:, j] for j in range(columns)}
    table["ill"] = (X[:, 0] + rng.normal(size=rows) > 0).astype(float)
    return table | {"who": np.array([f"p{i // 2}" for i in range(rows)], dtype=object)}


def flush_time(folder: str) -> float:
    """Seconds of one write of a page and its flush, the least of fifty."""
    descriptor = os.open(f"{folder}/page", os.O_CREAT | os.O_WRONLY)
    least = float("inf")
    for _ in range(50):
        start = time.perf_counter()
        os.write(descriptor, bytes(4096))
        os.fdatasync(descriptor)
        least = min(least, time.perf_counter() - start)
    os.close(descriptor)
    return least


def measure(leak: Any, columns: int, batch: int, threads: int, seconds: float, budget: float) -> None:
    """Ask for some seconds and print one line."""
    counts = [0] * threads
    with tempfile.TemporaryDirectory() as folder, dm.Ledger.create(f"{folder}/ledger.db", ["fil=1000"]) as ledger:
        gateway = dm.Gateway(leak, ledger, budget=budget)
        end = time.perf_counter() + seconds

        def ask(number: int) -> None:
            rng = np.random.default_rng(number)
            lists = [{f"x{j}": rng.normal(size=batch) for j in range(columns)} for _ in range(8)]
            while time.perf_counter() < end:
                gateway.answer(lists[counts[number] % 8])
                counts[number] += 1

        processor, clock = time.process_time(), time.perf_counter()
        askers = [threading.Thread(target=ask, args=(number,)) for number in range(threads)]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
        processor, clock = time.process_time() - processor, time.perf_counter() - clock
        answers, transactions = batch * sum(counts), len(ledger.releases())
        print(
            f"batches of {batch} from {threads} threads: {answers / clock:,.0f} answers a second of the clock, "
            f"{answers / processor:,.0f} of the processor, {answers / transactions:.1f} a transaction, "
            f"{1e3 * clock / transactions:.1f} ms each; {gateway.spent:.2g} of the allowance spent"
        )


def main() -> None:
    """Print one line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("rows", 2000), ("columns", 8), ("batch", 0), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--budget", type=float, default=3.0)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    queries = {f"x{j}": rng.normal(size=1000) for j in range(options.columns)}
    table = people(options.rows, options.columns, rng)
    leak = dm.measure(
        table, target="ill", person="who", release="predictions", queries=queries, noise=dm.Gaussian(50.0)
    )
    with tempfile.TemporaryDirectory() as folder:
        print(f"one flush of the disk: {1e3 * flush_time(folder):.2f} ms")
    for batch, threads in ((options.batch, options.threads),) if options.batch else CASES:
        measure(leak, options.columns, batch, threads, options.seconds, options.budget)


if __name__ == "__main__":
    main()
