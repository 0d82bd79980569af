"""The dose of a federated training: one composed event for every client, reported as (ε, δ)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dosimeter.core.dose import EventDose
from dosimeter.core.errors import Refusal
from dosimeter.core.notion import Standing
from dosimeter.federated import accountant
from dosimeter.federated.accountant import Spend, Spending
from dosimeter.federated.client_sampling import Cohort, FixedSizeSampling, PoissonSampling


@dataclass(frozen=True)
class ClientDose(EventDose):
    """An `EventDose` that keeps its rounds, so that samples of fixed size can be accounted too.

    dp-accounting has no privacy loss distribution for them, and its Rényi accountant takes their noise for twice its
    size; `epsilon` here is right for both kinds of cohort.

    Parameters
    ----------
    spent : tuple of Spend
        The rounds.
    cohort : PoissonSampling or FixedSizeSampling
        How clients are sampled.

    Examples
    --------
    >>> from dosimeter.federated import PoissonSampling
    >>> dose = ClientDose.of([Spend(50, 0.984, 11)], PoissonSampling(100))
    >>> dose.unit, dose.adjacency, dose.epsilon(1e-3) <= 8.0
    ('client', 'add-or-remove-one', True)
    """

    spent: Spending = ()
    cohort: Cohort = field(default_factory=lambda: PoissonSampling(1))

    @classmethod
    def of(
        cls,
        spent: Sequence[Spend],
        cohort: Cohort,
        standing: Standing = Standing.UPPER_BOUND,
        *,
        unit: str = "client",
    ) -> ClientDose:
        """The dose of these rounds, for each client, or for each person if patients are the clients."""
        event = accountant.event_of(spent, cohort)
        return cls(event, unit, cohort.adjacency, standing, tuple(spent), cohort)

    def epsilon(self, delta: float) -> float:
        """ε at δ from privacy loss distributions."""
        return accountant.epsilon(self.spent, self.cohort, delta)

    def delta(self, epsilon: float) -> float:
        """δ at ε from privacy loss distributions."""
        return accountant.delta(self.spent, self.cohort, epsilon)

    def __add__(self, other: EventDose) -> EventDose:
        """Rounds of the same cohort add up; with any other dose the events compose, if dp-accounting supports them."""
        if isinstance(other, ClientDose) and (other.cohort, other.unit) == (self.cohort, self.unit):
            spent = self.spent
            for s in other.spent:
                spent = accountant.add_rounds(spent, s.per_round, s.noise, s.rounds)
            return ClientDose.of(spent, self.cohort, self.standing.weaker(other.standing), unit=self.unit)
        if isinstance(self.cohort, FixedSizeSampling) or (
            isinstance(other, ClientDose) and isinstance(other.cohort, FixedSizeSampling)
        ):
            raise Refusal(
                "samples of fixed size compose only with rounds of the same clients: report the doses separately"
            )
        return EventDose(self.event, self.unit, self.adjacency, self.standing) + EventDose(
            other.event, other.unit, other.adjacency, other.standing
        )
