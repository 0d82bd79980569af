"""The distribution of doses: counts in bins that are equally wide in the log coordinate, few enough for a page."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.results.parts import Distribution

MOST_BINS = 40
STEPS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 5, 10, 20)
"""Widths of a bin in decades. Edges lie on this public ladder and not at the lowest and the highest dose."""


def distribution(doses: FloatArray, *, of: str, unit: str, limit: float | None = None) -> Distribution:
    """Counts of doses (k,), all finite and >= 0. Zeros are counted apart: they have no logarithm.

    >>> doses = distribution(np.array([0.0, 0.5, 2.0, 2.1]), of="η", unit="row")
    >>> doses.counts, doses.zero, [round(edge, 3) for edge in doses.edges[:2]]
    ([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1], 1, [0.487, 0.523])
    """
    above_zero = doses[doses > 0]
    edges = bin_edges(float(above_zero.min()), float(above_zero.max())) if len(above_zero) else np.array([])
    counts = np.histogram(above_zero, edges)[0] if len(above_zero) else np.array([], dtype=int)
    return distribution_of_counts(edges, counts, int(len(doses) - len(above_zero)), of=of, unit=unit, limit=limit)


def distribution_of_counts(
    edges: FloatArray, counts: Any, zero: int, *, of: str, unit: str, limit: float | None
) -> Distribution:
    """From bins (bins + 1,), counts (bins,) and the number of doses that are zero."""
    return Distribution(of=of, unit=unit, edges=edges.tolist(), counts=counts.tolist(), zero=zero, limit=limit)


def bin_edges(low: float, high: float) -> FloatArray:
    """Powers of ten to multiples of the finest step that needs at most MOST_BINS."""
    first, last = np.log10(low), np.log10(high)
    for step in STEPS:
        start, end = np.floor(first / step), np.floor(last / step) + 1
        if end - start <= MOST_BINS:
            break
    with np.errstate(over="ignore", under="ignore"):
        edges = 10.0 ** (np.arange(start, end + 1) * step)
    # Rounding of the power may leave an end on the wrong side of an edge, and the range may leave float64's.
    edges[0], edges[-1] = min(edges[0], low), max(min(edges[-1], np.finfo(float).max), high)
    return np.asarray(edges)
