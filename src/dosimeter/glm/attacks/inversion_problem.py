"""What an attribute inversion is about: a fitted table, the attribute's possible values, and the refits with each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.attacks.result import Guesses
from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import Refusal
from dosimeter.glm.attacks.changed_refits import full_refit, row_changes, settle_changes, weight_moves
from dosimeter.glm.attacks.refitted_scaler import RescaledChanges, ScalerChange
from dosimeter.glm.attacks.row_changes import RowChanges, row_index
from dosimeter.glm.fitting.fit import fit as refit
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.fitting.training_table import refuse_other_table
from dosimeter.glm.losses.softmax import Softmax
from dosimeter.glm.scalers.scaler import Scaler

FARTHEST = 8
"""Rows on which the error of one Newton step is measured."""
TINY = 1e-300


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
class InversionProblem:
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
    feature: int | None = None
    """The attacked column, if the table itself standardises it: the refits go through mean and deviation."""
    scaler_held: bool = False
    """Whether the table standardises it, but the refits hold mean and deviation fixed: so for softmax."""

    @classmethod
    def of(
        cls, fit: Fit, X: Any, y: Any, candidates: Any, draws: Any, prior: Any, rows: Any, scaled: Any = None
    ) -> InversionProblem:
        """Checked; scaled (d,): the columns that the table itself standardises."""
        X, y = (np.ascontiguousarray(v, dtype=np.float64) for v in (X, y))
        refuse_other_table(fit, X, y)
        values = candidates if isinstance(candidates, Candidates) else Candidates.nominal(candidates)
        truths = values.truths(X)
        b = np.atleast_2d(np.asarray(draws, dtype=np.float64))
        if b.ndim != 2 or b.shape[1] != fit.w.size or not len(b) or not np.isfinite(b).all():
            raise Refusal(
                f"draws must be finite noise of shape (t, {fit.w.size}), one number per weight, not {b.shape}"
            )
        log_prior, feature = _log_prior(prior, truths, values.k), _scaled_feature(fit, X, values, scaled)
        held = feature is not None and isinstance(fit.loss, Softmax)
        index = row_index(rows, len(X))
        return cls(fit, X, y, values, truths, b, log_prior, index, None if held else feature, held)

    @property
    def k(self) -> int:
        return self.candidates.k

    @property
    def columns(self) -> Index:
        return np.array(self.candidates.columns, dtype=np.intp)

    def log_prior_of(self, rows: Index) -> FloatArray:
        """(rows, k)."""
        return self.log_prior[rows] if self.log_prior.ndim == 2 else np.tile(self.log_prior, (len(rows), 1))

    def scaler_change(self, rows: Index) -> ScalerChange | None:
        """Of the attacked column, (rows, k); None if the table does not standardise it."""
        if self.feature is None:
            return None
        old = np.repeat(self.X[rows, self.feature][:, None], self.k, axis=1)
        return ScalerChange.of(self.feature, old, self.candidates.values[:, 0] + np.zeros_like(old), len(self.X))

    @property
    def width(self) -> int:
        """Numbers held for one candidate of one row."""
        w = self.fit.w
        return int(w.size if w.ndim == 1 else 2 * w.shape[1] * w.size)

    def moves(self, rows: Index, exact: bool) -> FloatArray:
        """(rows, k, q), of the weights folded into the fitted table's own standardised columns."""
        fit, k, S = self.fit, self.k, self.columns
        repeated = np.repeat(rows, k)
        shift = (self.candidates.values - self.X[rows[:, None], S][:, None, :]).reshape(len(repeated), len(S))
        changes = row_changes(fit, self.X, repeated, shift @ fit.factor.matrix[S], shift @ fit.w[S], fit.sample_weight)
        scaler = self.scaler_change(rows)
        if scaler is not None and isinstance(changes, RowChanges):
            changes = self._through_scaler(changes, scaler)
        undetermined = changes.definiteness <= 1e-10
        if undetermined.any() and changes.loss.convex and not changes.loss.has_kinks:
            row, which = divmod(int(np.flatnonzero(undetermined)[0]), k)
            raise Refusal(
                f"with candidate {which} in row {rows[row]} the columns would be linearly dependent, so no unique "
                "refit exists: use l2 > 0"
            )

        def refit_change(i: int) -> FloatArray:
            X = self.X.copy()
            X[repeated[i], S] += shift[i]
            return full_refit(fit, X, fit.sample_weight) if scaler is None else self._refit(X, scaler, i)

        c = np.full((len(repeated), fit.w.size), np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            c[~undetermined] = changes.part(np.flatnonzero(~undetermined)).step()
        # Other rows may bend at the new weights, or a candidate may be outside the margins of a link: refit these.
        alone = ~np.isfinite(c).all(axis=1)
        for i in np.flatnonzero(alone):
            c[i] = refit_change(int(i))
        if exact and not fit.loss.quadratic:
            rest = np.flatnonzero(~alone)
            c[rest] = settle_changes(changes.part(rest), c[rest], fit, self.X, lambda i: refit_change(int(rest[i])))
        return weight_moves(fit, c).reshape(len(rows), k, -1)

    def _through_scaler(self, changes: RowChanges, scaler: ScalerChange) -> RowChanges:
        """The same changes with the penalty of the feature, which is on the newly standardised column."""
        fit, f = self.fit, scaler.feature
        unit = np.zeros((len(fit.w), 1))
        unit[f] = 1.0
        stiffness = fit.n * fit.l2 * scaler.growth.ravel()
        return RescaledChanges.over(changes, fit.factor.columns(unit)[:, 0], stiffness, float(fit.w[f]))

    def _refit(self, X: FloatArray, scaler: ScalerChange, i: int) -> FloatArray:
        """(p,) c of a fit from scratch of the newly standardised table, X with the cell of change i."""
        fit, flat = self.fit, scaler.flat
        again = refit(
            flat.restandardise(X, i), fit.y, fit.loss, fit.l2, sample_weight=fit.sample_weight, intercept=True,
            offset=fit.offset,
        )  # fmt: skip
        return np.asarray(np.linalg.solve(fit.factor.matrix, flat.fold_back(again.w, i) - fit.w))

    def newton_error(self, reach: FloatArray) -> str:
        """The error of one Newton step relative to the length of the refit's move, on the rows that move most."""
        farthest = np.sort(self.rows[np.argsort(-reach, kind="stable")[:FARTHEST]])
        step, true = self.moves(farthest, False), self.moves(farthest, True)
        off, length = (np.linalg.norm(v, axis=2).max(axis=1) for v in (step - true, true))
        worst = float(np.max(off / np.maximum(length, TINY)))
        share = f"off by at most {worst:.1g} of their length on the {len(farthest)} farthest rows"
        return f"refits by one Newton step, {share}"

    def result(self, attack: str, guesses: NDArray[np.uint16], method: str) -> Guesses:
        control = np.argmax(self.log_prior_of(self.rows), axis=1)
        return Guesses(attack, guesses, self.truths[self.rows], control, method=method)


def _scaled_feature(fit: Fit, X: FloatArray, candidates: Candidates, scaled: Any) -> int | None:
    if scaled is None:
        return None
    features = Scaler.of(X, scaled, np.eye(X.shape[1])).features
    if not np.isin(candidates.columns, features).any():
        return None
    if len(candidates.columns) > 1:
        raise Refusal("an attribute of several columns, of which the table standardises one, is not attacked here")
    if not fit.intercept:
        raise Refusal("a fitted mean folds into an intercept, but this model has none: fit an intercept")
    return int(candidates.columns[0])


def _log_prior(prior: Any, truths: Index, k: int) -> FloatArray:
    weights = np.bincount(truths, minlength=k).astype(float) if prior is None else np.asarray(prior, dtype=np.float64)
    fits = weights.shape in ((k,), (len(truths), k)) and np.isfinite(weights).all() and not (weights < 0).any()
    if not fits or not weights.any(axis=-1).all():
        raise Refusal(
            f"prior must have a number >= 0 for each of the {k} candidates, not all zero; or one such row per row of X"
        )
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(weights / weights.sum(axis=-1, keepdims=True)))
