"""Budgets: the privacy cost allowed for a whole training, checked before each round; rounds and noise that fit it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from dosimeter.core.checks import whole
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.notion import Standing
from dosimeter.federated import accountant
from dosimeter.federated.accountant import CERTIFYING_GRID, WORKING_GRID, Spend, Spending, as_delta, as_epsilon
from dosimeter.federated.client_sampling import Cohort

_MOST_ROUNDS = 1 << 20
_CLOSE = 1.02
"""δ on the coarse grid over δ on the fine one: at most 1.0003 for the trainings in Table 1 of [Geyer19]."""
_LEAST_NOISE, _MOST_NOISE = 0.05, 1e4


@dataclass(frozen=True)
class PrivacyBudget:
    """(ε, δ) of the whole training: δ(ε) of all rounds together never exceeds δ.

    Parameters
    ----------
    epsilon : float
        ε, 0 to 1e6.
    delta : float
        δ, at least 1e-12 and below 1.

    Raises
    ------
    Refusal
        If ε or δ is outside its range.

    Examples
    --------
    >>> PrivacyBudget(8.0, 1e-5)
    PrivacyBudget(epsilon=8.0, delta=1e-05)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        as_epsilon(self.epsilon)
        as_delta(self.delta)


@dataclass(frozen=True)
class EpsilonFigure:
    """(ε, δ) for one client, with everything that qualifies it.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee.
    rounds : int
        Rounds it covers.
    adjacency : str
        Neighbouring relation, "add-or-remove-one" or "replace-one".
    standing : Standing
        Upper bound, estimate, or unaccounted.
    method : str
        How ε was computed.
    not_covered : tuple of str
        Data-dependent choices that ε does not cover.
    remarks : tuple of str
        Warnings, such as a δ that is too large.
    unit : str, default "client"
        What the guarantee protects.

    Examples
    --------
    >>> EpsilonFigure(1.5, 1e-5, 3, "add-or-remove-one", Standing.UPPER_BOUND, "privacy loss distributions")
    <(ε, δ) = (1.5, 1e-05) after 3 rounds, per client, add-or-remove-one: upper bound, privacy loss distributions>
    """

    epsilon: float
    delta: float
    rounds: int
    adjacency: str
    standing: Standing
    method: str
    not_covered: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    unit: str = "client"

    def __repr__(self) -> str:
        return (
            f"<(ε, δ) = ({self.epsilon:.4g}, {self.delta:.4g}) after {self.rounds} rounds, per {self.unit}, "
            f"{self.adjacency}: {self.standing.value}, {self.method}>"
        )


class BudgetSpent(Exception):
    """The next round would exceed the budget; nothing was drawn or released. Exit code 1.

    Parameters
    ----------
    budget : PrivacyBudget
        The limit.
    would_be : float
        δ at the budget's ε with the next round.
    rounds : int
        Rounds already paid for.

    Examples
    --------
    >>> print(BudgetSpent(PrivacyBudget(8.0, 1e-5), 2e-5, 10))
    round 11 is not opened: δ(8) would be 2e-05, above 1e-05; 10 rounds are paid for
    """

    def __init__(self, budget: PrivacyBudget, would_be: float, rounds: int):
        super().__init__(
            f"round {rounds + 1} is not opened: δ({budget.epsilon:g}) would be {would_be:.4g}, above {budget.delta:g}; "
            f"{rounds} rounds are paid for"
        )
        self.budget, self.would_be, self.rounds = budget, would_be, rounds


def figure(
    spent: Spending, cohort: Cohort, delta: float, *, not_covered: tuple[str, ...] = (), quick: bool = False
) -> EpsilonFigure:
    """ε of these rounds at δ, certified on the fine grid; with `quick` from Rényi divergences."""
    epsilon = accountant.epsilon_by_renyi(spent, cohort, delta) if quick else accountant.epsilon(spent, cohort, delta)
    return EpsilonFigure(
        epsilon=epsilon,
        delta=float(delta),
        rounds=accountant.rounds_of(spent),
        adjacency=cohort.adjacency,
        standing=Standing.UNACCOUNTED if not_covered else Standing.UPPER_BOUND,
        method="Rényi orders" if quick else "privacy loss distributions",
        not_covered=not_covered,
        remarks=remarks(cohort, delta),
    )


