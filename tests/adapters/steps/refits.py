"""The oracle of every step: the final estimator is fitted again on the frozen steps of a table with one cell moved."""

from __future__ import annotations

from inspect import signature
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import KBinsDiscretizer

Array = NDArray[Any]
RNG = np.random.default_rng(77)
N = 60
AGE = RNG.normal(50, 12, N)
FRAME = pd.DataFrame(
    {
        "age": AGE,
        "bmi": RNG.normal(27, 4, N),
        "dose": RNG.lognormal(0.5, 0.6, N),
        "share": RNG.uniform(0.05, 0.95, N),
        "visits": RNG.integers(0, 7, N).astype(float),
        "smokes": RNG.choice([0.0, 1.0], N),
        "town": RNG.choice(["graz", "linz", "ulm", "wien"], N),
        "sex": RNG.choice(["f", "m"], N),
    },
    index=RNG.permutation(N) + 300,
)
Y = AGE / 12 + FRAME["dose"].to_numpy() + (FRAME["town"] == "ulm").to_numpy() + RNG.normal(size=N)
ILL = (np.median(Y) < Y).astype(int)
QUANTILES: dict[str, Any] = (
    {"quantile_method": "averaged_inverted_cdf"} if "quantile_method" in signature(KBinsDiscretizer).parameters else {}
)
"""scikit-learn 1.7 and later warn about bins by quantiles without it."""
MODELS: dict[str, Any] = {
    "ridge": Ridge(alpha=1.3),
    "logistic": LogisticRegression(C=0.4, solver="newton-cholesky", tol=1e-13, max_iter=300),
}


def target(name: str) -> Array:
    return Y if name == "ridge" else ILL


def fit_pipeline(steps: Any, final: str, frame: pd.DataFrame) -> Pipeline:
    """The steps, fitted on the frame and frozen, before a model that is fitted on their `transform`."""
    before = clone(steps).fit(frame, target(final))
    model = clone(MODELS[final]).fit(before.transform(frame), target(final))
    return Pipeline([("steps", before), ("model", model)])


def dense(matrix: Any) -> Array:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=float)


def weights(pipeline: Pipeline, X: Array, y: Array) -> Array:
    model = clone(pipeline[-1]).fit(X, y)
    return np.append(np.ravel(model.coef_), model.intercept_)


def moved_cell(frame: pd.DataFrame, row: int, column: str, value: Any) -> pd.DataFrame:
    other = frame.copy()
    other.iloc[row, other.columns.get_loc(column)] = value
    return other


def refit_slope(pipeline: Pipeline, frame: pd.DataFrame, y: Array, row: int, column: str, h: float) -> Array:
    """d weights / d cell, by refits at four points."""
    at = float(frame[column].iloc[row])

    def move(t: float) -> Array:
        return weights(pipeline, dense(pipeline[:-1].transform(moved_cell(frame, row, column, at + t))), y)

    return np.asarray((8 * (move(h) - move(-h)) - (move(2 * h) - move(-2 * h))) / (12 * h))


def design_slope(pipeline: Pipeline, X: Array, y: Array, row: int, dx: Array) -> Array:
    """d weights along a move dx of one row of the design, by refits at four points."""
    h = 1e-3 / max(1.0, float(np.abs(dx).max()))

    def move(t: float) -> Array:
        other = X.copy()
        other[row] += t * dx
        return weights(pipeline, other, y)

    return np.asarray((8 * (move(h) - move(-h)) - (move(2 * h) - move(-2 * h))) / (12 * h))


def largest_step(pipeline: Pipeline, frame: pd.DataFrame, y: Array, row: int, column: str, cells: list[Any]) -> float:
    """The largest move of the linearised weights as one cell goes from one of `cells` to another."""
    X = dense(pipeline[:-1].transform(frame))
    at = [dense(pipeline[:-1].transform(moved_cell(frame, row, column, cell)))[row] for cell in cells]
    moves = [b - a for a, b in combinations(at, 2)]
    return max(float(np.linalg.norm(design_slope(pipeline, X, y, row, dx))) for dx in moves)
