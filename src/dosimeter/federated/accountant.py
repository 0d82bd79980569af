"""Accountant: composes rounds, each with its own (q, z), with dp-accounting; (ε, δ) from privacy loss distributions.

A round is a Poisson-sampled Gaussian mechanism with noise multiplier z (`poisson_accounting`), or one with samples of
fixed size (`fixed_size_accounting`). Rounds with equal parameters are one entry with a count, so T rounds cost one
self-composition instead of T. Recent compositions are cached: if the parameters change each round, a further round
costs one composition.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.checks import number
from dosimeter.core.errors import Refusal
from dosimeter.federated import fixed_size_accounting as fixed_size
from dosimeter.federated import poisson_accounting as poisson
from dosimeter.federated.client_sampling import Cohort, FixedSizeSampling, PoissonSampling

WORKING_GRID = 1e-3
"""Privacy losses are rounded up to multiples of this for the check before each round."""
CERTIFYING_GRID = 1e-4
"""... and to multiples of this for a reported value."""
FEW_ENTRIES = 8
"""With more entries the coarse grid serves both purposes: on the fine grid dp-accounting needs 2 s for each entry, and
ε differs in the fifth digit."""
LEAST_DELTA = 1e-12
"""dp-accounting counts tails of 1e-15 as certain loss, once for each entry, so a smaller δ is meaningless."""
ORDERS = (*(np.arange(20, 110) / 10).tolist(), *np.arange(11.0, 65.0).tolist(), 96.0, 128.0, 192.0, 256.0, 512.0)
"""Rényi orders. Below 2, dp-accounting's series for Poisson sampling often fails to converge."""


class Spend(NamedTuple):
    """Rounds with equal parameters, as the accountant records them.

    Parameters
    ----------
    per_round : float
        m, the expected number of clients in a round.
    noise : float
        z, the noise multiplier of the whole round.
    rounds : int
        Number of such rounds.

    Examples
    --------
    >>> Spend(220, 1.26, 10).rounds
    10
    """

    per_round: float
    noise: float
    rounds: int


Spending = tuple[Spend, ...]


def add_rounds(spent: Spending, per_round: float, noise: float, rounds: int = 1) -> Spending:
    """The entries with rounds added. Equal parameters share one entry; the entry changed last is at the end.

    >>> add_rounds(add_rounds(add_rounds((), 10, 1.0), 20, 1.0), 10, 1.0)
    (Spend(per_round=20, noise=1.0, rounds=1), Spend(per_round=10, noise=1.0, rounds=2))
    """
    before = sum(s.rounds for s in spent if (s.per_round, s.noise) == (per_round, noise))
    others = tuple(s for s in spent if (s.per_round, s.noise) != (per_round, noise))
    return (*others, Spend(per_round, noise, before + rounds))


def rounds_of(spent: Spending) -> int:
    """Number of rounds in all entries."""
    return sum(s.rounds for s in spent)


def epsilon(spent: Sequence[Spend], cohort: Cohort, delta: float, *, grid: float | None = None) -> float:
    """ε at δ from privacy loss distributions; an upper bound on any grid.

    >>> from math import isclose
    >>> isclose(epsilon([Spend(10, 1.0, 1)], PoissonSampling(10), 1e-5), 4.3772, abs_tol=1e-3)  # q = 1: plain Gaussian
    True
    """
    if not spent:
        return 0.0
    return _epsilon(tuple(spent), cohort, as_delta(delta), grid or certifying_grid(spent))


def delta(spent: Sequence[Spend], cohort: Cohort, epsilon: float, *, grid: float | None = None) -> float:
    """δ at ε from privacy loss distributions; an upper bound on any grid."""
    if not spent:
        return 0.0
    return _delta(tuple(spent), cohort, as_epsilon(epsilon), grid or certifying_grid(spent))


@lru_cache(maxsize=1024)  # numbers are small: a plan, the checks before its rounds and its report ask for the same ones
def _epsilon(spent: Spending, cohort: Cohort, delta: float, grid: float) -> float:
    return float(compose_rounds(spent, cohort, grid).get_epsilon_for_delta(delta))


@lru_cache(maxsize=1024)
def _delta(spent: Spending, cohort: Cohort, epsilon: float, grid: float) -> float:
    return float(compose_rounds(spent, cohort, grid).get_delta_for_epsilon(epsilon))


def certifying_grid(spent: Sequence[Spend]) -> float:
    """The grid for a reported value of these rounds."""
    return CERTIFYING_GRID if len(spent) <= FEW_ENTRIES else WORKING_GRID


def epsilon_by_renyi(spent: Sequence[Spend], cohort: Cohort, delta: float) -> float:
    """ε at δ from Rényi divergences: looser, but a further round costs one addition."""
    if not spent:
        return 0.0
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    with _hide_warnings():
        return float(compute_epsilon(np.array(ORDERS), _renyi_divergences(spent, cohort), as_delta(delta))[0])


def delta_by_renyi(spent: Sequence[Spend], cohort: Cohort, epsilon: float) -> float:
    """δ at ε from Rényi divergences."""
    if not spent:
        return 0.0
    from dp_accounting.rdp.rdp_privacy_accountant import compute_delta

    with _hide_warnings():
        return float(compute_delta(np.array(ORDERS), _renyi_divergences(spent, cohort), as_epsilon(epsilon))[0])


