"""Terms of a federated training: the m of least noise, listed rounds, and the warning before any training."""

from __future__ import annotations

import itertools

import pytest

import dosimeter as dm
from dosimeter.core.errors import Refusal
from dosimeter.federated import (
    FixedSizeSampling,
    ListedSchedule,
    PoissonSampling,
    PrivacyBudget,
    noise_needed,
    rounds_allowed,
)
from dosimeter.federated.accountant import Spend, epsilon
from dosimeter.models.federated_terms import terms
from dosimeter.models.round_schedule import as_text, listed_rounds

BUDGET = PrivacyBudget(8.0, 1e-3)


def planned(clients: int, **options: object) -> object:
    base = {"per_round": None, "rounds": None, "noise": None, "sampling": "poisson", "epsilon": 8.0, "delta": 1e-3}
    return terms(clients, **{**base, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("clients", "sampling"),
    [
        (5, "poisson"),
        (5, "fixed"),
        pytest.param(12, "poisson", marks=pytest.mark.slow),
        pytest.param(12, "fixed", marks=pytest.mark.slow),
    ],
)
def test_the_default_m_has_the_least_noise_of_all_m(clients: int, sampling: str) -> None:
    """Against every whole m, by the planner's own search for z at that m."""
    cohort = PoissonSampling(clients) if sampling == "poisson" else FixedSizeSampling(clients)
    least = min(noise_needed(cohort, m, 10, BUDGET) / m for m in range(1, clients + 1))
    assert planned(clients, sampling=sampling, rounds=10).noise_of_the_mean == pytest.approx(least)  # type: ignore[attr-defined]


def test_with_noise_stated_m_is_the_largest_that_allows_the_rounds() -> None:
    plan = planned(64, noise=1.2, rounds=12)
    assert not plan.over  # type: ignore[attr-defined]
    m = plan.per_round  # type: ignore[attr-defined]
    allowed = {k: rounds_allowed(PoissonSampling(64), k, 1.2, BUDGET) for k in (64, 32, 16, 8, 4)}
    assert m == max(k for k, rounds in allowed.items() if rounds >= 12)
    assert m < 64  # the case is not a trivial one


def test_a_model_at_the_largest_useful_size_is_not_warned_about_and_a_larger_one_is() -> None:
    plan = planned(20, rounds=5)
    d = plan.largest_model  # type: ignore[attr-defined]
    assert plan.drowned(d) == ""  # type: ignore[attr-defined]
    assert "1.0 times as long" in plan.drowned(d + 2)  # type: ignore[attr-defined]


def test_where_no_size_is_useful_the_warning_does_not_suggest_a_model_of_no_parameters() -> None:
    plan = planned(4, rounds=10, epsilon=1.0, delta=1e-5)
    assert plan.largest_model == 0  # type: ignore[attr-defined]
    assert plan.drowned(300).endswith("parameters: train with more clients, fewer rounds or a larger ε")  # type: ignore[attr-defined]


def test_listed_rounds_cost_what_the_accountant_says_of_them_in_any_order() -> None:
    parts = ((3, 10, 2.0), (2, 20, 2.5), (1, 10, 2.0))
    costs = {
        round(dm.plan_federation(40, epsilon=8, schedule=list(order)).guarantee.epsilon, 9)  # type: ignore[arg-type]
        for order in itertools.permutations(parts)
    }
    assert len(costs) == 1
    apart = epsilon((Spend(10, 2.0, 4), Spend(20, 2.5, 2)), PoissonSampling(40), 1e-5)
    assert costs.pop() == pytest.approx(apart, rel=1e-9)


def test_a_schedule_is_trained_in_its_order() -> None:
    plan = planned(40, listed=listed_rounds("2x10:2,1x40:3"))
    schedule = plan.schedule  # type: ignore[attr-defined]
    assert isinstance(schedule, ListedSchedule)
    assert [tuple(schedule.parameters(t)) for t in range(3)] == [(10, 2.0), (10, 2.0), (40, 3.0)]
    assert plan.noise_of_the_mean == 0.2  # type: ignore[attr-defined]  # of the noisiest round


def test_a_schedule_beyond_the_budget_is_refused_with_its_cost() -> None:
    plan = dm.plan_federation(40, epsilon=1, schedule="100x40:1")
    assert plan.over.startswith("the schedule costs ε = ")
    with pytest.raises(Refusal, match="the schedule costs"):
        dm.federate(clients=40, epsilon=1, schedule="100x40:1")


def test_training_by_a_schedule_spends_what_the_plan_says() -> None:
    text = "1x100:2,2x200:3"
    released = dm.federate(clients=200, epsilon=8, schedule=text, epochs=1, simulation_seed=1)
    plan = dm.plan_federation(200, epsilon=8, delta=released.result.guarantee.delta, schedule=text)
    assert released.result.rounds == 3
    assert released.result.recipe.schedule == text
    assert released.result.by_round.per_round == [100, 200, 200]
    assert released.result.by_round.noise == [2, 3, 3]
    assert released.result.guarantee.epsilon == pytest.approx(plan.guarantee.epsilon)


@pytest.mark.filterwarnings("always")
def test_too_much_noise_is_said_before_the_training() -> None:
    with pytest.warns(dm.NoiseWarning, match="times as long as the longest mean update of 650 parameters"):
        dm.federate(clients=10, epsilon=8, rounds=1, epochs=1, simulation_seed=1)


@pytest.mark.parametrize(
    "schedule",
    ["", "10x5", "x5:1", "0x5:1", "1x0:1", "1xnan:1", "1x5:0.01", "1x5:1e9", "1x5:1,", "1.5x5:1", [(1, 2)], [], [5],
     [(1.5, 5, 1)], [("a", 5, 1)], "2000000x5:1", "1x41:1"],
)  # fmt: skip
def test_what_is_no_schedule_is_refused(schedule: object) -> None:
    with pytest.raises(Refusal):
        dm.plan_federation(40, epsilon=8, schedule=schedule)  # type: ignore[arg-type]


def test_a_schedule_leaves_no_room_for_rounds_clients_and_noise() -> None:
    for other in ({"rounds": 3}, {"clients_per_round": 3}, {"noise_multiplier": 3.0}):
        with pytest.raises(Refusal, match="leave"):
            dm.plan_federation(40, epsilon=8, schedule="1x5:2", **other)  # type: ignore[arg-type]


def test_the_text_of_a_schedule_is_read_back() -> None:
    parts = listed_rounds("10x50:1.1,1x2.5:2")
    assert listed_rounds(as_text(parts)) == parts
