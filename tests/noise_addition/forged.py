"""Bits that a test knows, and the ideal draw they stand for, computed by another road than the package's."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np

from dosimeter.core.noise import Exponential, Gaussian, Gumbel, Laplace, LogisticNoise

LAWS = [Gaussian, Laplace, Gumbel, Exponential, LogisticNoise]

mp = mpmath.MPContext()
mp.prec = 700


def then_zeros(words: np.ndarray) -> Callable[[int], np.ndarray]:
    """A source that gives these words in order and zeros for ever after: T is m/2^63 exactly."""
    rest = list(words)

    def take(n: int) -> np.ndarray:
        taken = [rest.pop(0) if rest else 0 for _ in range(n)]
        return np.array(taken, dtype=np.uint64)

    return take


def ideal(law: type, word: int, more: list[int] | None = None) -> mpmath.mpf:
    """The draw at scale one: the quantile of the law at u, whose bits the words give; [more words follow the first]."""
    upper, m, n = word >> 63, word & (2**63 - 1), 63
    for extra in more or []:
        m, n = (m << 64) + extra, n + 64
    T = mp.mpf(m) / mp.mpf(2) ** n
    if law is Exponential:
        return -mp.log(T)
    u = 1 - T / 2 if upper else T / 2
    return {
        Gaussian: lambda: mp.sqrt(2) * mp.erfinv(2 * u - 1),
        Laplace: lambda: mp.log(2 * u) if u < 0.5 else -mp.log(2 * (1 - u)),
        Gumbel: lambda: -mp.log(-mp.log(u)),
        LogisticNoise: lambda: mp.log(u / (1 - u)),
    }[law]()


def nearest(x: mpmath.mpf) -> int:
    """The nearest integer; the tests see that no tie is near."""
    assert abs(x - mp.floor(x) - 0.5) > mp.mpf(2) ** -300
    return int(mp.floor(x + 0.5))
