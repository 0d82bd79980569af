"""What shaped noise buys: highest and typical η at the same expected excess loss, on the papers' tables.

    python benchmarks/shape.py [--data DIR] [--rows 1500]

First the figures of one convention, expected excess loss ½ tr(HΣ) = ½, highest over 1,500 rows drawn with seed 0 from a
fit on all of them; then the frontier over all rows, from that loss to the loss of σ = 1.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

import dosimeter as dm
from dosimeter import glm
from dosimeter.datasets.papers import iwpc, mnist_zeros_and_ones
from dosimeter.glm.releases.calibrate import DoseAtScale
from dosimeter.glm.releases.shape_calibration import frontier
from dosimeter.glm.releases.shaped_noise import design, expected_excess_loss, shape_noise
from dosimeter.reproductions.hannun21 import in_principal_components, targets

ROOT = Path(__file__).resolve().parents[1]


def tables(data: Path) -> dict[str, tuple[np.ndarray, np.ndarray, float]]:
    """Name -> X, y, l2."""
    images = in_principal_components(mnist_zeros_and_ones(data))
    _, X, dose = iwpc(data)
    return {
        "MNIST 0/1": (images.X, targets(images.y, signed=True), 0.0),
        "IWPC 1e-3": (X, dose, 1e-3),
        "IWPC 1e-2": (X, dose, 1e-2),
    }


def drawn(n: int, rows: int) -> np.ndarray:
    """The rows over which the highest is taken."""
    return np.random.default_rng(0).choice(n, min(rows, n), replace=False)


def convention(name: str, X: np.ndarray, y: np.ndarray, l2: float, rows: int) -> str:
    """One line: without the extra term at loss ½, then with it at the loss of σ = 1."""
    fit = glm.fit(X, y, glm.Squared(), l2)
    some = drawn(len(X), rows)
    highest = DoseAtScale("highest drawn row", lambda leak: float(leak.examples[some].max()))
    flat, sharp = (shape_noise(fit, X, y, excess_loss=0.5, p=p) for p in (0.0, 1.0))
    one = dm.Gaussian(1.0)
    at_one = glm.measure(fit, X, y, one).examples[some].max()
    with_term = highest(shape_noise(fit, X, y, excess_loss=expected_excess_loss(fit, one)).leakage)
    a, b, floor = highest(flat.frozen), highest(sharp.frozen), highest(sharp.floor)
    return (
        f"{name:10s} {a:8.2f} {b:8.2f} {a / b:6.2f} {floor:10.4f} {at_one:10.4f} {with_term:8.4f} "
        f"{at_one / with_term:6.2f}"
    )


def lines(name: str, X: np.ndarray, y: np.ndarray, l2: float) -> None:
    """The frontier of one table, and the convex design as a limit at its first loss."""
    fit = glm.fit(X, y, glm.Squared(), l2)
    losses = np.geomspace(0.5, expected_excess_loss(fit, dm.Gaussian(1.0)), 4)
    for point in frontier(fit, X, y, losses.tolist()):
        print(
            f"{name:10s} {point.excess_loss:10.4g} {point.shape:16s} {point.p:6.3f} {point.highest:9.4f} "
            f"{point.typical:9.4f} {point.frozen:9.4f} {point.floor:9.4f}",
            flush=True,
        )
    found = design(fit, X, y, excess_loss=0.5)
    print(
        f"{name:10s} {0.5:10.4g} design, public table only: highest {found.highest:.4f}, "
        f"none below {found.bound:.4f} ({found.steps} steps)",
        flush=True,
    )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("DOSIMETER_DATA", ROOT.parent / "shared/data"))
    )
    parser.add_argument("--rows", type=int, default=1500)
    options = parser.parse_args()
    every = tables(options.data)
    print(f"highest η of {options.rows} rows; at loss ½ the covariance regarded as public, at σ = 1 with its own part")
    print("table        σ²I, ½   H⁻¹, ½   gain      floor   σ = 1     H⁻¹ there   gain")
    for name, (X, y, l2) in every.items():
        print(convention(name, X, y, l2, options.rows), flush=True)
    print("\nall rows, the covariance's own part included")
    print("table            loss shape                 p   highest   typical   frozen     floor")
    for name, (X, y, l2) in every.items():
        lines(name, X, y, l2)


if __name__ == "__main__":
    main()
