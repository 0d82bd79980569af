"""Tables larger than memory: time and peak memory against the number of rows, one Newton pass against bare ones.

    python benchmarks/blocks.py --folder DIR [--rows 1e6 1e7] [--memory 2GB] [--runs 5] [--json FILE]
    python benchmarks/blocks.py --folder DIR --large --json FILE

Tables of 20 columns and a target of two classes are generated in blocks and kept in DIR. Each size is fitted and
measured in a process of its own, whose peak is the operating system's (VmHWM and ru_maxrss). The pass is compared in
one process with plain loops over the same file, by blocks of pyarrow and by blocks of polars, with the same arithmetic:
standardised columns, gradient and Hessian; least processor time of several runs. One thread.

`--large` is the run of 1e8 rows: sizes 1e6, 1e7 and 1e8 (18 GB of files, about 40 minutes of processor), the slope
between 1e6 and 1e8, and a last line that says which of its three limits hold: a peak of 2 GB, a slope from 0.95 to
1.05, and a pass of at most 1.3 times the bare one. The exit code is 1 if one does not. How a job that is killed goes on
is shown by `benchmarks/blocks_killed.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

COLUMNS, GROUP = 20, 1 << 18
SEED = 20260918
ROWS = 1 << 16
"""Rows of a block of the bare loops: those of ours."""
MOST_MB, SLOPES, MOST_RATIO = 2048, (0.95, 1.05), 1.3
"""Limits of the large run."""


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


def arrow_batches(path: Path, names: list[str]) -> Iterator[list[np.ndarray]]:
    """The columns of each block of pyarrow."""
    file = pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
    for batch in file.iter_batches(ROWS, columns=names, use_threads=False):
        yield [batch.column(j).to_numpy() for j in range(len(names))]


def polars_batches(path: Path, names: list[str]) -> Iterator[list[np.ndarray]]:
    """The columns of each block of polars."""
    import polars as pl

    for batch in pl.scan_parquet(path).select(names).collect_batches(chunk_size=ROWS, maintain_order=True):
        yield [batch[name].to_numpy() for name in names]


def one_pass(path: Path, runs: int) -> dict[str, float]:
    """Processor seconds of one Newton pass of ours and of bare loops with the same arithmetic, and their ratios.

    `bare_cpu` and `ratio` are those of pyarrow, which reads the file for us too.
    """
    from functools import partial

    import dosimeter as dm
    from dosimeter.core.engine import MappedPart
    from dosimeter.glm import Logistic
    from dosimeter.glm.fitting.block_fit import newton_terms

    leak = dm.measure(path, target="y", noise=dm.Gaussian(0.05), engine="blocks")
    fitted, model, table = leak.fit, leak.model, leak.table
    parts = [MappedPart(part, model.rows) for part in table.parts]
    f = partial(newton_terms, factor=fitted.coordinates, v=fitted.v, loss=Logistic())
    T, v = fitted.coordinates.matrix, fitted.v
    centre, scale = model.encoding.centre, model.encoding.scale
    names = [*(f"x{j}" for j in range(COLUMNS)), "y"]

    def ours() -> None:
        table.engine.sum_over(parts, f)

    def bare(batches: Callable[[Path, list[str]], Iterator[list[np.ndarray]]]) -> None:
        g, H = np.zeros(len(v)), np.zeros((len(v), len(v)))
        for columns in batches(path, names):
            X = np.empty((COLUMNS, len(columns[-1])))
            for j in range(COLUMNS):
                np.subtract(columns[j], centre[j], out=X[j])
                X[j] /= scale[j]
            y = columns[-1].astype(float)
            Z = X.T @ T[:-1] + T[-1]
            p = 1 / (1 + np.exp(-(Z @ v)))
            g += Z.T @ (p - y)
            S = np.sqrt(p * (1 - p))[:, None] * Z
            H += S.T @ S

    seconds = {"ours_cpu": least(ours, runs)}
    for name, batches in (("bare", arrow_batches), ("polars", polars_batches)):
        seconds[f"{name}_cpu"] = least(partial(bare, batches), runs)
    seconds["ratio"] = seconds["ours_cpu"] / seconds["bare_cpu"]
    seconds["polars_ratio"] = seconds["ours_cpu"] / seconds["polars_cpu"]
    return seconds


def shortfalls(reports: list[dict[str, float]], slope: float, ratio: float) -> list[str]:
    """Limits of the large run that do not hold; ratio: to the slower of the bare passes."""
    highest = max(max(report["VmHWM_MB"], report["ru_maxrss_MB"]) for report in reports)
    return [
        *([] if highest <= MOST_MB else [f"peak {highest} MB, above {MOST_MB}"]),
        *([] if SLOPES[0] <= slope <= SLOPES[1] else [f"slope {slope:.3f}, outside {SLOPES[0]} to {SLOPES[1]}"]),
        *([] if ratio <= MOST_RATIO else [f"pass {ratio:.2f} times the bare one, above {MOST_RATIO}"]),
    ]


def measured_sizes(options: argparse.Namespace, sizes: list[int]) -> list[dict[str, float]]:
    """One process for each size, one after the other."""
    reports = []
    for n in sizes:
        path = options.folder / f"rows-{n}.parquet"
        generate(path, n)
        command = [sys.executable, __file__, "--folder", str(options.folder), "--memory", options.memory]
        text = subprocess.run([*command, "--job", str(path)], check=True, stdout=subprocess.PIPE, text=True).stdout
        report = json.loads(text)
        reports.append(report)
        print(
            f"{n:>12,} rows: {report['cpu']:8.1f} s of processor, {report['wall']:8.1f} s, peak {report['VmHWM_MB']} MB"
            f" (VmHWM) {report['ru_maxrss_MB']} MB (ru_maxrss), {report['newton_passes']} Newton passes of "
            f"{report['passes']}; {report['stages']}",
            flush=True,
        )
    return reports


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where the tables are kept; not in the repository")
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7])
    parser.add_argument("--large", action="store_true", help="1e6, 1e7 and 1e8 rows, against the limits")
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--job", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job is not None:
        print(json.dumps(job(options.job, options.memory)))
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    sizes = [10**6, 10**7, 10**8] if options.large else [int(n) for n in options.rows]
    reports = measured_sizes(options, sizes)
    ratio = one_pass(options.folder / f"rows-{sizes[0]}.parquet", options.runs)
    print(
        f"one Newton pass: {ratio['ours_cpu']:.3f} s; bare, pyarrow {ratio['bare_cpu']:.3f} s, ratio "
        f"{ratio['ratio']:.2f}; bare, polars {ratio['polars_cpu']:.3f} s, ratio {ratio['polars_ratio']:.2f}"
    )
    slope = None
    if len(sizes) > 1:
        slope = float(np.log(reports[-1]["cpu"] / reports[0]["cpu"]) / np.log(sizes[-1] / sizes[0]))
        print(f"slope of log processor time against log rows, {sizes[0]:,} to {sizes[-1]:,}: {slope:.3f}")
    if options.json is not None:
        options.json.write_text(json.dumps({"sizes": reports, "pass": ratio, "slope": slope}, indent=2) + "\n")
    missed = shortfalls(reports, slope or 1.0, min(ratio["ratio"], ratio["polars_ratio"])) if options.large else []
    if options.large:
        print("limits: " + ("; ".join(missed) or "all hold"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
