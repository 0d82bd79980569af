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
from dosimeter.core.arrays import FloatArray
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.noise import Gaussian, Noise
from dosimeter.core.progress import stage, track
from dosimeter.glm.attacks.inversion_problem import Candidates, InversionProblem
from dosimeter.glm.attacks.membership import log_density
from dosimeter.glm.attacks.refitted_scaler import ScalerChange
from dosimeter.glm.attacks.row_changes import parts
from dosimeter.glm.fitting.minimiser import Fit


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
    scaled: Any = None,
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
    scaled : array_like of bool of shape (d,), optional
        Columns that were standardised by the table itself. The attacked releases are then the weights folded into raw
        units, and if the attacked column is one of them, each candidate is refitted with its own mean and deviation.
        For softmax both are held fixed, and `method` says so.

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
    problem = InversionProblem.of(fit, X, y, candidates, draws, prior, rows, scaled)
    guesser = _Guesser(problem.draws, noise, problem.feature)
    guesses = np.empty((len(problem.draws), len(problem.rows)), dtype=np.uint16)
    reach = np.empty(len(problem.rows))
    stage("playing the attack")
    for part in track(list(parts(len(problem.rows), problem.k * max(problem.width, guesser.width)))):
        attacked = problem.rows[part]
        delta, scaler = problem.moves(attacked, exact), problem.scaler_change(attacked)
        reach[part] = np.linalg.norm(delta, axis=2).max(axis=1)
        guesses[:, part] = guesser.guess(delta, problem.log_prior_of(attacked), scaler).T
    form = "nearest model" if noise is None else f"most probable under {noise}"
    form += "" if problem.feature is None else " through the fitted scaler"
    form += " with the fitted scaler held" if problem.scaler_held else ""
    refits = "exact refits" if exact or fit.loss.quadratic else problem.newton_error(reach)
    return problem.result("white-box inversion", guesses, f"{form}, {refits}")


def moves(
    fit: Fit,
    X: Any,
    y: Any,
    candidates: Candidates | int | Sequence[int],
    rows: Any = None,
    *,
    exact: bool = False,
    scaled: Any = None,
) -> FloatArray:
    """(rows, k, q) refit - fit.w if a row had each candidate instead of its own value; zero at its own.

    scaled: as in `white_box`. The refits are then written in the fitted table's own standardised columns: the fold of
    that table takes them to the raw weights of the refitted pipeline.
    """
    problem = InversionProblem.of(fit, X, y, candidates, np.zeros((1, fit.w.size)), None, rows, scaled)
    return problem.moves(problem.rows, exact)


@dataclass(frozen=True, eq=False)
class _Guesser:
    """From refits to guesses, for all draws at once."""

    draws: FloatArray
    noise: Noise | None
    feature: int | None = None
    """The attacked column, if refits go through mean and deviation."""

    @property
    def linear(self) -> bool:
        """Whether the draws enter through one product: log p is then a square."""
        equal = self.noise is None or type(self.noise) is Gaussian
        return equal or (self.feature is None and type(self.noise) is CorrelatedGaussian)

    @property
    def width(self) -> int:
        """Numbers held for one candidate of one row."""
        t, p = self.draws.shape
        return int(t if self.linear else t * p)

    def guess(self, delta: FloatArray, log_prior: FloatArray, scaler: ScalerChange | None = None) -> NDArray[np.uint16]:
        """(rows, t) best candidate for refits - w of shape (rows, k, p); the first of equals.

        log_prior (rows, k) is used if the noise is known; scaler (rows, k) if refits go through it.
        """
        noise = self.noise
        if noise is None or self.linear:
            rows, k, p = delta.shape
            D, b = delta.reshape(-1, p), self.draws
            if noise is not None:
                D, b = (noise.whiten(v.T).T for v in (D, b))
            # -||b - D||²/2 without its first term, which all candidates share.
            scores = (D @ b.T - 0.5 * np.einsum("np,np->n", D, D)[:, None]).reshape(rows, k, -1)
            if scaler is not None:
                scores -= _stretched(D.reshape(rows, k, p), b, scaler)
        else:
            away = self.draws - delta[:, :, None, :]
            scores = log_density(noise, away if scaler is None else scaler.unfold(away))
        if noise is not None:
            scores += log_prior[:, :, None] + (0.0 if scaler is None else scaler.log_stretch[:, :, None])
        return first_best(scores)


def _stretched(D: FloatArray, b: FloatArray, scaler: ScalerChange) -> FloatArray:
    """(rows, k, t) (||Bu||² - ||u||²)/2 of u = b - D: B moves two coordinates of it."""
    along, intercept = (b[:, j] - D[:, :, j, None] for j in (scaler.feature, -1))
    shift, growth = scaler.shift[:, :, None], scaler.growth[:, :, None]
    return np.asarray(along * (0.5 * (growth + shift**2) * along + shift * intercept))


def first_best(scores: FloatArray) -> NDArray[np.uint16]:
    """(rows, t) argmax over the middle axis: a running comparison is several times faster than np.argmax."""
    best, winner = scores[:, 0].copy(), np.zeros((scores.shape[0], scores.shape[2]), dtype=np.uint16)
    for c in range(1, scores.shape[1]):
        better = scores[:, c] > best
        winner[better] = c
        np.maximum(best, scores[:, c], out=best)
    return winner
