"""Gauss-Legendre rules for a piece between two kinks, with as many nodes as it needs (docs/explanation/pate.md, 3)."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from itertools import pairwise

import numpy as np

from dosimeter.core.arrays import FloatArray

FEW = 16
"""Up to this many factors 1 - e^(-t)/2 a wide piece needs fewer nodes than for any number of them."""
NODES_FOR_FEW = ((0.05, 4), (0.1, 5), (0.2, 6), (0.4, 7), (0.8, 10), (1.5, 12), (3.0, 17), (6.0, 24), (12.0, 33))
NODES_FOR_ANY = ((0.05, 5), (0.1, 6), (0.2, 7), (0.4, 9), (0.8, 11), (1.5, 15), (3.0, 22))
"""(width in scales, nodes) for an error below 1e-15 by Bernstein's ellipse; the second holds for 1 - e^(-t) too."""


@cache
def legendre(n: int) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes (n,) and weights (n,) on [-1, 1]; cached because numpy solves for them at each call."""
    return np.polynomial.legendre.leggauss(n)


@lru_cache(maxsize=4096)
def rule(width: float, factors: int, *, halves: bool) -> tuple[FloatArray, FloatArray]:
    """Nodes (n,) and weights (n,), in scales from the left end of a piece that is `width` scales wide.

    The integrand has `factors` factors 1 - e^(-t)/2 (`halves`) or 1 - e^(-t).

    >>> t, w = rule(0.05, 9, halves=True)
    >>> len(t), round(float(w @ t), 6)
    (4, 0.00125)
    """
    table = NODES_FOR_FEW if halves and factors <= FEW else NODES_FOR_ANY
    cuts = _cuts(width, table[-1][0], math.log(factors + 1) + 4)
    parts = [_gauss(a, b, table) for a, b in pairwise(cuts)]
    t, w = (np.concatenate(column) for column in zip(*parts, strict=True))
    t.setflags(write=False)
    w.setflags(write=False)
    return t, w


def _cuts(width: float, unit: float, settled: float) -> list[float]:
    """Ends of sub-pieces: units from the left until e^(-t) has settled, then doubling; doubling from the right."""
    if width <= unit:
        return [0.0, width]
    left, step = [0.0], unit
    while left[-1] + step < width / 2:
        left.append(left[-1] + step)
        step = left[-1] if left[-1] > max(settled, unit) else unit
    right, step = [width], unit
    while right[-1] - step > width / 2:
        right.append(right[-1] - step)
        step = width - right[-1]
    return [*left, width / 2, *reversed(right)]


def _gauss(a: float, b: float, table: tuple[tuple[float, int], ...]) -> tuple[FloatArray, FloatArray]:
    n = next((n for widest, n in table if b - a <= widest * (1 + 1e-9)), table[-1][1])
    x, w = legendre(n)
    return a + (b - a) / 2 * (x + 1), (b - a) / 2 * w
