"""How well a column follows from the rest of the table, without any release: the control beside a figure.

R² of the least-squares regression on all other columns and a constant, corrected for their number: with few rows for
each of them even noise follows from noise. An attacker who knows everything else guesses the column with an error of
about √(1 - R²) of its standard deviation and needs no weights for it. Least squares only finds linear relations among
the given columns; the best guess may be closer still.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import qr, solve_triangular

from dosimeter.core.arrays import FloatArray, Index

RIDGE = 1e-9
"""Relative to a column's length, on each weight: repeated columns need no rank, and 1 - R² is good to 1e-18."""
SPARE = 10
"""Rows beyond the number of predictors below which nothing is reported: any column then resembles the others."""


@dataclass(frozen=True)
class ColumnPrediction:
    """How well a column follows from the others."""

    r2: float
    """R² corrected for the number of predictors: 1 - (residual share)², between 0 and 1."""
    residual_share: float
    """Standard deviation of the residual over the column's, with a row less for each predictor; at most 1."""


def explain_columns(
    Z: Any, blocks: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]
) -> list[ColumnPrediction | None]:
    """How well each block of columns of Z (n, q) follows from the columns outside it; None if there are too few rows.

    own: for each block the positions in Z to explain; the others in the block (squares, say) are left out of the
    predictors with them. Of several positions the one that is explained best counts.

    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(size=(2, 500))
    >>> both = explain_columns(np.column_stack([a, b, a + b]), [[0], [1]], [[0], [1]])
    >>> [column.r2 for column in both]
    [1.0, 1.0]
    >>> explain_columns(np.column_stack([a, b]), [[0]], [[0]])[0].r2 < 0.05
    True
    """
    U, alive = _unit_columns(np.asarray(Z, dtype=np.float64))
    n, q = U.shape
    triangle = qr(np.vstack([U, RIDGE * np.eye(q)]), mode="r", overwrite_a=True)[0][:q]
    inverse = solve_triangular(triangle, np.eye(q))
    out: list[ColumnPrediction | None] = []
    for block, wanted_here in zip(blocks, wanted, strict=True):
        group = np.asarray(block, dtype=np.intp)
        predictors = 1 + int(alive.sum()) - int(alive[group].sum())
        positions = [k for k, j in enumerate(group) if j in set(wanted_here) and alive[j]]
        if n < predictors + SPARE:
            out.append(None)
        elif not positions:
            out.append(ColumnPrediction(0.0, 1.0))
        else:
            # (UᵀU)⁻¹ has the inverse of the residuals' covariance in its block: the Schur complement.
            # By a triangle of its root: the product of 1/RIDGE with itself is singular in float64.
            root = qr(inverse[group].T, mode="r")[0][: len(group)]
            left_over = np.sum(solve_triangular(root, np.eye(len(group))) ** 2, axis=1)
            share = float(np.clip(left_over[positions], 0.0, 1.0).min())
            share = share if share > 10 * RIDGE**2 else 0.0
            left = min(1.0, share * (n - 1) / (n - predictors))
            out.append(ColumnPrediction(1.0 - left, float(np.sqrt(left))))
    return out


def predict_from_other_columns(Z: Any, wanted: Any) -> FloatArray:
    """(n, k) least-squares guesses of wanted (n, k) from Z (n, q): each row by a regression on all the other rows.

    >>> x = np.arange(1.0, 7.0)[:, None]
    >>> predict_from_other_columns(x, 2 * x).round(9)[:, 0].tolist()
    [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    """
    T = np.asarray(wanted, dtype=np.float64)
    U, _ = _unit_columns(np.asarray(Z, dtype=np.float64))
    left, sizes, _ = np.linalg.svd(U, full_matrices=False)
    Q = left[:, sizes > 1e-10 * max(float(sizes.max(initial=0.0)), 1e-300)]
    mean = T.mean(axis=0)
    hat = np.minimum(np.sum(Q**2, axis=1) + 1 / len(T), 1.0)[:, None]
    fitted = mean + Q @ (Q.T @ (T - mean))
    # A row with a direction of its own is not predicted by the others: use their mean.
    alone = 1.0 - hat < 1e-9
    others = (len(T) * mean - T) / max(1, len(T) - 1)
    return np.asarray(np.where(alone, others, (fitted - hat * T) / np.where(alone, 1.0, 1.0 - hat)))


def _unit_columns(Z: FloatArray) -> tuple[FloatArray, Index]:
    """Centred columns of length 1, and which of them vary; those that do not are 0."""
    size = np.abs(Z).max(axis=0, initial=0.0)
    scaled = Z / np.where(size > 0, size, 1.0)
    U = scaled - scaled.mean(axis=0)
    length = np.linalg.norm(U, axis=0)
    alive = length > 1e-12 * np.sqrt(len(Z))
    return np.where(alive, U / np.where(alive, length, 1.0), 0.0), alive
