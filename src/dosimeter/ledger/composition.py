"""ε of a history of events, composed when it is read. One accounting per distinct history, remembered.

A history is how often each event (canonical JSON) stands in it, under one adjacency. Samples of fixed size are read by
the federated accountant, everything else by dp-accounting; where a history has both, δ is split between the two and
their ε are added, which is an upper bound.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from dosimeter.core.dose import EventDose
from dosimeter.core.dp_events import event_of
from dosimeter.core.errors import Refusal

History = tuple[tuple[str, int], ...]
MOST_LOSS = 500.0
"""Nats of mean privacy loss of a history. Accountants lay a grid over all losses: above this it grows without bound."""
_BEYOND = (
    "events beyond what an accountant computes cannot be booked (ε would be far above 100, or no number): add noise"
)


def history_of(events: Iterable[str]) -> History:
    """The history in which these events stand, whatever their order."""
    return tuple(sorted(Counter(events).items()))


@lru_cache(maxsize=4096)
def epsilon(history: History, unit: str, adjacency: str, delta: float) -> float:
    """ε at δ, an upper bound; 0 for an empty history."""
    plain: list[tuple[Any, int]] = []
    fixed: list[tuple[Any, int]] = []
    for text, count in history:
        for event, times in _leaves(event_of(json.loads(text)), count):
            (fixed if type(event).__name__ == "SampledWithoutReplacementDpEvent" else plain).append((event, times))
    share = delta / 2 if plain and fixed else delta
    found = 0.0
    if plain:
        found += _by_dp_accounting(plain, unit, adjacency, share)
    if fixed:
        found += _by_fixed_size(fixed, adjacency, share)
    if not math.isfinite(found):
        raise Refusal("an unbounded event cannot be booked: no ε holds at this δ; add noise first")
    return found


def _leaves(event: Any, times: int) -> list[tuple[Any, int]]:
    name = type(event).__name__
    if name == "ComposedDpEvent":
        return [leaf for one in event.events for leaf in _leaves(one, times)]
    if name == "SelfComposedDpEvent":
        return _leaves(event.event, times * event.count)
    return [(event, times)]


def _by_dp_accounting(leaves: list[tuple[Any, int]], unit: str, adjacency: str, delta: float) -> float:
    from dp_accounting import ComposedDpEvent, SelfComposedDpEvent
    from dp_accounting.privacy_accountant import UnsupportedEventError

    if not sum(times * _loss(event, adjacency == "replace-one") for event, times in leaves) <= MOST_LOSS:
        raise Refusal(_BEYOND)
    whole = ComposedDpEvent([SelfComposedDpEvent(event, times) for event, times in leaves])
    try:
        return EventDose(whole, unit, adjacency).epsilon(delta)
    except UnsupportedEventError:
        kinds = ", ".join(sorted({type(event).__name__ for event, _ in leaves}))
        raise Refusal(f"no accountant composes {kinds} under {adjacency}: keep a second ledger for them") from None
    except (ArithmeticError, MemoryError, ValueError):
        raise Refusal(_BEYOND) from None


def _loss(event: Any, replaced: bool) -> float:
    """About the mean privacy loss of an event, nats; infinite where the accountant would be asked for too much."""
    name, twice = type(event).__name__, 2.0 if replaced else 1.0
    if name in ("GaussianDpEvent", "LaplaceDpEvent"):
        ratio = twice / float(event.noise_multiplier)
        return ratio * ratio / 2 if name == "GaussianDpEvent" else ratio + math.expm1(-ratio)
    if name == "DiscreteLaplaceDpEvent":
        return twice * float(event.noise_parameter * event.sensitivity)
    if name == "PoissonSampledDpEvent":
        # Of a sample with rate q at most the share q of the loss L; about q² (e^2L - 1) where L is small.
        q, inner = float(event.sampling_probability), _loss(event.event, replaced)
        return min(q * inner, q * q * math.expm1(2 * inner)) if inner < 300 else q * inner
    if name in ("NoOpDpEvent", "RandomizedResponseDpEvent"):  # the accountant is never asked for too much by these
        return 0.0
    raise Refusal(f"an event of class {name} has no price in a ledger")


def _by_fixed_size(leaves: list[tuple[Any, int]], adjacency: str, delta: float) -> float:
    """Each population of clients by itself; δ in equal shares."""
    from dosimeter.federated import accountant
    from dosimeter.federated.client_sampling import FixedSizeSampling

    if adjacency != "replace-one":
        raise Refusal("samples of fixed size are priced under replace-one only")
    books: dict[int, accountant.Spent] = {}
    for event, times in leaves:
        if type(event.event).__name__ != "GaussianDpEvent":
            raise Refusal("samples of fixed size are priced with Gaussian noise only")
        n = event.source_dataset_size
        books[n] = accountant.booked(books.get(n, ()), event.sample_size, event.event.noise_multiplier, times)
    share = delta / len(books)
    return sum(accountant.epsilon(spent, FixedSizeSampling(n), share) for n, spent in books.items())
