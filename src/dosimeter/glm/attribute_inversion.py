"""Attribute inversion: guess one attribute of one row from the released weights, [Hannun21] 6.4, eq. 30 and 31.

The adversary of the white box knows every other cell. For each value that the attribute may have he refits the model
with it; here all refits of all rows are one closed form (docs/attacks.md, 2), exact for the squared loss, one Newton
step with the corrected Hessian for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.attacks.result import Guesses
from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Gaussian, Noise
from dosimeter.core.progress import counted, stage
from dosimeter.glm.fisher import refuse_other_table
from dosimeter.glm.fit import Fit
from dosimeter.glm.inverse_hessian import times
from dosimeter.glm.loss import Logistic, Squared
from dosimeter.glm.membership import full_refit, log_density, one_row, parts, refuse_softmax, row_index, settled

FARTHEST = 8
"""Rows on which the error of one Newton step is measured."""
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Candidates:
    """The values that the attacked attribute may have, in the order in which ties are broken.

    >>> Candidates.nominal([3, 4]).values.tolist()      # the level of column 3, of column 4, the dropped one
    [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    """

    columns: tuple[int, ...]
    """(m,) columns of X that hold the attribute."""
    values: FloatArray
    """(k, m)."""
    nearest: bool = False
    """Whether a row counts as the candidate nearest to it (a grid); a level must be met exactly."""

    @classmethod
    def nominal(cls, columns: int | Sequence[int], dropped: bool = True) -> Candidates:
        """The levels of a nominal attribute: each indicator in turn, then all zero, the level without a column."""
        block = (int(columns),) if np.ndim(columns) == 0 else tuple(int(j) for j in columns)  # type: ignore[arg-type, union-attr]
        levels = np.eye(len(block))
        return cls(block, np.vstack([levels, np.zeros((1, len(block)))]) if dropped else levels)

    @classmethod
    def grid(cls, column: int, values: Any) -> Candidates:
        """Values of a numeric column; each row's truth is the one nearest to it."""
        return cls((int(column),), np.asarray(values, dtype=np.float64)[:, None], nearest=True)

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(self.columns) or not values.size or not np.isfinite(values).all():
            raise Refusal(f"candidates are a finite (k, {len(self.columns)}) array, not of shape {values.shape}")
        if len(np.unique(values, axis=0)) != len(values) or len(set(self.columns)) != len(self.columns):
            raise Refusal("two candidates, or two columns, are the same")
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    @property
    def k(self) -> int:
        """How many."""
        return len(self.values)

    def truths(self, X: FloatArray) -> Index:
        """(n,) number of the candidate that each row of X (n, d) has."""
        if min(self.columns) < 0 or max(self.columns) >= X.shape[1]:
            raise Refusal(f"columns are positions from 0 to {X.shape[1] - 1}, not {self.columns}")
        own = X[:, self.columns]
        best, where = np.full(len(own), np.inf), np.zeros(len(own), dtype=np.intp)
        for c, value in enumerate(self.values):
            distance = np.sum((own - value) ** 2, axis=1)
            closer = distance < best
            best[closer], where[closer] = distance[closer], c
        if not self.nearest and best.any():
            row = int(np.flatnonzero(best)[0])
            raise Refusal(
                f"row {row} has {own[row].tolist()} in columns {list(self.columns)}, none of the {self.k} candidates: "
                "pass nominal(..., dropped=...) as the table is coded, or a grid"
            )
        return where


def white_box(
    fit: Fit,
    X: Any,
    y: Any,
    candidates: Candidates | int | Sequence[int],
    draws: Any,
    *,
    noise: Noise | None = None,
    prior: Any = None,
    rows: Any = None,
    exact: bool = False,
) -> Guesses:
    """Eq. 30: the candidate whose refit is nearest to the release fit.w + draws, (t, p) draws of noise.

    With `noise`, the density that the draws came from, the most probable candidate instead (MAP), the best guess there
    is: it maximises log prior(c) + log p(release - refit(c)); `prior` (k,), or (n, k) with a line for each row, is the
    candidates' frequency in the table if None. `rows` attacks some rows only. `exact` refits losses other than the
    squared to convergence, 4 n p flops and n residuals a candidate and step; without it they take one Newton step, and
    `how` says how far off that is on the rows that move most.
    """
    problem = _Problem.of(fit, X, y, candidates, draws, prior, rows)
    aim = _Aim(problem.draws, noise)
    guesses = np.empty((len(problem.draws), len(problem.rows)), dtype=np.uint16)
    reach = np.empty(len(problem.rows))
    stage("playing the attack")
    for part in counted(list(parts(len(problem.rows), problem.k * max(len(fit.w), aim.width)))):
        delta = problem.moves(problem.rows[part], exact)
        reach[part] = np.linalg.norm(delta, axis=2).max(axis=1)
        guesses[:, part] = aim.guess(delta, problem.log_prior_of(problem.rows[part])).T
    form = "nearest model" if noise is None else f"most probable under {noise}"
    how = "exact refits" if exact or isinstance(fit.loss, Squared) else problem.newton_error(reach)
    return problem.result("white-box inversion", guesses, f"{form}, {how}")


def black_box(
    fit: Fit,
    X: Any,
    y: Any,
    candidates: Candidates | int | Sequence[int],
    draws: Any,
    *,
    prior: Any = None,
    rows: Any = None,
) -> Guesses:
    """Eq. 31: the candidate with the largest prior x P(label | prediction), from predictions of fit.w + draws (t, p).

    Squared loss: a Gaussian about the prediction, of the variance of the training residuals, s² = Σ(w'·x - y)²/(n - p).
    Logistic: P(y | predicted class) by the training confusion matrix; a class that is never predicted says nothing.
    """
    problem = _Problem.of(fit, X, y, candidates, draws, prior, rows)
    score = _gaussian_score if isinstance(fit.loss, Squared) else _confusion_score
    if not isinstance(fit.loss, Squared | Logistic):
        raise CannotMeasure(f"the black box of eq. 31 knows squared and logistic loss, not {fit.loss.name}")
    guesses = np.empty((len(problem.draws), len(problem.rows)), dtype=np.uint16)
    stage("playing the attack")
    for t, draw in counted(list(enumerate(problem.draws))):
        w = fit.w + draw
        margin = times(problem.X, w[:, None])[:, 0]
        S = problem.columns
        rest = margin[problem.rows] - problem.X[problem.rows[:, None], S] @ w[S]
        predicted = rest[:, None] + problem.candidates.values @ w[S]
        likelihood = score(margin, problem.y, predicted, problem.y[problem.rows], len(fit.w))
        guesses[t] = np.argmax(problem.log_prior_of(problem.rows) + likelihood, axis=1)
    return problem.result("black-box inversion", guesses, f"eq. 31, {fit.loss.name}")


def moves(
    fit: Fit, X: Any, y: Any, candidates: Candidates | int | Sequence[int], rows: Any = None, *, exact: bool = False
) -> FloatArray:
    """(rows, k, p) refit - fit.w where a row has each candidate in place of its own value; zero at its own."""
    p = len(fit.w)
    problem = _Problem.of(fit, X, y, candidates, np.zeros((1, p)), None, rows)
    return problem.moves(problem.rows, exact)


@dataclass(frozen=True, eq=False)
class _Problem:
    """What both attacks share: the checked table, the candidates, the draws, the prior, the rows under attack."""

    fit: Fit
    X: FloatArray
    y: FloatArray
    candidates: Candidates
    truths: Index
    draws: FloatArray
    log_prior: FloatArray
    """(k,), or (n, k) where each row has its own."""
    rows: Index

    @classmethod
    def of(cls, fit: Fit, X: Any, y: Any, candidates: Any, draws: Any, prior: Any, rows: Any) -> _Problem:
        refuse_softmax(fit)
        X, y = (np.ascontiguousarray(v, dtype=np.float64) for v in (X, y))
        refuse_other_table(fit, X, y)
        values = candidates if isinstance(candidates, Candidates) else Candidates.nominal(candidates)
        truths = values.truths(X)
        b = np.atleast_2d(np.asarray(draws, dtype=np.float64))
        if b.ndim != 2 or b.shape[1] != len(fit.w) or not len(b) or not np.isfinite(b).all():
            raise Refusal(f"draws are finite noise of shape (t, {len(fit.w)}), one for each weight, not {b.shape}")
        return cls(fit, X, y, values, truths, b, _log_prior(prior, truths, values.k), row_index(rows, len(X)))

    @property
    def k(self) -> int:
        return self.candidates.k

    @property
    def columns(self) -> Index:
        return np.array(self.candidates.columns, dtype=np.intp)

    def log_prior_of(self, rows: Index) -> FloatArray:
        """(rows, k)."""
        return self.log_prior[rows] if self.log_prior.ndim == 2 else np.tile(self.log_prior, (len(rows), 1))

    def moves(self, rows: Index, exact: bool) -> FloatArray:
        """(rows, k, p)."""
        fit, k, S = self.fit, self.k, self.columns
        repeated = np.repeat(rows, k)
        away = (self.candidates.values - self.X[rows[:, None], S][:, None, :]).reshape(len(repeated), len(S))
        changed = one_row(fit, self.X, repeated, away @ fit.factor.matrix[S], away @ fit.w[S], fit.sample_weight)
        if (short := changed.room <= 1e-10).any():
            row, which = divmod(int(np.flatnonzero(short)[0]), k)
            raise Refusal(
                f"with candidate {which} in row {rows[row]} the columns would be linearly dependent: no unique "
                "refit exists; use l2 > 0"
            )
        c = changed.step()
        if exact and not isinstance(fit.loss, Squared):
            c = settled(changed, c, fit, self.X, lambda i: self._refit(int(repeated[i]), away[i]))
        return np.asarray((c @ fit.factor.matrix.T).reshape(len(rows), k, -1))

    def _refit(self, row: int, away: FloatArray) -> FloatArray:
        X = self.X.copy()
        X[row, self.columns] += away
        return full_refit(self.fit, X, self.fit.sample_weight)

    def newton_error(self, reach: FloatArray) -> str:
        """How far one Newton step is from the refit, relative to the refit's own move, where rows move most."""
        far = np.sort(self.rows[np.argsort(-reach, kind="stable")[:FARTHEST]])
        step, true = self.moves(far, False), self.moves(far, True)
        off, length = (np.linalg.norm(v, axis=2).max(axis=1) for v in (step - true, true))
        worst = float(np.max(off / np.maximum(length, TINY)))
        return f"refits by one Newton step, off by at most {worst:.1g} of their length on the {len(far)} farthest rows"

    def result(self, attack: str, guesses: NDArray[np.uint16], how: str) -> Guesses:
        control = np.argmax(self.log_prior_of(self.rows), axis=1)
        return Guesses(attack, guesses, self.truths[self.rows], control, how=how)


@dataclass(frozen=True, eq=False)
class _Aim:
    """From refits to guesses, all draws at once."""

    draws: FloatArray
    noise: Noise | None

    @property
    def linear(self) -> bool:
        """Whether the draws enter through one product: log p is a square."""
        return self.noise is None or type(self.noise) in (Gaussian, CorrelatedGaussian)

    @property
    def width(self) -> int:
        """Numbers held for one candidate of one row."""
        t, p = self.draws.shape
        return int(t if self.linear else t * p)

    def guess(self, delta: FloatArray, log_prior: FloatArray) -> NDArray[np.uint16]:
        """(rows, t) best candidate for refits - w of shape (rows, k, p); the first of equals.

        log_prior (rows, k) counts where the noise is known.
        """
        noise = self.noise
        if noise is None or self.linear:
            rows, k, p = delta.shape
            D, b = delta.reshape(-1, p), self.draws
            if noise is not None:
                D, b = (noise.whiten(v.T).T for v in (D, b))
            # -||b - D||²/2 without its first term, which all candidates share.
            scores = (D @ b.T - 0.5 * np.einsum("np,np->n", D, D)[:, None]).reshape(rows, k, -1)
        else:
            scores = log_density(noise, self.draws - delta[:, :, None, :])
        if noise is not None:
            scores += log_prior[:, :, None]
        return _first_best(scores)


def _first_best(scores: FloatArray) -> NDArray[np.uint16]:
    """(rows, t) argmax over the middle axis: a running comparison is several times faster than argmax over it."""
    best, where = scores[:, 0].copy(), np.zeros((scores.shape[0], scores.shape[2]), dtype=np.uint16)
    for c in range(1, scores.shape[1]):
        better = scores[:, c] > best
        where[better] = c
        np.maximum(best, scores[:, c], out=best)
    return where


def _gaussian_score(margin: FloatArray, y: FloatArray, predicted: FloatArray, target: FloatArray, p: int) -> FloatArray:
    """(rows, k) -(w'·x_c - y)²/2s²."""
    if len(y) <= p:
        raise Refusal(f"{len(y)} rows leave no residual variance beside {p} weights")
    variance = float(np.sum((margin - y) ** 2)) / (len(y) - p)
    return np.asarray(-((predicted - target[:, None]) ** 2) / (2 * variance))


def _confusion_score(
    margin: FloatArray, y: FloatArray, predicted: FloatArray, target: FloatArray, p: int
) -> FloatArray:
    """(rows, k) log P(y | predicted class), columns of the training confusion matrix."""
    if not np.isin(y, (0.0, 1.0)).all():
        raise Refusal("the confusion matrix of eq. 31 needs labels 0 and 1")
    said, label = (margin > 0).astype(int), y.astype(int)
    table = np.bincount(2 * label + said, minlength=4).reshape(2, 2).astype(float)
    share = table / np.where(table.sum(axis=0) > 0, table.sum(axis=0), 1.0)
    share[:, table.sum(axis=0) == 0] = 0.5
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(share)[target.astype(int)[:, None], (predicted > 0).astype(int)])


def _log_prior(prior: Any, truths: Index, k: int) -> FloatArray:
    weights = np.bincount(truths, minlength=k).astype(float) if prior is None else np.asarray(prior, dtype=np.float64)
    fits = weights.shape in ((k,), (len(truths), k)) and np.isfinite(weights).all() and not (weights < 0).any()
    if not fits or not weights.any(axis=-1).all():
        raise Refusal(f"a prior has a number >= 0 for each of the {k} candidates, not all zero, or one line a row")
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(weights / weights.sum(axis=-1, keepdims=True)))
