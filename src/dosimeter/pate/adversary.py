"""The adversary of section IV-B of [Saeidian21], simulated: knows all votes but one teacher's, and sees the labels.

With a prior over the hidden vote, the best guess is the likeliest a posteriori (MAP). For one query its success
relative to the best guess without the label is at most e^leakage, with equality for a uniform prior: eq. 28.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dosimeter.attacks.result import Guesses
from dosimeter.core.arrays import FloatArray
from dosimeter.core.density import Density
from dosimeter.core.errors import Refusal
from dosimeter.pate.label import REFUSED
from dosimeter.pate.leakage import win_probabilities
from dosimeter.pate.threshold import Threshold
from dosimeter.pate.votes import Votes, check_histograms

# The most outputs for an exact sum; above it a simulation is faster.
_MOST_OUTPUTS = 1 << 20


def channels(others: ArrayLike, noise: Density, threshold: Threshold | None = None) -> FloatArray:
    """(q, m, m) P(y | v⁻ + δⱼ), by query, hidden vote j and output y; with a threshold (q, m, m + 1), refused last.

    >>> from dosimeter.core.noise import Gumbel
    >>> channels([[1, 1]], Gumbel(1.0)).round(4).tolist()                     # softmax of (2, 1) and of (1, 2)
    [[[0.7311, 0.2689], [0.2689, 0.7311]]]
    """
    v = check_histograms(others)
    q, m = v.shape
    histograms = (v[:, None, :] + np.eye(m, dtype=np.int64)).reshape(-1, m)
    win = win_probabilities(histograms, noise)
    if threshold is None:
        return win.reshape(q, m, m)
    missing_votes = threshold.T - histograms.max(axis=1)
    answered, refused = threshold.noise.sf(missing_votes)[:, None], threshold.noise.cdf(missing_votes)[:, None]
    return np.hstack([win * answered, refused]).reshape(q, m, m + 1)


def success(channel: ArrayLike, prior: ArrayLike) -> tuple[float, float]:
    """P(MAP guess correct) after one output and before it, exactly: Σ_y maxⱼ p(j) P(y|j) and maxⱼ p(j).

    channel (h, y), one row per hypothesis; prior (h,).

    >>> success([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5])                     # a gain of 1.5, log 1.5 nats
    (0.75, 0.5)
    """
    P = np.asarray(channel, dtype=np.float64)
    if P.ndim != 2:
        raise Refusal(f"a channel must be (hypotheses, outputs), not of shape {P.shape}")
    p = _prior(prior, len(P))
    return float((p[:, None] * P).max(axis=0).sum()), float(p.max())


def joint_channel(
    others: ArrayLike, candidates: ArrayLike, noise: Density, threshold: Threshold | None = None
) -> FloatArray:
    """(h, outputs) P(y₁..y_q | the partition's votes) for each candidate partition; the last query varies fastest.

    candidates (h, q): the votes that each candidate's teacher would cast. It lists all outputs, so q must be small.
    """
    per_query = channels(others, noise, threshold)
    candidate_votes = _candidates(candidates, len(per_query), per_query.shape[1])
    if per_query.shape[2] ** len(per_query) * len(candidate_votes) > _MOST_OUTPUTS:
        raise Refusal(
            f"{per_query.shape[2]}^{len(per_query)} outputs are too many to list: simulate with guess_partition"
        )
    joint = np.ones((len(candidate_votes), 1))
    for query, P in enumerate(per_query):
        joint = (joint[:, :, None] * P[candidate_votes[:, query]][:, None, :]).reshape(len(candidate_votes), -1)
    return joint


def guess_votes(
    votes: Votes,
    teacher: int,
    labels: ArrayLike,
    noise: Density,
    prior: ArrayLike,
    *,
    threshold: Threshold | None = None,
) -> Guesses:
    """Guess the hidden vote of one teacher at each query, from the label of that query alone.

    Parameters
    ----------
    votes : Votes
        All votes; the hidden ones serve as the truth.
    teacher : int
        The teacher whose votes are hidden.
    labels : array_like of shape (releases, queries)
        Released labels; each release with its own noise.
    noise : Density
        The noise of the vote.
    prior : array_like of shape (m,) or (queries, m)
        Probability of each hidden vote. Votes of different queries are assumed independent, so no other label helps.
    threshold : Threshold, optional
        The threshold the labels were released with.

    Returns
    -------
    Guesses
        The control is the likeliest vote by the prior. Internal: the result holds the true votes.

    Raises
    ------
    Refusal
        If labels or prior do not fit the votes.

    Notes
    -----
    MAP guess, eq. 28 of [Saeidian21].

    Examples
    --------
    >>> from dosimeter.core.noise import Laplace
    >>> votes = Votes([[0, 1], [0, 1], [0, 1]], n_classes=2)
    >>> guess_votes(votes, 0, [[0, 1]], Laplace(0.5), [0.5, 0.5]).figure
    1.0
    """
    P = channels(votes.others(teacher), noise, threshold)
    m = votes.n_classes
    weights = np.asarray(prior, dtype=np.float64)
    p = np.array([_prior(row, m) for row in np.broadcast_to(weights, (votes.n_queries, m))])
    outputs = _outputs(labels, votes.n_queries, m, threshold)
    best = (p[:, :, None] * P).argmax(axis=1)  # (queries, outputs): the guess after each output
    guesses = best[np.arange(votes.n_queries), outputs]
    method = f"MAP, {noise}, all other votes known, one label per vote"
    return Guesses("hidden vote", guesses, votes.values[teacher], p.argmax(axis=1), method=method)


def guess_partition(
    others: ArrayLike,
    candidates: ArrayLike,
    truth: int,
    labels: ArrayLike,
    noise: Density,
    prior: ArrayLike,
    *,
    threshold: Threshold | None = None,
) -> Guesses:
    """Guess which of several candidate partitions the hidden teacher was trained on, from all labels together.

    Parameters
    ----------
    others : array_like of shape (q, m)
        v⁻, the votes of the other teachers.
    candidates : array_like of shape (h, q)
        The votes that each candidate's teacher would cast.
    truth : int
        The true candidate.
    labels : array_like of shape (releases, q)
        Released labels; each release with its own noise.
    noise : Density
        The noise of the vote.
    prior : array_like of shape (h,)
        Probability of each candidate.
    threshold : Threshold, optional
        The threshold the labels were released with.

    Returns
    -------
    Guesses
        The gain is at most the exponential of the queries' summed leakage (Lemma 5 of [Saeidian21]). Internal: the
        result holds the truth.

    Raises
    ------
    Refusal
        If candidates, labels or prior do not fit.

    Examples
    --------
    >>> from dosimeter.core.noise import Laplace
    >>> guess_partition([[1, 1]], [[0], [1]], 1, [[1]], Laplace(0.5), [0.5, 0.5]).figure
    1.0
    """
    each = channels(others, noise, threshold)
    q, m = each.shape[:2]
    candidate_votes = _candidates(candidates, q, m)
    p = _prior(prior, len(candidate_votes))
    if not 0 <= truth < len(candidate_votes):
        raise Refusal(f"truth must be a candidate from 0 to {len(candidate_votes) - 1}, not {truth!r}")
    outputs = _outputs(labels, q, m, threshold)
    with np.errstate(divide="ignore"):
        log_P, log_p = np.log(each), np.log(p)
    by_candidate = log_P[np.arange(q), candidate_votes]  # (h, q, outputs)
    score = np.array([log_p + by_candidate[:, np.arange(q), row].sum(axis=1) for row in outputs])
    method = f"MAP, {noise}, all other votes known, {q} labels together"
    guesses = score.argmax(axis=1)[:, None]
    return Guesses("hidden partition", guesses, np.array([truth]), np.array([int(p.argmax())]), method=method)


def gain_limit(leakage: ArrayLike) -> float:
    """e^(Σ nats): the most that the best guess can gain from labels with these leakages, one per query."""
    return math.exp(float(np.sum(np.asarray(leakage, dtype=np.float64))))


def _outputs(labels: ArrayLike, q: int, m: int, threshold: Threshold | None) -> NDArray[np.int64]:
    """(releases, q) the index of each output in the channel's alphabet: refused is m."""
    output = np.atleast_2d(np.asarray(labels)).astype(np.int64)
    lowest = 0 if threshold is None else REFUSED
    if output.ndim != 2 or output.shape[1] != q or not output.size or (output < lowest).any() or (output >= m).any():
        raise Refusal(f"labels must be (releases, {q}) in {lowest}..{m - 1}, not shape {output.shape}")
    return np.where(output == REFUSED, m, output)


def _candidates(candidates: ArrayLike, q: int, m: int) -> NDArray[np.int64]:
    votes = np.asarray(candidates)
    if (
        votes.ndim != 2
        or votes.shape[1] != q
        or votes.dtype.kind not in "iu"
        or (votes < 0).any()
        or (votes >= m).any()
    ):
        raise Refusal(f"candidates must be (partitions, {q}) votes in 0..{m - 1}, not shape {votes.shape}")
    return votes.astype(np.int64)


def _prior(prior: ArrayLike, size: int) -> FloatArray:
    p = np.asarray(prior, dtype=np.float64)
    if p.shape != (size,) or not (p >= 0).all() or abs(p.sum() - 1) > 1e-9:
        raise Refusal(f"prior must have a probability for each of the {size} possibilities and sum to 1")
    return p
