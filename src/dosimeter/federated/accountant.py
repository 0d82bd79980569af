"""The accountant: rounds with their own (q, z), composed by dp-accounting; (ε, δ) by privacy loss distributions.

A round is one Poisson-sampled Gaussian with multiplier z (or one of fixed size, `fixed_size`). Rounds with the same
terms are kept as one entry with a count, so that T rounds cost one self-composition and never T of them. What was
composed last is remembered: with terms that change each round a further round costs one composition.
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
from dosimeter.federated.client_sampling import Cohort, FixedSizeSampling, PoissonSampling

WORKING_GRID = 1e-3
"""Privacy losses are rounded up to this for the question asked before each round."""
CERTIFYING_GRID = 1e-4
"""... and to this for a figure that is printed."""
FEW = 8
"""With more distinct terms the coarse grid serves for both: on the fine one dp-accounting needs 2 s for each of them,
and ε differs in the fifth digit."""
LEAST_DELTA = 1e-12
"""dp-accounting counts tails of 1e-15 as certain loss, once for each distinct term: below this δ says nothing."""
ORDERS = (*(np.arange(20, 110) / 10).tolist(), *np.arange(11.0, 65.0).tolist(), 96.0, 128.0, 192.0, 256.0, 512.0)
"""Rényi orders. Below 2 the series of dp-accounting for Poisson sampling often fails to converge."""


class Spend(NamedTuple):
    """So many rounds, each with expected sample size m and noise multiplier z."""

    per_round: float
    noise: float
    rounds: int


Spent = tuple[Spend, ...]


def booked(spent: Spent, per_round: float, noise: float, rounds: int = 1) -> Spent:
    """The book with rounds added; equal terms stand together, the entry touched last at the end.

    >>> booked(booked(booked((), 10, 1.0), 20, 1.0), 10, 1.0)
    (Spend(per_round=20, noise=1.0, rounds=1), Spend(per_round=10, noise=1.0, rounds=2))
    """
    before = sum(s.rounds for s in spent if (s.per_round, s.noise) == (per_round, noise))
    others = tuple(s for s in spent if (s.per_round, s.noise) != (per_round, noise))
    return (*others, Spend(per_round, noise, before + rounds))


def rounds_of(spent: Spent) -> int:
    """How many rounds stand in the book."""
    return sum(s.rounds for s in spent)


def epsilon(spent: Sequence[Spend], cohort: Cohort, delta: float, *, grid: float | None = None) -> float:
    """ε at δ by privacy loss distributions, an upper bound whatever the grid.

    >>> from math import isclose
    >>> isclose(epsilon([Spend(10, 1.0, 1)], PoissonSampling(10), 1e-5), 4.3772, abs_tol=1e-3)  # q = 1: plain Gaussian
    True
    """
    if not spent:
        return 0.0
    return float(composed(tuple(spent), cohort, grid or certifying_grid(spent)).get_epsilon_for_delta(as_delta(delta)))


def delta(spent: Sequence[Spend], cohort: Cohort, epsilon: float, *, grid: float | None = None) -> float:
    """δ at ε by privacy loss distributions, an upper bound whatever the grid."""
    if not spent:
        return 0.0
    return float(
        composed(tuple(spent), cohort, grid or certifying_grid(spent)).get_delta_for_epsilon(as_epsilon(epsilon))
    )


def certifying_grid(spent: Sequence[Spend]) -> float:
    """The grid on which a figure of these rounds is printed."""
    return CERTIFYING_GRID if len(spent) <= FEW else WORKING_GRID


def epsilon_by_renyi(spent: Sequence[Spend], cohort: Cohort, delta: float) -> float:
    """ε at δ by Rényi orders: looser, and a further round is one addition."""
    if not spent:
        return 0.0
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    with _quiet():
        return float(compute_epsilon(np.array(ORDERS), _orders_of(spent, cohort), as_delta(delta))[0])


def delta_by_renyi(spent: Sequence[Spend], cohort: Cohort, epsilon: float) -> float:
    """δ at ε by Rényi orders."""
    if not spent:
        return 0.0
    from dp_accounting.rdp.rdp_privacy_accountant import compute_delta

    with _quiet():
        return float(compute_delta(np.array(ORDERS), _orders_of(spent, cohort), as_epsilon(epsilon))[0])


def event_of(spent: Sequence[Spend], cohort: Cohort) -> Any:
    """The rounds as one `DpEvent`, to be read under the cohort's adjacency."""
    from dp_accounting import (
        ComposedDpEvent,
        GaussianDpEvent,
        PoissonSampledDpEvent,
        SampledWithoutReplacementDpEvent,
        SelfComposedDpEvent,
    )

    def once(s: Spend) -> Any:
        gaussian = GaussianDpEvent(s.noise)
        if _is_fixed(cohort):
            return SampledWithoutReplacementDpEvent(cohort.clients, int(s.per_round), gaussian)
        return PoissonSampledDpEvent(cohort.rate(s.per_round), gaussian)

    return ComposedDpEvent([SelfComposedDpEvent(once(s), s.rounds) for s in spent])


