"""What noise at the sites costs in accuracy: R² of least squares from second moments, over ten draws.

python benchmarks/site_noise.py

Three sites. "once" is one draw of the same mechanism on the joint second moment, by a trusted coordinator; "sites" is a
draw at each site. Rows are drawn from a linear model with eight columns within their bounds; R² on 20,000 fresh rows.
"""

from __future__ import annotations

import numpy as np

from dosimeter.models.moment_study import moment_regression
from dosimeter.pca.bounds import Bounds
from dosimeter.pca.distributed import join, noisy_moment
from dosimeter.pca.mechanisms import AnalyticGaussian

SITES, COLUMNS, DRAWS, DELTA = 3, 8, 10, 1e-6
BOUNDS = Bounds(np.full(COLUMNS + 1, -1.0), np.full(COLUMNS + 1, 1.0))
WEIGHTS = np.linspace(-0.25, 0.25, COLUMNS)


def rows(n: int, rng: np.random.Generator) -> np.ndarray:
    X = rng.uniform(-1, 1, (n, COLUMNS))
    y = X @ WEIGHTS + 0.05 + rng.normal(0, 0.15, n)
    return np.column_stack([X, np.clip(y, -1, 1)])


def r2(parts: list[np.ndarray], mechanism: AnalyticGaussian, test: np.ndarray, rng: np.random.Generator) -> float:
    messages = [
        noisy_moment(part, mechanism, bounds=BOUNDS, person=range(len(part)), rng=rng)
        for part in parts
    ]  # fmt: skip
    shares = np.array([m.n_samples for m in messages]) / sum(m.n_samples for m in messages)
    mean = shares @ np.array([m.release.values["mean"] for m in messages])
    joined = join(messages)
    w, b, _ = moment_regression(
        joined.second_moment, mean, COLUMNS, 1e-6, float(np.sqrt(joined.variances.max()))
    )  # fmt: skip
    X, y = test[:, :-1], test[:, -1]
    return 1 - float(np.mean((y - X @ w - b) ** 2) / np.var(y))


def main() -> None:
    print("patients a site | ε | once | sites")
    for n in (500, 5_000, 50_000):
        for epsilon in (1.0, 4.0):
            scores: dict[str, list[float]] = {"once": [], "sites": []}
            for seed in range(DRAWS):
                rng = np.random.default_rng(seed)
                parts, test = [rows(n, rng) for _ in range(SITES)], rows(20_000, rng)
                mechanism = AnalyticGaussian(epsilon, DELTA, mean_share=0.1)
                scores["once"].append(r2([np.vstack(parts)], mechanism, test, rng))
                scores["sites"].append(r2(parts, mechanism, test, rng))
            shown = " | ".join(f"{np.mean(s):.3f} ± {np.std(s, ddof=1):.3f}" for s in scores.values())
            print(f"{n:,} | {epsilon:g} | {shown}")
    full = rows(200_000, np.random.default_rng(99))
    w = np.linalg.lstsq(np.column_stack([full[:, :-1], np.ones(len(full))]), full[:, -1], rcond=None)[0]
    left = full[:, -1] - full[:, :-1] @ w[:-1] - w[-1]
    print(f"without noise: {1 - np.var(left) / np.var(full[:, -1]):.3f}")


if __name__ == "__main__":
    main()
