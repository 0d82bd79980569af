"""The adversary of section IV-B of [Saeidian21], played: all votes but one teacher's are known, the labels are seen.

Knowing a prior over the hidden vote, the best guess is the likeliest a posteriori (MAP). For one query its success over
that of the best blind guess is at most e^leakage, and equals it where the prior is uniform: eq. 28.
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

# Outputs that an exact success is summed over; more than this takes longer than a simulation.
_MOST_OUTPUTS = 1 << 20


def channels(others: ArrayLike, noise: Density, threshold: Threshold | None = None) -> FloatArray:
    """(q, m, m) P(y | v⁻ + δⱼ), the hidden vote j before the output y; with a threshold (q, m, m + 1), refused last.

    >>> from dosimeter.core.noise import Gumbel
    >>> channels([[1, 1]], Gumbel(1.0)).round(4).tolist()                     # softmax of (2, 1) and of (1, 2)
    [[[0.7311, 0.2689], [0.2689, 0.7311]]]
    """
    v = check_histograms(others)
    q, m = v.shape
    voted = (v[:, None, :] + np.eye(m, dtype=np.int64)).reshape(-1, m)
    won = win_probabilities(voted, noise)
    if threshold is None:
        return won.reshape(q, m, m)
    short = threshold.T - voted.max(axis=1)
    answered, refused = threshold.noise.sf(short)[:, None], threshold.noise.cdf(short)[:, None]
    return np.hstack([won * answered, refused]).reshape(q, m, m + 1)


def success(channel: ArrayLike, prior: ArrayLike) -> tuple[float, float]:
    """P(MAP guess right) after one output and before it, exactly: Σ_y maxⱼ p(j) P(y|j) and maxⱼ p(j).

    channel (h, y), a row for each hypothesis; prior (h,).

    >>> success([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5])                     # a gain of 1.5, log 1.5 nats
    (0.75, 0.5)
    """
    P = np.asarray(channel, dtype=np.float64)
    if P.ndim != 2:
        raise Refusal(f"a channel is (hypotheses, outputs), not of shape {P.shape}")
    p = _prior(prior, len(P))
    return float((p[:, None] * P).max(axis=0).sum()), float(p.max())


def joint_channel(
    others: ArrayLike, candidates: ArrayLike, noise: Density, threshold: Threshold | None = None
) -> FloatArray:
    """(h, outputs) P(y₁..y_q | the partition's votes) for each candidate partition; the last query runs fastest.

    candidates (h, q): the votes that each candidate's teacher would cast. All outputs are listed, so q is small.
    """
    each = channels(others, noise, threshold)
    cast = _candidates(candidates, len(each), each.shape[1])
    if each.shape[2] ** len(each) * len(cast) > _MOST_OUTPUTS:
        raise Refusal(f"{each.shape[2]}^{len(each)} outputs are too many to list: simulate with guess_partition")
    joint = np.ones((len(cast), 1))
    for query, P in enumerate(each):
        joint = (joint[:, :, None] * P[cast[:, query]][:, None, :]).reshape(len(cast), -1)
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
    """The hidden vote of one teacher at each query, guessed from the label of that query alone.

    labels: (releases, queries), each release with noise of its own. prior: (m,) over the hidden vote, or (queries, m).
    The votes of unlike queries are taken for independent, so no other label helps. The control is the likeliest vote by
    the prior. Internal: the result holds the true votes.
    """
    P = channels(votes.others(teacher), noise, threshold)
    m = votes.n_classes
    weights = np.asarray(prior, dtype=np.float64)
    p = np.array([_prior(row, m) for row in np.broadcast_to(weights, (votes.n_queries, m))])
    seen = _outputs(labels, votes.n_queries, m, threshold)
    best = (p[:, :, None] * P).argmax(axis=1)  # (queries, outputs): the guess after each output
    guesses = best[np.arange(votes.n_queries), seen]
    how = f"MAP, {noise}, all other votes known, one label a vote"
    return Guesses("hidden vote", guesses, votes.values[teacher], p.argmax(axis=1), how=how)


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
    """Which of several candidate partitions the hidden teacher was trained on, guessed from all labels together.

    candidates (h, q): the votes that each candidate's teacher would cast; prior (h,); labels (releases, q). The gain
    is at most the exponential of the sum of the queries' leakages (Lemma 5). Internal: the result holds the truth.
    """
    each = channels(others, noise, threshold)
    q, m = each.shape[:2]
    cast = _candidates(candidates, q, m)
    p = _prior(prior, len(cast))
    if not 0 <= truth < len(cast):
        raise Refusal(f"the true candidate is numbered from 0 to {len(cast) - 1}, not {truth!r}")
    seen = _outputs(labels, q, m, threshold)
    with np.errstate(divide="ignore"):
        log_P, log_p = np.log(each), np.log(p)
    by_candidate = log_P[np.arange(q), cast]  # (h, q, outputs)
    score = np.array([log_p + by_candidate[:, np.arange(q), row].sum(axis=1) for row in seen])
    how = f"MAP, {noise}, all other votes known, {q} labels together"
    guesses = score.argmax(axis=1)[:, None]
    return Guesses("hidden partition", guesses, np.array([truth]), np.array([int(p.argmax())]), how=how)


def gain_limit(leakage: ArrayLike) -> float:
    """e^(Σ nats): what the best guess can gain by labels with these leakages, one a query."""
    return math.exp(float(np.sum(np.asarray(leakage, dtype=np.float64))))


def _outputs(labels: ArrayLike, q: int, m: int, threshold: Threshold | None) -> NDArray[np.int64]:
    """(releases, q) the output's number in the channel's alphabet: refused is m."""
    seen = np.atleast_2d(np.asarray(labels)).astype(np.int64)
    lowest = 0 if threshold is None else REFUSED
    if seen.ndim != 2 or seen.shape[1] != q or not seen.size or (seen < lowest).any() or (seen >= m).any():
        raise Refusal(f"labels must be (releases, {q}) in {lowest}..{m - 1}, got shape {seen.shape}")
    return np.where(seen == REFUSED, m, seen)


def _candidates(candidates: ArrayLike, q: int, m: int) -> NDArray[np.int64]:
    cast = np.asarray(candidates)
    if cast.ndim != 2 or cast.shape[1] != q or cast.dtype.kind not in "iu" or (cast < 0).any() or (cast >= m).any():
        raise Refusal(f"candidates must be (partitions, {q}) votes in 0..{m - 1}, got shape {cast.shape}")
    return cast.astype(np.int64)


def _prior(prior: ArrayLike, size: int) -> FloatArray:
    p = np.asarray(prior, dtype=np.float64)
    if p.shape != (size,) or not (p >= 0).all() or abs(p.sum() - 1) > 1e-9:
        raise Refusal(f"a prior has a probability for each of the {size} possibilities, summing to one")
    return p
