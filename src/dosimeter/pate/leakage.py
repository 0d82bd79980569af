"""The exact leakage of a noisy vote, eq. 12 of [Saeidian21]: what the label tells about one teacher's vote."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.core.density import Density
from dosimeter.core.notion import FloatArray
from dosimeter.pate.histograms import as_histograms, as_law, as_shift, shapes


def leakage(others: Any, noise: Any, shift: int = 1) -> FloatArray:
    """(q,) nats: log Σⱼ P(Y = j | v⁻ + shift·δⱼ), eq. 12 of [Saeidian21], exact up to rounding.

    others (q, m): votes v⁻ of the other teachers. `shift` votes are the person's; placed in any way.

    >>> from dosimeter.core.noise import Laplace
    >>> leakage([[4, 3, 2, 1], [5, 2, 2, 1]], Laplace(10.0)).round(4).tolist()   # Example 14
    [0.085, 0.084]
    """
    law, c = as_law(noise), as_shift(shift)
    found = shapes(as_histograms(others, "others"))
    return np.log1p(np.array([_excess(gaps, law, c) for gaps in found.gaps]))[found.inverse]


def win_probabilities(counts: Any, noise: Any) -> FloatArray:
    """(q, m) P(Y = j | histogram) of the noisy vote argmaxⱼ vⱼ + Nⱼ.

    >>> from dosimeter.core.noise import Gumbel
    >>> win_probabilities([[1, 0]], Gumbel(1.0)).round(4).tolist()   # a softmax
    [[0.7311, 0.2689]]
    """
    law = as_law(noise)
    return np.array([_wins(row, law) for row in as_histograms(counts, "counts")])


def excess_of_equal_counts(m: int, law: Density, c: int) -> float:
    """Σⱼ P(Y = j | v⁻ + c·δⱼ) - 1 where all m counts are equal."""
    return _excess(np.zeros(m - 1), law, c)


def _rule(kinks: FloatArray, law: Density, m: int) -> tuple[FloatArray, FloatArray]:
    reach = (45 + np.log(m)) * law.scale
    edges = np.unique(np.concatenate([kinks, [kinks.min() - reach, kinks.max() + reach]]))
    t, w = np.polynomial.legendre.leggauss(16)
    cut = [np.linspace(a, b, int(np.ceil((b - a) / law.scale * 2)) + 1) for a, b in zip(edges[:-1], edges[1:])]
    edges = np.unique(np.concatenate(cut))
    half, mid = np.diff(edges)[:, None] / 2, (edges[1:] + edges[:-1])[:, None] / 2
    return (mid + half * t).ravel(), (half * w).ravel()


def _excess(gaps: Any, law: Density, c: int) -> float:
    d = np.concatenate([[0], gaps]).astype(float)
    s, w = _rule(np.concatenate([-d, c - d]), law, len(d))
    x = s[:, None] + d[1:]
    base = law.logcdf(x).sum(axis=1)
    with np.errstate(invalid="ignore"):
        up = law.logpdf(x - c) - law.logcdf(x) + (law.logcdf(s) + base)[:, None]
        down = law.logpdf(x) - law.logcdf(x) + (law.logcdf(s - c) + base)[:, None]
    return float(w @ np.nan_to_num(np.exp(up) - np.exp(down), nan=0.0).sum(axis=1))


def _wins(row: Any, law: Density) -> FloatArray:
    d = (row.max() - row).astype(float)
    s, w = _rule(-d, law, len(d))
    x = s[:, None] + d
    base = law.logcdf(x).sum(axis=1)
    with np.errstate(invalid="ignore"):
        each = np.exp(law.logpdf(x) - law.logcdf(x) + base[:, None])
    return np.asarray(w @ np.nan_to_num(each, nan=0.0))
