"""The clipping bound: fixed, or tracking a quantile of the clients' norms without revealing them [Andrew21].

Each client's bit b says whether its norm was within C_t. The bits enter *centred*, as b - ½: a client that is present
moves the sum by ½ instead of 1, and an absent client adds 0. With noise σ_b on that sum and z_d·C on the sum of
updates, the pair is one Gaussian mechanism with 1/z² = 1/z_d² + 1/(2σ_b)² (docs/explanation/federated.md, The bits).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dosimeter.core.checks import number
from dosimeter.core.errors import Refusal
from dosimeter.federated.clip import as_bound

_LEAST, _MOST = 1e-60, 1e60
"""C stays within these limits: far from where clipping and noise lose digits, and far from any practical value."""


@dataclass(frozen=True)
class FixedClip:
    """A constant clipping bound C.

    Parameters
    ----------
    start : float
        C, the largest 2-norm of a client's contribution; 1e-100 to 1e100.

    Raises
    ------
    Refusal
        If C is not a number in that range.

    Examples
    --------
    >>> FixedClip(2.0).next_bound(2.0, share=0.9)
    2.0
    """

    start: float

    def __post_init__(self) -> None:
        as_bound(self.start)

    def noise_on_sum(self, noise: float, per_round: float) -> float:
        """z_d = z: only the sum of updates gets noise."""
        return noise

    def noise_on_bits(self, noise: float, per_round: float) -> float:
        """0: no bits are collected."""
        return 0.0

    def next_bound(self, bound: float, share: float) -> float:
        """C, unchanged."""
        return bound


@dataclass(frozen=True)
class QuantileClip:
    """A clipping bound that tracks a quantile of the clients' norms.

    Parameters
    ----------
    start : float, default 1.0
        C_0, the bound of the first round; public.
    quantile : float, default 0.5
        γ, the share of clients that should be within C, in (0, 1].
    rate : float, default 0.2
        η_C, the step size in log C, in (0, 5].
    bit_noise_share : float, default 0.05
        σ_b/m, the noise on the sum of the bits per expected client; [Andrew21] takes 1/20.

    Raises
    ------
    Refusal
        If a parameter is outside its range.

    Notes
    -----
    C_{t+1} = C_t exp(-η_C (b̄ - γ)), where b̄ is the noisy share of clients within C_t: the geometric update of
    [Andrew21], Algorithm 1.

    Examples
    --------
    >>> rule = QuantileClip(start=1.0, quantile=0.5, rate=0.2)
    >>> rule.next_bound(1.0, share=1.0) < 1.0 < rule.next_bound(1.0, share=0.0)     # all within C: shrink; none: grow
    True
    >>> round(rule.noise_on_sum(1.0, per_round=100), 4)                             # (1 - 1/(2·5)²)^-½
    1.005
    """

    start: float = 1.0
    quantile: float = 0.5
    rate: float = 0.2
    bit_noise_share: float = 0.05

    def __post_init__(self) -> None:
        as_bound(self.start)
        number("quantile", self.quantile, 0, 1)
        number("rate", self.rate, 0, 5)
        number("bit_noise_share", self.bit_noise_share, 0, 1e6)

    def noise_on_bits(self, noise: float, per_round: float) -> float:
        """σ_b, on the sum of the centred bits; at least z, or with few clients the bits would take most of the cost."""
        return max(self.bit_noise_share * per_round, noise)

    def noise_on_sum(self, noise: float, per_round: float) -> float:
        """z_d = (1/z² - 1/(2σ_b)²)^-½: sum and bits together cost as much as z alone."""
        return split_noise(noise, self.noise_on_bits(noise, per_round))

    def next_bound(self, bound: float, share: float) -> float:
        """C_{t+1}."""
        # e^±300 reaches either limit from the other; with few clients a noisy share can be in the thousands.
        power = min(max(-self.rate * (share - self.quantile), -300.0), 300.0)
        return min(max(bound * math.exp(power), _LEAST), _MOST)


ClipRule = FixedClip | QuantileClip


def split_noise(noise: float, sigma_bits: float) -> float:
    """z_d from z and σ_b; refused if the bits alone would cost more than the whole round.

    >>> round(split_noise(1.0, 1.0), 6)
    1.154701
    """
    precision_left = 1.0 / noise**2 - 1.0 / (2.0 * sigma_bits) ** 2
    if not precision_left > 0:
        raise Refusal(
            f"z={noise:g} leaves no noise for the updates if the bits have noise {sigma_bits:g}: "
            "use noise above z/2 for the bits"
        )
    return 1.0 / math.sqrt(precision_left)


def noisy_share(noised_sum: Any, per_round: float) -> float:
    """b̄ = ½ + (Σ(b - ½) + noise)/m, m the *expected* number of clients; ½ plus noise if no client answered."""
    return 0.5 + float(noised_sum) / per_round
