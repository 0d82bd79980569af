"""Histograms of votes to test the claims of [Saeidian21] on, and its eq. 17 as printed."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.core.noise import Laplace
from dosimeter.pate.bounds import data_dependent_bound, data_independent_bound, overtaking_bound
from dosimeter.pate.leakage import leakage


def printed_b1(m: int, gamma: float) -> float:
    """log of eq. 17 with H of eq. 18, term by term; float64 loses all digits for large γ or m."""
    e = math.exp(-gamma)
    half = 1 - e / 2
    H = gamma + sum((2.0**-k - half**k) / k for k in range(1, m - 1))
    value = (1 - m) * 2.0**-m * e + (1 - half**m) / e + m / 2 * half ** (m - 1) - m * (m - 1) / 4 * e * H
    return math.log(value)


def histograms(votes: int, classes: int, most: int | None = None) -> Iterator[tuple[int, ...]]:
    """Every way to distribute the votes over the classes, up to the order of the classes.

    >>> list(histograms(3, 2))
    [(3, 0), (2, 1)]
    """
    if classes == 1:
        if most is None or votes <= most:
            yield (votes,)
        return
    for first in range(min(votes, votes if most is None else most), -1, -1):
        if first * classes < votes:
            return
        for rest in histograms(votes - first, classes - 1, first):
            yield (first, *rest)


def majorises(p: tuple[int, ...] | NDArray[np.int64], q: tuple[int, ...] | NDArray[np.int64]) -> bool:
    """Definition 7: p ≻ q.

    >>> majorises((5, 3, 1), (4, 3, 2)), majorises((4, 4, 1), (5, 2, 2))
    (True, False)
    """
    a, b = (np.cumsum(-np.sort(-np.asarray(v))) for v in (p, q))
    return bool(a[-1] == b[-1] and (a >= b).all())


def consensus(votes: int, classes: int, gamma: float) -> tuple[FloatArray, dict[str, FloatArray]]:
    """(s,) share of the first class, from even to all, the others even; the leakage and its bounds there."""
    firsts = range(-(-votes // classes), votes + 1)
    table = np.array([[first, *_split_evenly(votes - first, classes - 1)] for first in firsts])
    curves = {
        "exact": leakage(table, Laplace(1 / gamma)),
        "log B1": np.full(len(firsts), data_independent_bound(classes, gamma)),
        "log B2": data_dependent_bound(table, gamma),
        "log B3 (ours)": overtaking_bound(table, gamma),
    }
    return np.array(firsts) / votes, curves


def _split_evenly(votes: int, classes: int) -> list[int]:
    return [votes // classes + (k < votes % classes) for k in range(classes)]
