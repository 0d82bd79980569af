"""The tables that the verbs are timed on: Adult as a CSV with its own columns, and a large table of numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dosimeter.datasets.papers import data_file

ADULT = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip


def write_adult(data: Path, path: Path) -> None:
    """The 30,162 complete training rows of Adult, with a heading."""
    lines = data_file(data, "adult", "adult.data").read_text(encoding="utf-8").splitlines()
    rows = [",".join(cell.strip() for cell in line.split(",")) for line in lines if "," in line and "?" not in line]
    path.write_text("\n".join([",".join(ADULT), *rows]) + "\n", encoding="utf-8")


def write_numbers(n: int, d: int, path: Path, seed: int = 0) -> None:
    """A table of n rows and d columns of numbers with six digits, and a target of two classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X[:, 1:] += 0.3 * X[:, :-1]
    y = rng.random(n) < 1 / (1 + np.exp(-X @ rng.standard_normal(d) / np.sqrt(d)))
    with path.open("w", encoding="utf-8") as handle:
        handle.write(",".join([*(f"x{k}" for k in range(d)), "y"]) + "\n")
        for i in range(0, n, 10_000):
            part = np.column_stack([X[i : i + 10_000], y[i : i + 10_000]])
            np.savetxt(handle, part, fmt=[*["%.6g"] * d, "%d"], delimiter=",")
