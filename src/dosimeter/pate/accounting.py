"""(ε, δ) of the same labels, beside the nats: differential privacy by dp-accounting, data-independent.

Neighbours: one teacher's partition is replaced by any other, so that one vote moves from one class to another in each
query and two counts change by one. Every pair of distributions is built with an explicit sensitivity, because
dp-accounting's PLD accountant doubles the sensitivity of an event under REPLACE_ONE and its RDP accountant does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dosimeter.core.by_law import ByLaw
from dosimeter.core.density import Density
from dosimeter.core.dose import EventDose
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Gaussian, Gumbel, Laplace
from dosimeter.core.notion import Standing
from dosimeter.pate.doses import as_queries
from dosimeter.pate.histograms import as_shift
from dosimeter.pate.threshold import ON_THRESHOLD, THRESHOLD_NOISES, Threshold
from dosimeter.pate.vote_noise import VOTE_LAWS, as_law

ADJACENCY = "replace-one"
NEIGHBOURS = "one teacher's partition replaced by any other"
# The grid of the losses: this many steps in the smallest of them, unless the whole then has more than 2^20.
_STEPS = 256
_MOST_STEPS = 1 << 20
# Of more mechanisms than this the grid is coarser than one loss, and the composition takes minutes to say less than
# Rényi orders do.
_MOST_COMPOSED = 1 << 20


@dataclass(frozen=True)
class LabelGuarantee:
    """(ε, δ) of k labels about one teacher's partition, for any votes and any choice of queries."""

    epsilon: float
    delta: float
    method: str
    """How ε was computed."""
    adjacency: str = ADJACENCY
    neighbours: str = NEIGHBOURS
    standing = Standing.UPPER_BOUND

    def __repr__(self) -> str:
        return (
            f"<(ε, δ) = ({self.epsilon:.4g}, {self.delta:g}), {self.neighbours} ({self.adjacency}): "
            f"{self.standing.value}, data-independent, {self.method}>"
        )


def pure_epsilon(noise: Density, shift: int = 1) -> float:
    """2cγ: report-noisy-max with g(x - 1) <= e^γ g(x) is pure ε-DP for each query (docs/explanation/pate.md, The
    mechanism).

    >>> pure_epsilon(Laplace(20.0))
    0.1
    """
    as_law(noise)
    if not VOTE_LAWS[noise].pure:
        raise CannotMeasure(f"{noise} gives no pure ε because its loss has no bound: use a δ > 0")
    return 2 * as_shift(shift) / noise.scale


def zcdp_rho(noise: Density, shift: int = 1) -> float:
    """ρ = (2cγ)²/8 of one query with Gumbel noise: zero-concentrated, D_α <= ρα for every order α > 1.

    The label is that of the exponential mechanism, P(y) ∝ e^(γ v_y), so log P(y)/P'(y) over the classes y lies in an
    interval of width 2cγ (bounded range), wherever c votes go (docs/explanation/pate.md, The (ε, δ) as well).

    >>> zcdp_rho(Gumbel(2.0))
    0.125
    """
    if type(noise) is not Gumbel:
        raise CannotMeasure(
            f"{noise}: a bounded range is known only for Gumbel noise, whose argmax is a softmax; use epsilon"
        )
    return pure_epsilon(noise, shift) ** 2 / 8


