"""The exact leakage of a noisy vote, eq. 12 of [Saeidian21], and its winner.

The label is argmaxⱼ vⱼ + Nⱼ. The adversary knows every vote but one person's; the label leaks
log Σⱼ P(Y = j | v⁻ + δⱼ) nats about that vote. The sum minus one is computed from terms >= 0, so that a leakage of
1e-100 keeps its digits (docs/explanation/pate.md). Figures from votes are internal: a leakage is itself private.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.density import Density
from dosimeter.pate.gauss_legendre import FEW
from dosimeter.pate.histograms import Counts, as_histograms, as_shift, shapes
from dosimeter.pate.vote_noise import VOTE_LAWS, as_law


def leakage(others: Any, noise: Density, shift: int = 1) -> FloatArray:
    """Exact leakage of each noisy vote, eq. 12 of [Saeidian21]: the adversary knows all votes but the person's.

    Parameters
    ----------
    others : array_like of int, shape (q, m)
        v⁻, the votes of the other teachers; rows may have different totals.
    noise : Density
        Noise on each count.
    shift : int, default 1
        c, the votes that one person controls. They may be placed in any way; for label j the worst is all of them on j.

    Returns
    -------
    ndarray of shape (q,)
        Nats per query. Internal. A figure below 1e-300 may be 0.

    Raises
    ------
    Refusal
        If a count is not a whole number >= 0.
    CannotMeasure
        If the noise cannot be integrated, or is no_noise.

    Notes
    -----
    log Σⱼ P(Y = j | v⁻ + cδⱼ).

    Examples
    --------
    >>> from dosimeter.core.noise import Laplace
    >>> leakage([[4, 3, 2, 1], [5, 2, 2, 1]], Laplace(10.0)).round(4).tolist()   # Example 14, γ = 0.1
    [0.085, 0.084]
    """
    law, c = as_law(noise), as_shift(shift)
    distinct = shapes(as_histograms(others, "others"))
    out = np.empty(len(distinct.gaps))
    for rows, gaps, times in _runs(distinct.gaps):
        out[rows] = _excess(gaps, times, law, c)
    return np.asarray(np.log1p(out)[distinct.inverse])


def win_probabilities(counts: Any, noise: Density) -> FloatArray:
    """Probability of each label of a noisy vote, with full relative precision however small.

    Parameters
    ----------
    counts : array_like of int, shape (q, m)
        All votes.
    noise : Density
        Noise on each count.

    Returns
    -------
    ndarray of shape (q, m)
        P(Y = j | histogram).

    Raises
    ------
    Refusal
        If a count is not a whole number >= 0.
    CannotMeasure
        If the noise cannot be integrated.

    Notes
    -----
    Eq. 45 of [Saeidian21].

    Examples
    --------
    >>> from dosimeter.core.noise import Gumbel
    >>> win_probabilities([[1, 0]], Gumbel(1.0)).round(4).tolist()   # a softmax
    [[0.7311, 0.2689]]
    """
    law, histograms = as_law(noise), as_histograms(counts, "counts")
    distinct = shapes(histograms)
    from_first = np.concatenate([np.zeros((len(distinct.gaps), 1), dtype=np.int64), distinct.gaps], axis=1)
    by_rank = np.empty(from_first.shape)
    for rows, gaps, times in _runs(from_first):
        wins = _wins(gaps, times, law)
        by_rank[rows] = wins if times is None else np.repeat(wins.ravel(), times.ravel()).reshape(len(rows), -1)
    out = np.empty(histograms.shape)
    np.put_along_axis(out, np.argsort(-histograms, axis=1, kind="stable"), by_rank[distinct.inverse], axis=1)
    return out


def excess_of_equal_counts(m: int, law: Density, c: int) -> float:
    """Σⱼ P(Y = j | v⁻ + cδⱼ) - 1 for m equal counts: its largest value, by Theorem 10 of [Saeidian21]."""
    return float(_excess(np.zeros((1, 1), dtype=np.int64), np.array([[m - 1]]), law, c)[0])


def _runs(gaps: Counts) -> Iterator[tuple[Index, Counts, Counts | None]]:
    """Rows (R,), their gaps (R, k) and how often each occurs (R, k); many classes share few counts."""
    if gaps.shape[1] <= FEW:
        yield np.arange(len(gaps)), gaps, None
        return
    new = np.concatenate([np.ones((len(gaps), 1), dtype=bool), np.diff(gaps, axis=1) != 0], axis=1)
    distinct = new.sum(axis=1)
    for k in np.unique(distinct):
        rows = np.flatnonzero(distinct == k)
        first = np.nonzero(new[rows])[1].reshape(len(rows), k)
        times = np.diff(first, axis=1, append=gaps.shape[1])
        yield rows, np.take_along_axis(gaps[rows], first, axis=1), times


def _excess(gaps: Counts, times: Counts | None, law: Density, c: int) -> FloatArray:
    return VOTE_LAWS[law].excess(gaps, times, law, c)


def _wins(gaps: Counts, times: Counts | None, law: Density) -> FloatArray:
    return VOTE_LAWS[law].wins(gaps, times, law)
