"""Answers a second through the gateway with an SQLite ledger: of the processor and of the clock.

python benchmarks/gateway.py [--rows 2000] [--columns 8] [--batch 1000] [--batches 40] [--threads 1] [--budget 100]

With a large budget everyone stays within the step that was booked first. A small one makes people pass a step in every
batch: joint doses are then computed, and rows are booked, each time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import dosimeter as dm


def people(rows: int, columns: int, rng: np.random.Generator) -> dict[str, Any]:
    """Two rows a person, numbers, and two classes."""
    X = rng.normal(size=(rows, columns))
    table: dict[str, Any] = {f"x{j}": X[:, j] for j in range(columns)}
    table["ill"] = (X[:, 0] + rng.normal(size=rows) > 0).astype(float)
    return table | {"who": np.array([f"p{i // 2}" for i in range(rows)], dtype=object)}


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("rows", 2000), ("columns", 8), ("batch", 1000), ("batches", 40), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--budget", type=float, default=100.0)
    options = parser.parse_args()
    rng = np.random.default_rng(0)

    def queries() -> dict[str, Any]:
        return {f"x{j}": rng.normal(size=options.batch) for j in range(options.columns)}

    table = people(options.rows, options.columns, rng)
    leak = dm.measure(
        table, target="ill", person="who", release="predictions", queries=queries(), noise=dm.Gaussian(5.0)
    )
    lists = [queries() for _ in range(options.batches)]
    with tempfile.TemporaryDirectory() as folder, dm.Ledger.create(f"{folder}/ledger.db", ["fil=1000"]) as ledger:
        gateway = dm.Gateway(leak, ledger, budget=options.budget)
        processor, clock = time.process_time(), time.perf_counter()
        with ThreadPoolExecutor(options.threads) as pool:
            list(pool.map(gateway.answer, lists))
        processor, clock = time.process_time() - processor, time.perf_counter() - clock
        answers = options.batch * options.batches
        print(
            f"{answers} answers in batches of {options.batch}, {options.rows // 2} people, {options.columns} columns: "
            f"{answers / processor:,.0f} a second of the processor, {answers / clock:,.0f} of the clock; "
            f"{len(ledger.export()['doses'])} rows of doses"
        )


if __name__ == "__main__":
    main()
