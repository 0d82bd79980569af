"""Individual accounting: what a client is charged for the norms it sent. Internal, and a notion of its own.

A client whose updates are shorter than C is hidden by more noise than C needs. In round t its multiplier is z_t,k with
1/z_t,k² = (r/z_d)² + 1/(2σ_b)², where r is its clipped norm over C; the bit is charged in full. In a round in which it
was not sampled its norm is unknown, and r = 1.

The charge is *not* a guarantee: the norms depend on earlier releases, so a client charged little on one path may be
charged much on another. It becomes one only if a client is no longer sampled once its charge would exceed a limit
fixed in advance [Feldman21]; no client is stopped here. The standing is therefore "estimate", and the charge never
exceeds the figure that holds for all clients.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.notion import Standing
from dosimeter.federated import accountant
from dosimeter.federated.accountant import Spending, add_rounds
from dosimeter.federated.budget import EpsilonFigure, remarks
from dosimeter.federated.client_messages import AcceptedUpdates
from dosimeter.federated.client_sampling import PoissonSampling
from dosimeter.federated.curator import Curator
from dosimeter.federated.state import State

NOT_COVERED = (
    "the charge depends on norms that follow earlier releases, and no client is stopped at a limit: it is no guarantee",
    "the charge depends on the client's data: it is for that client and the operator, and is not published",
)
_RUNGS = 32
"""Shares of C are rounded up to 1/32: few distinct rounds to compose, and at most 3 % of C too much."""


@dataclass
class ClientNorms:
    """Each client's norms, round by round; pass `observe` to `Curator.close_round`. Internal.

    Parameters
    ----------
    shares : dict
        (client, round) -> clipped norm over C, in (0, 1].

    Examples
    --------
    >>> from dosimeter.federated.client_messages import AcceptedUpdates
    >>> import numpy as np
    >>> norms = ClientNorms()
    >>> norms.observe(AcceptedUpdates(0, 2.0, np.array([7]), None, np.array([0.5])))
    >>> norms.share(7, 0), norms.share(7, 1), norms.share(8, 0)        # unknown norms are charged in full
    (0.25, 1.0, 1.0)
    """

    shares: dict[tuple[int, int], float] = field(default_factory=dict)

    def observe(self, accepted: AcceptedUpdates) -> None:
        """Record the updates that `close_round` accepted."""
        for client, norm in zip(accepted.clients.tolist(), accepted.norms.tolist(), strict=True):
            self.shares[client, accepted.round] = min(1.0, norm / accepted.clip)

    def share(self, client: int, t: int) -> float:
        """r; 1 if unknown."""
        return self.shares.get((client, t), 1.0)


def charge(curator: Curator, state: State, norms: ClientNorms, client: int, *, quick: bool = True) -> EpsilonFigure:
    """(ε, δ) charged to one client for the rounds so far, at the budget's δ. An estimate, not a guarantee.

    Parameters
    ----------
    curator : Curator
        The recipe; Poisson sampling only.
    state : State
        The rounds so far.
    norms : ClientNorms
        The norms that were observed.
    client : int
        Number of the client.
    quick : bool, default True
        Rényi divergences instead of privacy loss distributions.

    Returns
    -------
    EpsilonFigure
        Standing "estimate"; never above the figure that holds for all clients.

    Raises
    ------
    CannotMeasure
        If the cohort has a fixed size.
    Refusal
        If the client number is outside 0 to K - 1.

    Notes
    -----
    1/z_t,k² = (r/z_d)² + 1/(2σ_b)² in round t, with r the client's clipped norm over C [Feldman21].

    Examples
    --------
    >>> import numpy as np
    >>> from dosimeter import federated
    >>> sampling, schedule = federated.PoissonSampling(10), federated.Constant(10, 2.0)
    >>> curator = federated.Curator(sampling, schedule, federated.PrivacyBudget(8.0, 1e-2), federated.FixedClip(1.0))
    >>> norms, state = ClientNorms(), curator.open_round(curator.start(np.zeros(1)))
    >>> state = curator.close_round(state, [(k, np.array([k / 10])) for k in range(10)], observe=norms.observe)
    >>> charge(curator, state, norms, 1).epsilon < charge(curator, state, norms, 9).epsilon
    True
    """
    spent = rounds_of_client(curator, state, norms, client)
    delta = curator.budget.delta
    epsilon_of = accountant.epsilon_by_renyi if quick else accountant.epsilon
    # No client is charged more than the figure for all; rounding r up could otherwise exceed it.
    ceiling = epsilon_of(state.spent, curator.cohort, delta)
    return EpsilonFigure(
        epsilon=min(epsilon_of(spent, curator.cohort, delta), ceiling),
        delta=delta,
        rounds=accountant.rounds_of(spent),
        adjacency=curator.cohort.adjacency,
        standing=Standing.ESTIMATE,
        method=f"individual accounting by the norms sent, {'Rényi orders' if quick else 'privacy loss distributions'}",
        not_covered=NOT_COVERED,
        remarks=remarks(curator.cohort, delta),
    )


def rounds_of_client(curator: Curator, state: State, norms: ClientNorms, client: int) -> Spending:
    """The rounds with the client's own multipliers."""
    if type(curator.cohort) is not PoissonSampling:
        raise CannotMeasure(
            "a fixed-size sample replaces one client by another, whose norm may be C: use PoissonSampling"
        )
    if not 0 <= client < curator.cohort.clients:
        raise Refusal(f"client {client!r}: clients are numbered from 0 to {curator.cohort.clients - 1}")
    client_spending: Spending = ()
    for t, parameters in enumerate(_parameters_of_rounds(state)):
        client_spending = add_rounds(
            client_spending, parameters[0], _client_noise(curator, *parameters, norms.share(client, t))
        )
    return client_spending


def _parameters_of_rounds(state: State) -> Iterator[tuple[float, float]]:
    yield from ((entry.per_round, entry.noise) for entry in state.history)
    if state.is_open:  # paid for, but its norms are not known yet
        yield state.open_parameters


def _client_noise(curator: Curator, per_round: float, noise: float, share: float) -> float:
    """z_t,k, with r rounded up to a multiple of 1/32."""
    r = math.ceil(share * _RUNGS) / _RUNGS
    if r >= 1:
        return noise
    on_sum = curator.clip.noise_on_sum(noise, per_round)
    on_bits = curator.clip.noise_on_bits(noise, per_round)
    inverse = (r / on_sum) ** 2 + (1 / (2 * on_bits) ** 2 if on_bits > 0 else 0.0)
    return 1e6 if inverse <= 1e-12 else inverse**-0.5
