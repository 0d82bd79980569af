"""The attacked attribute: its possible values, its prior, and the rows and releases that an inversion plays on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.attacks.result import Guesses
from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import Refusal
from dosimeter.glm.fisher import refuse_other_table
from dosimeter.glm.fit import Fit


@dataclass(frozen=True, eq=False)
class Candidates:
    """The possible values of the attacked attribute, in the order in which ties are broken.

    Parameters
    ----------
    columns : tuple of int
        Columns of X that hold the attribute, m of them.
    values : array_like of shape (k, m)
        The candidates.
    nearest : bool, default False
        Whether a row's true candidate is the nearest one (a grid). By default it must match exactly (a level).

    Raises
    ------
    Refusal
        If candidates or columns repeat, or the shape is wrong.

    Examples
    --------
    >>> Candidates.nominal([3, 4]).values.tolist()      # the level of column 3, of column 4, the dropped one
    [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    """

    columns: tuple[int, ...]
    """(m,) columns of X that hold the attribute."""
    values: FloatArray
    """(k, m)."""
    nearest: bool = False
    """Whether a row's true candidate is the nearest one (a grid); a level must match exactly."""

    @classmethod
    def nominal(cls, columns: int | Sequence[int], dropped: bool = True) -> Candidates:
        """The levels of a category: each indicator in turn, then all zeros, the level without a column."""
        block = (int(columns),) if np.ndim(columns) == 0 else tuple(int(j) for j in columns)  # type: ignore[arg-type, union-attr]
        levels = np.eye(len(block))
        return cls(block, np.vstack([levels, np.zeros((1, len(block)))]) if dropped else levels)

    @classmethod
    def grid(cls, column: int, values: Any) -> Candidates:
        """Values of a numeric column; each row's true candidate is the nearest."""
        return cls((int(column),), np.asarray(values, dtype=np.float64)[:, None], nearest=True)

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(self.columns) or not values.size or not np.isfinite(values).all():
            raise Refusal(f"candidates must be a finite (k, {len(self.columns)}) array, not of shape {values.shape}")
        if len(np.unique(values, axis=0)) != len(values) or len(set(self.columns)) != len(self.columns):
            raise Refusal("two candidates, or two columns, are the same: name each once")
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    @property
    def k(self) -> int:
        """Number of candidates."""
        return len(self.values)

    def truths(self, X: FloatArray) -> Index:
        """(n,) index of each row's true candidate, for X (n, d)."""
        if min(self.columns) < 0 or max(self.columns) >= X.shape[1]:
            raise Refusal(f"columns must be positions from 0 to {X.shape[1] - 1}, not {self.columns}")
        held = X[:, self.columns]
        best, nearest = np.full(len(held), np.inf), np.zeros(len(held), dtype=np.intp)
        for c, value in enumerate(self.values):
            distance = np.sum((held - value) ** 2, axis=1)
            closer = distance < best
            best[closer], nearest[closer] = distance[closer], c
        if not self.nearest and best.any():
            row = int(np.flatnonzero(best)[0])
            raise Refusal(
                f"row {row} has {held[row].tolist()} in columns {list(self.columns)}, none of the {self.k} candidates: "
                "use nominal(..., dropped=...) as the table is coded, or a grid"
            )
        return nearest


@dataclass(frozen=True, eq=False)
class AttackedAttribute:
    """What both attacks share: the checked table, the candidates, the draws, the prior, the attacked rows."""

    fit: Fit
    X: FloatArray
    y: FloatArray
    candidates: Candidates
    truths: Index
    draws: FloatArray
    """(t, q) noise on the weights; those of softmax one contrast after another."""
    log_prior: FloatArray
    """(k,), or (n, k) if each row has its own."""
    rows: Index

    @classmethod
    def of(cls, fit: Fit, X: Any, y: Any, candidates: Any, draws: Any, prior: Any, rows: Any) -> AttackedAttribute:
        """From unchecked arguments."""
        X, y = (np.ascontiguousarray(v, dtype=np.float64) for v in (X, y))
        refuse_other_table(fit, X, y)
        values = candidates if isinstance(candidates, Candidates) else Candidates.nominal(candidates)
        truths = values.truths(X)
        b = np.atleast_2d(np.asarray(draws, dtype=np.float64))
        if b.ndim != 2 or b.shape[1] != fit.w.size or not len(b) or not np.isfinite(b).all():
            raise Refusal(
                f"draws must be finite noise of shape (t, {fit.w.size}), one number per weight, not {b.shape}"
            )
        return cls(fit, X, y, values, truths, b, _log_prior(prior, truths, values.k), row_index(rows, len(X)))

    @property
    def k(self) -> int:
        """Number of candidates."""
        return self.candidates.k

    @property
    def columns(self) -> Index:
        """(m,) the attribute's columns of X."""
        return np.array(self.candidates.columns, dtype=np.intp)

    def log_prior_of(self, rows: Index) -> FloatArray:
        """(rows, k)."""
        return self.log_prior[rows] if self.log_prior.ndim == 2 else np.tile(self.log_prior, (len(rows), 1))

    def result(self, attack: str, guesses: NDArray[np.uint16], method: str) -> Guesses:
        """The guesses beside the likeliest candidate by the prior."""
        control = np.argmax(self.log_prior_of(self.rows), axis=1)
        return Guesses(attack, guesses, self.truths[self.rows], control, method=method)


def row_index(rows: Any, n: int) -> Index:
    """(k,) positions of the chosen rows, in the order given; all if None."""
    if rows is None:
        return np.arange(n, dtype=np.intp)
    index = np.atleast_1d(np.asarray(rows))
    if index.dtype.kind not in "iu" or not len(index) or index.min() < 0 or index.max() >= n:
        raise Refusal(f"rows must be positions from 0 to {n - 1}")
    return index.astype(np.intp)


def _log_prior(prior: Any, truths: Index, k: int) -> FloatArray:
    weights = np.bincount(truths, minlength=k).astype(float) if prior is None else np.asarray(prior, dtype=np.float64)
    fits = weights.shape in ((k,), (len(truths), k)) and np.isfinite(weights).all() and not (weights < 0).any()
    if not fits or not weights.any(axis=-1).all():
        raise Refusal(
            f"prior must have a number >= 0 for each of the {k} candidates, not all zero; or one such row per row of X"
        )
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(weights / weights.sum(axis=-1, keepdims=True)))