def epsilon(
    n_queries: int, noise: Density, delta: float, *, threshold: Threshold | None = None, shift: int = 1
) -> LabelGuarantee:
    """ε at δ of the labels, by privacy loss distributions. Data-independent.

    Parameters
    ----------
    n_queries : int
        k. Every query counts, answered or refused.
    noise : Density
        The noise of the vote.
    delta : float
        δ in [0, 1); 0 for laws with a pure ε.
    threshold : Threshold, optional
        The noisy threshold before the vote.
    shift : int, default 1
        c, the votes that one person controls.

    Returns
    -------
    LabelGuarantee
        An upper bound, for neighbours that differ in one teacher's partition. Public.

    Raises
    ------
    Refusal
        If delta is out of range.
    CannotMeasure
        If the law has no ε, or no pure ε at delta = 0.

    Notes
    -----
    Gaussian: the noisy histogram moves by √2·c in the 2-norm, and the label is computed from it. Laplace: two counts
    move by c each, so a query is two Laplace mechanisms. Exponential, logistic: pure 2cγ. Gumbel: pure 2cγ too, or
    (2cγ)²/8-zCDP by its bounded range and then by Rényi orders, whichever is smaller. At δ = 0 the laws with a pure ε
    give k times it. Of more than about a million mechanisms, all but Gaussian ones are composed by Rényi orders.

    Examples
    --------
    >>> round(epsilon(1, Laplace(20.0), 0.0).epsilon, 6)
    0.1
    """
    as_law(noise)
    k, c = as_queries(n_queries), as_shift(shift)
    if isinstance(delta, bool) or not isinstance(delta, int | float) or not 0 <= delta < 1:
        raise Refusal(f"delta={delta!r}: must be in [0, 1)")
    if delta == 0:
        spent = k * (pure_epsilon(noise, c) + (0.0 if threshold is None else _pure_threshold(threshold, c)))
        return LabelGuarantee(spent, 0.0, "pure, by adding")
    # With almost no noise, or a δ below what the distributions leave out, adding gives the smallest ε.
    bounds = {"pure, by adding": _pure(noise, threshold, k, c)}
    parts = _parts(noise, threshold, k, c)
    if max(part.count for part in parts) <= _MOST_COMPOSED:
        bounds["privacy loss distributions"] = _by_losses(parts, delta)
    elif type(noise) is not Gumbel:
        bounds["Rényi orders"] = _by_orders(noise, threshold, k, c, delta)
    if type(noise) is Gumbel:
        bounds["bounded range, by Rényi orders"] = _by_orders(noise, threshold, k, c, delta)
    method = min(bounds, key=lambda name: bounds[name])
    return LabelGuarantee(bounds[method], float(delta), method)


def epsilon_by_rdp(n_queries: int, noise: Gaussian, delta: float, shift: int = 1) -> LabelGuarantee:
    """ε at δ of GNMax by Rényi orders, λc²/σ² per query, as in Papernot et al. 2018; looser than `epsilon`."""
    from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
    from dp_accounting.rdp import RdpAccountant

    if isinstance(delta, bool) or not isinstance(delta, int | float) or not 0 < delta < 1:
        raise Refusal(f"delta={delta!r}: must be above 0 and below 1")
    if type(noise) is not Gaussian:
        raise CannotMeasure(f"{noise}: Rényi accounting is available for Gaussian noise only; use epsilon")
    # The multiplier is relative to √2·c, the 2-norm by which the histogram moves; the accountant assumes a norm of one.
    event = GaussianDpEvent(noise.sigma / (math.sqrt(2) * as_shift(shift)))
    accountant = RdpAccountant().compose(SelfComposedDpEvent(event, as_queries(n_queries)))
    return LabelGuarantee(float(accountant.get_epsilon(delta)), float(delta), "Rényi orders")


def event_dose(n_queries: int, noise: Density, *, threshold: Threshold | None = None, shift: int = 1) -> EventDose:
    """The same as an event that composes with others, for the PLD accountant under 'replace-one'.

    That accountant doubles a Gaussian's sensitivity and supports no Laplace there. So a Gaussian histogram that moves
    by √2·c has the multiplier √2σ/c, a threshold that moves by c has 2σ₀/c, and a pure ε is the randomised response
    that dominates it. For Laplace noise this is looser than `epsilon`.
    """
    from dp_accounting import ComposedDpEvent, GaussianDpEvent, SelfComposedDpEvent

    as_law(noise)
    k, c = as_queries(n_queries), as_shift(shift)
    events = [_event(noise, math.sqrt(2) * c, lambda: pure_epsilon(noise, c))]
    if threshold is not None:
        events.append(_event(threshold.noise, c, lambda: _pure_threshold(threshold, c)))
    # The accountant (0.6.0) counts a randomised response in a SelfComposedDpEvent once: list it k times.
    composed = [
        SelfComposedDpEvent(e, k) if isinstance(e, GaussianDpEvent) else ComposedDpEvent([e] * k) for e in events
    ]
    return EventDose(ComposedDpEvent(composed), "teacher", ADJACENCY)


