"""Two worker processes of Dask against the block engine of one process: time, processor time, and what travels.

    python benchmarks/dask_blocks.py [--rows 1000000] [--folder DIR] [--workers 2]

The table has 20 columns of numbers and a target of two classes, in row groups of 131,072. The job is `dm.measure` and
its result: fit, doses, columns, groups. The cluster is running when the clock starts, as one that already exists is;
its processor time is that of the client, the scheduler (in the client's process) and the workers together. Bytes are
those of Dask's own counter of values that leave a worker, and the sizes of what is sent to them.
"""

from __future__ import annotations

import argparse
import os
import pickle
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dosimeter as dm
from dosimeter.engines import registry
from dosimeter.engines.dask import DaskEngine, _shared_by
from dosimeter.engines.dask_tasks import leaves_of, seal

MALLOC = {"MALLOC_TRIM_THRESHOLD_": str(1 << 28), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)}
"""By default Dask tells a worker to give memory back at once: every large array is then mapped anew."""
COLUMNS, GROUP = 20, 131_072
OPTIONS: dict[str, Any] = {"target": "y", "noise": dm.Gaussian(0.05), "loss": "logistic"}


def generate(path: Path, rows: int) -> None:
    """Write the table a row group at a time."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=COLUMNS) / 4
    schema = pa.schema([*((f"x{j}", pa.float64()) for j in range(COLUMNS)), ("y", pa.float64())])
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, rows, GROUP):
            X = rng.normal(size=(min(GROUP, rows - first), COLUMNS))
            y = (rng.random(len(X)) < 1 / (1 + np.exp(-X @ w))).astype(float)
            writer.write_table(pa.table([*X.T, y], schema=schema), row_group_size=GROUP)


class ObservedEngine(DaskEngine):
    """Notes seconds and bytes of every pass."""

    passes_seen: list[dict[str, Any]] = []  # noqa: RUF012 - of this program

    def sum_over(self, blocks: Any, f: Any) -> Any:
        items = list(blocks)
        shared, leaves = _shared_by(items), leaves_of(items)
        before, since = outgoing(self._client), time.perf_counter()
        total = super().sum_over(items, f)
        spent = time.perf_counter() - since
        self.passes_seen.append(
            {
                "function": getattr(getattr(f, "func", f), "__name__", "?"),
                "seconds": spent,
                "leaves": len(leaves),
                "sent": len(seal([f, *shared])[0].content),
                "task": len(seal(leaves[0], shared)[0].content),
                "between": outgoing(self._client) - before,
                "result": len(pickle.dumps(total)),
            }
        )
        return total


def outgoing(client: Any) -> int:
    """Bytes of values that left the workers."""
    return int(sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values()))


def worker_seconds() -> float:
    """Processor seconds of the process that runs this."""
    return float(sum(os.times()[:2]))


def timed(call: Any, processor: Any) -> tuple[Any, float, float]:
    """The result, seconds and processor seconds."""
    before, since = processor(), time.perf_counter()
    result = call()
    return result, time.perf_counter() - since, processor() - before


def measure(path: Path, engine: str) -> Any:
    """The job."""
    return dm.measure(path, engine=engine, **OPTIONS).result(limit=1.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--default-malloc", action="store_true", help="keep what Dask tells the allocator of a worker")
    options = parser.parse_args()
    import dask
    from distributed import Client, LocalCluster, Security

    folder = options.folder or Path(tempfile.mkdtemp())
    path = folder / f"rows-{options.rows}.parquet"
    if not path.exists():
        generate(path, options.rows)
    registry.engine_names()
    local, wall, processor = timed(lambda: measure(path, "blocks"), worker_seconds)
    print(f"{options.rows} rows, {COLUMNS} columns, load {os.getloadavg()[0]:.1f}")
    print(f"{'blocks, one process':28} {wall:8.1f} s {processor:8.1f} processor s", flush=True)
    settings = (
        {} if options.default_malloc else {f"distributed.nanny.pre-spawn-environ.{k}": v for k, v in MALLOC.items()}
    )
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=options.workers, threads_per_worker=1, dashboard_address=":0", security=Security.temporary()
        ) as cluster,
        Client(cluster) as client,
    ):

        def everywhere() -> float:
            return worker_seconds() + float(sum(client.run(worker_seconds).values()))

        registry.ENGINES["dask"] = lambda _: ObservedEngine(client)
        client.run(lambda: __import__("dosimeter.workflows.measure_blocks"))  # imports are not the job
        there, dask_wall, dask_processor = timed(lambda: measure(path, "dask"), everywhere)
    print(f"{f'dask, {options.workers} workers':28} {dask_wall:8.1f} s {dask_processor:8.1f} processor s")
    print(f"{'ratio':28} {dask_wall / wall:8.2f}   {dask_processor / processor:8.2f}")
    print(f"{'pass':24} {'s':>6} {'tasks':>6} {'sent once':>10} {'a task':>8} {'from workers':>13} {'result':>9}")
    for seen in ObservedEngine.passes_seen:
        print(
            f"{seen['function']:24} {seen['seconds']:6.2f} {seen['leaves']:6d} {seen['sent']:10d} {seen['task']:8d} "
            f"{seen['between']:13d} {seen['result']:9d}"
        )
    apart = abs(there.dose.highest / local.dose.highest - 1)
    print(f"highest dose: relative difference {apart:.1e}")
    return int(apart > 1e-9)


if __name__ == "__main__":
    sys.exit(main())
