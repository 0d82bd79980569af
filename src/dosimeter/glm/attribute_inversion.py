"""Attribute inversion: guess one attribute of one row from the released weights, [Hannun21] 6.4, eq. 30 and 31.

The white-box adversary knows every other cell and refits the model with each possible value of the attribute. Here all
refits of all rows are one closed form (docs/explanation/attacks.md, 2): exact for the squared loss, one Newton step
with the corrected Hessian for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.attacks.result import Guesses
from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Gaussian, Noise
from dosimeter.core.progress import stage, track
from dosimeter.glm.fisher import refuse_other_table
from dosimeter.glm.fit import Fit
from dosimeter.glm.inverse_hessian import times
from dosimeter.glm.loss import Logistic, Squared
from dosimeter.glm.membership import (
    full_refit,
    log_density,
    parts,
    refuse_softmax,
    row_changes,
    row_index,
    settle_changes,
)

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
    """White-box attribute inversion, eq. 30 of [Hannun21]: the candidate whose refit is nearest to the release.

    Parameters
    ----------
    fit : Fit
        The exact fit; the attacked releases are fit.w + draws.
    X, y : array_like of shape (n, d) and (n,)
        The training table.
    candidates : Candidates or int or sequence of int
        The possible values, or the indicator columns of a category.
    draws : array_like of shape (t, p)
        Noise draws, one row per release.
    noise : Noise, optional
        The density of the draws. With it the guess is the most probable candidate (MAP), the best possible: it
        maximises log prior(c) + log p(release - refit(c)).
    prior : array_like of shape (k,) or (n, k), optional
        Weights of the candidates, for all rows or per row. Default: their frequency in the table.
    rows : array_like of int, optional
        Rows to attack; default: all.
    exact : bool, default False
        Refit losses other than the squared to convergence, at 4 n p flops and n residuals per candidate and step. By
        default they take one Newton step, and `method` of the result states the error on the rows that move most.

    Returns
    -------
    Guesses
        One guess per release and row; the control is the likeliest candidate by the prior. Internal.

    Raises
    ------
    Refusal
        If candidates, draws or prior do not fit, or a refit does not exist.
    CannotMeasure
        For softmax.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[0.0, 1.0], [1.0, 2.0], [0.0, 3.0], [1.0, 1.0]]), np.array([1.0, 3.0, 3.5, 1.0])
    >>> white_box(glm.fit(X, y, glm.Squared()), X, y, 0, np.zeros((1, 2))).figure      # without noise
    1.0
    """
    problem = _Problem.of(fit, X, y, candidates, draws, prior, rows)
    guesser = _Guesser(problem.draws, noise)
    guesses = np.empty((len(problem.draws), len(problem.rows)), dtype=np.uint16)
    reach = np.empty(len(problem.rows))
    stage("playing the attack")
    for part in track(list(parts(len(problem.rows), problem.k * max(len(fit.w), guesser.width)))):
        delta = problem.moves(problem.rows[part], exact)
        reach[part] = np.linalg.norm(delta, axis=2).max(axis=1)
        guesses[:, part] = guesser.guess(delta, problem.log_prior_of(problem.rows[part])).T
    form = "nearest model" if noise is None else f"most probable under {noise}"
    refits = "exact refits" if exact or fit.loss.quadratic else problem.newton_error(reach)
    return problem.result("white-box inversion", guesses, f"{form}, {refits}")


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
    """Black-box attribute inversion, eq. 31 of [Hannun21]: the largest prior × P(target | prediction).

    Parameters
    ----------
    fit : Fit
        The exact fit; predictions are those of fit.w + draws.
    X, y : array_like of shape (n, d) and (n,)
        The training table.
    candidates : Candidates or int or sequence of int
        The possible values, or the indicator columns of a category.
    draws : array_like of shape (t, p)
        Noise draws, one row per release.
    prior : array_like of shape (k,) or (n, k), optional
        Weights of the candidates; default: their frequency in the table.
    rows : array_like of int, optional
        Rows to attack; default: all.

    Returns
    -------
    Guesses
        One guess per release and row. Internal.

    Raises
    ------
    CannotMeasure
        For losses other than squared and logistic.

    Notes
    -----
    Squared loss: a Gaussian about the prediction with the variance of the training residuals, s² = Σ(w'·x - y)²/(n -
    p). Logistic: P(y | predicted class) from the training confusion matrix; a class that is never predicted says
    nothing.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[0.0, 1.0], [1.0, 2.0], [0.0, 3.0], [1.0, 1.0]]), np.array([1.0, 3.0, 3.5, 1.0])
    >>> 0 <= black_box(glm.fit(X, y, glm.Squared()), X, y, 0, np.zeros((1, 2))).figure <= 1
    True
    """
    problem = _Problem.of(fit, X, y, candidates, draws, prior, rows)
    if type(fit.loss) not in _LIKELIHOODS:
        known = " and ".join(kind.name for kind in _LIKELIHOODS)
        raise CannotMeasure(f"the black box of eq. 31 is for {known} loss, not {fit.loss.name}")
    score = _LIKELIHOODS[type(fit.loss)]
    guesses = np.empty((len(problem.draws), len(problem.rows)), dtype=np.uint16)
    stage("playing the attack")
    for t, draw in track(list(enumerate(problem.draws))):
        w = fit.w + draw
        margin = times(problem.X, w[:, None])[:, 0] + (0.0 if fit.offset is None else fit.offset)
        S = problem.columns
        rest = margin[problem.rows] - problem.X[problem.rows[:, None], S] @ w[S]
        predicted = rest[:, None] + problem.candidates.values @ w[S]
        likelihood = score(margin, problem.y, predicted, problem.y[problem.rows], len(fit.w))
        guesses[t] = np.argmax(problem.log_prior_of(problem.rows) + likelihood, axis=1)
    return problem.result("black-box inversion", guesses, f"eq. 31, {fit.loss.name}")


def moves(
    fit: Fit, X: Any, y: Any, candidates: Candidates | int | Sequence[int], rows: Any = None, *, exact: bool = False
) -> FloatArray:
    """(rows, k, p) refit - fit.w if a row had each candidate instead of its own value; zero at its own."""
    p = len(fit.w)
    problem = _Problem.of(fit, X, y, candidates, np.zeros((1, p)), None, rows)
    return problem.moves(problem.rows, exact)


@dataclass(frozen=True, eq=False)
class _Problem:
    """What both attacks share: the checked table, the candidates, the draws, the prior, the attacked rows."""

    fit: Fit
    X: FloatArray
    y: FloatArray
    candidates: Candidates
    truths: Index
    draws: FloatArray
    log_prior: FloatArray
    """(k,), or (n, k) if each row has its own."""
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
            raise Refusal(
                f"draws must be finite noise of shape (t, {len(fit.w)}), one number per weight, not {b.shape}"
            )
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
        shift = (self.candidates.values - self.X[rows[:, None], S][:, None, :]).reshape(len(repeated), len(S))
        changes = row_changes(fit, self.X, repeated, shift @ fit.factor.matrix[S], shift @ fit.w[S], fit.sample_weight)
        undetermined = changes.determinant_ratio <= 1e-10
        if undetermined.any() and changes.loss.convex and not changes.loss.has_kinks:
            row, which = divmod(int(np.flatnonzero(undetermined)[0]), k)
            raise Refusal(
                f"with candidate {which} in row {rows[row]} the columns would be linearly dependent, so no unique "
                "refit exists: use l2 > 0"
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            c = changes.step()
        # Other rows may bend at the new weights, or a candidate may be outside the margins of a link: refit these.
        for i in np.flatnonzero(undetermined | ~np.isfinite(c).all(axis=1)):
            c[i] = self._refit(int(repeated[i]), shift[i])
        if exact and not fit.loss.quadratic:
            c = settle_changes(changes, c, fit, self.X, lambda i: self._refit(int(repeated[i]), shift[i]))
        return np.asarray((c @ fit.factor.matrix.T).reshape(len(rows), k, -1))

    def _refit(self, row: int, shift: FloatArray) -> FloatArray:
        X = self.X.copy()
        X[row, self.columns] += shift
        return full_refit(self.fit, X, self.fit.sample_weight)

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


@dataclass(frozen=True, eq=False)
class _Guesser:
    """From refits to guesses, for all draws at once."""

    draws: FloatArray
    noise: Noise | None

    @property
    def linear(self) -> bool:
        """Whether the draws enter through one product: log p is then a square."""
        return self.noise is None or type(self.noise) in (Gaussian, CorrelatedGaussian)

    @property
    def width(self) -> int:
        """Numbers held for one candidate of one row."""
        t, p = self.draws.shape
        return int(t if self.linear else t * p)

    def guess(self, delta: FloatArray, log_prior: FloatArray) -> NDArray[np.uint16]:
        """(rows, t) best candidate for refits - w of shape (rows, k, p); the first of equals.

        log_prior (rows, k) is used if the noise is known.
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
    """(rows, t) argmax over the middle axis: a running comparison is several times faster than np.argmax."""
    best, winner = scores[:, 0].copy(), np.zeros((scores.shape[0], scores.shape[2]), dtype=np.uint16)
    for c in range(1, scores.shape[1]):
        better = scores[:, c] > best
        winner[better] = c
        np.maximum(best, scores[:, c], out=best)
    return winner


