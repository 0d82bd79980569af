"""The noise laws whose noisy vote can be measured: one entry for each, and a refusal for every other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dosimeter.core.arrays import FloatArray
from dosimeter.core.by_law import ByLaw
from dosimeter.core.density import Density
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.noise import Exponential, Gaussian, Gumbel, Laplace, LogisticNoise, no_noise
from dosimeter.pate import gumbel, laplace_quadrature, laplace_winner, trapezoid_quadrature

Integral = Callable[..., FloatArray]
"""From gaps between counts to a figure of each histogram."""


@dataclass(frozen=True)
class VoteLaw:
    """What PATE needs to know about a law."""

    excess: Integral
    """(gaps, weights, law, c) -> (u,) Σⱼ P(Y = j | v⁻ + cδⱼ) - 1."""
    wins: Integral
    """(gaps, weights, law) -> (u, k) P(Y = j) of one class of each count."""
    pure: bool
    """Whether g(x - 1) <= e^γ g(x), so that a query is 2cγ-DP with γ one over the scale."""
    finest: float = 1e-3
    """At this scale, and below it, one vote outweighs the noise except with probability 1e-400."""


VOTE_LAWS: ByLaw[VoteLaw] = ByLaw(
    "is not a law whose noisy vote can be measured here",
    {
        Laplace: VoteLaw(laplace_quadrature.excess, laplace_winner.wins, pure=True),
        Gumbel: VoteLaw(gumbel.excess, gumbel.wins, pure=True),
        Exponential: VoteLaw(laplace_quadrature.excess, laplace_winner.wins, pure=True),
        LogisticNoise: VoteLaw(trapezoid_quadrature.excess, trapezoid_quadrature.wins, pure=True),
        Gaussian: VoteLaw(trapezoid_quadrature.excess, trapezoid_quadrature.wins, pure=False, finest=1e-2),
    },
)


def as_law(noise: Any) -> Density:
    """A noise whose noisy vote can be measured; below the finest scale it is replaced by that scale."""
    if noise is no_noise:
        raise CannotMeasure(
            "without noise the label is a function of the votes: if a person's vote can lead to k different labels, it "
            "leaks log k nats, up to log m, whatever the budget: add noise, e.g. Laplace(1 / 0.05)"
        )
    finest = VOTE_LAWS[noise].finest
    law: Density = noise
    return law.with_scale(max(law.scale, finest))
