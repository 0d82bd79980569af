"""ε of a history of events, composed when it is read, and cached per distinct history.

A history counts how often each event (canonical JSON) occurs, under one adjacency. The federated accountant handles
samples of fixed size, dp-accounting everything else. If a history has both, δ is split between the two and their ε are
added, which is an upper bound.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from dosimeter.core.dose import EventDose
from dosimeter.core.dp_events import event_from_dict
from dosimeter.core.errors import Refusal

History = tuple[tuple[str, int], ...]
MOST_LOSS = 500.0
"""Limit on the mean privacy loss of a history, nats. Above it the accountants' grid of losses becomes too large."""
_BEYOND = "these events are beyond what an accountant can compute (ε would be far above 100): add noise before booking"


def history_of(events: Iterable[str]) -> History:
    """The history of these events; their order does not matter."""
    return tuple(sorted(Counter(events).items()))


@lru_cache(maxsize=4096)
def epsilon(history: History, unit: str, adjacency: str, delta: float) -> float:
    """ε at δ, an upper bound; 0 for an empty history."""
    other: list[tuple[Any, int]] = []
    fixed_size: list[tuple[Any, int]] = []
    for text, count in history:
        for event, times in _leaves(event_from_dict(json.loads(text)), count):
            (fixed_size if type(event).__name__ == "SampledWithoutReplacementDpEvent" else other).append((event, times))
    share = delta / 2 if other and fixed_size else delta
    total = 0.0
    if other:
        total += _by_dp_accounting(other, unit, adjacency, share)
    if fixed_size:
        total += _by_fixed_size(fixed_size, adjacency, share)
    if not math.isfinite(total):
        raise Refusal("an unbounded event cannot be booked: no finite ε holds at this δ; add noise first")
    return total


def _leaves(event: Any, times: int) -> list[tuple[Any, int]]:
    name = type(event).__name__
    if name == "ComposedDpEvent":
        return [leaf for part in event.events for leaf in _leaves(part, times)]
    if name == "SelfComposedDpEvent":
        return _leaves(event.event, times * event.count)
    return [(event, times)]


def _by_dp_accounting(leaves: list[tuple[Any, int]], unit: str, adjacency: str, delta: float) -> float:
    from dp_accounting import ComposedDpEvent, SelfComposedDpEvent
    from dp_accounting.privacy_accountant import UnsupportedEventError

    if not sum(times * _loss(event, adjacency == "replace-one") for event, times in leaves) <= MOST_LOSS:
        raise Refusal(_BEYOND)
    composed = ComposedDpEvent([SelfComposedDpEvent(event, times) for event, times in leaves])
    try:
        return EventDose(composed, unit, adjacency).epsilon(delta)
    except UnsupportedEventError:
        kinds = ", ".join(sorted({type(event).__name__ for event, _ in leaves}))
        raise Refusal(f"no accountant composes {kinds} under {adjacency}: use a separate ledger for them") from None
    except (ArithmeticError, MemoryError, ValueError):
        raise Refusal(_BEYOND) from None


def _loss(event: Any, replaced: bool) -> float:
    """Approximate mean privacy loss of an event, nats."""
    name, twice = type(event).__name__, 2.0 if replaced else 1.0
    if name in ("GaussianDpEvent", "LaplaceDpEvent"):
        ratio = twice / float(event.noise_multiplier)
        return ratio * ratio / 2 if name == "GaussianDpEvent" else ratio + math.expm1(-ratio)
    if name == "DiscreteLaplaceDpEvent":
        return twice * float(event.noise_parameter * event.sensitivity)
    if name == "PoissonSampledDpEvent":
        # Sampling at rate q leaves at most q L of the loss L, and about q² (e^2L - 1) if L is small.
        q, inner = float(event.sampling_probability), _loss(event.event, replaced)
        return min(q * inner, q * q * math.expm1(2 * inner)) if inner < 300 else q * inner
    if name in ("NoOpDpEvent", "RandomizedResponseDpEvent"):  # always small enough for the accountant
        return 0.0
    raise Refusal(f"an event of class {name} cannot be accounted in a ledger")


def _by_fixed_size(leaves: list[tuple[Any, int]], adjacency: str, delta: float) -> float:
    """ε of samples of fixed size: each population of clients separately, with equal shares of δ."""
    from dosimeter.federated import accountant
    from dosimeter.federated.client_sampling import FixedSizeSampling

    if adjacency != "replace-one":
        raise Refusal("samples of fixed size can be accounted under replace-one only")
    spent_by_population: dict[int, accountant.Spending] = {}
    for event, times in leaves:
        if type(event.event).__name__ != "GaussianDpEvent":
            raise Refusal("samples of fixed size can be accounted with Gaussian noise only")
        n = event.source_dataset_size
        spent = spent_by_population.get(n, ())
        spent_by_population[n] = accountant.add_rounds(spent, event.sample_size, event.event.noise_multiplier, times)
    share = delta / len(spent_by_population)
    return sum(accountant.epsilon(spent, FixedSizeSampling(n), share) for n, spent in spent_by_population.items())
