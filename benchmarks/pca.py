"""What components and the attack on them cost: ratios in one process, MNIST 70,000 x 784.

    python benchmarks/pca.py --data ../shared/data [--threads 1] [--runs 3]

Second moment and eigenvectors against scikit-learn's PCA(svd_solver="covariance_eigh"); the attack for every k with
35,000 members and 35,000 strangers against one product X @ V of that size; memory against the data. Each figure is the
least of several runs, both sides with the same threads. Memory is numpy's own, counted by tracemalloc.
"""

from __future__ import annotations

import argparse
import gzip
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.linalg
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from dosimeter import pca
from dosimeter.pca.null_distribution import midranks


def seconds(calls: dict[str, Callable[[], object]], runs: int) -> dict[str, float]:
    """Least of several runs of each, taken in turns: a slow moment of the machine then hits all of them."""
    least = dict.fromkeys(calls, np.inf)
    for _ in range(runs):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            least[name] = min(least[name], time.perf_counter() - start)
    return least


def peak(call: Callable[[], object], X: np.ndarray) -> float:
    """Most memory held at once, the data included, in units of the data."""
    tracemalloc.start()
    call()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return 1 + most / X.nbytes


def mnist(data: Path) -> np.ndarray:
    """(70000, 784) pixels, standardised; constant ones left 0."""
    parts = [gzip.decompress((data / "mnist" / f"{p}-images-idx3-ubyte.gz").read_bytes()) for p in ("train", "t10k")]
    X = np.concatenate([np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 784) for raw in parts]).astype(float)
    deviation = X.std(axis=0)
    X -= X.mean(axis=0)
    X /= np.where(deviation == 0, 1.0, deviation)
    return X


def line(name: str, ours: float, peer: float, limit: float) -> None:
    """One ratio beside its limit."""
    print(f"  {name:58} {ours:6.2f} s / {peer:6.2f} s = {ours / peer:5.2f}   limit {limit}")


def fit(X: np.ndarray, runs: int) -> None:
    """Against the peer, and which driver of LAPACK."""
    peer = PCA(svd_solver="covariance_eigh")
    spent = seconds({"peer": lambda: peer.fit(X), "ours": lambda: pca.components_of(X)}, runs)
    ours = pca.components_of(X)
    apart = np.abs(ours.values - np.sort(peer.explained_variance_)[::-1] * (len(X) - 1) / len(X)).max()
    line("components / PCA(covariance_eigh).fit", spent["ours"], spent["peer"], 1.2)
    print(
        f"  eigenvalues agree to {apart / ours.values[0]:.0e} of the largest; "
        f"memory {peak(lambda: pca.components_of(X), X):.2f} x data, limit 2"
    )
    A = pca.second_moment(X)
    for name in ("numpy", "evd", "evr", "ev"):
        call = (lambda: np.linalg.eigh(A)) if name == "numpy" else (lambda name=name: scipy.linalg.eigh(A, driver=name))
        values, V = call()
        off, left = np.abs(V.T @ V - np.eye(len(A))).max(), np.abs(A @ V - V * values).max() / values.max()
        least = seconds({name: call}, runs)[name]
        print(f"  eigh {name:6} {least * 1e3:7.0f} ms, off orthonormal {off:.0e}, residual {left:.0e}")


def attack(X: np.ndarray, runs: int, threads: int) -> None:
    """Every k, half of the rows members."""
    members, strangers = X[:35_000], X[35_000:]
    found = pca.components_of(members)
    whole = lambda: pca.auc_by_components(found, members, strangers, workers=threads)  # noqa: E731
    spent = seconds({"product": lambda: X @ found.vectors, "attack": whole}, runs)
    line(f"attack for k = 1..{found.rank} / one product X @ V", spent["attack"], spent["product"], 4)
    print(f"  memory {peak(whole, X):.2f} x data, limit 2")
    row = (X @ found.vectors[:, 3]) ** 2
    keys = {"midranks": lambda: midranks(row), "sort 64": lambda: np.sort(row), "argsort": lambda: np.argsort(row)}
    keys["sort 32"] = lambda: np.sort(row.astype(np.float32))
    print("  a column: " + ", ".join(f"{k} {v * 1e3:.2f} ms" for k, v in seconds(keys, 5 * runs).items()))
    rng = np.random.default_rng(0)
    full = seconds({"": lambda: pca.attack(found, members, strangers, rng)}, 1)[""]
    print(f"  attack with 199 deals of the null band and a held-out k: {full:.1f} s")


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    X = mnist(asked.data)
    print(f"MNIST {X.shape[0]} x {X.shape[1]}, {asked.threads} thread(s), least of {asked.runs} runs")
    with threadpool_limits(asked.threads):
        fit(X, asked.runs)
        attack(X, asked.runs, asked.threads)


if __name__ == "__main__":
    main()