def remarks(cohort: Cohort, delta: float) -> tuple[str, ...]:
    """Warnings about δ.

    >>> from dosimeter.federated.client_sampling import PoissonSampling
    >>> remarks(PoissonSampling(100), 0.02)[0]
    'δ = 0.02 is not below 1/K = 0.01: publishing one random client outright would satisfy it'
    """
    share = 1.0 / cohort.clients
    if delta < share:
        return ()
    return (f"δ = {delta:g} is not below 1/K = {share:g}: publishing one random client outright would satisfy it",)


def check_budget(spent: Spending, cohort: Cohort, budget: PrivacyBudget) -> tuple[bool, float]:
    """Whether these rounds stay within the budget, and their δ at the budget's ε.

    Computed on the coarse grid first, and on the fine one only if the coarse value exceeds the budget by less than
    the grids can differ. Both are upper bounds.
    """
    delta = accountant.delta(spent, cohort, budget.epsilon, grid=WORKING_GRID)
    if budget.delta < delta <= _CLOSE * budget.delta:
        delta = accountant.delta(spent, cohort, budget.epsilon)
    return delta <= budget.delta, delta


def is_affordable(spent: Spending, cohort: Cohort, budget: PrivacyBudget) -> bool:
    """Like `check_budget`, but n equal rounds need one computation for each doubling of n.

    More rounds never cost less: if the next power of two stays within the budget, so does n.
    """
    if not spent or spent[-1].rounds == 1:
        return check_budget(spent, cohort, budget)[0]
    *others, (m, z, rounds) = spent
    if _allows(tuple(others), m, z, 1 << (rounds - 1).bit_length(), cohort, budget):
        return True
    return rounds <= _most_rounds(tuple(others), m, z, cohort, budget)


def rounds_allowed(
    cohort: Cohort, per_round: float, noise: float, budget: PrivacyBudget, *, after: Spending = ()
) -> int:
    """The largest number of rounds that the budget allows.

    Parameters
    ----------
    cohort : PoissonSampling or FixedSizeSampling
        How clients are sampled.
    per_round : float
        m, the expected (or fixed) number of clients in a round.
    noise : float
        z, the noise multiplier.
    budget : PrivacyBudget
        The limit of the whole training.
    after : tuple of Spend, default ()
        Rounds that are already paid for.

    Returns
    -------
    int
        Further rounds with these parameters; one more would exceed the budget. 0 if none fits.

    Notes
    -----
    δ(ε) of all rounds comes from privacy loss distributions, an upper bound.

    Examples
    --------
    >>> from dosimeter.federated import PoissonSampling
    >>> rounds_allowed(PoissonSampling(100), 30, 1.0, PrivacyBudget(8.0, 1e-3))
    28
    """
    others = tuple(s for s in after if (s.per_round, s.noise) != (per_round, noise))
    already = sum(s.rounds for s in after if (s.per_round, s.noise) == (per_round, noise))
    return max(_most_rounds(others, per_round, noise, cohort, budget) - already, 0)


def allows_rounds(cohort: Cohort, per_round: float, noise: float, rounds: int, budget: PrivacyBudget) -> bool:
    """Whether `rounds_allowed` is at least this many: one computation instead of a search."""
    return rounds <= _MOST_ROUNDS and check_budget((Spend(per_round, noise, rounds),), cohort, budget)[0]


