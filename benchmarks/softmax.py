"""Every η of a softmax model of MNIST, 60,000 rows of 784 pixels, ten classes: seconds, memory, error on a sample.

    python benchmarks/softmax.py --data DIR [--rows 60000] [--threads 2] [--sample 8] [--every-reading]

DIR holds the papers' data, with the files of MNIST in mnist/. The model is that of scikit-learn's default,
LogisticRegression(C=1.0): l2 = 1/n, an intercept, weights that sum to zero over the classes. The oracle writes out the
Jacobians of a sample of rows (the highest, the lowest, and others by chance) and takes their singular values.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

import dosimeter as dm
from dosimeter import glm
from dosimeter.datasets.papers import data_file, read_idx
from dosimeter.glm.jacobians.dense_jacobian import largest_singular_values

T = TypeVar("T")
SECONDS, GIGABYTES = 15 * 60, 4.0
"""The limits for fit and examples together."""


def mnist(data: Path, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The first rows of the training images, pixels in [0, 1], and their digits."""
    images = read_idx(data_file(data, "mnist", "train-images-idx3-ubyte.gz"))[:rows]
    labels = read_idx(data_file(data, "mnist", "train-labels-idx1-ubyte.gz"))[:rows]
    return images.reshape(len(images), -1) / 255.0, labels.astype(np.float64)


def timed(name: str, call: Callable[[], T]) -> T:
    """Run and print a line: seconds, processor seconds, most memory of the process so far."""
    wall, processor = time.perf_counter(), time.process_time()
    out = call()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    print(f"{name:32} {wall:9.1f} s {processor:9.1f} processor s {gigabytes():6.2f} GB at most", flush=True)
    return out


def gigabytes() -> float:
    """Most memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def disagreement(leak: glm.Leakage, figures: np.ndarray, count: int) -> float:
    """Largest relative difference to the singular values of written-out Jacobians, over a sample of rows."""
    order = np.argsort(figures)
    chance = np.random.default_rng(0).choice(leak.n, max(0, count - 2), replace=False)
    width = leak.m + (leak.jacobian.target_width if leak.include_target else 0)
    worst = 0.0
    for row in {int(order[0]), int(order[-1]), *map(int, chance)}:
        J = leak.jacobian.dense(np.array([row], dtype=np.intp))[:, :, :width]
        worst = max(worst, abs(figures[row] / largest_singular_values(J)[0] - 1.0))
    return worst


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sample", type=int, default=8, help="rows whose Jacobian is written out")
    parser.add_argument("--every-reading", action="store_true", help="labels, cells, rows without target, groups too")
    options = parser.parse_args()
    with threadpool_limits(options.threads):
        run(options)


def run(options: argparse.Namespace) -> None:
    """Fit, measure, compare."""
    X, y = mnist(options.data, options.rows)
    begin = time.perf_counter()
    fit = timed("fit", lambda: glm.fit(X, y, glm.Softmax(10, "mean"), 1.0 / len(X), intercept=True))
    print(f"{'':32} {fit.iterations} steps, gradient norm {fit.gradient_norm:.1e}, decrement {fit.decrement:.1e}")
    leak = timed("measure", lambda: glm.measure(fit, X, y, dm.Gaussian(1.0)))
    figures = timed("examples", lambda: leak.examples)
    total = time.perf_counter() - begin
    print(f"{'fit and all η':32} {total:9.1f} s (limit {SECONDS}), {gigabytes():.2f} GB (limit {GIGABYTES:g})")
    print(f"η: lowest {figures.min():.4g}, median {np.median(figures):.4g}, highest {figures.max():.4g}")
    worst = timed("oracle", lambda: disagreement(leak, figures, options.sample))
    print(f"largest relative disagreement with written-out Jacobians: {worst:.1e}", flush=True)
    if options.every_reading:
        timed("labels", lambda: leak.labels)
        known = leak.without_target()
        figures = timed("examples without target", lambda: known.examples)
        print(f"largest relative disagreement: {disagreement(known, figures, options.sample):.1e}", flush=True)
        timed("people of two rows", lambda: leak.group(np.arange(leak.n) // 2))
        timed("dataset", lambda: leak.dataset)
        timed("cells", lambda: leak.cells)


if __name__ == "__main__":
    main()
