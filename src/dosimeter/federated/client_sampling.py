"""Client sampling: which clients take part in a round, and under which neighbouring relation that is accounted."""

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
    """Poisson sampling: each client takes part with probability q = m/K, independently of all others.

    Parameters
    ----------
    clients : int
        K, a declared public number.

    Raises
    ------
    Refusal
        If K is not a whole number from 1 to 2^30.

    Notes
    -----
    Neighbours differ by one client more or fewer ("add-or-remove-one"); q stays m/K for both.

    Examples
    --------
    >>> PoissonSampling(1000).rate(220)
    0.22
    """

    clients: int
    adjacency: ClassVar[str] = "add-or-remove-one"
    description: ClassVar[str] = "every client independently with probability m/K"

    def __post_init__(self) -> None:
        whole("clients", self.clients, 1, MOST_CLIENTS)

    def rate(self, expected: float) -> float:
        """q = m/K; m need not be whole."""
        return number("the expected clients per round", expected, 0, self.clients) / self.clients

    def draw(self, expected: float, bits: Bits) -> Index:
        """Numbers of the sampled clients, ascending; may be empty.

        A client is sampled if its 64-bit word is below ⌊q·2^64⌋: with probability at most q, and at least q - 2^-64.
        The privacy cost rises with q, so this error is on the safe side.
        """
        threshold = int(self.rate(expected) * 2.0**64)
        if threshold >= 1 << 64:
            return np.arange(self.clients)
        return np.flatnonzero(bits(self.clients) < np.uint64(threshold))


@dataclass(frozen=True)
class FixedSizeSampling:
    """Sampling without replacement: exactly m of the K clients.

    Parameters
    ----------
    clients : int
        K, a declared public number.

    Raises
    ------
    Refusal
        If K is not a whole number from 1 to 2^30.

    Notes
    -----
    Neighbours differ by one client replaced ("replace-one"). The sum then moves by up to 2C, which costs much more
    privacy than Poisson sampling; use it only if the protocol cannot sample a random number of clients.

    Examples
    --------
    >>> FixedSizeSampling(1000).adjacency
    'replace-one'
    """

    clients: int
    adjacency: ClassVar[str] = "replace-one"
    description: ClassVar[str] = "exactly m of the K clients, without replacement"

    def __post_init__(self) -> None:
        whole("clients", self.clients, 1, MOST_CLIENTS)

    def rate(self, expected: float) -> float:
        """q = m/K; m must be whole."""
        return whole("the clients per round", expected, 1, self.clients) / self.clients

    def draw(self, expected: float, bits: Bits) -> Index:
        """The m clients with the smallest of K random words, ascending."""
        self.rate(expected)
        return np.sort(np.argsort(bits(self.clients), kind="stable")[: int(expected)])


Cohort = PoissonSampling | FixedSizeSampling
