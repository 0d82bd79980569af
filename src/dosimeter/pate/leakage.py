"""The exact leakage of a noisy vote, eq. 12 of [Saeidian21], and who wins it.

The label is argmaxⱼ vⱼ + Nⱼ. The adversary knows every vote but one person's; what the label tells him about that
one is log Σⱼ P(Y = j | v⁻ + δⱼ) nats. The sum is computed less one, as terms >= 0, so that a leakage of 1e-100 keeps
its digits (docs/pate.md). Figures from votes are internal: a leakage is itself private.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.density import Density
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.noise import Exponential, Gaussian, Gumbel, Laplace, LogisticNoise
from dosimeter.pate import (
    gumbel,
)
from dosimeter.pate import (
    laplace_quadrature as kinked,
)
from dosimeter.pate import (
    laplace_winner as kinked_wins,
)
from dosimeter.pate import (
    trapezoid_quadrature as smooth,
)
from dosimeter.pate.gauss_legendre import FEW
from dosimeter.pate.histograms import Counts, as_histograms, as_law, as_shift, shapes

Way = Callable[..., FloatArray]
"""From gaps between counts to a figure of each histogram."""


def leakage(others: Any, noise: Density, shift: int = 1) -> FloatArray:
    """(q,) nats, eq. 12 of [Saeidian21] for each query: exact, the adversary knows all votes but the person's.

    others (q, m): v⁻, whole numbers, how the other teachers voted; rows may have different totals.
    shift: the person holds that many votes and may place them in any way; the most telling way for label j is all of
    them on j. A figure below 1e-300 may be 0.

    >>> from dosimeter.core.noise import Laplace
    >>> leakage([[4, 3, 2, 1], [5, 2, 2, 1]], Laplace(10.0)).round(4).tolist()   # Example 14, γ = 0.1
    [0.085, 0.084]
    """
    law, c = as_law(noise), as_shift(shift)
    found = shapes(as_histograms(others, "others"))
    out = np.empty(len(found.gaps))
    for rows, gaps, times in _runs(found.gaps):
        out[rows] = _excess(gaps, times, law, c)
    return np.asarray(np.log1p(out)[found.inverse])


def win_probabilities(counts: Any, noise: Density) -> FloatArray:
    """(q, m) P(Y = j | histogram) of the noisy vote, each entry with its digits however small.

    counts (q, m): all votes, whole numbers.

    >>> from dosimeter.core.noise import Gumbel
    >>> win_probabilities([[1, 0]], Gumbel(1.0)).round(4).tolist()   # a softmax
    [[0.7311, 0.2689]]
    """
    law, histograms = as_law(noise), as_histograms(counts, "counts")
    found = shapes(histograms)
    from_first = np.concatenate([np.zeros((len(found.gaps), 1), dtype=np.int64), found.gaps], axis=1)
    by_place = np.empty(from_first.shape)
    for rows, gaps, times in _runs(from_first):
        each = _wins(gaps, times, law)
        by_place[rows] = each if times is None else np.repeat(each.ravel(), times.ravel()).reshape(len(rows), -1)
    out = np.empty(histograms.shape)
    np.put_along_axis(out, np.argsort(-histograms, axis=1, kind="stable"), by_place[found.inverse], axis=1)
    return out


def excess_of_equal_counts(m: int, law: Density, c: int) -> float:
    """Σⱼ P(Y = j | v⁻ + cδⱼ) - 1 where all m counts are equal: its largest value, by Theorem 10 of [Saeidian21]."""
    return float(_excess(np.zeros((1, 1), dtype=np.int64), np.array([[m - 1]]), law, c)[0])


def _runs(gaps: Counts) -> Iterator[tuple[Index, Counts, Counts | None]]:
    """Rows (R,), their gaps (R, k) and how often each occurs (R, k); many classes share few counts, few do not."""
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
    return _by_law(law, gumbel.excess, kinked.excess, smooth.excess)(gaps, times, law, c)


def _wins(gaps: Counts, times: Counts | None, law: Density) -> FloatArray:
    return _by_law(law, gumbel.wins, kinked_wins.wins, smooth.wins)(gaps, times, law)


def _by_law(law: Density, closed: Way, between_kinks: Way, on_lattice: Way) -> Way:
    """The way in which this law is integrated; a law that is not known has none."""
    ways: dict[type[Density], Way] = {Gumbel: closed, Laplace: between_kinks, Exponential: between_kinks}
    ways |= {LogisticNoise: on_lattice, Gaussian: on_lattice}
    if type(law) not in ways:
        raise CannotMeasure(f"{law!r} is not a law whose noisy vote can be integrated here")
    return ways[type(law)]
