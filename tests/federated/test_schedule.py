"""Schedules: the parameters of each round, from its number only."""

from __future__ import annotations

import pytest

from dosimeter.core.errors import Refusal
from dosimeter.federated import Constant, ListedSchedule, PoissonSampling, PrivacyBudget, Ramp
from dosimeter.federated.accountant import add_rounds
from dosimeter.federated.budget import check_budget
from dosimeter.federated.schedule import ScheduleEnded


def test_a_ramp_rises_to_its_end_at_constant_ratio() -> None:
    parameters = [Ramp(50, 220, 1.251, 20).parameters(t) for t in range(30)]
    sizes = [m for m, _ in parameters]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[19], sizes[29]) == (50, 220, 220)
    assert {round(z * z / m, 12) for m, z in parameters} == {round(1.251**2 / 220, 12)}
    # The averaged noise is z/m: early rounds of a ramp are noisier, although the ratio is constant.
    assert parameters[0].noise / parameters[0].per_round > 2 * parameters[19].noise / parameters[19].per_round


def test_a_ramp_saves_communication_at_the_same_budget() -> None:
    """K = 1000 at (8, 1e-5): constant 220 allows 54 rounds, 11,880 updates; a ramp from 50 about as many for less."""
    budget, cohort = PrivacyBudget(8.0, 1e-5), PoissonSampling(1000)
    spent, cost, rounds, schedule = (), 0.0, 0, Ramp(50, 220, 1.251, 54)
    while True:
        m, z = schedule.parameters(rounds)
        spent = add_rounds(spent, m, z)
        if not check_budget(spent, cohort, budget)[0]:
            break
        cost, rounds = cost + m, rounds + 1
    assert 50 <= rounds <= 60
    assert cost < 0.8 * 11_880


def test_a_listed_schedule_ends() -> None:
    schedule = ListedSchedule((10, 20), (1.0, 2.0))
    assert [schedule.parameters(t) for t in (0, 1)] == [(10, 1.0), (20, 2.0)]
    with pytest.raises(ScheduleEnded):
        schedule.parameters(2)


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
def test_invalid_schedules_are_refused(make: object) -> None:
    with pytest.raises(Refusal):
        make()  # type: ignore[operator]