def noise_needed(cohort: Cohort, per_round: float, rounds: int, budget: PrivacyBudget, *, digits: int = 4) -> float:
    """The least noise multiplier z with which this many rounds stay within the budget.

    Parameters
    ----------
    cohort : PoissonSampling or FixedSizeSampling
        How clients are sampled.
    per_round : float
        m, the expected (or fixed) number of clients in a round.
    rounds : int
        Number of rounds.
    budget : PrivacyBudget
        The limit of the whole training.
    digits : int, default 4
        Decimals of z, 1 to 8.

    Returns
    -------
    float
        z, rounded up.

    Raises
    ------
    CannotMeasure
        If no z below 1e4 is enough.

    Notes
    -----
    δ(ε) of all rounds comes from privacy loss distributions, an upper bound.

    Examples
    --------
    >>> from dosimeter.federated import PoissonSampling
    >>> noise_needed(PoissonSampling(100), 50, 11, PrivacyBudget(8.0, 1e-3), digits=3)
    0.984
    """
    times, places = whole("rounds", rounds, 1, _MOST_ROUNDS), 10.0 ** whole("digits", digits, 1, 8)

    def delta(steps: int, grid: float = WORKING_GRID) -> float:
        return accountant.delta((Spend(per_round, steps / places, times),), cohort, budget.epsilon, grid=grid)

    def holds(steps: int, grid: float = WORKING_GRID) -> bool:
        return delta(steps, grid) <= budget.delta

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
    steps_needed = _first_within(delta, budget.delta, low, high)
    while steps_needed > 1 and holds(steps_needed - 1, CERTIFYING_GRID):  # the coarse grid is a step or two too high
        steps_needed -= 1
    return steps_needed / places


@lru_cache(maxsize=64)
def _allows(
    spent: Spending, per_round: float, noise: float, rounds: int, cohort: Cohort, budget: PrivacyBudget
) -> bool:
    entries = (*spent, Spend(per_round, noise, rounds))
    return accountant.delta(entries, cohort, budget.epsilon, grid=WORKING_GRID) <= budget.delta


@lru_cache(maxsize=64)
def _most_rounds(spent: Spending, per_round: float, noise: float, cohort: Cohort, budget: PrivacyBudget) -> int:
    """The largest number of rounds within the budget; 0 if not even one is."""

    def passes(rounds: int, grid: float = WORKING_GRID) -> bool:
        entries = (*spent, Spend(per_round, noise, rounds))
        return accountant.delta(entries, cohort, budget.epsilon, grid=grid) > budget.delta

    high = 1
    while not passes(high):
        high *= 2
        if high > _MOST_ROUNDS:
            return _MOST_ROUNDS
    most = _first_true(passes, 1, high) - 1
    fine = accountant.certifying_grid((*spent, Spend(per_round, noise, 1)))
    while not passes(most + 1, fine):
        most += 1
    return most


def _first_true(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The first whole number in [low, high] for which `holds`; it must hold at `high` and be monotone."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high


def _first_within(delta: Callable[[int], float], limit: float, low: int, high: int) -> int:
    """The first whole number in [low, high] with δ <= limit; δ falls, and holds at `high`.

    Secants of log δ over log z, which is nearly a line, find it in about seven steps where bisection takes thirteen.

    >>> _first_within(lambda steps: 2.0**-steps, 1e-6, 1, 64)
    20
    """
    above, below = _log_ratio(delta(low), limit), _log_ratio(delta(high), limit)
    if above <= 0:
        return low
    widths, moved = [math.inf] * 3, ""
    while high - low > 1:
        middle = (low + high) // 2
        if 2 * (high - low) <= widths[-3]:  # otherwise bisect: three steps have not halved the range
            middle = math.ceil(low * (high / low) ** (above / (above - below)))
            middle = min(max(middle, low + 1), high - 1)
        widths.append(high - low)
        at_middle = _log_ratio(delta(middle), limit)
        # If the same end moves twice, the other one counts half (the Illinois rule): on a convex curve it would stay.
        if at_middle <= 0:
            high, below, above, moved = middle, at_middle, above / 2 if moved == "high" else above, "high"
        else:
            low, above, below, moved = middle, at_middle, below / 2 if moved == "low" else below, "low"
    return high


def _log_ratio(delta: float, limit: float) -> float:
    """log(δ/limit), with a finite value for δ = 0."""
    return math.log(max(delta, 1e-300) / limit)
