"""The (ε, δ) of the same labels, beside the nats: differential privacy by dp-accounting, data-independent.

Neighbours: one teacher's partition is replaced by any other, so that one vote moves from one class to another in each
query and two counts change by one. Every pair of distributions is built with its own sensitivity stated, because
dp-accounting's PLD accountant doubles the sensitivity of an event under REPLACE_ONE and its RDP accountant does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dosimeter.core.density import Density
from dosimeter.core.dose import EventDose
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Exponential, Gaussian, Gumbel, Laplace, LogisticNoise
from dosimeter.core.notion import Standing
from dosimeter.pate.doses import as_queries
from dosimeter.pate.histograms import as_law, as_shift
from dosimeter.pate.threshold import Threshold

ADJACENCY = "replace-one"
NEIGHBOURS = "one teacher's partition replaced by any other"
# The grid of the losses: so many steps in the least of them, unless the whole then has more than 2^20.
_STEPS = 256
_MOST_STEPS = 1 << 20


@dataclass(frozen=True)
class EpsilonDelta:
    """(ε, δ) of k labels about one teacher's partition, whatever the votes and however the queries were chosen."""

    epsilon: float
    delta: float
    how: str
    adjacency: str = ADJACENCY
    neighbours: str = NEIGHBOURS
    standing = Standing.UPPER_BOUND

    def __repr__(self) -> str:
        return (
            f"<(ε, δ) = ({self.epsilon:.4g}, {self.delta:g}), {self.neighbours} ({self.adjacency}): "
            f"{self.standing.value}, data-independent, {self.how}>"
        )


def pure_epsilon(noise: Density, shift: int = 1) -> float:
    """2cγ: report-noisy-max with g(x - 1) <= e^γ g(x) is pure ε-DP for each query (docs/pate.md, The mechanism).

    >>> pure_epsilon(Laplace(20.0))
    0.1
    """
    as_law(noise)
    if type(noise) not in (Laplace, Gumbel, Exponential, LogisticNoise):
        raise CannotMeasure(f"{noise} gives no pure ε: its loss has no bound; use a δ > 0")
    return 2 * as_shift(shift) / noise.scale


def concentrated(noise: Density, shift: int = 1) -> float:
    """ρ = (2cγ)²/8 of one query with Gumbel noise: zero-concentrated, D_α <= ρα for every order α > 1.

    The label is that of the exponential mechanism, P(y) ∝ e^(γ v_y), so log P(y)/P'(y) over the classes y lies in an
    interval of width 2cγ (bounded range), wherever c votes go (docs/pate.md, The (ε, δ) beside it).

    >>> concentrated(Gumbel(2.0))
    0.125
    """
    if type(noise) is not Gumbel:
        raise CannotMeasure(
            f"{noise}: a bounded range is known for Gumbel noise, whose argmax is a softmax; use epsilon"
        )
    return pure_epsilon(noise, shift) ** 2 / 8


def epsilon(
    n_queries: int, noise: Density, delta: float, *, threshold: Threshold | None = None, shift: int = 1
) -> EpsilonDelta:
    """ε at δ by privacy loss distributions. Every query is charged, refused or not.

    Gaussian: the noisy histogram moves by √2·c in the 2-norm, and the label is computed from it. Laplace: two counts
    move by c each, so a query is two Laplace mechanisms. Exponential, logistic: pure 2cγ. Gumbel: pure 2cγ too, or
    (2cγ)²/8-zCDP by its bounded range and then by Rényi orders, whichever is less. At δ = 0 the laws with a pure ε give
    k times it.

    >>> round(epsilon(1, Laplace(20.0), 0.0).epsilon, 6)
    0.1
    """
    as_law(noise)
    k, c = as_queries(n_queries), as_shift(shift)
    if isinstance(delta, bool) or not isinstance(delta, int | float) or not 0 <= delta < 1:
        raise Refusal(f"delta={delta!r}: must lie in [0, 1)")
    if delta == 0:
        spent = k * (pure_epsilon(noise, c) + (0.0 if threshold is None else _pure_threshold(threshold, c)))
        return EpsilonDelta(spent, 0.0, "pure, by adding")
    # With next to no noise, or a δ below what the distributions leave out, adding is the smallest.
    bounds = {
        "privacy loss distributions": _by_losses(_parts(noise, threshold, k, c), delta),
        "pure, by adding": _pure(noise, threshold, k, c),
    }
    if type(noise) is Gumbel:
        bounds["bounded range, by Rényi orders"] = _by_range(noise, threshold, k, c, delta)
    how = min(bounds, key=lambda name: bounds[name])
    return EpsilonDelta(bounds[how], float(delta), how)


def epsilon_by_rdp(n_queries: int, noise: Gaussian, delta: float, shift: int = 1) -> EpsilonDelta:
    """ε at δ of GNMax by Rényi orders, λc²/σ² a query: as Papernot et al. 2018 account; looser than `epsilon`."""
    from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
    from dp_accounting.rdp import RdpAccountant

    if isinstance(delta, bool) or not isinstance(delta, int | float) or not 0 < delta < 1:
        raise Refusal(f"delta={delta!r}: must lie above 0 and below 1")
    if type(noise) is not Gaussian:
        raise CannotMeasure(f"{noise}: Rényi accounting is offered for Gaussian noise; use epsilon")
    # The multiplier is over √2·c, the 2-norm by which the histogram moves; the accountant takes it for a norm of one.
    event = GaussianDpEvent(noise.sigma / (math.sqrt(2) * as_shift(shift)))
    accountant = RdpAccountant().compose(SelfComposedDpEvent(event, as_queries(n_queries)))
    return EpsilonDelta(float(accountant.get_epsilon(delta)), float(delta), "Rényi orders")


