"""White-box attribute inversion: guess one attribute of one row from the released weights, [Hannun21] eq. 30.

The adversary knows every other cell and refits the model with each possible value of the attribute. Here all refits of
all rows are one closed form (docs/explanation/attacks.md, 2): exact for the squared loss, one Newton step with the
corrected Hessian for the others. `prediction_inversion` has the black box.
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
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Gaussian, Noise
from dosimeter.core.progress import stage, track
from dosimeter.glm.attacked_attribute import AttackedAttribute, Candidates
from dosimeter.glm.changed_refits import full_refit, row_changes, settle_changes, weight_moves
from dosimeter.glm.fit import Fit
from dosimeter.glm.membership import log_density
from dosimeter.glm.row_changes import parts

FARTHEST = 8
"""Rows on which the error of one Newton step is measured."""
TINY = 1e-300


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
    draws : array_like of shape (t, q)
        Noise draws, one row per release: a number per weight, those of softmax one contrast after another
        (`fit.w.T.ravel()`).
    noise : Noise, optional
        The density of the draws. With it the guess is the most probable candidate (MAP), the best possible: it
        maximises log prior(c) + log p(release - refit(c)).
    prior : array_like of shape (k,) or (n, k), optional
        Weights of the candidates, for all rows or per row. Default: their frequency in the table.
    rows : array_like of int, optional
        Rows to attack; default: all.
    exact : bool, default False
        Refit losses other than the squared to convergence, at 4 n q flops and n residuals per candidate and step. By
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
        If the noise has no density.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[0.0, 1.0], [1.0, 2.0], [0.0, 3.0], [1.0, 1.0]]), np.array([1.0, 3.0, 3.5, 1.0])
    >>> white_box(glm.fit(X, y, glm.Squared()), X, y, 0, np.zeros((1, 2))).figure      # without noise
    1.0
    """
    attacked = AttackedAttribute.of(fit, X, y, candidates, draws, prior, rows)
    refits, guesser = _Refits(attacked), _Guesser(attacked.draws, noise)
    guesses = np.empty((len(attacked.draws), len(attacked.rows)), dtype=np.uint16)
    reach = np.empty(len(attacked.rows))
    stage("playing the attack")
    for part in track(list(parts(len(attacked.rows), attacked.k * max(refits.width, guesser.width)))):
        delta = refits.moves(attacked.rows[part], exact)
        reach[part] = np.linalg.norm(delta, axis=2).max(axis=1)
        guesses[:, part] = guesser.guess(delta, attacked.log_prior_of(attacked.rows[part])).T
    form = "nearest model" if noise is None else f"most probable under {noise}"
    how = "exact refits" if exact or fit.loss.quadratic else refits.newton_error(reach)
    return attacked.result("white-box inversion", guesses, f"{form}, {how}")


def moves(
    fit: Fit, X: Any, y: Any, candidates: Candidates | int | Sequence[int], rows: Any = None, *, exact: bool = False
) -> FloatArray:
    """(rows, k, q) refit - fit.w if a row had each candidate instead of its own value; zero at its own."""
    attacked = AttackedAttribute.of(fit, X, y, candidates, np.zeros((1, fit.w.size)), None, rows)
    return _Refits(attacked).moves(attacked.rows, exact)


@dataclass(frozen=True, eq=False)
class _Refits:
    """The fits with each candidate in the place of a row's own value."""

    attacked: AttackedAttribute

    @property
    def width(self) -> int:
        """Numbers held for one candidate of one row."""
        fit = self.attacked.fit
        return int(fit.w.size if fit.w.ndim == 1 else 2 * fit.w.shape[1] * fit.w.size)

    def moves(self, rows: Index, exact: bool) -> FloatArray:
        """(rows, k, q)."""
        attacked = self.attacked
        fit, X, k, S = attacked.fit, attacked.X, attacked.k, attacked.columns
        repeated = np.repeat(rows, k)
        shift = (attacked.candidates.values - X[rows[:, None], S][:, None, :]).reshape(len(repeated), len(S))
        changes = row_changes(fit, X, repeated, shift @ fit.factor.matrix[S], shift @ fit.w[S], fit.sample_weight)
        undetermined = changes.definiteness <= 1e-10
        if undetermined.any() and fit.loss.convex and not fit.loss.has_kinks:
            row, which = divmod(int(np.flatnonzero(undetermined)[0]), k)
            raise Refusal(
                f"with candidate {which} in row {rows[row]} the columns would be linearly dependent, so no unique "
                "refit exists: use l2 > 0"
            )
        c = np.full((len(repeated), fit.w.size), np.nan)
        c[~undetermined] = changes.part(np.flatnonzero(~undetermined)).step()

        def refit(i: int) -> FloatArray:
            return self._refit(int(repeated[i]), shift[i])

        # A candidate outside the margins of a link, or where the loss does not bend upwards.
        alone = ~np.isfinite(c).all(axis=1)
        for i in np.flatnonzero(alone):
            c[i] = refit(int(i))
        if exact and not fit.loss.quadratic:
            rest = np.flatnonzero(~alone)
            c[rest] = settle_changes(changes.part(rest), c[rest], fit, X, lambda i: refit(int(rest[i])))
        return weight_moves(fit, c).reshape(len(rows), k, -1)

    def _refit(self, row: int, shift: FloatArray) -> FloatArray:
        X = self.attacked.X.copy()
        X[row, self.attacked.columns] += shift
        return full_refit(self.attacked.fit, X, self.attacked.fit.sample_weight)

    def newton_error(self, reach: FloatArray) -> str:
        """The error of one Newton step relative to the length of the refit's move, on the rows that move most."""
        farthest = np.sort(self.attacked.rows[np.argsort(-reach, kind="stable")[:FARTHEST]])
        step, true = self.moves(farthest, False), self.moves(farthest, True)
        off, length = (np.linalg.norm(v, axis=2).max(axis=1) for v in (step - true, true))
        worst = float(np.max(off / np.maximum(length, TINY)))
        share = f"off by at most {worst:.1g} of their length on the {len(farthest)} farthest rows"
        return f"refits by one Newton step, {share}"


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
