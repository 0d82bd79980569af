"""From a budget to the noise, and from the noise to the number of queries, by the data-independent bound.

Neither direction looks at a vote, so neither leaks. The conclusion of [Saeidian21] proposes a γ per query, which does
leak; it is in `reproduce.saeidian21_unsafe`.
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
from dosimeter.pate.doses import PublicBound, as_queries, public_bound
from dosimeter.pate.histograms import as_shift
from dosimeter.pate.votes import as_classes

_NATS = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*(\S*)\s*")
# Scales from 1/500 votes, where log m leaks to the last digit, to 1e9, where a query costs 1e-9 nats.
_LEAST, _MOST = 2e-3, 1e9
# Below it the rounded quotient is off by at most one query.
_MOST_QUERIES = 2.0**52


@dataclass(frozen=True)
class NoisePlan:
    """A noise that keeps `n_queries` within the budget for any votes; computed from public constants alone.

    Examples
    --------
    >>> plan("1 nat", n_queries=100, n_classes=10).n_queries
    100
    """

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
    def public_bound(self) -> PublicBound:
        """The most that these queries cost: just below the budget."""
        return public_bound(self.n_queries, self.n_classes, self.noise, shift=self.shift)


def nats(budget: str | float) -> float:
    """A budget in nats, from text such as "1 nat" or "0.5 nats".

    Parameters
    ----------
    budget : str
        Number and unit. A bare number and other units are refused.

    Returns
    -------
    float
        Nats, > 0.

    Raises
    ------
    Refusal
        If the unit is missing or not nats.

    Examples
    --------
    >>> nats("1 nat"), nats("0.5 nats")
    (1.0, 0.5)
    """
    match = _NATS.fullmatch(budget) if isinstance(budget, str) else None
    if match is None or match[2].lower() not in ("nat", "nats"):
        raise Refusal(f'budget {budget!r}: write it in nats, such as "1 nat" or "0.5 nats"')
    return _positive_nats(float(match[1]))


def plan(
    budget: float | str, n_queries: int, n_classes: int, law: type[Density] = Laplace, shift: int = 1
) -> NoisePlan:
    """The least noise of a law with k·log B₁ <= budget, rounded to the safe side.

    Parameters
    ----------
    budget : float or str
        Nats, or text such as "1 nat".
    n_queries : int
        k, the number of labels.
    n_classes : int
        m.
    law : type of Density, default Laplace
        The noise class, without its scale.
    shift : int, default 1
        c, the votes that one person controls.

    Returns
    -------
    NoisePlan

    Raises
    ------
    Refusal
        If no noise is needed for the budget, or no noise up to scale 1e9 suffices.

    Notes
    -----
    log B₁ is Prop. 12 of [Saeidian21], see `data_independent_bound`.

    Examples
    --------
    >>> p = plan(1.0, n_queries=100, n_classes=10)
    >>> round(p.gamma, 6), p.public_bound.nats <= 1.0
    (0.01002, True)
    """
    limit = nats(budget) if isinstance(budget, str) else _positive_nats(budget)
    k, m, c = as_queries(n_queries), as_classes(n_classes), as_shift(shift)
    if not (isinstance(law, type) and issubclass(law, Density)):
        raise Refusal(f"law={law!r}: must be a noise class of dosimeter such as Laplace, without its scale")

    def exceeds(scale: float) -> bool:
        return k * _bound(m, law, scale, c) > limit

    if not exceeds(_LEAST):
        raise Refusal(
            f"a budget of {limit:g} nats for {k} queries is no limit: a label of {m} classes leaks at most log {m}, "
            f"{math.log(m):.4g} nats, and {k} labels {k * math.log(m):.4g}; choose a smaller budget"
        )
    if exceeds(_MOST):
        raise Refusal(
            f"a budget of {limit:g} nats for {k} queries is out of reach: use fewer queries or a larger budget"
        )
    low, high = math.log(_LEAST), math.log(_MOST)  # over at low, within at high
    while high - low > 1e-13 * max(1.0, abs(high)):
        middle = (low + high) / 2
        low, high = (middle, high) if exceeds(math.exp(middle)) else (low, middle)
    return NoisePlan(law(math.exp(high)), k, m, limit, c)  # type: ignore[call-arg]


def queries_within(budget: float | str, n_classes: int, noise: Density, shift: int = 1) -> int:
    """The number of queries that a budget covers at a given noise.

    Parameters
    ----------
    budget : float or str
        Nats, or text such as "1 nat".
    n_classes : int
        m.
    noise : Density
        The noise of the vote.
    shift : int, default 1
        c, the votes that one person controls.

    Returns
    -------
    int
        k; 0 if the budget does not cover one query.

    Raises
    ------
    Refusal
        If the budget is so large that it is no limit.

    Examples
    --------
    >>> queries_within("1 nat", 10, Laplace(100.0))
    100
    """
    limit = nats(budget) if isinstance(budget, str) else _positive_nats(budget)
    per_query = public_bound(1, n_classes, noise, shift=shift).nats
    if limit / per_query >= _MOST_QUERIES:
        raise Refusal(f"a budget of {limit:g} nats at {per_query:.4g} per query is no limit: choose a smaller budget")
    k = int(limit / per_query)
    # The quotient is rounded and so is k·log B₁: if they disagree by one, `public_bound` decides.
    if k * per_query > limit:
        return k - 1
    return k + 1 if (k + 1) * per_query <= limit else k


def _bound(m: int, law: type[Density], scale: float, c: int) -> float:
    return float(data_independent_bound(m, law(scale), shift=c))  # type: ignore[call-arg]


def _positive_nats(budget: object) -> float:
    if isinstance(budget, bool) or not isinstance(budget, int | float) or not 0 < budget < math.inf:
        raise Refusal(f'budget {budget!r}: must be a finite number of nats > 0, or text such as "1 nat"')
    return float(budget)
