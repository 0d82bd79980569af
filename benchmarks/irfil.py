"""What IRFIL, its total derivative and the search for equal total figures cost, and what they come to on IWPC.

    python benchmarks/irfil.py --data FOLDER [--threads 1] [--search]

Ratios in one process: the reweighting against as many plain fits with their figures, the total derivative against one
pass of the reweighting and against two passes for every cell of the table (central differences, which it replaces).
--search adds finite differences through the whole search for some patients (minutes).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import dosimeter as dm
from dosimeter import glm
from dosimeter.datasets.papers import cifar_planes_and_cars, iwpc, mnist_zeros_and_ones
from dosimeter.glm.reweighting.irfil import irfil, unevenness
from dosimeter.glm.reweighting.reweighted_leakage import equalise, total_leakage
from dosimeter.reproductions import hannun21

ONE = dm.Gaussian(1.0)
VKORC1 = [11, 12]
L2 = 0.01


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and the answer."""
    start = time.perf_counter()
    answer = call()
    return time.perf_counter() - start, answer


def cost(name: str, X: np.ndarray, y: np.ndarray, loss: Any, l2: float, rounds: int, columns: Any = None) -> None:
    """One line of the table of costs."""
    plain, _ = timed(lambda: glm.measure(glm.fit(X, y, loss, l2), X, y, ONE).examples)
    once, told = timed(lambda: irfil(X, y, loss, l2, rounds=rounds, columns=columns, tolerance=0.0))
    back, honest = timed(lambda: total_leakage(told, X, y, ONE))
    differences = 2 * X.size * once / back
    ratio = honest.ratio
    print(
        f"{name:22} {X.shape!s:>12} {rounds:3d} {once:7.2f} s {once / plain / (rounds + 1):6.1f}x {back:7.2f} s "
        f"{back / once:6.1f}x {differences:10.0f}x {told.unevenness:9.1e} {ratio.min():6.2f} {ratio.max():6.2f}",
        flush=True,
    )


def by_rounds(X: np.ndarray, y: np.ndarray, columns: Any) -> None:
    """Reported and total figures after T reweightings."""
    print(f"\n{len(X)} patients, columns {columns}: reported and total η after T reweightings")
    print(f"{'T':>3} {'mean':>8} {'max/min':>9} | {'mean':>8} {'std':>8} {'highest':>8} {'max/min':>8} {'ratio':>12}")
    for rounds in (0, 1, 2, 3, 5, 10, 20, 60):
        told = irfil(X, y, glm.Squared(), L2, rounds=rounds, columns=columns, tolerance=0.0)
        honest = total_leakage(told, X, y, ONE)
        u, ratio = honest.units, honest.ratio
        print(
            f"{rounds:3d} {told.eta.mean():8.5f} {told.unevenness + 1:9.3g} | {u.mean():8.5f} {u.std(ddof=1):8.5f} "
            f"{u.max():8.5f} {unevenness(u) + 1:8.3g} {ratio.min():5.2f}-{ratio.max():.2f}",
            flush=True,
        )


def searches(X: np.ndarray, y: np.ndarray, columns: Any) -> None:
    """How even the total figure becomes, and in how many steps."""
    print(f"\nequal total figures, {len(X)} patients, columns {columns}: unevenness after 0, 4, 8, 12, 20, 30 steps")
    for rounds in (1, 2, 3, 4, 10):
        for damping in (0.5, 0.7, 1.0):
            spent, found = timed(
                lambda r=rounds, d=damping: equalise(
                    X, y, glm.Squared(), L2, rounds=r, damping=d, columns=columns, steps=30, tolerance=1e-12
                )
            )
            uneven = found.history[:, 2] / found.history[:, 3] - 1
            shown = " ".join(f"{uneven[k]:8.1e}" for k in (0, 4, 8, 12, 20, 30) if k < len(uneven))
            print(
                f"rounds {rounds:2d} damping {damping:.1f}: {shown}   η {found.eta.mean():.5f}   {spent:.1f} s",
                flush=True,
            )


def through_the_search(X: np.ndarray, y: np.ndarray, columns: list[int], people: int) -> None:
    """Finite differences of everything, the search for the targets included, against the figure that leaves it out."""

    def weights(X: np.ndarray) -> np.ndarray:
        found = equalise(X, y, glm.Squared(), L2, columns=columns, steps=12, tolerance=0.0)
        return found.reweighting.fit.w

    found = equalise(X, y, glm.Squared(), L2, columns=columns, steps=12, tolerance=0.0)
    print(f"\nthrough the search too (12 steps, unevenness {found.unevenness:.1e}): total/claimed of {people} patients")
    ratios = []
    for i in np.random.default_rng(1).choice(len(X), people, replace=False):
        J = []
        for j in columns:
            up, down = X.copy(), X.copy()
            up[i, j] += 1e-4
            down[i, j] -= 1e-4
            J.append((weights(up) - weights(down)) / 2e-4)
        ratios.append(np.linalg.norm(J, 2) / found.eta[i])
        print(f"{ratios[-1]:.2f}", end=" ", flush=True)
    print(f"\nfrom {min(ratios):.2f} to {max(ratios):.2f}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the papers' data")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--search", action="store_true", help="finite differences through the search (minutes)")
    parser.add_argument("--people", type=int, default=12)
    asked = parser.parse_args()
    _, X, y = iwpc(asked.data)
    rows = np.load(asked.data.parent / "golden" / "fil" / "iwpc.npz")["train_rows"]
    X, y = X[rows], y[rows]
    some = np.random.default_rng(0).choice(len(X), 1000, replace=False)
    with threadpool_limits(asked.threads):
        print(
            "                             shape   T   irfil  per fit   total   per irfil  differences   uneven  ratio"
        )
        cost("iwpc, vkorc1", X, y, glm.Squared(), L2, 10, VKORC1)
        cost("iwpc, whole row", X, y, glm.Squared(), L2, 10)
        for name, load, l2 in (("mnist", mnist_zeros_and_ones, 8e-4), ("cifar", cifar_planes_and_cars, 8e-5)):
            split = hannun21.in_principal_components(load(asked.data))
            cost(f"{name}, linear", split.X, hannun21.targets(split.y, True), glm.Squared(), 0.0, 15)
            cost(f"{name}, logistic", split.X, hannun21.targets(split.y, False), glm.Logistic(), l2, 15)
        for columns in (VKORC1, None):
            by_rounds(X[some], y[some], columns)
        for columns in (VKORC1, None):
            searches(X[some], y[some], columns)
        if asked.search:
            through_the_search(X[some], y[some], VKORC1, asked.people)


if __name__ == "__main__":
    main()
