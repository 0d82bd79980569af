"""Known random words, and the ideal draw that they determine, computed in another way than in the package."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np

from dosimeter.core.noise import Exponential, Gaussian, Gumbel, Laplace, LogisticNoise
from dosimeter.noise_addition import inverse_cdf

NOISES = list(inverse_cdf.INVERSE_CDFS)
"""Every law that can be drawn."""

mp = mpmath.MPContext()
mp.prec = 700


def then_zeros(random_words: np.ndarray) -> Callable[[int], np.ndarray]:
    """A source that yields these words in order and then zeros: T is exactly m/2^63."""
    rest = list(random_words)

    def take(n: int) -> np.ndarray:
        taken = [rest.pop(0) if rest else 0 for _ in range(n)]
        return np.array(taken, dtype=np.uint64)

    return take


def ideal(noise: type, word: int, more: list[int] | None = None) -> mpmath.mpf:
    """The draw at scale one: the quantile of the noise at u, whose bits are the first word and then `more`."""
    upper, m, n = word >> 63, word & (2**63 - 1), 63
    for extra in more or []:
        m, n = (m << 64) + extra, n + 64
    T = mp.mpf(m) / mp.mpf(2) ** n
    if noise is Exponential:
        return -mp.log(T)
    u = 1 - T / 2 if upper else T / 2
    return {
        Gaussian: lambda: mp.sqrt(2) * mp.erfinv(2 * u - 1),
        Laplace: lambda: mp.log(2 * u) if u < 0.5 else -mp.log(2 * (1 - u)),
        Gumbel: lambda: -mp.log(-mp.log(u)),
        LogisticNoise: lambda: mp.log(u / (1 - u)),
    }[noise]()


def nearest(x: mpmath.mpf) -> int:
    """The nearest integer; asserts that no tie is near."""
    assert abs(x - mp.floor(x) - 0.5) > mp.mpf(2) ** -300
    return int(mp.floor(x + 0.5))