def _event(noise: Density, move: float, pure: Callable[[], float]) -> Any:
    """An event whose REPLACE_ONE reading is a move by `moved`, or the worst mechanism with this pure ε."""
    from dp_accounting import GaussianDpEvent, RandomizedResponseDpEvent

    if type(noise) is Gaussian:
        return GaussianDpEvent(2 * noise.scale / move)
    # `pure` refuses a law without a pure ε. e^-ε below, so that almost no noise ends at 0 and not in an overflow.
    decay = math.exp(-pure())
    return RandomizedResponseDpEvent(noise_parameter=2 * decay / (1 + decay), num_buckets=2)


def _pure_threshold(threshold: Threshold, c: int) -> float:
    if not THRESHOLD_NOISES[threshold.noise].pure:
        raise CannotMeasure(f"{threshold.noise} on the threshold gives no pure ε: use a δ > 0")
    return c / threshold.noise.scale


def _pure(noise: Density, threshold: Threshold | None, k: int, c: int) -> float:
    """k times the pure ε, infinite if a law has none."""
    if not VOTE_LAWS[noise].pure or (threshold is not None and not THRESHOLD_NOISES[threshold.noise].pure):
        return math.inf
    return k * (pure_epsilon(noise, c) + (0.0 if threshold is None else _pure_threshold(threshold, c)))


@dataclass(frozen=True)
class _Part:
    """`count` mechanisms, each a unit law moved by `loss`, or any with the pure ε `loss` if law is None."""

    law: type[Density] | None
    loss: float
    count: int


def _parts(noise: Density, threshold: Threshold | None, k: int, c: int) -> list[_Part]:
    move = c / noise.scale
    # k Gaussian mechanisms are one whose mean moves √k times as far; two counts move.
    by_law = {Gaussian: _Part(Gaussian, math.sqrt(2 * k) * move, 1), Laplace: _Part(Laplace, move, 2 * k)}
    parts = [by_law[type(noise)] if type(noise) in by_law else _Part(None, pure_epsilon(noise, c), k)]
    if threshold is not None:
        move = c / threshold.noise.scale  # max v moves by c at most
        threshold_by_law = {Gaussian: _Part(Gaussian, math.sqrt(k) * move, 1), Laplace: _Part(Laplace, move, k)}
        parts.append(ByLaw(ON_THRESHOLD, threshold_by_law)[threshold.noise])
    return parts


def _by_orders(noise: Density, threshold: Threshold | None, k: int, c: int, delta: float) -> float:
    """ε at δ of k labels by Rényi orders, the refusals of a threshold by their own law.

    Gumbel: by its bounded range. Another law with a pure ε₀ is ε₀²/2-zCDP (Bun and Steinke 2016, Prop. 1.4).
    """
    from dp_accounting import GaussianDpEvent, LaplaceDpEvent, SelfComposedDpEvent, ZCDpEvent
    from dp_accounting.rdp import RdpAccountant

    if type(noise) is Laplace:
        votes = SelfComposedDpEvent(LaplaceDpEvent(noise.scale / c), 2 * k)  # two counts move
    elif type(noise) is Gaussian:
        votes = SelfComposedDpEvent(GaussianDpEvent(noise.scale / (math.sqrt(2) * c)), k)
    else:
        rho = zcdp_rho(noise, c) if type(noise) is Gumbel else pure_epsilon(noise, c) ** 2 / 2
        votes = ZCDpEvent(k * rho)
    accountant = RdpAccountant().compose(votes)
    if threshold is not None:
        kind = ByLaw(ON_THRESHOLD, {Gaussian: GaussianDpEvent, Laplace: LaplaceDpEvent})[threshold.noise]
        event = kind(threshold.noise.scale / c)  # max v moves by c at most
        accountant = accountant.compose(SelfComposedDpEvent(event, k))
    return float(accountant.get_epsilon(delta))


def _by_losses(parts: list[_Part], delta: float) -> float:
    """ε at δ; infinite if losses exceed the range of float64, or δ is below what the distributions leave out."""
    try:
        return float(_compose(parts).get_epsilon_for_delta(delta))
    except OverflowError:
        return math.inf


def _compose(parts: list[_Part]) -> Any:
    """Their privacy loss distribution; each loss is rounded up to one grid, so the resulting ε is not too small."""
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
        known = {Gaussian: pld.from_gaussian_mechanism, Laplace: pld.from_laplace_mechanism}
        make = ByLaw("has no privacy loss distribution here", known)[part.law]
        each = make(1.0, sensitivity=part.loss, value_discretization_interval=grid)
    return each if part.count == 1 else each.self_compose(part.count)
