"""The noisy vote by brute force: the defining integrals in multiple precision, and every way of voting."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

import mpmath

from dosimeter.core.density import Density
from dosimeter.core.noise import Exponential, Gaussian, Gumbel, Laplace, LogisticNoise

mp = mpmath.MPContext()
mp.dps = 30


def pdf(law: Density, x: mpmath.mpf) -> mpmath.mpf:
    s = mp.mpf(law.scale)
    z = x / s
    if isinstance(law, Laplace):
        return mp.exp(-abs(z)) / (2 * s)
    if isinstance(law, Gaussian):
        return mp.npdf(z) / s
    if isinstance(law, Gumbel):
        return mp.exp(-z - mp.exp(-z)) / s
    if isinstance(law, Exponential):
        return mp.exp(-z) / s if z >= 0 else mp.mpf(0)
    assert isinstance(law, LogisticNoise)
    return mp.sech(z / 2) ** 2 / (4 * s)


def cdf(law: Density, x: mpmath.mpf) -> mpmath.mpf:
    return _cdf(law, mp.mpf(x) / mp.mpf(law.scale), mp.prec)


@functools.lru_cache(1 << 16)
def _cdf(law: Density, z: mpmath.mpf, bits: int) -> mpmath.mpf:
    if isinstance(law, Laplace):
        return mp.exp(z) / 2 if z < 0 else 1 - mp.exp(-z) / 2
    if isinstance(law, Gaussian):
        return mp.erfc(-z / mp.sqrt(2)) / 2
    if isinstance(law, Gumbel):
        return mp.exp(-mp.exp(-z))
    if isinstance(law, Exponential):
        return -mp.expm1(-z) if z >= 0 else mp.mpf(0)
    return 1 / (1 + mp.exp(-z))


@functools.cache
def _win(mine: int, others: tuple[int, ...], law: Density, digits: int) -> mpmath.mpf:
    """P(a class with this count wins against the others): the integrand does not depend on their order."""
    centre, reach = sorted({mine, *others}), 80 * law.scale
    points = sorted({mp.mpf(c) + k * law.scale for c in centre for k in (-30, -10, -4, -2, -1, 0, 1, 2, 4, 10, 30)})
    points = [mp.mpf(centre[0]) - reach, *points, mp.mpf(centre[-1]) + reach]

    def density(s: mpmath.mpf) -> mpmath.mpf:
        product = pdf(law, s - mine)
        for theirs in others:
            product *= cdf(law, s - theirs)
        return product

    return mp.quad(density, points, method="gauss-legendre")


def wins(v: Sequence[int], law: Density) -> list[mpmath.mpf]:
    """P(Y = j | v) for each j: the integral of g(s - vⱼ) Π G(s - v_l), cut at the kinks and where the law is narrow."""
    counts = [int(x) for x in v]
    return [_win(mine, tuple(sorted(counts[:j] + counts[j + 1 :])), law, mp.dps) for j, mine in enumerate(counts)]


def placements(c: int, m: int) -> Iterator[tuple[int, ...]]:
    """Every way of casting c votes for m classes."""
    for chosen in itertools.combinations_with_replacement(range(m), c):
        yield tuple(chosen.count(j) for j in range(m))


def two_class_wins(v: Sequence[int], law: Laplace) -> list[mpmath.mpf]:
    """The same for two classes and Laplace noise in closed form: N₁ - N₂ is known."""
    y = (mp.mpf(v[0]) - v[1]) / mp.mpf(law.b)
    tail = mp.exp(-abs(y)) * (2 + abs(y)) / 4
    first = tail if y < 0 else 1 - tail
    return [first, 1 - first]
