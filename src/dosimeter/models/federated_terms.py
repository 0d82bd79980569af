"""The terms of a federated training, from public numbers alone: how many rounds, how many clients, how much noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.text import safe_text

if TYPE_CHECKING:
    from dosimeter.federated.budget import EpsilonFigure, PrivacyBudget
    from dosimeter.federated.client_sampling import Cohort

SAMPLING = ("poisson", "fixed")
DELTA, DEMO_EPSILON, DEMO_DELTA = 1e-5, 8.0, 1e-4
"""The last two are fixed beforehand: those of the demonstration, with 500 clients."""


@dataclass(frozen=True)
class FederatedTerms:
    """What the training will be, or why it will not be: `over` says which limit stands against it."""

    cohort: Cohort
    budget: PrivacyBudget
    per_round: float
    rounds: int
    noise: float
    asked: str
    """Which of the two was found: "rounds" or "noise"."""
    over: str = ""

    @property
    def figure(self) -> EpsilonFigure:
        """(ε, δ) of all rounds, certified."""
        from dosimeter.federated.accountant import Spend
        from dosimeter.federated.budget import figure

        spent = (Spend(self.per_round, self.noise, self.rounds),) if self.rounds else ()
        return figure(spent, self.cohort, self.budget.delta)


def usual_rounds(clients: int) -> int:
    """Where nobody says: a twentieth of the clients, from 10 to 50. Few clients cannot pay for many.

    >>> usual_rounds(100), usual_rounds(500), usual_rounds(10_000)
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
    """Noise for so many rounds, or rounds for so much noise; with both, whether they keep within the budget."""
    from dosimeter.federated.budget import PrivacyBudget, noise_needed, rounds_allowed

    cohort, m = _cohort(clients, sampling), _per_round(clients, per_round, sampling)
    budget = PrivacyBudget(epsilon, delta)
    wanted = usual_rounds(clients) if rounds is None and noise is None else rounds
    if noise is None and wanted is not None:
        try:
            return FederatedTerms(cohort, budget, m, wanted, noise_needed(cohort, m, wanted, budget), "noise")
        except CannotMeasure as why:
            return FederatedTerms(cohort, budget, m, 0, 0.0, "noise", f"the budget allows no round: {why}")
    z = float(noise or 0.0)
    allowed = rounds_allowed(cohort, m, z, budget)
    short = f"with z = {z:g} the budget (ε, δ) = ({epsilon:g}, {delta:g}) allows {allowed} rounds"
    if allowed == 0:
        return FederatedTerms(cohort, budget, m, 0, z, "rounds", f"{short}: raise --noise or --epsilon")
    if wanted is not None and wanted > allowed:
        return FederatedTerms(cohort, budget, m, allowed, z, "rounds", f"{short}, and {wanted} were asked for")
    return FederatedTerms(cohort, budget, m, wanted or allowed, z, "rounds")


def _cohort(clients: int, sampling: str) -> Any:
    from dosimeter.federated.client_sampling import FixedSizeSampling, PoissonSampling

    if sampling not in SAMPLING:
        raise Refusal(f"--sampling {safe_text(sampling)}: use poisson or fixed")
    if clients < 2:
        raise Refusal(f"--clients {clients}: one client cannot be hidden; give at least 2")
    return PoissonSampling(clients) if sampling == "poisson" else FixedSizeSampling(clients)


def _per_round(clients: int, given: float | None, sampling: str) -> float:
    if given is None:
        return max(1, round(clients / 4))
    if not 0 < given <= clients:
        raise Refusal(f"--per-round {given:g}: give a number above 0 and at most the {clients} clients")
    if sampling == "fixed" and not float(given).is_integer():
        raise Refusal(f"--per-round {given:g}: with --sampling fixed it is a whole number")
    return int(given) if float(given).is_integer() else float(given)
