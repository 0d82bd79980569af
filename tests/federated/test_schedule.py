"""Schedules: what each round asks for, from its number alone."""

from __future__ import annotations

import pytest

from dosimeter.core.errors import Refusal
from dosimeter.federated import Constant, ListedSchedule, PoissonSampling, PrivacyBudget, Ramp
from dosimeter.federated.accountant import booked
from dosimeter.federated.budget import within
from dosimeter.federated.schedule import ScheduleEnded


def test_a_ramp_rises_to_its_end_at_constant_ratio() -> None:
    terms = [Ramp(50, 220, 1.251, 20).terms(t) for t in range(30)]
    sizes = [m for m, _ in terms]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[19], sizes[29]) == (50, 220, 220)
    assert {round(z * z / m, 12) for m, z in terms} == {round(1.251**2 / 220, 12)}
    # The averaged noise is z/m: early rounds of a ramp are noisier, whatever the ratio suggests.
    assert terms[0].noise / terms[0].per_round > 2 * terms[19].noise / terms[19].per_round


def test_a_ramp_saves_communication_at_the_same_budget() -> None:
    """K = 1000 at (8, 1e-5): constant 220 gives 54 rounds and CC 11,880; rising from 50, about as many for less."""
    budget, cohort = PrivacyBudget(8.0, 1e-5), PoissonSampling(1000)
    spent, cost, rounds, schedule = (), 0.0, 0, Ramp(50, 220, 1.251, 54)
    while True:
        m, z = schedule.terms(rounds)
        spent = booked(spent, m, z)
        if not within(spent, cohort, budget)[0]:
            break
        cost, rounds = cost + m, rounds + 1
    assert 50 <= rounds <= 60
    assert cost < 0.8 * 11_880


def test_given_terms_end() -> None:
    schedule = ListedSchedule((10, 20), (1.0, 2.0))
    assert [schedule.terms(t) for t in (0, 1)] == [(10, 1.0), (20, 2.0)]
    with pytest.raises(ScheduleEnded):
        schedule.terms(2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Constant(0, 1.0),
        lambda: Constant(10, 0),
        lambda: Constant(10, float("inf")),
        lambda: Constant("10", 1.0),  # type: ignore[arg-type]
        lambda: Ramp(10, 20, 1.0, 0),
        lambda: Ramp(-1, 20, 1.0, 3),
        lambda: ListedSchedule((), ()),
        lambda: ListedSchedule((1, 2), (1.0,)),
        lambda: ListedSchedule((1, -2), (1.0, 1.0)),
    ],
)
def test_schedules_without_sense_are_refused(make: object) -> None:
    with pytest.raises(Refusal):
        make()  # type: ignore[operator]
