"""Tables larger than memory: time and peak memory against the number of rows, one Newton pass against a bare one.

    python benchmarks/blocks.py --folder DIR [--rows 1e6 1e7] [--large] [--memory 2GB] [--runs 5]

Tables of 20 columns and a target of two classes are generated in blocks and kept in DIR. Each size is fitted and
measured in a process of its own, whose peak is the operating system's (VmHWM and ru_maxrss). The pass is compared in
one process with a plain loop over the same blocks of pyarrow: standardised columns, gradient and Hessian; least
processor time of several runs. `--large` adds 1e8 rows (16 GB). One thread.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

COLUMNS, GROUP = 20, 1 << 18
SEED = 20260918


def generate(path: Path, n: int) -> None:
    """A table of n rows, in row groups; the same rows for the same n."""
    if path.exists():
        return
    rng = np.random.default_rng(SEED)
    w = rng.normal(size=COLUMNS) / np.sqrt(COLUMNS)
    beside, writer = path.with_suffix(".part"), None
    for first in range(0, n, GROUP):
        k = min(GROUP, n - first)
        X = rng.normal(size=(COLUMNS, k)) * (1.0 + np.arange(COLUMNS))[:, None] + 10.0
        m = w @ ((X - 10.0) / (1.0 + np.arange(COLUMNS))[:, None])
        y = (rng.random(k) < 1 / (1 + np.exp(-m))).astype(np.int8)
        table = pa.table({**{f"x{j}": X[j] for j in range(COLUMNS)}, "y": y})
        writer = writer or pq.ParquetWriter(beside, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()
    beside.rename(path)


def peak() -> tuple[int, int]:
    """(VmHWM, ru_maxrss) of this process in MB."""
    status = Path("/proc/self/status").read_text() if Path("/proc/self/status").exists() else ""
    high = next((int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmHWM")), -1)
    return high, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def job(path: Path, memory: str) -> dict[str, object]:
    """Fit and measure one table; seconds of each stage, peak memory, the highest dose."""
    import dosimeter as dm
    from dosimeter.core.progress import listening

    stages: dict[str, float] = {}
    current = ["start", time.process_time()]

    def listen(stage: str | None, share: float | None) -> None:
        if stage is not None and stage != current[0]:
            now = time.process_time()
            stages[current[0]] = stages.get(current[0], 0.0) + now - current[1]
            current[:] = [stage, now]

    began, cpu = time.perf_counter(), time.process_time()
    with listening(listen):
        leak = dm.measure(path, target="y", noise=dm.Gaussian(0.05), engine="blocks", memory=memory)
        result = leak.result(limit=1.0)
        listen("end", None)
    high, largest = peak()
    return {
        "rows": leak.table.n,
        "wall": time.perf_counter() - began,
        "cpu": time.process_time() - cpu,
        "stages": {name: round(seconds, 2) for name, seconds in stages.items()},
        "newton_passes": leak.fit.iterations,
        "passes": leak.table.engine.passes,
        "decrement": leak.fit.decrement,
        "VmHWM_MB": high,
        "ru_maxrss_MB": largest,
        "typical": result.dose.typical,
        "highest": result.dose.highest,
    }


def least(f: object, runs: int) -> float:
    """The least processor time of several runs."""
    times = []
    for _ in range(runs):
        began = time.process_time()
        f()
        times.append(time.process_time() - began)
    return min(times)


def one_pass(path: Path, runs: int) -> dict[str, float]:
    """Processor seconds of one Newton pass of ours and of a bare loop with the same arithmetic, and their ratio."""
    from functools import partial

    import dosimeter as dm
    from dosimeter.core.engine import MappedPart
    from dosimeter.glm import Logistic
    from dosimeter.glm.block_fit import newton_terms

    leak = dm.measure(path, target="y", noise=dm.Gaussian(0.05), engine="blocks")
    fitted, model, table = leak.fit, leak.model, leak.table
    parts = [MappedPart(part, model.rows) for part in table.parts]
    f = partial(newton_terms, factor=fitted.coordinates, v=fitted.v, loss=Logistic())
    T, v = fitted.coordinates.matrix, fitted.v
    centre, scale = model.encoding.centre, model.encoding.scale
    names = [f"x{j}" for j in range(COLUMNS)]
    rows = 1 << 16

    def ours() -> None:
        table.engine.sum_over(parts, f)

    def bare() -> tuple[np.ndarray, np.ndarray]:
        g, H = np.zeros(len(v)), np.zeros((len(v), len(v)))
        file = pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
        for batch in file.iter_batches(rows, columns=[*names, "y"], use_threads=False):
            X = np.empty((COLUMNS, batch.num_rows))
            for j in range(COLUMNS):
                np.subtract(batch.column(j).to_numpy(), centre[j], out=X[j])
                X[j] /= scale[j]
            y = batch.column(COLUMNS).to_numpy().astype(float)
            Z = X.T @ T[:-1] + T[-1]
            p = 1 / (1 + np.exp(-(Z @ v)))
            g += Z.T @ (p - y)
            S = np.sqrt(p * (1 - p))[:, None] * Z
            H += S.T @ S
        return g, H

    ours(), bare()
    ours_cpu, bare_cpu = least(ours, runs), least(bare, runs)
    return {"ours_cpu": ours_cpu, "bare_cpu": bare_cpu, "ratio": ours_cpu / bare_cpu}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where the tables are kept; not in the repository")
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7])
    parser.add_argument("--large", action="store_true", help="1e8 rows as well")
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--job", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job is not None:
        print(json.dumps(job(options.job, options.memory)))
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    sizes = [int(n) for n in [*options.rows, *([1e8] if options.large else [])]]
    reports = []
    for n in sizes:
        path = options.folder / f"rows-{n}.parquet"
        generate(path, n)
        command = [
            sys.executable,
            __file__,
            "--folder",
            str(options.folder),
            "--memory",
            options.memory,
            "--job",
            str(path),
        ]
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        report = json.loads(text)
        reports.append(report)
        print(
            f"{n:>12,} rows: {report['cpu']:8.1f} s of processor, {report['wall']:8.1f} s, peak {report['VmHWM_MB']} MB"
            f" (VmHWM) {report['ru_maxrss_MB']} MB (ru_maxrss), {report['newton_passes']} Newton passes of "
            f"{report['passes']}; {report['stages']}",
            flush=True,
        )
    ratio = one_pass(options.folder / f"rows-{sizes[0]}.parquet", options.runs)
    print(f"one Newton pass: {ratio['ours_cpu']:.3f} s, bare {ratio['bare_cpu']:.3f} s, ratio {ratio['ratio']:.2f}")
    slope = None
    if len(sizes) > 1:
        slope = float(np.polyfit(np.log(sizes), np.log([r["cpu"] for r in reports]), 1)[0])
        print(f"slope of log processor time against log rows: {slope:.3f}")
    if options.json is not None:
        options.json.write_text(json.dumps({"sizes": reports, "pass": ratio, "slope": slope}, indent=2) + "\n")


if __name__ == "__main__":
    main()
