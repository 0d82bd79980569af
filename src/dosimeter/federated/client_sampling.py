"""Cohorts: who is asked in a round, and which neighbour relation that way of asking is accounted for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dosimeter.core.arrays import Index
from dosimeter.core.checks import number, whole
from dosimeter.noise_addition.bits import Bits

MOST_CLIENTS = 1 << 30


@dataclass(frozen=True)
class PoissonSampling:
    """Every client is asked with probability q = m/K, independently of all others.

    Neighbours: one client more or one fewer. `clients` is K, a declared public number; q stays m/K for both.

    >>> PoissonSampling(1000).rate(220)
    0.22
    """

    clients: int
    adjacency: ClassVar[str] = "add-or-remove-one"
    in_words: ClassVar[str] = "every client independently with probability m/K"

    def __post_init__(self) -> None:
        whole("clients", self.clients, 1, MOST_CLIENTS)

    def rate(self, expected: float) -> float:
        """q = m/K; m need not be whole."""
        return number("the expected clients per round", expected, 0, self.clients) / self.clients

    def draw(self, expected: float, bits: Bits) -> Index:
        """Numbers of the clients asked, rising; may be none.

        A client is in when its 64-bit word is below ⌊q·2^64⌋: the probability is never above q, and less by 2^-64 at
        most. The cost of a round rises with q, so the error is on the safe side.
        """
        threshold = int(self.rate(expected) * 2.0**64)
        if threshold >= 1 << 64:
            return np.arange(self.clients)
        return np.flatnonzero(bits(self.clients) < np.uint64(threshold))


@dataclass(frozen=True)
class FixedSizeSampling:
    """Exactly m of the K clients, without replacement.

    Neighbours: one client replaced by any other. The sum then moves by up to 2C, which costs far more than Poisson
    sampling does; it is for protocols that cannot ask a random number of clients.
    """

    clients: int
    adjacency: ClassVar[str] = "replace-one"
    in_words: ClassVar[str] = "exactly m of the K clients, without replacement"

    def __post_init__(self) -> None:
        whole("clients", self.clients, 1, MOST_CLIENTS)

    def rate(self, expected: float) -> float:
        """q = m/K; m is whole."""
        return whole("the clients per round", expected, 1, self.clients) / self.clients

    def draw(self, expected: float, bits: Bits) -> Index:
        """The m clients with the smallest of K random words, rising."""
        self.rate(expected)
        return np.sort(np.argsort(bits(self.clients), kind="stable")[: int(expected)])


Cohort = PoissonSampling | FixedSizeSampling
