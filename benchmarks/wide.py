"""Sparse and wide tables: seconds and peak memory of the fit and of every row's figure.

    python benchmarks/wide.py [--large] [--classes K]

2,000 x 20,000 goes by the n x n dual, with exact figures; --large adds 20,000 x 100,000, by iterations with bounds.
--classes K measures softmax of K classes on the same tables instead, with rows of length one.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from scipy import sparse

from dosimeter import Gaussian, glm


def words(n: int, d: int, per_row: int, seed: int = 0) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Counts of words, frequent ones first, and a class that depends on fifty of them."""
    rng = np.random.default_rng(seed)
    share = 1.0 / (1.0 + np.arange(d))
    columns = rng.choice(d, size=n * per_row, p=share / share.sum())
    rows = np.repeat(np.arange(n), per_row)
    X = sparse.csr_matrix((np.ones(n * per_row), (rows, columns)), shape=(n, d))
    weights = np.zeros(d)
    weights[rng.choice(200, 50, replace=False)] = rng.normal(size=50)
    margin = X @ weights
    y = (rng.random(n) < 1 / (1 + np.exp(-(margin - margin.mean())))).astype(float)
    return X, y


def classes_of(X: sparse.csr_matrix, classes: int, seed: int = 1) -> np.ndarray:
    """A class of each row that depends on the frequent words."""
    rng = np.random.default_rng(seed)
    margins = X[:, :400] @ rng.normal(size=(400, classes))
    margins = 1.5 * (margins - margins.mean(axis=0)) / margins.std()
    return (margins + rng.gumbel(size=margins.shape)).argmax(axis=1).astype(float)


def run(n: int, d: int, classes: int = 2) -> None:
    X, y = words(n, d, 100)
    loss: glm.Logistic | glm.Softmax = glm.Logistic()
    if classes > 2:
        loss, y = glm.Softmax(classes, "mean"), classes_of(X, classes)
        X = sparse.csr_matrix(sparse.diags_array(1.0 / np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())) @ X)
    start, cpu = time.perf_counter(), time.process_time()
    fit = glm.fit(X, y, loss, 1.0 / n, intercept=True)
    fitted = time.perf_counter()
    leak = glm.measure(fit, X, y, Gaussian(0.1))
    eta = leak.examples
    end = time.perf_counter()
    lower, upper = leak.bracket
    with np.errstate(invalid="ignore", divide="ignore"):
        width = float(np.nanmax(upper / lower - 1.0))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{n:7,} x {d:7,}  {fit.route.value:9s} fit {fitted - start:6.1f} s, all rows {end - fitted:6.1f} s, processor "
        f"{time.process_time() - cpu:6.1f} s, peak {peak:.2f} GB, highest {eta.max():.3g}, {leak.standing.value}, "
        f"bracket {width:.1%}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--classes", type=int, default=2)
    options = parser.parse_args()
    run(2_000, 20_000, options.classes)
    if options.large:
        run(20_000, 100_000, options.classes)


if __name__ == "__main__":
    main()
