"""Digits of η against sixty: ours, and an explicit inverse of the normal equations in float64 and float32.

    python benchmarks/precision.py [--tables 10]

Unregularised least squares, 20 rows, 5 columns, singular values from 1 down to 1/κ.
"""

from __future__ import annotations

import argparse

import mpmath as mp
import numpy as np

import dosimeter as dm
from dosimeter import glm


def exact(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(n,) η at σ = 1 in sixty digits."""
    out = []
    with mp.workdps(60):
        A, b = mp.matrix(X.tolist()), mp.matrix(y.tolist())
        inverse = (A.T * A) ** -1
        w = inverse * (A.T * b)
        for i in range(len(X)):
            x = A[i, :].T
            J, u = inverse * (x * w.T + ((w.T * x)[0] - b[i]) * mp.eye(X.shape[1])), inverse * x
            out.append(float(mp.sqrt(max(mp.eigsy(J * J.T + u * u.T, eigvals_only=True)))))
    return np.array(out)


def explicit(X: np.ndarray, y: np.ndarray, kind: type) -> np.ndarray:
    """(n,) η from an explicit inverse of XᵀX in the given precision."""
    X, y = X.astype(kind), y.astype(kind)
    try:
        inverse = np.linalg.inv(X.T @ X)
    except np.linalg.LinAlgError:  # singular in this precision: the route has no answer
        return np.full(len(X), np.nan)
    w = inverse @ (X.T @ y)
    r = X @ w - y
    out = []
    for x, e in zip(X, r, strict=True):
        J = np.column_stack([inverse @ (np.outer(x, w) + e * np.eye(len(w), dtype=kind)), inverse @ x])
        out.append(float(np.linalg.norm(J, 2)))
    return np.array(out)


def line(decades: int, tables: int) -> str:
    """One condition number."""
    rng = np.random.default_rng(decades)
    worst, double, single = 0.0, [], []
    for _ in range(tables):
        U, _, V = np.linalg.svd(rng.standard_normal((20, 5)), full_matrices=False)
        X, y = (U * np.logspace(0, -decades, 5)) @ V, rng.standard_normal(20)
        truth = exact(X, y)
        ours = glm.measure(glm.fit(X, y, glm.Squared()), X, y, dm.Gaussian(1.0)).examples
        worst = max(worst, float(np.abs(ours / truth - 1).max()))
        double.append(explicit(X, y, np.float64) / truth)
        single.append(explicit(X, y, np.float32) / truth)
    shown = [f"{np.nanmedian(k):9.2g} {np.nanmin(k):9.2g}" for k in (double, single)]
    return f"1e{decades:<4d} {worst:10.1e}   {shown[0]}   {shown[1]}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=10)
    tables = parser.parse_args().tables
    print("reported/true        ours      float64 inverse         float32 inverse")
    print("κ       largest error      median    lowest      median    lowest")
    for decades in (2, 4, 6, 8, 10, 12, 13):
        print(line(decades, tables), flush=True)


if __name__ == "__main__":
    main()
