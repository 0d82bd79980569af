"""What every η costs, in units of one matrix product: ratios in one process, minima of several runs, same threads.

    python benchmarks/fisher.py [--threads 1] [--runs 5] [--quick | --small]

Given the fit, `glm.measure(...).examples` (the checks of the table included) against X @ H⁻¹ of the same size with its
output allocated in advance; `cells` likewise; `dataset` against one Gram product; all η against dense batched SVD; peak
extra memory against the table; and how the cost grows with n and with d.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

import dosimeter as dm
from dosimeter import glm

NOISE = dm.Gaussian(1.0)


class Limit(NamedTuple):
    """What the readings of all rows may cost in matrix products, and of the whole table in Gram matrices."""

    examples: float
    dataset: float


# At 20 columns the cost is that of numpy's calls, not of arithmetic: docs/decisions/005.
LIMITS = {
    (12665, 20): Limit(20, 4),
    (30162, 86): Limit(3, 2),
    (1_000_000, 50): Limit(4, 2),
    (100_000, 200): Limit(2, 2),
}


def problem(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, glm.Fit]:
    """A logistic model of a table with mildly correlated columns."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X[:, 1:] += 0.3 * X[:, :-1]
    y = (rng.random(n) < 1 / (1 + np.exp(-X @ rng.standard_normal(d) / np.sqrt(d)))).astype(float)
    return X, y, glm.fit(X, y, glm.Logistic(), 1e-3)


def best(runs: int, *calls: Callable[[], object]) -> list[float]:
    """Least seconds of each call; the calls take turns, so that a noisy machine disturbs all alike."""
    least = [np.inf] * len(calls)
    for _ in range(runs):
        for k, call in enumerate(calls):
            start = time.perf_counter()
            call()
            least[k] = min(least[k], time.perf_counter() - start)
    return least


def dense_svd(fit: glm.Fit, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The plain way: write every Jacobian out and take its singular values."""
    inverse = fit.factor.matrix @ fit.factor.matrix.T
    a, r = fit.loss.curvature(fit.margin, y), fit.loss.residual(fit.margin, y)
    out = np.empty(len(X))
    for i in range(0, len(X), 256):
        s = slice(i, i + 256)
        u = X[s] @ inverse
        J = np.concatenate([(a[s, None] * u)[:, :, None] * fit.w + r[s, None, None] * inverse, -u[:, :, None]], axis=2)
        out[s] = np.linalg.svd(J, compute_uv=False)[:, 0]
    return out


HEADING = ("n", "d", "product", "examples", "limit", "cells", "gram", "dataset", "limit", "memory", "memory")
"""Memory is the peak beside the table: of the examples, and of the dataset."""


def sizes(runs: int, most: float) -> None:
    """The sizes of at most so many numbers against their limits."""
    print(" ".join(f"{word:>9}" for word in HEADING))
    for (n, d), limit in LIMITS.items():
        if n * d <= most:
            one_size(n, d, limit, runs)


def one_size(n: int, d: int, limit: Limit, runs: int) -> None:
    """A line: seconds of the products, ratios of the readings, peak extra memory."""
    X, y, fit = problem(n, d)
    inverse, out = fit.factor.matrix @ fit.factor.matrix.T, np.empty((n, d))

    def examples() -> object:
        return glm.measure(fit, X, y, NOISE).examples

    def dataset() -> object:
        return glm.measure(fit, X, y, NOISE).dataset

    product, gram, cells, rows, whole = best(
        runs if n * d > 1_000_000 else 6 * runs,  # a millisecond is soon disturbed
        lambda: np.matmul(X, inverse, out=out),
        lambda: X.T @ X,
        lambda: glm.measure(fit, X, y, NOISE).cells,
        examples,
        dataset,
    )
    ratios = f"{rows / product:8.2f}x {limit.examples:8.0f}x {cells / product:8.2f}x"
    grams = f"{gram * 1e3:7.2f}ms {whole / gram:8.2f}x {limit.dataset:8.0f}x"
    peaks = " ".join(f"{peak(reading) / X.nbytes:8.2f}x" for reading in (examples, dataset))
    print(f"{n:9d} {d:9d} {product * 1e3:7.2f}ms {ratios} {grams} {peaks}", flush=True)


def peak(call: Callable[[], object]) -> int:
    """Most bytes held during a call."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    call()
    most = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return most


def against_svd() -> None:
    """All η against dense batched SVD at (30162, 86); the SVD is timed on 1,500 rows and scaled."""
    X, y, fit = problem(30162, 86)
    leak = glm.measure(fit, X, y, NOISE)
    rows = slice(0, 1500)
    start = time.perf_counter()
    some = dense_svd(_part(fit, rows), X[rows], y[rows])
    slow = (time.perf_counter() - start) * len(X) / 1500
    (fast,) = best(5, lambda: glm.measure(fit, X, y, NOISE).examples)
    worst = np.max(np.abs(some / leak.examples[rows] - 1))
    print(
        f"\ndense batched SVD at (30162, 86): {slow:.1f} s, ours {fast * 1e3:.0f} ms: {slow / fast:.0f}x; "
        f"they agree to {worst:.0e}"
    )


def _part(fit: glm.Fit, rows: slice) -> glm.Fit:
    return replace(fit, margin=fit.margin[rows])


def growth(runs: int) -> None:
    """How the cost grows: microseconds a row."""
    print(
        "\ngrowth, microseconds a row (examples, with checks)\n"
        + f"{'':>9}"
        + "".join(f"{f'd = {d}':>10}" for d in (10, 25, 50, 100, 200))
    )
    for n in (2_000, 8_000, 32_000):
        cells = []
        for d in (10, 25, 50, 100, 200):
            X, y, fit = problem(n, d)
            (t,) = best(runs, lambda X=X, y=y, fit=fit: glm.measure(fit, X, y, NOISE).examples)
            cells.append(f"{t / n * 1e6:10.2f}")
        print(f"{f'n = {n}':>9}" + "".join(cells), flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="leave out the large tables")
    parser.add_argument("--small", action="store_true", help="the smallest table alone, for several fresh processes")
    asked = parser.parse_args()
    with threadpool_limits(asked.threads):
        print(
            f"threads {asked.threads}, least of {asked.runs} runs; "
            "ratios to one product (examples, cells) or one Gram (dataset)"
        )
        sizes(asked.runs, 300_000 if asked.small else 3_000_000 if asked.quick else np.inf)
        if asked.small:
            return
        against_svd()
        growth(max(2, asked.runs // 2))


if __name__ == "__main__":
    main()
