"""What the attacks cost against refitting: ratios in one process, the peer's time scaled up from some of its refits.

    python benchmarks/attacks.py --data ../shared/data [--threads 1] [--refits 300]

White box on every warfarin patient (three candidates each) against scikit-learn's Ridge, one refit per candidate; every
row of Adult with 100 draws of noise; membership of every row; what an exact refit of a classifier costs a candidate.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits

import dosimeter as dm
from dosimeter import glm
from dosimeter.datasets.papers import adult, iwpc
from dosimeter.glm.attacks.attribute_inversion import moves, white_box
from dosimeter.glm.attacks.membership import membership, removal


def seconds(call: Callable[[], object], runs: int = 3) -> float:
    """Least of several runs."""
    least = np.inf
    for _ in range(runs):
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return float(least)


def ridge(X: np.ndarray, y: np.ndarray, l2: float, columns: list[int], sample: int) -> tuple[float, float]:
    """Seconds of one refit by scikit-learn, and how far its weights are from ours."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(X), sample)
    values = np.vstack([np.eye(len(columns)), np.zeros(len(columns))])
    picked = rng.integers(0, len(values), sample)
    model, table, found = Ridge(alpha=len(X) * l2, fit_intercept=False), X.copy(), np.empty((sample, X.shape[1]))
    start = time.perf_counter()
    for k, (row, c) in enumerate(zip(rows, picked, strict=True)):
        own = table[row, columns].copy()
        table[row, columns] = values[c]
        found[k] = model.fit(table, y).coef_
        table[row, columns] = own
    spent = (time.perf_counter() - start) / sample
    fit = glm.fit(X, y, glm.Squared(), l2)
    ours = fit.w + moves(fit, X, y, columns, rows)[np.arange(sample), picked]
    return spent, float(np.abs(ours - found).max())


def warfarin(data: Path, sample: int) -> None:
    """The ratio that must be at least 100."""
    _, X, y = iwpc(data)
    X, y = X[:3855], y[:3855]
    columns, l2 = [11, 12], 0.01
    one, apart = ridge(X, y, l2, columns, sample)
    peer = one * 3 * len(X)
    draws = 1e-3 * np.random.default_rng(1).standard_normal((100, 14))
    fit = glm.fit(X, y, glm.Squared(), l2)
    refits = seconds(lambda: moves(fit, X, y, columns))
    attack = seconds(lambda: white_box(fit, X, y, columns, draws))
    print(f"IWPC {len(X)} x 14, 3 candidates a row; Ridge refit {one * 1e3:.2f} ms, all {peer:.1f} s ({sample} timed)")
    print(f"  our refits            {refits * 1e3:8.1f} ms  {peer / refits:8.0f}x   (weights agree to {apart:.0e})")
    print(f"  attack, 100 releases  {attack * 1e3:8.1f} ms  {peer / attack:8.0f}x   limit 100x")


def census(data: Path) -> None:
    """All rows of Adult."""
    split = adult(data)[1]
    X, draws = split.X, 1e-3 * np.random.default_rng(1).standard_normal((100, 86))
    for loss, y in ((glm.Squared(), 2 * split.y - 1), (glm.Logistic(), split.y)):
        fit = glm.fit(X, y, loss, 1e-3)
        nearest = seconds(lambda fit=fit, y=y: white_box(fit, X, y, [24], draws), 2)
        likely = seconds(lambda fit=fit, y=y: white_box(fit, X, y, [24], draws, noise=dm.Gaussian(1e-3)), 2)
        print(f"Adult {len(X)} x 86 {loss.name}, 100 releases: nearest {nearest:.2f} s, MAP {likely:.2f} s, limit 30 s")
        if isinstance(loss, glm.Squared):
            print(f"  membership of every row {seconds(lambda: membership(fit, X, y, dm.Gaussian(1.0)), 2):.2f} s")  # noqa: B023
            continue
        some = np.arange(0, len(X), len(X) // 256)[:256]
        out = seconds(lambda: removal(fit, X, y, some), 1) / len(some)  # noqa: B023
        swap = seconds(lambda: moves(fit, X, y, [24], some, exact=True), 1) / (2 * len(some))  # noqa: B023
        weight = np.ones(len(X))
        weight[0] = 0
        alone = seconds(lambda: glm.fit(X, y, loss, 1e-3, sample_weight=weight, start=fit.w), 2)  # noqa: B023
        print(
            f"  exact removal {out * 1e3:.2f} ms a row ({out * len(X):.0f} s for all), "
            f"exact candidate {swap * 1e3:.2f} ms, warm refit {alone * 1e3:.0f} ms: {alone / out:.0f}x"
        )


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--refits", type=int, default=300)
    asked = parser.parse_args()
    with threadpool_limits(asked.threads):
        warfarin(asked.data, asked.refits)
        census(asked.data)


if __name__ == "__main__":
    main()
