"""One Newton pass on two worker processes of Dask against a plain graph of the same sums over the same file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from blocks import COLUMNS, ROWS, generate
from harness.registry import Ratio, Settings, Skipped, row
from harness.timing import least

WORKERS = 2


def process_seconds() -> float:
    """Of the processor, in the process that runs this."""
    return float(sum(os.times()[:2]))


def group_sums(path: str, group: int, centre: Any, scale: Any, T: Any, v: Any) -> tuple[Any, Any]:
    """Gradient and Hessian of a row group, as a plain loop has them."""
    g, H = np.zeros(len(v)), np.zeros((len(v), len(v)))
    names = [*(f"x{j}" for j in range(COLUMNS)), "y"]
    file = pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
    for batch in file.iter_batches(ROWS, row_groups=[group], columns=names, use_threads=False):
        X = np.array([(batch.column(j).to_numpy() - centre[j]) / scale[j] for j in range(COLUMNS)])
        y = batch.column(COLUMNS).to_numpy().astype(float)
        Z = X.T @ T[:-1] + T[-1]
        p = 1 / (1 + np.exp(-(Z @ v)))
        g += Z.T @ (p - y)
        S = np.sqrt(p * (1 - p))[:, None] * Z
        H += S.T @ S
    return g, H


def pair_sum(first: tuple[Any, Any], second: tuple[Any, Any]) -> tuple[Any, Any]:
    """Of two partial sums."""
    return first[0] + second[0], first[1] + second[1]


@row("dask pass", "A Newton pass on two workers of Dask against a plain graph of the same sums")
def against_graph(settings: Settings) -> Iterator[Ratio | Skipped]:
    """Processor seconds of the client, the scheduler and the workers together."""
    rows = 500_000 if settings.quick else 5_000_000
    name = f"one pass on {WORKERS} workers, {rows:,} x {COLUMNS}"
    try:
        import cloudpickle
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        yield Skipped(name, "needs Dask")
        return
    import sys

    import dosimeter as dm
    from dosimeter.core.engine import MappedPart
    from dosimeter.engines.dask import DaskEngine
    from dosimeter.glm import Logistic
    from dosimeter.glm.fitting.block_fit import newton_terms

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        generate(path, rows)
        leak = dm.measure(path, target="y", noise=dm.Gaussian(0.05), engine="blocks")
        fitted, model = leak.fit, leak.model
        f = partial(newton_terms, factor=fitted.coordinates, v=fitted.v, loss=Logistic())
        parts = [MappedPart(part, model.rows) for part in leak.table.parts]
        constants = (model.encoding.centre, model.encoding.scale, fitted.coordinates.matrix, fitted.v)
        cluster = LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=":0")
        with cluster as here, Client(here) as client:
            engine = DaskEngine(client)

            def plain() -> None:
                groups = range(pq.ParquetFile(path).num_row_groups)
                sums = [dask.delayed(group_sums, pure=False)(str(path), k, *constants) for k in groups]
                while len(sums) > 1:
                    pairs = [sums[k : k + 2] for k in range(0, len(sums), 2)]
                    sums = [dask.delayed(pair_sum, pure=False)(*pair) if len(pair) > 1 else pair[0] for pair in pairs]
                client.compute(sums[0]).result()

            def everywhere() -> float:
                return process_seconds() + float(sum(client.run(process_seconds).values()))

            engine.sum_over(parts, f)  # imports on the workers are not the pass
            runs = max(1, min(settings.runs, 3))
            ours, theirs = least(runs, lambda: engine.sum_over(parts, f), plain, clock=everywhere)
    yield Ratio(name, ours, theirs, "dask.delayed for each row group, a tree of sums", None if settings.quick else 1.3)
