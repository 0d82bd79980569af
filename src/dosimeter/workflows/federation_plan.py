"""`dm.plan_federation`: noise, rounds and the certified (ε, δ) of a federated training, from public numbers alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dosimeter.core.checks import positive
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.federated.accountant import LEAST_DELTA
from dosimeter.models.federated_terms import DELTA, FederatedTerms, terms
from dosimeter.models.round_schedule import LEAST_NOISE, MOST_NOISE, MOST_ROUNDS, listed_rounds
from dosimeter.results.federated import FederatedPlan

MOST_EPSILON = 100.0


def plan_federation(
    clients: int,
    *,
    epsilon: float,
    delta: float = DELTA,
    clients_per_round: float | None = None,
    rounds: int | None = None,
    noise_multiplier: float | None = None,
    schedule: str | Sequence[Any] | None = None,
    parameters: int | None = None,
    sampling: str = "poisson",
) -> FederatedPlan:
    """How much noise a number of rounds needs, or how many rounds an amount of noise allows. Nothing is trained.

    Parameters
    ----------
    clients
        K, the number of clients; public.
    epsilon, delta
        The budget of the whole training, for adding or removing one client with all its rows.
    clients_per_round
        m, the clients asked in a round on average. By default the m of least z/m, the noise of the mean, with which
        the rounds fit the budget: all clients, in all settings that were tried. A smaller m saves messages only.
    rounds
        The noise follows from it. A twentieth of the clients, from 10 to 50, by default.
    noise_multiplier
        z, the noise on the sum of clipped updates over the clip. The rounds follow from it.
    schedule
        m and z that change: "ROUNDSxCLIENTS:NOISE" by commas, such as "10x50:1.1,20x200:1.6", or a list of
        (rounds, m, z). Instead of `clients_per_round`, `rounds` and `noise_multiplier`.
    parameters
        Of the model that will be trained. The plan then warns if the noise is longer than the longest mean update.
    sampling
        "poisson", or "fixed" for exactly m clients, at more than twice the privacy cost.

    Returns
    -------
    FederatedPlan
        Rounds, noise and the certified (ε, δ). `over` says why the budget does not allow the plan.

    Raises
    ------
    Refusal
        A number is out of its range.

    Examples
    --------
    >>> plan = plan_federation(1000, epsilon=8, delta=1e-5, clients_per_round=220, rounds=54)
    >>> round(plan.noise, 3)
    1.251
    >>> few = plan_federation(10, epsilon=8, rounds=20, parameters=1000)         # ten hospitals
    >>> few.per_round, few.largest_model, few.remarks[-1][:49]
    (10.0, 13, 'the noise of a round is about 8.5 times as long a')
    """
    if parameters is not None and not 1 <= parameters <= 1 << 40:
        raise Refusal(f"{option('parameters', parameters)}: give a whole number from 1 to {1 << 40}")
    return FederatedPlan.of(
        checked_terms(clients, epsilon, delta, clients_per_round, rounds, noise_multiplier, sampling, schedule),
        parameters=parameters,
    )


def checked_terms(
    clients: int,
    epsilon: float,
    delta: float,
    clients_per_round: float | None,
    rounds: int | None,
    noise_multiplier: float | None,
    sampling: str,
    schedule: str | Sequence[Any] | None = None,
) -> FederatedTerms:
    """The terms of a training from public numbers, each checked."""
    if schedule is not None:
        for name, value in (
            ("clients_per_round", clients_per_round),
            ("rounds", rounds),
            ("noise_multiplier", noise_multiplier),
        ):
            if value is not None:
                raise Refusal(f"{option('schedule')} lists rounds, clients and noise: leave {option(name)} out")
    if rounds is not None and not 1 <= rounds <= MOST_ROUNDS:
        raise Refusal(f"{option('rounds', rounds)}: give a whole number from 1 to {MOST_ROUNDS}")
    if noise_multiplier is not None:
        name = "noise_multiplier"
        if not LEAST_NOISE <= positive(name, noise_multiplier) <= MOST_NOISE:
            shown = option(name, float(noise_multiplier))
            raise Refusal(f"{shown}: give a multiplier from {LEAST_NOISE:g} to {MOST_NOISE:g}")
    if not LEAST_DELTA <= delta < 1:
        shown = option("delta", float(delta))
        raise Refusal(f"{shown}: give a number from {LEAST_DELTA:g}, the least distinguished from 0, to below 1")
    if positive("epsilon", epsilon) > MOST_EPSILON:
        raise Refusal(f"{option('epsilon', float(epsilon))}: above {MOST_EPSILON:g} nobody is protected; give less")
    return terms(
        clients,
        epsilon=epsilon,
        delta=delta,
        per_round=clients_per_round,
        rounds=rounds,
        noise=noise_multiplier,
        sampling=sampling,
        listed=listed_rounds(schedule),
    )
