"""The dose of a training: one event for every client, with the same ε here and in dp-accounting."""

from __future__ import annotations

import pytest

from dosimeter.core.dose import EventDose
from dosimeter.core.errors import Refusal
from dosimeter.core.notion import Standing
from dosimeter.federated import ClientDose, FixedSizeSampling, PoissonSampling, Spend

ROUNDS = [Spend(20, 1.5, 4), Spend(30, 2.0, 3)]


def test_the_event_alone_gives_the_same_epsilon_in_dp_accounting() -> None:
    dose = ClientDose.of(ROUNDS, PoissonSampling(100))
    plain = EventDose(dose.event, dose.unit, dose.adjacency)
    assert dose.epsilon(1e-4) == pytest.approx(plain.epsilon(1e-4), rel=1e-5)
    assert (dose.unit, dose.adjacency, dose.standing) == ("client", "add-or-remove-one", Standing.UPPER_BOUND)
    assert dose.delta(dose.epsilon(1e-4)) == pytest.approx(1e-4, rel=1e-3)


@pytest.mark.parametrize("cohort", [PoissonSampling(100), FixedSizeSampling(100)], ids=repr)
def test_two_trainings_of_the_same_clients_add_up(cohort: PoissonSampling | FixedSizeSampling) -> None:
    first, second = (ClientDose.of([s], cohort) for s in ROUNDS)
    both = first + second
    assert both.epsilon(1e-4) == pytest.approx(ClientDose.of(ROUNDS, cohort).epsilon(1e-4), rel=1e-6)
    assert max(first.epsilon(1e-4), second.epsilon(1e-4)) < both.epsilon(1e-4)
    assert isinstance(both, ClientDose)


def test_another_release_about_the_same_clients_composes_as_events() -> None:
    from dp_accounting import GaussianDpEvent

    other = EventDose(GaussianDpEvent(3.0), "client", "add-or-remove-one")
    dose = ClientDose.of(ROUNDS, PoissonSampling(100))
    assert (dose + other).epsilon(1e-4) > dose.epsilon(1e-4)
    assert (dose + ClientDose.of(ROUNDS, PoissonSampling(200))).epsilon(1e-4) > dose.epsilon(1e-4)


def test_unlike_doses_are_never_added() -> None:
    poisson, fixed = ClientDose.of(ROUNDS, PoissonSampling(100)), ClientDose.of(ROUNDS, FixedSizeSampling(100))
    with pytest.raises(Refusal, match="separately"):
        _ = poisson + fixed
    with pytest.raises(Refusal, match="separately"):
        _ = fixed + poisson
    with pytest.raises(Refusal, match="never added"):
        _ = poisson + EventDose(poisson.event, "person", "add-or-remove-one")