def composed(spent: Spent, cohort: Cohort, grid: float) -> Any:
    """The privacy loss distribution of all rounds, from the longest beginning of the book that is remembered."""
    grid = _fitting(spent, cohort, grid)
    known = next((end for end in range(len(spent), 0, -1) if (spent[:end], cohort, grid) in _remembered), 0)
    found = _remembered[spent[:known], cohort, grid] if known else None
    for end in range(known, len(spent)):
        last = spent[end]
        step = _once(cohort, last.per_round, last.noise, grid)
        step = step if last.rounds == 1 else step.self_compose(last.rounds)
        found = step if found is None else found.compose(step)
        # While rounds are added all but the last entry stay: the two longest beginnings are what is asked again.
        if end >= len(spent) - 2:
            _remembered[spent[: end + 1], cohort, grid] = found
    while len(_remembered) > _MOST_REMEMBERED:
        _remembered.pop(next(iter(_remembered)))
    return found


_remembered: dict[tuple[Spent, Cohort, float], Any] = {}
_MOST_REMEMBERED = 16


def _fitting(spent: Spent, cohort: Cohort, grid: float) -> float:
    """The grid, doubled until the losses have 2^22 steps at most: with hardly any noise ε is in the thousands.

    How far the losses reach is only guessed here (twelve deviations, of one round and of all); on any grid they are
    rounded up.
    """
    moves = 2.0 if _is_fixed(cohort) else 1.0
    one = all_ = 0.0
    for s in spent:
        mu, q = moves / s.noise, cohort.rate(s.per_round)
        one = max(one, mu * mu / 2 + 12 * mu)
        all_ += s.rounds * min(mu * mu, 4 * q * q * math.expm1(min(mu * mu, 50.0)))
    while one + all_ / 2 + 12 * math.sqrt(all_) > grid * _MOST_STEPS:
        grid *= 2
    return grid


_MOST_STEPS = 1 << 22


@lru_cache(maxsize=64)
def _once(cohort: Cohort, per_round: float, noise: float, grid: float) -> Any:
    q = cohort.rate(per_round)
    if _is_fixed(cohort):
        return fixed_size.loss_distribution(q, noise, grid)
    from dp_accounting.pld import privacy_loss_distribution as pld

    return pld.from_gaussian_mechanism(noise, value_discretization_interval=grid, sampling_prob=q)


def _orders_of(spent: Sequence[Spend], cohort: Cohort) -> FloatArray:
    return np.asarray(sum(s.rounds * _renyi_once(cohort, s.per_round, s.noise) for s in spent))


@lru_cache(maxsize=1024)
def _renyi_once(cohort: Cohort, per_round: float, noise: float) -> FloatArray:
    """(orders,) Rényi divergence of one round."""
    from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    q = cohort.rate(per_round)
    relation, event = (
        (NeighboringRelation.REPLACE_ONE, fixed_size.renyi_event(cohort.clients, int(per_round), noise))
        if _is_fixed(cohort)
        else (NeighboringRelation.ADD_OR_REMOVE_ONE, PoissonSampledDpEvent(q, GaussianDpEvent(noise)))
    )
    with _quiet():
        found = np.array(RdpAccountant(ORDERS, relation).compose(event).rdp)
    found.setflags(write=False)
    return found


def _is_fixed(cohort: Cohort) -> bool:
    """Samples of fixed size, or Poisson ones; a third way of asking has no price here."""
    if type(cohort) not in (PoissonSampling, FixedSizeSampling):
        raise Refusal(f"{cohort!r} is not a cohort that is accounted here: use Poisson or FixedSize")
    return type(cohort) is FixedSizeSampling


@contextmanager
def _quiet() -> Iterator[None]:
    """dp-accounting logs a warning for each order it cannot use; the others stand, and the figure is theirs."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def as_delta(delta: Any) -> float:
    """δ in [1e-12, 1), or a refusal."""
    return number("delta", delta, LEAST_DELTA, np.nextafter(1, 0), strictly=False)


def as_epsilon(epsilon: Any) -> float:
    """ε >= 0 and finite, or a refusal."""
    return number("epsilon", epsilon, 0, 1e6, strictly=False)
