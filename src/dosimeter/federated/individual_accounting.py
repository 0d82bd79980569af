"""Individual accounting: what a client is charged by the norms it really sent. Internal, and a notion of its own.

"What about us?" A client whose updates are shorter than C hides behind more noise than C needs. In round t its own
multiplier is z_t,k with 1/z_t,k² = (r/z_d)² + 1/(2σ_b)², r its clipped norm over C; the bit is charged in full. In a
round in which it was not asked its norm is not known, and r = 1.

The sum is *not* a guarantee: the norms depend on earlier releases, and a client that would have been charged little on
one path may be charged much on another. It becomes one only where the client is no longer asked once its own charge
would pass a limit fixed beforehand [Feldman21]; nobody is stopped here. The standing is therefore "estimate", and the
charge never exceeds the figure that holds for everybody.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.notion import Standing
from dosimeter.federated import accountant
from dosimeter.federated.accountant import Spent, booked
from dosimeter.federated.budget import EpsilonFigure, remarks
from dosimeter.federated.client_messages import AcceptedUpdates
from dosimeter.federated.client_sampling import PoissonSampling
from dosimeter.federated.curator import Curator
from dosimeter.federated.state import State

UNCOVERED = (
    "the charge follows norms that depend on earlier releases, and nobody is stopped at a limit: it is no guarantee",
    "the charge depends on the client's own data: it is for that client and the operator, and is not published",
)
_RUNGS = 32
"""Shares of C are rounded up to 1/32: few distinct rounds to compose, at most 3 % of C too much."""


@dataclass
class ClientNorms:
    """Who sent how much, round by round; pass `observe` to `close_round`. Internal.

    >>> from dosimeter.federated.client_messages import AcceptedUpdates
    >>> import numpy as np
    >>> norms = ClientNorms()
    >>> norms.observe(AcceptedUpdates(0, 2.0, np.array([7]), None, np.array([0.5])))
    >>> norms.share(7, 0), norms.share(7, 1), norms.share(8, 0)        # unknown is charged in full
    (0.25, 1.0, 1.0)
    """

    shares: dict[tuple[int, int], float] = field(default_factory=dict)
    """(client, round) -> clipped norm over C, in (0, 1]."""

    def observe(self, seen: AcceptedUpdates) -> None:
        """What `close_round` accepted."""
        for client, norm in zip(seen.clients.tolist(), seen.norms.tolist(), strict=True):
            self.shares[client, seen.round] = min(1.0, norm / seen.clip)

    def share(self, client: int, t: int) -> float:
        """r, 1 where it is not known."""
        return self.shares.get((client, t), 1.0)


def charge(curator: Curator, state: State, norms: ClientNorms, client: int, *, quick: bool = True) -> EpsilonFigure:
    """(ε, δ) charged to one client for the rounds so far, at the budget's δ."""
    spent = rounds_of_client(curator, state, norms, client)
    delta = curator.budget.delta
    found = accountant.epsilon_by_renyi if quick else accountant.epsilon
    # Nobody is charged more than the figure that holds for all, which is also what rounding up might pass.
    ceiling = found(state.spent, curator.cohort, delta)
    return EpsilonFigure(
        epsilon=min(found(spent, curator.cohort, delta), ceiling),
        delta=delta,
        rounds=accountant.rounds_of(spent),
        adjacency=curator.cohort.adjacency,
        standing=Standing.ESTIMATE,
        how=f"individual accounting by the norms sent, {'Rényi orders' if quick else 'privacy loss distributions'}",
        uncovered=UNCOVERED,
        remarks=remarks(curator.cohort, delta),
    )


def rounds_of_client(curator: Curator, state: State, norms: ClientNorms, client: int) -> Spent:
    """The book with the client's own multipliers."""
    if type(curator.cohort) is not PoissonSampling:
        raise CannotMeasure("with a fixed number one client is replaced by another, whose norm may be C: use Poisson")
    if not 0 <= client < curator.cohort.clients:
        raise Refusal(f"client {client!r}: clients are numbered from 0 to {curator.cohort.clients - 1}")
    own: Spent = ()
    for t, terms in enumerate(_terms(state)):
        own = booked(own, terms[0], _own_noise(curator, *terms, norms.share(client, t)))
    return own


def _terms(state: State) -> Iterator[tuple[float, float]]:
    yield from ((entry.per_round, entry.noise) for entry in state.history)
    if state.is_open:  # paid for, and nothing is known of it yet
        yield state.open_terms


def _own_noise(curator: Curator, per_round: float, noise: float, share: float) -> float:
    """z_t,k, with the share of C rounded up to a rung."""
    r = math.ceil(share * _RUNGS) / _RUNGS
    if r >= 1:
        return noise
    on_sum = curator.clip.noise_on_sum(noise, per_round)
    on_bits = curator.clip.noise_on_bits(noise, per_round)
    inverse = (r / on_sum) ** 2 + (1 / (2 * on_bits) ** 2 if on_bits > 0 else 0.0)
    return 1e6 if inverse <= 1e-12 else inverse**-0.5