def event_of(spent: Sequence[Spend], cohort: Cohort) -> Any:
    """The rounds as one `DpEvent`, to be accounted under the cohort's adjacency."""
    from dp_accounting import (
        ComposedDpEvent,
        GaussianDpEvent,
        PoissonSampledDpEvent,
        SampledWithoutReplacementDpEvent,
        SelfComposedDpEvent,
    )

    def event_of_round(s: Spend) -> Any:
        gaussian = GaussianDpEvent(s.noise)
        if _is_fixed(cohort):
            return SampledWithoutReplacementDpEvent(cohort.clients, int(s.per_round), gaussian)
        return PoissonSampledDpEvent(cohort.rate(s.per_round), gaussian)

    return ComposedDpEvent([SelfComposedDpEvent(event_of_round(s), s.rounds) for s in spent])


def compose_rounds(spent: Spending, cohort: Cohort, grid: float) -> Any:
    """The privacy loss distribution of all rounds; starts from the longest cached prefix of the entries."""
    grid = _coarsen_grid(spent, cohort, grid)
    cached = next((end for end in range(len(spent), 0, -1) if (spent[:end], cohort, grid) in _cache), 0)
    distribution = _cache[spent[:cached], cohort, grid] if cached else None
    for end in range(cached, len(spent)):
        entry = spent[end]
        rounds_distribution = _round_loss_distribution(cohort, entry.per_round, entry.noise, grid)
        rounds_distribution = (
            rounds_distribution if entry.rounds == 1 else rounds_distribution.self_compose(entry.rounds)
        )
        distribution = rounds_distribution if distribution is None else distribution.compose(rounds_distribution)
        # Adding a round changes only the last entry, so the next calls need the two longest prefixes.
        if end >= len(spent) - 2:
            _cache[spent[: end + 1], cohort, grid] = distribution
    while len(_cache) > _CACHE_SIZE:
        _cache.pop(next(iter(_cache)))
    return distribution


_cache: dict[tuple[Spending, Cohort, float], Any] = {}
_CACHE_SIZE = 16


def _coarsen_grid(spent: Spending, cohort: Cohort, grid: float) -> float:
    """The grid, doubled until the losses need at most 2^22 steps: with very little noise ε is in the thousands.

    The range of the losses is only estimated here (twelve standard deviations, of one round and of all). On any grid
    they are rounded up, so the estimate cannot make ε too small.
    """
    moves = 2.0 if _is_fixed(cohort) else 1.0
    reach_of_round = variance = 0.0
    for s in spent:
        mu, q = moves / s.noise, cohort.rate(s.per_round)
        reach_of_round = max(reach_of_round, mu * mu / 2 + 12 * mu)
        variance += s.rounds * min(mu * mu, 4 * q * q * math.expm1(min(mu * mu, 50.0)))
    while reach_of_round + variance / 2 + 12 * math.sqrt(variance) > grid * _MOST_STEPS:
        grid *= 2
    return grid


_MOST_STEPS = 1 << 22


@lru_cache(maxsize=64)
def _round_loss_distribution(cohort: Cohort, per_round: float, noise: float, grid: float) -> Any:
    of_sampling = fixed_size if _is_fixed(cohort) else poisson
    return of_sampling.loss_distribution(cohort.rate(per_round), noise, grid)


def _renyi_divergences(spent: Sequence[Spend], cohort: Cohort) -> FloatArray:
    return np.asarray(sum(s.rounds * _round_renyi_divergence(cohort, s.per_round, s.noise) for s in spent))


@lru_cache(maxsize=1024)
def _round_renyi_divergence(cohort: Cohort, per_round: float, noise: float) -> FloatArray:
    """(orders,) Rényi divergence of one round."""
    from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    q = cohort.rate(per_round)
    relation, event = (
        (NeighboringRelation.REPLACE_ONE, fixed_size.renyi_event(cohort.clients, int(per_round), noise))
        if _is_fixed(cohort)
        else (NeighboringRelation.ADD_OR_REMOVE_ONE, PoissonSampledDpEvent(q, GaussianDpEvent(noise)))
    )
    with _hide_warnings():
        divergence = np.array(RdpAccountant(ORDERS, relation).compose(event).rdp)
    divergence.setflags(write=False)
    return divergence


def _is_fixed(cohort: Cohort) -> bool:
    """True for samples of fixed size, False for Poisson sampling; any other kind of cohort is refused."""
    if type(cohort) not in (PoissonSampling, FixedSizeSampling):
        raise Refusal(f"{cohort!r} cannot be accounted: use PoissonSampling or FixedSizeSampling")
    return type(cohort) is FixedSizeSampling


@contextmanager
def _hide_warnings() -> Iterator[None]:
    """Hide dp-accounting's warnings about orders it cannot use; the result rests on the remaining orders."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def as_delta(delta: Any) -> float:
    """δ in [1e-12, 1); refuses anything else."""
    return number("delta", delta, LEAST_DELTA, np.nextafter(1, 0), strictly=False)


def as_epsilon(epsilon: Any) -> float:
    """ε >= 0 and finite; refuses anything else."""
    return number("epsilon", epsilon, 0, 1e6, strictly=False)