def event_dose(n_queries: int, noise: Density, *, threshold: Threshold | None = None, shift: int = 1) -> EventDose:
    """The same as an event that composes with others, to be read under 'replace-one' by the PLD accountant.

    That accountant doubles a Gaussian's sensitivity and knows no Laplace there: a Gaussian histogram that moves by √2·c
    is written with the multiplier √2σ/c, a threshold that moves by c with 2σ₀/c, and a pure ε as the randomised
    response that dominates it. For Laplace noise this is looser than `epsilon`.
    """
    from dp_accounting import ComposedDpEvent, GaussianDpEvent, SelfComposedDpEvent

    as_law(noise)
    k, c = as_queries(n_queries), as_shift(shift)
    events = [_event(noise, math.sqrt(2) * c, None if type(noise) is Gaussian else pure_epsilon(noise, c))]
    if threshold is not None:
        law = threshold.noise
        events.append(_event(law, c, None if type(law) is Gaussian else _pure_threshold(threshold, c)))
    # The accountant (0.6.0) counts a randomised response in a SelfComposedDpEvent once: it is listed k times.
    safe_list = [
        SelfComposedDpEvent(e, k) if isinstance(e, GaussianDpEvent) else ComposedDpEvent([e] * k) for e in events
    ]
    return EventDose(ComposedDpEvent(safe_list), "teacher", ADJACENCY)


def _event(noise: Density, moved: float, pure: float | None) -> Any:
    """An event whose REPLACE_ONE reading is a move by `moved`, or the worst mechanism with this pure ε."""
    from dp_accounting import GaussianDpEvent, RandomizedResponseDpEvent

    if pure is None:
        return GaussianDpEvent(2 * noise.scale / moved)
    # e^-ε below, so that next to no noise ends at 0 and not in an overflow.
    return RandomizedResponseDpEvent(noise_parameter=2 * math.exp(-pure) / (1 + math.exp(-pure)), num_buckets=2)


def _pure_threshold(threshold: Threshold, c: int) -> float:
    if type(threshold.noise) is not Laplace:
        raise CannotMeasure(f"{threshold.noise} on the threshold gives no pure ε: use a δ > 0")
    return c / threshold.noise.b


def _pure(noise: Density, threshold: Threshold | None, k: int, c: int) -> float:
    """k times the pure ε, infinite where a law has none."""
    laws = [noise] if threshold is None else [noise, threshold.noise]
    if any(type(law) is Gaussian for law in laws):
        return math.inf
    return k * (pure_epsilon(noise, c) + (0.0 if threshold is None else _pure_threshold(threshold, c)))


@dataclass(frozen=True)
class _Part:
    """`count` mechanisms, each a unit law moved by `loss`, or any with the pure ε `loss` where law is None."""

    law: type[Density] | None
    loss: float
    count: int


def _parts(noise: Density, threshold: Threshold | None, k: int, c: int) -> list[_Part]:
    moved = c / noise.scale
    # k Gaussian mechanisms are one whose mean moves by √k as much; two counts move.
    made = {Gaussian: _Part(Gaussian, math.sqrt(2 * k) * moved, 1), Laplace: _Part(Laplace, moved, 2 * k)}
    parts = [made[type(noise)] if type(noise) in made else _Part(None, pure_epsilon(noise, c), k)]
    if threshold is not None:
        law, moved = type(threshold.noise), c / threshold.noise.scale  # max v moves by c at most
        made = {Gaussian: _Part(Gaussian, math.sqrt(k) * moved, 1), Laplace: _Part(Laplace, moved, k)}
        if law not in made:
            raise CannotMeasure(f"{threshold.noise} on the threshold has no price here: use Laplace or Gaussian")
        parts.append(made[law])
    return parts


def _by_range(noise: Density, threshold: Threshold | None, k: int, c: int, delta: float) -> float:
    """ε at δ of k labels with Gumbel noise by Rényi orders, the refusals of a threshold by their own law."""
    from dp_accounting import GaussianDpEvent, LaplaceDpEvent, SelfComposedDpEvent, ZCDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant().compose(ZCDpEvent(k * concentrated(noise, c)))
    if threshold is not None:
        events = {Gaussian: GaussianDpEvent, Laplace: LaplaceDpEvent}
        if type(threshold.noise) not in events:
            raise CannotMeasure(f"{threshold.noise} on the threshold has no price here: use Laplace or Gaussian")
        event = events[type(threshold.noise)](threshold.noise.scale / c)  # max v moves by c at most
        accountant = accountant.compose(SelfComposedDpEvent(event, k))
    return float(accountant.get_epsilon(delta))


def _by_losses(parts: list[_Part], delta: float) -> float:
    """ε at δ; infinite where losses leave the range of float64, or δ is below what the distributions leave out."""
    try:
        return float(_composed(parts).get_epsilon_for_delta(delta))
    except OverflowError:
        return math.inf


def _composed(parts: list[_Part]) -> Any:
    """Their privacy loss distribution; each loss is rounded up to one grid, so the ε read from it is not too small."""
    reach = sum(20 * math.sqrt(p.count) * p.loss + p.count * p.loss**2 for p in parts)
    grid = max(min(p.loss for p in parts) / _STEPS, reach / _MOST_STEPS)
    first, *rest = [_distribution(p, grid) for p in parts]
    for other in rest:
        first = first.compose(other)
    return first


def _distribution(part: _Part, grid: float) -> Any:
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    if part.law is None:
        each = pld.from_privacy_parameters(common.DifferentialPrivacyParameters(part.loss), grid)
    else:
        make = {Gaussian: pld.from_gaussian_mechanism, Laplace: pld.from_laplace_mechanism}[part.law]
        each = make(1.0, sensitivity=part.loss, value_discretization_interval=grid)
    return each if part.count == 1 else each.self_compose(part.count)