def _gaussian_score(margin: FloatArray, y: FloatArray, predicted: FloatArray, target: FloatArray, p: int) -> FloatArray:
    """(rows, k) -(w'·x_c - y)²/2s²."""
    if len(y) <= p:
        raise Refusal(f"{len(y)} rows leave no residual variance for {p} weights: use more rows")
    variance = float(np.sum((margin - y) ** 2)) / (len(y) - p)
    return np.asarray(-((predicted - target[:, None]) ** 2) / (2 * variance))


def _confusion_score(
    margin: FloatArray, y: FloatArray, predicted: FloatArray, target: FloatArray, p: int
) -> FloatArray:
    """(rows, k) log P(y | predicted class), columns of the training confusion matrix."""
    if not np.isin(y, (0.0, 1.0)).all():
        raise Refusal("the confusion matrix of eq. 31 needs targets 0 and 1")
    predicted_class, true_class = (margin > 0).astype(int), y.astype(int)
    table = np.bincount(2 * true_class + predicted_class, minlength=4).reshape(2, 2).astype(float)
    share = table / np.where(table.sum(axis=0) > 0, table.sum(axis=0), 1.0)
    share[:, table.sum(axis=0) == 0] = 0.5
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(share)[target.astype(int)[:, None], (predicted > 0).astype(int)])


_LIKELIHOODS: dict[Any, Callable[[FloatArray, FloatArray, FloatArray, FloatArray, int], FloatArray]] = {
    Squared: _gaussian_score,
    Logistic: _confusion_score,
}
"""P(target | prediction) of eq. 31, by the class of the loss."""


def _log_prior(prior: Any, truths: Index, k: int) -> FloatArray:
    weights = np.bincount(truths, minlength=k).astype(float) if prior is None else np.asarray(prior, dtype=np.float64)
    fits = weights.shape in ((k,), (len(truths), k)) and np.isfinite(weights).all() and not (weights < 0).any()
    if not fits or not weights.any(axis=-1).all():
        raise Refusal(
            f"prior must have a number >= 0 for each of the {k} candidates, not all zero; or one such row per row of X"
        )
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(weights / weights.sum(axis=-1, keepdims=True)))
