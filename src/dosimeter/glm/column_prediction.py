"""What everything else in a table already says of a column, without any release: the control beside a figure.

R² of the least-squares regression on all other columns and a constant. Whoever knows everything else guesses the column
with an error of about √(1 - R²) of its standard deviation and needs no weights for it. Least squares sees no relation
that is neither linear nor among the columns it is given; the best guess may be closer still.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import qr, solve_triangular

from dosimeter.core.arrays import FloatArray, Index

RIDGE = 1e-9
"""Of a column's length, on each weight: columns that repeat each other need no rank, and 1 - R² is good to 1e-18."""
SPARE = 10
"""Rows beyond the number of predictors below which nothing is said: any column then looks like the others."""


@dataclass(frozen=True)
class Rest:
    """How much of a column follows from the others."""

    r2: float
    """Between 0 and 1, on these rows."""
    left: float
    """Standard deviation of what is left, over the column's own; √(1 - R²) corrected for the number of predictors."""


def explained(Z: Any, blocks: Sequence[Sequence[int]], own: Sequence[Sequence[int]]) -> list[Rest | None]:
    """How far each block of columns of Z (n, q) follows from the columns outside it; None where the rows are too few.

    own: for each block the positions in Z that are to be explained; the others in it (squares, say) are left out of the
    predictors with them. Of several the one that is explained best counts.

    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(size=(2, 500))
    >>> both = explained(np.column_stack([a, b, a + b]), [[0], [1]], [[0], [1]])
    >>> [one.r2 for one in both]
    [1.0, 1.0]
    >>> explained(np.column_stack([a, b]), [[0]], [[0]])[0].r2 < 0.05
    True
    """
    U, alive = _unit(np.asarray(Z, dtype=np.float64))
    n, q = U.shape
    triangle = qr(np.vstack([U, RIDGE * np.eye(q)]), mode="r", overwrite_a=True)[0][:q]
    inverse = solve_triangular(triangle, np.eye(q))
    out: list[Rest | None] = []
    for block, mine in zip(blocks, own, strict=True):
        group = np.asarray(block, dtype=np.intp)
        predictors = 1 + int(alive.sum()) - int(alive[group].sum())
        at = [k for k, j in enumerate(group) if j in set(mine) and alive[j]]
        if n < predictors + SPARE:
            out.append(None)
        elif not at:
            out.append(Rest(0.0, 1.0))
        else:
            # (UᵀU)⁻¹ has the inverse of the residuals' covariance in its block: the Schur complement.
            rows = inverse[group]
            share = float(np.clip(np.diag(np.linalg.inv(rows @ rows.T))[at], 0.0, 1.0).min())
            share = share if share > 10 * RIDGE**2 else 0.0
            left = min(1.0, float(np.sqrt(share * (n - 1) / (n - predictors))))
            out.append(Rest(1.0 - share, left))
    return out


def guesses_from_the_rest(Z: Any, wanted: Any) -> FloatArray:
    """(n, k) least-squares guesses of wanted (n, k) from Z (n, q): each row by a regression on all the others.

    >>> x = np.arange(1.0, 7.0)[:, None]
    >>> guesses_from_the_rest(x, 2 * x).round(9)[:, 0].tolist()
    [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    """
    T = np.asarray(wanted, dtype=np.float64)
    U, _ = _unit(np.asarray(Z, dtype=np.float64))
    left, sizes, _ = np.linalg.svd(U, full_matrices=False)
    Q = left[:, sizes > 1e-10 * max(float(sizes.max(initial=0.0)), 1e-300)]
    mean = T.mean(axis=0)
    hat = np.minimum(np.sum(Q**2, axis=1) + 1 / len(T), 1.0)[:, None]
    fitted = mean + Q @ (Q.T @ (T - mean))
    # A row that only its own column reaches says nothing about itself: the mean of the others is left.
    alone = 1.0 - hat < 1e-9
    others = (len(T) * mean - T) / max(1, len(T) - 1)
    return np.asarray(np.where(alone, others, (fitted - hat * T) / np.where(alone, 1.0, 1.0 - hat)))


def _unit(Z: FloatArray) -> tuple[FloatArray, Index]:
    """Centred columns of length 1, and which of them vary; those that do not are 0."""
    size = np.abs(Z).max(axis=0, initial=0.0)
    scaled = Z / np.where(size > 0, size, 1.0)
    U = scaled - scaled.mean(axis=0)
    length = np.linalg.norm(U, axis=0)
    alive = length > 1e-12 * np.sqrt(len(Z))
    return np.where(alive, U / np.where(alive, length, 1.0), 0.0), alive
