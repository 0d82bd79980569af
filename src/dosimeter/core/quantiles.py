"""Quantiles of many numbers in memory, equal to numpy's to the last bit, in a fifth of the time.

Evenly spaced numbers bracket the wanted rank. Only the numbers between the ends of the bracket are put in order; how
many lie below it is counted. If the rank turns out to lie outside, or a number is nan, numpy decides.
"""

from __future__ import annotations

import math

import numpy as np

from dosimeter.core.arrays import FloatArray

SAMPLE = 1 << 12
"""Numbers that bracket a rank."""
MANY = 1 << 15
"""Numbers below which numpy is as quick."""
MARGIN = 2.0 * math.sqrt(SAMPLE)
"""How far in the sample the bracket reaches to both sides: four standard deviations of a rank in random order."""


def median(values: FloatArray) -> float:
    """The same number as `numpy.median`.

    >>> median(np.arange(50_000.0))
    24999.5
    """
    middle = len(values) // 2
    pair = None if len(values) < MANY else _ranked(values, middle - 1 + len(values) % 2, middle)
    return float(np.median(values)) if pair is None else (pair[0] + pair[1]) / 2.0


def quantile(values: FloatArray, share: float) -> float:
    """The same number as `numpy.quantile` with its linear interpolation; share is in [0, 1].

    >>> quantile(np.arange(50_001.0), 0.99)
    49500.0
    """
    place = share * (len(values) - 1)
    low = math.floor(place)
    pair = None if len(values) < MANY else _ranked(values, low, min(low + 1, len(values) - 1))
    if pair is None or not math.isfinite(pair[0] + pair[1]):
        return float(np.quantile(values, share))
    (a, b), weight = pair, place - low
    return b - (b - a) * (1 - weight) if weight >= 0.5 else a + (b - a) * weight


def _ranked(values: FloatArray, low: int, high: int) -> tuple[float, float] | None:
    """The numbers of two ranks, from 0, high at most one above low; None if the sample does not tell."""
    n = len(values)
    sample = np.sort(values[:: n // SAMPLE])
    first = math.floor(low / n * len(sample) - MARGIN)
    last = math.ceil(high / n * len(sample) + MARGIN)
    bottom = sample[first] if first >= 0 else -np.inf
    top = sample[last] if last < len(sample) else np.inf
    below, above = int(np.count_nonzero(values < bottom)), int(np.count_nonzero(values > top))
    between = values[(values >= bottom) & (values <= top)]
    if not below <= low <= high < below + len(between) or below + len(between) + above != n:
        return None
    between.partition((low - below, high - below))
    return float(between[low - below]), float(between[high - below])
