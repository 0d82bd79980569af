"""Choosing the clip: fixed, or following a quantile of the clients' norms without telling them [Andrew21].

Each client's bit b says whether its norm was within C_t. The bits enter *centred*, as b - ½: a client that is present
moves the sum by ½ and not by 1, and one that is absent adds 0. With noise σ_b on that sum and z_d·C on the sum of
updates the pair is one Gaussian mechanism with 1/z² = 1/z_d² + 1/(2σ_b)² (docs/federated.md, The bits).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dosimeter.core.checks import number
from dosimeter.core.errors import Refusal
from dosimeter.federated.clip import as_bound

_LEAST, _MOST = 1e-60, 1e60
"""C stays within these: far from where clipping and noise lose digits, and far from any use."""


@dataclass(frozen=True)
class FixedClip:
    """C is given and stays."""

    start: float

    def __post_init__(self) -> None:
        as_bound(self.start)

    def noise_on_sum(self, noise: float, per_round: float) -> float:
        """z_d = z: nothing but the sum is noised."""
        return noise

    def noise_on_bits(self, noise: float, per_round: float) -> float:
        """0: no bit is asked for."""
        return 0.0

    def moved(self, bound: float, share: float) -> float:
        """C."""
        return bound


@dataclass(frozen=True)
class QuantileClip:
    """C_{t+1} = C_t exp(-η_C (b̄ - γ)), b̄ the noisy share of clients within C_t, γ the quantile sought.

    >>> rule = QuantileClip(start=1.0, quantile=0.5, rate=0.2)
    >>> rule.moved(1.0, share=1.0) < 1.0 < rule.moved(1.0, share=0.0)     # all within: too wide; none within: too tight
    True
    >>> round(rule.noise_on_sum(1.0, per_round=100), 4)                   # (1 - 1/(2·5)²)^-½
    1.005
    """

    start: float = 1.0
    quantile: float = 0.5
    rate: float = 0.2
    """η_C."""
    share_noised: float = 0.05
    """σ_b = m times this; [Andrew21] takes m/20."""

    def __post_init__(self) -> None:
        as_bound(self.start)
        number("quantile", self.quantile, 0, 1)
        number("rate", self.rate, 0, 5)
        number("share_noised", self.share_noised, 0, 1e6)

    def noise_on_bits(self, noise: float, per_round: float) -> float:
        """σ_b, on the sum of the centred bits; never below z, or few clients would pay most of a round for bits."""
        return max(self.share_noised * per_round, noise)

    def noise_on_sum(self, noise: float, per_round: float) -> float:
        """z_d = (1/z² - 1/(2σ_b)²)^-½, so that sum and bits together cost what z alone would."""
        return split(noise, self.noise_on_bits(noise, per_round))

    def moved(self, bound: float, share: float) -> float:
        """C_{t+1}."""
        # e^±300 passes both ends from either; with little more than one client a noisy share can be in the thousands.
        power = min(max(-self.rate * (share - self.quantile), -300.0), 300.0)
        return min(max(bound * math.exp(power), _LEAST), _MOST)


ClipRule = FixedClip | QuantileClip


def split(noise: float, sigma_bits: float) -> float:
    """z_d from z and σ_b; refused where the bits alone would cost more than the whole round may.

    >>> round(split(1.0, 1.0), 6)
    1.154701
    """
    left = 1.0 / noise**2 - 1.0 / (2.0 * sigma_bits) ** 2
    if not left > 0:
        raise Refusal(
            f"z={noise:g} leaves nothing for the updates beside bits with noise {sigma_bits:g}: "
            "give the bits noise above z/2"
        )
    return 1.0 / math.sqrt(left)


def noisy_share(noised_sum: Any, per_round: float) -> float:
    """b̄ = ½ + (Σ(b - ½) + noise)/m, m the *expected* number, whoever came; ½ is what nobody at all would say."""
    return 0.5 + float(noised_sum) / per_round
