"""Budgets: what the whole training may cost, asked for the next round before it starts; and what a plan allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from dosimeter.core.checks import whole
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.notion import Standing
from dosimeter.federated import accountant
from dosimeter.federated.accountant import CERTIFYING_GRID, WORKING_GRID, Spend, Spent, as_delta, as_epsilon
from dosimeter.federated.client_sampling import Cohort

_MOST_ROUNDS = 1 << 20
_CLOSE = 1.02
"""δ on the coarse grid over δ on the fine one: 1.0003 at most in the trainings of Table 1 of [Geyer19]."""
_LEAST_NOISE, _MOST_NOISE = 0.05, 1e4


@dataclass(frozen=True)
class PrivacyBudget:
    """(ε, δ) of the whole training: δ(ε) of all rounds together never passes δ."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        as_epsilon(self.epsilon)
        as_delta(self.delta)


@dataclass(frozen=True)
class EpsilonFigure:
    """(ε, δ) about one client, and everything that must be said with it."""

    epsilon: float
    delta: float
    rounds: int
    adjacency: str
    standing: Standing
    how: str
    uncovered: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    unit: str = "client"

    def __repr__(self) -> str:
        return (
            f"<(ε, δ) = ({self.epsilon:.4g}, {self.delta:.4g}) after {self.rounds} rounds, per {self.unit}, "
            f"{self.adjacency}: {self.standing.value}, {self.how}>"
        )


class BudgetSpent(Exception):
    """The next round would pass the budget; nothing was drawn, nothing was released. Exit code 1."""

    def __init__(self, budget: PrivacyBudget, would_be: float, rounds: int):
        super().__init__(
            f"round {rounds + 1} is not opened: δ({budget.epsilon:g}) would be {would_be:.4g}, above {budget.delta:g}; "
            f"{rounds} rounds were paid for"
        )
        self.budget, self.would_be, self.rounds = budget, would_be, rounds


def figure(
    spent: Spent, cohort: Cohort, delta: float, *, uncovered: tuple[str, ...] = (), quick: bool = False
) -> EpsilonFigure:
    """The ε that the book comes to at δ, certified on the fine grid, or `quick` by Rényi orders."""
    found = accountant.epsilon_by_renyi(spent, cohort, delta) if quick else accountant.epsilon(spent, cohort, delta)
    return EpsilonFigure(
        epsilon=found,
        delta=float(delta),
        rounds=accountant.rounds_of(spent),
        adjacency=cohort.adjacency,
        standing=Standing.UNACCOUNTED if uncovered else Standing.UPPER_BOUND,
        how="Rényi orders" if quick else "privacy loss distributions",
        uncovered=uncovered,
        remarks=remarks(cohort, delta),
    )


def remarks(cohort: Cohort, delta: float) -> tuple[str, ...]:
    """What should be said about δ.

    >>> from dosimeter.federated.client_sampling import Poisson
    >>> remarks(Poisson(100), 0.02)[0]
    'δ = 0.02 is not below 1/K = 0.01: a curator that published one client outright could meet it'
    """
    share = 1.0 / cohort.clients
    if delta < share:
        return ()
    return (f"δ = {delta:g} is not below 1/K = {share:g}: a curator that published one client outright could meet it",)


def within(spent: Spent, cohort: Cohort, budget: PrivacyBudget) -> tuple[bool, float]:
    """Whether the book stays within the budget, and its δ at the budget's ε.

    Asked on the coarse grid first; on the fine one only where that says no by less than the grids differ. Both are
    upper bounds.
    """
    found = accountant.delta(spent, cohort, budget.epsilon, grid=WORKING_GRID)
    if budget.delta < found <= _CLOSE * budget.delta:
        found = accountant.delta(spent, cohort, budget.epsilon)
    return found <= budget.delta, found


def affordable(spent: Spent, cohort: Cohort, budget: PrivacyBudget) -> bool:
    """`within`, and for a run of n equal rounds one question for every doubling of n.

    Cost never falls with rounds: where the next power of two stays within, so does n.
    """
    if not spent or spent[-1].rounds == 1:
        return within(spent, cohort, budget)[0]
    *others, (m, z, rounds) = spent
    if _doubled(tuple(others), m, z, 1 << (rounds - 1).bit_length(), cohort, budget):
        return True
    return rounds <= _most(tuple(others), m, z, cohort, budget)


def rounds_allowed(cohort: Cohort, per_round: float, noise: float, budget: PrivacyBudget, *, after: Spent = ()) -> int:
    """The most rounds of these terms that the budget allows, after those in the book; the next one would pass it.

    >>> from dosimeter.federated.client_sampling import Poisson
    >>> rounds_allowed(Poisson(100), 30, 1.0, PrivacyBudget(8.0, 1e-3))
    28
    """
    others = tuple(s for s in after if (s.per_round, s.noise) != (per_round, noise))
    had = sum(s.rounds for s in after if (s.per_round, s.noise) == (per_round, noise))
    return max(_most(others, per_round, noise, cohort, budget) - had, 0)


def noise_needed(cohort: Cohort, per_round: float, rounds: int, budget: PrivacyBudget, *, digits: int = 4) -> float:
    """The least multiplier z, to so many decimals and rounded up, with which so many rounds stay within the budget.

    >>> from dosimeter.federated.client_sampling import Poisson
    >>> noise_needed(Poisson(100), 50, 11, PrivacyBudget(8.0, 1e-3), digits=3)
    0.984
    """
    times, places = whole("rounds", rounds, 1, _MOST_ROUNDS), 10.0 ** whole("digits", digits, 1, 8)

    def holds(steps: int, grid: float = WORKING_GRID) -> bool:
        spent = (Spend(per_round, steps / places, times),)
        return accountant.delta(spent, cohort, budget.epsilon, grid=grid) <= budget.delta

    high = round(places)
    while not holds(high):
        high *= 2
        if high > _MOST_NOISE * places:
            raise CannotMeasure(
                f"no noise multiplier below {_MOST_NOISE:g} keeps {rounds} rounds within "
                f"(ε, δ) = ({budget.epsilon:g}, {budget.delta:g})"
            )
    low = high
    while low > _LEAST_NOISE * places and holds(low):
        low //= 2
    found = _first(holds, low, high)
    while found > 1 and holds(found - 1, CERTIFYING_GRID):  # the coarse grid errs on the safe side by a step or two
        found -= 1
    return found / places


@lru_cache(maxsize=64)
def _doubled(spent: Spent, per_round: float, noise: float, rounds: int, cohort: Cohort, budget: PrivacyBudget) -> bool:
    book = (*spent, Spend(per_round, noise, rounds))
    return accountant.delta(book, cohort, budget.epsilon, grid=WORKING_GRID) <= budget.delta


@lru_cache(maxsize=64)
def _most(spent: Spent, per_round: float, noise: float, cohort: Cohort, budget: PrivacyBudget) -> int:
    """The largest number of rounds that stays within, 0 where not even one does."""

    def passes(rounds: int, grid: float = WORKING_GRID) -> bool:
        book = (*spent, Spend(per_round, noise, rounds))
        return accountant.delta(book, cohort, budget.epsilon, grid=grid) > budget.delta

    high = 1
    while not passes(high):
        high *= 2
        if high > _MOST_ROUNDS:
            return _MOST_ROUNDS
    found = _first(passes, 1, high) - 1
    fine = accountant.certifying_grid((*spent, Spend(per_round, noise, 1)))
    while not passes(found + 1, fine):
        found += 1
    return found


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The first whole number in [low, high] for which `holds`, which it does at `high` and from there on."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high
