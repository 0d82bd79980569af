"""The terms of a federated training, from public numbers alone: rounds, clients per round, noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text

if TYPE_CHECKING:
    from dosimeter.federated.budget import EpsilonFigure, PrivacyBudget
    from dosimeter.federated.client_sampling import Cohort

SAMPLING = ("poisson", "fixed")
DELTA, DEMO_EPSILON, DEMO_DELTA = 1e-5, 8.0, 1e-4
"""The last two are fixed beforehand: those of the demonstration, with 500 clients."""


@dataclass(frozen=True)
class FederatedTerms:
    """The planned training. `over` says why the budget does not allow it."""

    cohort: Cohort
    budget: PrivacyBudget
    per_round: float
    rounds: int
    noise: float
    solved_for: str
    """Which of the two was computed: "rounds" or "noise"."""
    over: str = ""

    @property
    def figure(self) -> EpsilonFigure:
        """(ε, δ) of all rounds, certified."""
        from dosimeter.federated.accountant import Spend
        from dosimeter.federated.budget import figure

        spent = (Spend(self.per_round, self.noise, self.rounds),) if self.rounds else ()
        return figure(spent, self.cohort, self.budget.delta)


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
) -> FederatedTerms:
    """The noise that `rounds` need, or the rounds that `noise` allows; with both, whether they fit the budget."""
    from dosimeter.federated.budget import PrivacyBudget, noise_needed, rounds_allowed

    cohort, m = _cohort(clients, sampling), _per_round(clients, per_round, sampling)
    budget = PrivacyBudget(epsilon, delta)
    wanted = default_rounds(clients) if rounds is None and noise is None else rounds
    if noise is None and wanted is not None:
        try:
            return FederatedTerms(cohort, budget, m, wanted, noise_needed(cohort, m, wanted, budget), "noise")
        except CannotMeasure as why:
            return FederatedTerms(cohort, budget, m, 0, 0.0, "noise", f"the budget allows no round: {why}")
    z = float(noise or 0.0)
    allowed = rounds_allowed(cohort, m, z, budget)
    short = f"with z = {z:g} the budget (ε, δ) = ({epsilon:g}, {delta:g}) allows {allowed} rounds"
    if allowed == 0:
        return FederatedTerms(
            cohort, budget, m, 0, z, "rounds", f"{short}: raise {option('noise_multiplier')} or {option('epsilon')}"
        )
    if wanted is not None and wanted > allowed:
        return FederatedTerms(cohort, budget, m, allowed, z, "rounds", f"{short}, and {wanted} were requested")
    return FederatedTerms(cohort, budget, m, wanted or allowed, z, "rounds")


def _cohort(clients: int, sampling: str) -> Any:
    from dosimeter.federated.client_sampling import FixedSizeSampling, PoissonSampling

    if sampling not in SAMPLING:
        raise Refusal(f"{option('sampling', safe_text(sampling))}: use poisson or fixed")
    if clients < 2:
        raise Refusal(f"{option('clients', clients)}: one client cannot be hidden; give at least 2")
    return PoissonSampling(clients) if sampling == "poisson" else FixedSizeSampling(clients)


def _per_round(clients: int, expected: float | None, sampling: str) -> float:
    if expected is None:
        return max(1, round(clients / 4))
    shown = option("clients_per_round", float(expected))
    if not 0 < expected <= clients:
        raise Refusal(f"{shown}: give a number above 0 and at most the {clients} clients")
    if sampling == "fixed" and not float(expected).is_integer():
        raise Refusal(f"{shown}: with {option('sampling', 'fixed')} it is a whole number")
    return int(expected) if float(expected).is_integer() else float(expected)
