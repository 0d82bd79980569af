"""Noisy votes in multiple precision, directly from eq. 45 of [Saeidian21]: m integrals, no stable form."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import pairwise

import mpmath as mp
import numpy as np

from dosimeter.core.density import Density
from dosimeter.core.noise import Exponential, Gaussian, Gumbel, Laplace, LogisticNoise

Function = Callable[[mp.mpf], mp.mpf]
LAWS: dict[type[Density], tuple[Function, Function]] = {
    Laplace: (lambda z: mp.exp(-abs(z)) / 2, lambda z: mp.exp(z) / 2 if z < 0 else 1 - mp.exp(-z) / 2),
    Exponential: (lambda z: mp.exp(-z) if z >= 0 else mp.mpf(0), lambda z: 1 - mp.exp(-z) if z >= 0 else mp.mpf(0)),
    Gumbel: (lambda z: mp.exp(-z - mp.exp(-z)), lambda z: mp.exp(-mp.exp(-z))),
    LogisticNoise: (lambda z: 1 / (4 * mp.cosh(z / 2) ** 2), lambda z: 1 / (1 + mp.exp(-z))),
    Gaussian: (mp.npdf, mp.ncdf),
}
"""Density and distribution function at scale one."""


def win(counts: Sequence[int], g: Function, G: Function, noise: Density, j: int) -> mp.mpf:
    """P(Y = j | counts) = ∫ g(s - v_j) Π_{l≠j} G(s - v_l) ds, in the precision of the caller's mp context."""
    v = [mp.mpf(int(n)) / mp.mpf(noise.scale) for n in counts]
    reach = mp.sqrt(5 * mp.mp.dps) if isinstance(noise, Gaussian) else mp.mpf(2.4) * mp.mp.dps
    low = max(v) if isinstance(noise, Exponential) else min(v) - reach
    ends = {low, max(v) + reach, *(x for x in v if x >= low)}
    wide = mp.mpf(2)
    kinks = sorted(ends)
    for a, b in pairwise(kinks):
        parts = int(mp.ceil((b - a) / wide))
        ends |= {a + (b - a) * i / parts for i in range(1, parts)}
    points = sorted(ends)

    def density(s: mp.mpf) -> mp.mpf:
        product = g(s - v[j])
        for l, x in enumerate(v):
            product *= G(s - x) if l != j else 1
        return product

    return mp.quad(density, points, method="gauss-legendre")


def leakage(others: Sequence[int], noise: Density, shift: int = 1, digits: int = 30) -> float:
    """log Σⱼ P(Y = j | v⁻ + shift·δⱼ)."""
    g, G = map(functools.cache, LAWS[type(noise)])  # the integrals of all classes have points in common
    with mp.workdps(digits):
        total = mp.mpf(0)
        for j in range(len(others)):
            counts = list(others)
            counts[j] += shift
            total += win(counts, g, G, noise, j)
        return float(mp.log(total))


def wins(counts: Sequence[int], noise: Density, digits: int = 30) -> np.ndarray:
    """(m,) P(Y = j | counts)."""
    g, G = map(functools.cache, LAWS[type(noise)])
    with mp.workdps(digits):
        return np.array([float(win(counts, g, G, noise, j)) for j in range(len(counts))])
