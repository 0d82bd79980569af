"""The terms of a federated training, from public numbers alone: rounds, clients per round, noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text

if TYPE_CHECKING:
    from dosimeter.federated.accountant import Spending
    from dosimeter.federated.budget import EpsilonFigure, PrivacyBudget
    from dosimeter.federated.client_sampling import Cohort
    from dosimeter.federated.schedule import Schedule

SAMPLING = ("poisson", "fixed")
DELTA, DEMO_EPSILON, DEMO_DELTA = 1e-5, 8.0, 1e-4
"""The last two are fixed in advance: those of the demonstration, with 500 clients."""


@dataclass(frozen=True)
class FederatedTerms:
    """The planned training. `over` says why the budget does not allow it."""

    cohort: Cohort
    budget: PrivacyBudget
    per_round: float
    """m; the mean over the rounds if they were listed."""
    rounds: int
    noise: float
    """z; the mean over the rounds if they were listed."""
    solved_for: str
    """What was computed: "rounds" or "noise"; "nothing" if the rounds were listed."""
    over: str = ""
    listed: Spending = ()
    """The rounds in their order, if m and z were listed."""

    @property
    def parts(self) -> Spending:
        """The rounds in their order; neighbouring equal ones together."""
        from dosimeter.federated.accountant import Spend

        return self.listed or ((Spend(self.per_round, self.noise, self.rounds),) if self.rounds else ())

    @property
    def figure(self) -> EpsilonFigure:
        """(ε, δ) of all rounds, certified."""
        from dosimeter.federated.accountant import add_rounds
        from dosimeter.federated.budget import figure

        spent: Spending = ()
        for part in self.parts:
            spent = add_rounds(spent, *part)
        return figure(spent, self.cohort, self.budget.delta)

    @property
    def schedule(self) -> Schedule:
        """m and z of each round."""
        from dosimeter.federated.schedule import Constant, ListedSchedule

        if not self.listed:
            return Constant(self.per_round, self.noise)
        each = [(part.per_round, part.noise) for part in self.listed for _ in range(part.rounds)]
        return ListedSchedule(tuple(m for m, _ in each), tuple(z for _, z in each))

    @property
    def noise_of_the_mean(self) -> float:
        """z/m: the noise on each coordinate of the mean update, in clips; the largest of all rounds."""
        return max((part.noise / part.per_round for part in self.parts), default=0.0)

    @property
    def largest_model(self) -> int:
        """Parameters of a model whose noise is as long as the longest mean update: (m/z)².

        >>> from dosimeter.federated import PoissonSampling, PrivacyBudget
        >>> FederatedTerms(PoissonSampling(10), PrivacyBudget(8.0, 1e-5), 10, 20, 2.5, "noise").largest_model
        16
        """
        return min(int(self.noise_of_the_mean**-2), 1 << 53) if self.parts else 0

    def drowned(self, parameters: int) -> str:
        """A warning if the noise of a round is longer than the longest mean update of that many parameters, else ""."""
        ratio = self.noise_of_the_mean * parameters**0.5
        if ratio <= 1:
            return ""
        remedies = "with more clients, fewer rounds or a larger ε"
        if self.largest_model:
            remedies = f"at most {self.largest_model} parameters, or {remedies}"
        return (
            f"the noise of a round is about {ratio:.1f} times as long as the longest mean update of {parameters} "
            f"parameters: train {remedies}"
        )


def default_rounds(clients: int) -> int:
    """The default: a twentieth of the clients, from 10 to 50. With few clients the budget allows few rounds.

    >>> default_rounds(100), default_rounds(500), default_rounds(10_000)
    (10, 25, 50)
    """
    return min(max(clients // 20, 10), 50)


def terms(
    clients: int,
    *,
    epsilon: float,
    delta: float,
    per_round: float | None,
    rounds: int | None,
    noise: float | None,
    sampling: str,
    listed: Spending = (),
) -> FederatedTerms:
    """The noise that `rounds` need, or the rounds that `noise` allows; with both, whether they fit the budget.

    Without `per_round`, m is the one of least z/m, the noise of the mean, with which the rounds fit the budget.
    """
    from dosimeter.federated.budget import PrivacyBudget

    cohort, budget = _cohort(clients, sampling), PrivacyBudget(epsilon, delta)
    if listed:
        return _listed_terms(cohort, budget, listed, sampling)
    expected = None if per_round is None else _per_round(clients, per_round, sampling)
    if noise is None:
        wanted = default_rounds(clients) if rounds is None else rounds
        return _with_noise_solved(cohort, budget, expected, wanted)
    m = _most_that_fits(cohort, noise, rounds, budget) if expected is None else expected
    return _with_rounds_solved(cohort, budget, m, rounds, noise)


def _with_noise_solved(cohort: Any, budget: PrivacyBudget, expected: float | None, rounds: int) -> FederatedTerms:
    from dosimeter.federated.budget import noise_needed

    best: tuple[float, float, float] | None = None
    reason = ""
    for m in _ladder(cohort.clients) if expected is None else (expected,):
        try:
            z = noise_needed(cohort, m, rounds, budget)
        except CannotMeasure as why:
            reason = reason or f"the budget allows no round: {why}"
            break
        if best is not None and z / m >= best[0]:
            break
        best = (z / m, m, z)
    if best is None:
        m = cohort.clients if expected is None else expected
        return FederatedTerms(cohort, budget, m, 0, 0.0, "noise", reason)
    return FederatedTerms(cohort, budget, best[1], rounds, best[2], "noise")


def _with_rounds_solved(
    cohort: Any, budget: PrivacyBudget, m: float, wanted: int | None, noise: float
) -> FederatedTerms:
    from dosimeter.federated.budget import allows_rounds, rounds_allowed

    z = float(noise)
    if wanted and allows_rounds(cohort, m, z, wanted, budget):
        return FederatedTerms(cohort, budget, m, wanted, z, "rounds")
    allowed = rounds_allowed(cohort, m, z, budget)
    short = f"with z = {z:g} the budget (ε, δ) = ({budget.epsilon:g}, {budget.delta:g}) allows {allowed} rounds"
    if allowed == 0:
        return FederatedTerms(
            cohort, budget, m, 0, z, "rounds", f"{short}: raise {option('noise_multiplier')} or {option('epsilon')}"
        )
    if wanted is not None and wanted > allowed:
        return FederatedTerms(cohort, budget, m, allowed, z, "rounds", f"{short}, and {wanted} were requested")
    return FederatedTerms(cohort, budget, m, wanted or allowed, z, "rounds")


def _listed_terms(cohort: Any, budget: PrivacyBudget, listed: Spending, sampling: str) -> FederatedTerms:
    """Terms of listed rounds: nothing is solved, and the budget allows all of them or none."""
    from dosimeter.federated.accountant import Spend, rounds_of

    parts = tuple(Spend(_per_round(cohort.clients, s.per_round, sampling), s.noise, s.rounds) for s in listed)
    rounds = rounds_of(parts)
    m = sum(s.per_round * s.rounds for s in parts) / rounds
    z = sum(s.noise * s.rounds for s in parts) / rounds
    planned = FederatedTerms(cohort, budget, m, rounds, z, "nothing", listed=parts)
    epsilon = planned.figure.epsilon
    if epsilon <= budget.epsilon:
        return planned
    over = (
        f"the schedule costs ε = {epsilon:.4g} at δ = {budget.delta:g}, and the budget is {budget.epsilon:g}: "
        f"raise its noise, take rounds away, or raise {option('epsilon')}"
    )
    return FederatedTerms(cohort, budget, m, rounds, z, "nothing", over, parts)


def _most_that_fits(cohort: Any, noise: float, rounds: int | None, budget: PrivacyBudget) -> float:
    """The largest m with which z allows the rounds: at a fixed z the noise of the mean falls with m."""
    from dosimeter.federated.budget import allows_rounds

    wanted = default_rounds(cohort.clients) if rounds is None else rounds
    m: float = cohort.clients
    for m in _ladder(cohort.clients):
        if allows_rounds(cohort, m, float(noise), wanted, budget):
            break
    return m


def _ladder(clients: int) -> Iterator[int]:
    """All clients, half of them, a quarter, ..."""
    m = clients
    while m >= 1:
        yield m
        m //= 2


def _cohort(clients: int, sampling: str) -> Any:
    from dosimeter.federated.client_sampling import FixedSizeSampling, PoissonSampling

    if sampling not in SAMPLING:
        raise Refusal(f"{option('sampling', safe_text(sampling))}: use poisson or fixed")
    if clients < 2:
        raise Refusal(f"{option('clients', clients)}: one client cannot be hidden; give at least 2")
    return PoissonSampling(clients) if sampling == "poisson" else FixedSizeSampling(clients)


def _per_round(clients: int, expected: float, sampling: str) -> float:
    shown = option("clients_per_round", float(expected))
    if not 0 < expected <= clients:
        raise Refusal(f"{shown}: give a number above 0 and at most the {clients} clients")
    if sampling == "fixed" and not float(expected).is_integer():
        raise Refusal(f"{shown}: with {option('sampling', 'fixed')} it is a whole number")
    return int(expected) if float(expected).is_integer() else float(expected)
