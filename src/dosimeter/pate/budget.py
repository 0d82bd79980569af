"""From a budget to the noise, and from the noise to the queries, by the data-independent bound alone.

Neither direction looks at a vote, so neither leaks. The per-query γ that the conclusion of [Saeidian21] proposes does,
and is in `pate.analysis`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from dosimeter.core.density import Density
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Laplace
from dosimeter.core.notion import Standing
from dosimeter.pate.bounds import data_independent_bound
from dosimeter.pate.doses import Published, as_queries, published
from dosimeter.pate.histograms import as_shift
from dosimeter.pate.votes import as_classes

_NATS = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*(\S*)\s*")
# Scales from 1/500 votes, where log m is leaked to the last digit, to 1e9, where a query costs 1e-9 nats.
_LEAST, _MOST = 2e-3, 1e9
# Below it the rounded quotient is off by one query at most.
_MOST_QUERIES = 2.0**52


@dataclass(frozen=True)
class NoisePlan:
    """A noise that keeps `n_queries` within the budget for whatever votes; made of public constants alone."""

    noise: Density
    n_queries: int
    n_classes: int
    budget: float
    shift: int = 1
    standing = Standing.UPPER_BOUND

    @property
    def gamma(self) -> float:
        """γ = 1/scale, per vote."""
        return 1 / self.noise.scale

    @property
    def published(self) -> Published:
        """What these queries cost at most: just below the budget."""
        return published(self.n_queries, self.n_classes, self.noise, shift=self.shift)


def nats(budget: str | float) -> float:
    """A budget in nats from "1 nat" or "0.5 nats"; a bare number and other units are refused.

    >>> nats("1 nat"), nats("0.5 nats")
    (1.0, 0.5)
    """
    found = _NATS.fullmatch(budget) if isinstance(budget, str) else None
    if found is None or found[2].lower() not in ("nat", "nats"):
        raise Refusal(f'budget {budget!r}: write it in nats, such as "1 nat" or "0.5 nats"')
    return _positive(float(found[1]))


def plan(
    budget: float | str, n_queries: int, n_classes: int, law: type[Density] = Laplace, shift: int = 1
) -> NoisePlan:
    """The least noise of this law with k·log B₁ <= budget (nats), a hair on the safe side.

    >>> p = plan(1.0, n_queries=100, n_classes=10)
    >>> round(p.gamma, 6), p.published.nats <= 1.0
    (0.01002, True)
    """
    limit = nats(budget) if isinstance(budget, str) else _positive(budget)
    k, m, c = as_queries(n_queries), as_classes(n_classes), as_shift(shift)
    if not (isinstance(law, type) and issubclass(law, Density)):
        raise Refusal(f"law={law!r}: must be a law of dosimeter such as Laplace, without its scale")

    def over(scale: float) -> bool:
        return k * _bound(m, law, scale, c) > limit

    if not over(_LEAST):
        raise Refusal(
            f"a budget of {limit:g} nats for {k} queries is no limit: labels of {m} classes give away at most log {m}, "
            f"{math.log(m):.4g} nats, each and {k * math.log(m):.4g} in all; ask for less"
        )
    if over(_MOST):
        raise Refusal(f"a budget of {limit:g} nats for {k} queries is out of reach: ask fewer queries or allow more")
    low, high = math.log(_LEAST), math.log(_MOST)  # over at low, within at high
    while high - low > 1e-13 * max(1.0, abs(high)):
        middle = (low + high) / 2
        low, high = (middle, high) if over(math.exp(middle)) else (low, middle)
    return NoisePlan(law(math.exp(high)), k, m, limit, c)  # type: ignore[call-arg]


def queries_within(budget: float | str, n_classes: int, noise: Density, shift: int = 1) -> int:
    """How many queries the budget (nats) pays for at this noise; 0 where not even one.

    >>> queries_within("1 nat", 10, Laplace(100.0))
    100
    """
    limit = nats(budget) if isinstance(budget, str) else _positive(budget)
    each = published(1, n_classes, noise, shift=shift).nats
    if limit / each >= _MOST_QUERIES:
        raise Refusal(f"a budget of {limit:g} nats at {each:.4g} a query is no limit: ask for less")
    k = int(limit / each)
    # The quotient is rounded and so is k·log B₁: where they disagree by one, what `published` says decides.
    if k * each > limit:
        return k - 1
    return k + 1 if (k + 1) * each <= limit else k


def _bound(m: int, law: type[Density], scale: float, c: int) -> float:
    return float(data_independent_bound(m, law(scale), shift=c))  # type: ignore[call-arg]


def _positive(budget: object) -> float:
    if isinstance(budget, bool) or not isinstance(budget, int | float) or not 0 < budget < math.inf:
        raise Refusal(f'budget {budget!r}: must be a finite number of nats > 0, or text such as "1 nat"')
    return float(budget)
