"""Black-box attribute inversion: guess one attribute of one row from predictions alone, [Hannun21] eq. 31.

log prior(c) + log P(y | prediction at c), up to what all candidates share:

| losses                                                              | log P                                      |
| Squared, Gamma, InverseGaussian, Tweedie                            | -l/φ, φ = Σ r²/E(a) / (n - p) (Pearson)    |
| Poisson, NegativeBinomial                                           | -l: the dispersion is known                |
| Logistic, Probit, ComplementaryLogLog, SquaredHinge, Softmax        | of the training confusion matrix           |

For the squared loss φ is the residual variance s² and the first row is a Gaussian about the prediction. A class that is
never predicted says nothing. Huber's and the ε-insensitive loss are no likelihood and are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dosimeter.attacks.result import Guesses
from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.progress import stage, track
from dosimeter.glm.attacks.inversion_problem import Candidates, InversionProblem
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.linalg.inverse_hessian import times
from dosimeter.glm.losses.binary_losses import ComplementaryLogLog, Probit
from dosimeter.glm.losses.count_losses import NegativeBinomial
from dosimeter.glm.losses.loss import Logistic, Poisson, Squared
from dosimeter.glm.losses.margin_losses import SquaredHinge
from dosimeter.glm.losses.positive_losses import Gamma, InverseGaussian, Tweedie
from dosimeter.glm.losses.softmax import Softmax


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
    draws : array_like of shape (t, q)
        Noise draws, one row per release: a number per weight, those of softmax one contrast after another.
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
        For losses that are neither a likelihood nor about classes.

    Notes
    -----
    Numbers and counts: the likelihood of the loss, exp(-l/φ), with the dispersion φ of the training residuals if it is
    not known (a Gaussian of variance s² = Σ(w'·x - y)²/(n - p) for the squared loss). Classes: P(y | predicted class)
    from the training confusion matrix; a class that is never predicted says nothing.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[0.0, 1.0], [1.0, 2.0], [0.0, 3.0], [1.0, 1.0]]), np.array([1.0, 3.0, 3.5, 1.0])
    >>> 0 <= black_box(glm.fit(X, y, glm.Squared()), X, y, 0, np.zeros((1, 2))).figure <= 1
    True
    """
    problem = InversionProblem.of(fit, X, y, candidates, draws, prior, rows)
    if type(fit.loss) not in _LIKELIHOODS:
        known = ", ".join(kind.name for kind in _LIKELIHOODS)
        raise CannotMeasure(f"the black box of eq. 31 is for the losses {known}, not {fit.loss.name}")
    log_likelihood = _LIKELIHOODS[type(fit.loss)]
    guesses = np.empty((len(problem.draws), len(problem.rows)), dtype=np.uint16)
    S, values = problem.columns, problem.candidates.values
    stage("playing the attack")
    for t, draw in track(list(enumerate(problem.draws))):
        w = fit.w.reshape(len(fit.w), -1) + draw.reshape(-1, len(fit.w)).T
        margin = times(problem.X, w) + (0.0 if fit.offset is None else fit.offset[:, None])
        rest = margin[problem.rows] - problem.X[problem.rows[:, None], S] @ w[S]
        log_p = log_likelihood(fit, margin, rest[:, None] + values @ w[S], problem.y[problem.rows])
        # Where no candidate has a probability above 0 the prediction says nothing.
        log_p = np.where(np.isfinite(log_p).any(axis=1, keepdims=True), log_p, 0.0)
        guesses[t] = np.argmax(problem.log_prior_of(problem.rows) + log_p, axis=1)
    return problem.result("black-box inversion", guesses, f"eq. 31, {fit.loss.name}")


def _known_dispersion(fit: Fit, margin: FloatArray, predicted: FloatArray, target: FloatArray) -> FloatArray:
    """(rows, k) -l(m_c, y) for predicted margins (rows, k, 1)."""
    return -np.asarray(_scalar(fit).value(predicted[:, :, 0], target[:, None]))


def _estimated_dispersion(fit: Fit, margin: FloatArray, predicted: FloatArray, target: FloatArray) -> FloatArray:
    """(rows, k) -l(m_c, y)/φ; φ is Pearson's, since r²/E(a) = (y - μ)²/V(μ)."""
    n, p = len(fit.y), len(fit.w)
    if n <= p:
        raise Refusal(f"{n} rows leave no residual variance for {p} weights: use more rows")
    m, loss = margin[:, 0], _scalar(fit)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        dispersion = float(np.sum(loss.residual(m, fit.y) ** 2 / loss.scoring_curvature(m, fit.y))) / (n - p)
    if not (np.isfinite(dispersion) and dispersion > 0):  # a release so far off that it has no means
        return np.zeros(predicted.shape[:2])
    return _known_dispersion(fit, margin, predicted, target) / dispersion


def _confusion(fit: Fit, margin: FloatArray, predicted: FloatArray, target: FloatArray) -> FloatArray:
    """(rows, k) log P(y | predicted class), columns of the training confusion matrix."""
    K = fit.loss.n_classes if isinstance(fit.loss, Softmax) else 2
    if not np.isin(fit.y, np.arange(K)).all():
        raise Refusal("the confusion matrix of eq. 31 needs targets 0 and 1")
    of_rows, of_candidates = _classes(fit, margin), _classes(fit, predicted)
    table = np.bincount(K * fit.y.astype(int) + of_rows, minlength=K * K).reshape(K, K).astype(float)
    columns = table.sum(axis=0)
    share = np.where(columns > 0, table / np.where(columns > 0, columns, 1.0), 1.0 / K)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(share)[target.astype(int)[:, None], of_candidates])


def _classes(fit: Fit, margin: FloatArray) -> Index:
    """(...,) the predicted class for margins (..., K')."""
    if isinstance(fit.loss, Softmax):
        return np.asarray((margin @ fit.loss.contrast.T).argmax(axis=-1))
    return (margin[..., 0] > getattr(fit.loss, "threshold", 0.0)).astype(np.intp)


def _scalar(fit: Fit) -> Any:
    return fit.loss


_LIKELIHOODS: dict[Any, Callable[[Fit, FloatArray, FloatArray, FloatArray], FloatArray]] = {
    Squared: _estimated_dispersion,
    Gamma: _estimated_dispersion,
    InverseGaussian: _estimated_dispersion,
    Tweedie: _estimated_dispersion,
    Poisson: _known_dispersion,
    NegativeBinomial: _known_dispersion,
    Logistic: _confusion,
    Probit: _confusion,
    ComplementaryLogLog: _confusion,
    SquaredHinge: _confusion,
    Softmax: _confusion,
}
"""log P(target | prediction) of eq. 31, by the class of the loss."""
