"""Attacks on answers alone: one attribute of a row, or whether a row took part, guessed from noised answers.

Both know everything else in the table and refit the model with each possibility, as the attacks on weights do
(docs/explanation/attacks.md). What they compare is the likelihood of the answers, which is the best possible test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dosimeter.attacks.result import Guesses, Scores
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.progress import stage, track
from dosimeter.glm.answers.answer_channel import AnswerChannel
from dosimeter.glm.answers.answer_information import Answer
from dosimeter.glm.attacks.attribute_inversion import first_best
from dosimeter.glm.attacks.inversion_problem import Candidates, InversionProblem
from dosimeter.glm.attacks.membership import removal
from dosimeter.glm.attacks.row_changes import parts


def answers_inversion(
    channel: AnswerChannel,
    X: Any,
    y: Any,
    candidates: Candidates | int | Sequence[int],
    rng: np.random.Generator,
    trials: int,
    *,
    prior: Any = None,
    rows: Any = None,
    exact: bool = False,
    scaled: Any = None,
) -> Guesses:
    """Attribute inversion from answers: the most probable candidate under the answers' own likelihood.

    Parameters
    ----------
    channel : AnswerChannel
        Queries, noise and kind of answer; its fit is attacked.
    X, y : array_like of shape (n, d) and (n,)
        The training table.
    candidates, prior, rows, exact, scaled
        As for `glm.white_box`.
    rng, trials
        Of the simulated answers: `trials` draws of the whole list.

    Returns
    -------
    Guesses
        One guess per list of answers and row; the control is the likeliest candidate by the prior. Internal.

    Examples
    --------
    >>> from dosimeter import Gaussian, glm
    >>> X, y = np.array([[0.0, 1.0], [1.0, 2.0], [0.0, 3.0], [1.0, 1.0]]), np.array([1.0, 3.0, 3.5, 1.0])
    >>> fit = glm.fit(X, y, glm.Squared())
    >>> channel = AnswerChannel.of(fit, np.eye(2), Gaussian(1e-6), Answer.MARGINS)
    >>> answers_inversion(channel, X, y, 0, np.random.default_rng(0), 5).figure      # hardly any noise
    1.0
    """
    fit = channel.fit
    problem = InversionProblem.of(fit, X, y, candidates, np.zeros((1, fit.w.size)), prior, rows, scaled)
    answers = channel.draw(channel.weights, rng, trials)
    guesses = np.empty((trials, len(problem.rows)), dtype=np.uint16)
    reach = np.empty(len(problem.rows))
    stage("playing the attack")
    width = problem.k * max(problem.width, trials + answers.shape[1])
    for part in track(list(parts(len(problem.rows), width))):
        attacked = problem.rows[part]
        delta = problem.moves(attacked, exact)
        reach[part] = np.linalg.norm(delta, axis=2).max(axis=1)
        W = (channel.weights + delta).reshape(-1, delta.shape[2])
        scores = channel.log_likelihood(W, answers).reshape(len(attacked), problem.k, trials)
        guesses[:, part] = first_best(scores + problem.log_prior_of(attacked)[:, :, None]).T
    form = f"most probable from {len(channel.rows)} {channel.answer.value} under {channel.noise}"
    form += " through the fitted scaler" if problem.feature is not None else ""
    form += " with the fitted scaler held" if problem.scaler_held else ""
    refits = "exact refits" if exact or fit.loss.quadratic else problem.newton_error(reach)
    return problem.result("inversion from answers", guesses, f"{form}, {refits}")


def answers_membership(channel: AnswerChannel, X: Any, y: Any) -> FloatArray:
    """(n,) μ of every row's membership, from the answers alone; a fitted scaler is held fixed.

    μᵢ = ‖f(w without row i) - f(w)‖ / σ with f the answers without noise: exact for Gaussian noise on numbers. For
    other noise the same with the noise's information in place of 1/σ², which ranks the rows.
    """
    if channel.answer is Answer.LABELS:
        raise CannotMeasure("labels have no μ: simulate the attack with answers_presence")
    return np.asarray(_moved(channel, X, y) * np.sqrt(channel.noise.fisher_information))


def ranking_of(channel: AnswerChannel, X: Any, y: Any) -> FloatArray:
    """(n,) ranks rows for any kind of answer: μ of numbers, for labels √ of the symmetric KL of their chances."""
    if channel.answer is not Answer.LABELS:
        return answers_membership(channel, X, y)
    away = removal(channel.fit, X, y)
    exists = np.isfinite(away).all(axis=1)
    out = np.full(len(away), np.inf)
    out[exists] = np.sqrt(channel.label_divergence(channel.weights + away[exists]))
    return out


def _moved(channel: AnswerChannel, X: Any, y: Any) -> FloatArray:
    """(n,) ‖f(w without the row) - f(w)‖; infinite where the model without the row does not exist."""
    away = removal(channel.fit, X, y)
    exists = np.isfinite(away).all(axis=1)
    out = np.full(len(away), np.inf)
    here = channel.exact(channel.weights[None])
    out[exists] = np.linalg.norm(channel.exact(channel.weights + away[exists]) - here, axis=1)
    return out


def answers_presence(channel: AnswerChannel, move: Any, rng: np.random.Generator, trials: int) -> Scores:
    """The best attack on one row's membership, simulated: `trials` lists of answers with the row and as many without.

    move (q,): weights without the row minus weights with it. Scored by the log-likelihood ratio; its error is in the
    result's interval.
    """
    delta = np.asarray(move, dtype=np.float64)
    if delta.shape != channel.weights.shape or not np.isfinite(delta).all():
        raise Refusal(f"move must be one finite vector of {len(channel.weights)} numbers, not shape {delta.shape}")
    if trials < 2:
        raise Refusal(f"trials must be at least 2, not {trials}")
    both = np.stack([channel.weights, channel.weights + delta])
    answers = [channel.draw(W, rng, trials) for W in both]

    def score(some: FloatArray) -> FloatArray:
        ratio = channel.log_likelihood(both, some)
        return np.asarray(ratio[0] - ratio[1])

    method = f"{trials} lists of {len(channel.rows)} {channel.answer.value} each, {channel.noise}"
    return Scores("likelihood-ratio membership from answers", score(answers[0]), score(answers[1]), method=method)
