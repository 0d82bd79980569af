"""Plans: how many rounds, how much noise; always on the safe side, and tight to one step."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.notion import Standing
from dosimeter.federated import FixedSizeSampling, PoissonSampling, PrivacyBudget, Spend, noise_needed, rounds_allowed
from dosimeter.federated.accountant import delta
from dosimeter.federated.budget import _first_within, check_budget, figure, is_affordable

CASES = [(PoissonSampling(500), 60, 1.1), (FixedSizeSampling(500), 60, 2.2)]


@pytest.mark.parametrize(("cohort", "m", "z"), CASES, ids=repr)
def test_the_rounds_allowed_stay_within_and_one_more_does_not(
    cohort: PoissonSampling | FixedSizeSampling, m: int, z: float
) -> None:
    budget = PrivacyBudget(4.0, 1e-5)
    n = rounds_allowed(cohort, m, z, budget)
    assert n > 0
    assert delta([Spend(m, z, n)], cohort, 4.0) <= 1e-5 < delta([Spend(m, z, n + 1)], cohort, 4.0)


@pytest.mark.parametrize(("cohort", "m", "z"), CASES, ids=repr)
def test_the_noise_needed_stays_within_and_a_step_less_does_not(
    cohort: PoissonSampling | FixedSizeSampling, m: int, z: float
) -> None:
    budget = PrivacyBudget(2.0, 1e-5)
    noise = noise_needed(cohort, m, 10, budget, digits=3)
    assert delta([Spend(m, noise, 10)], cohort, 2.0) <= 1e-5 < delta([Spend(m, noise - 1e-3, 10)], cohort, 2.0)


def test_rounds_already_paid_for_are_subtracted() -> None:
    budget, cohort = PrivacyBudget(8.0, 1e-3), PoissonSampling(100)
    assert rounds_allowed(cohort, 30, 1.0, budget, after=(Spend(30, 1.0, 10),)) == 18
    other = rounds_allowed(cohort, 30, 1.0, budget, after=(Spend(50, 1.0, 5),))
    assert 0 < other < 28
    assert rounds_allowed(cohort, 30, 1.0, budget, after=(Spend(100, 0.4, 5),)) == 0


def test_a_run_of_equal_rounds_gets_the_same_answers_as_round_by_round() -> None:
    budget, cohort = PrivacyBudget(3.0, 1e-4), PoissonSampling(100)
    for n in range(1, 40):
        spent = (Spend(50, 3.0, 2), Spend(30, 2.0, n))
        assert is_affordable(spent, cohort, budget) == check_budget(spent, cohort, budget)[0]


@pytest.mark.parametrize("rounds", [1, 20])
def test_a_budget_just_met_is_met_and_one_just_missed_is_missed(rounds: int) -> None:
    """The coarse grid gives slightly more than the fine one; the fine one decides, to a millionth."""
    spent, cohort = (Spend(60, 1.1, rounds),), PoissonSampling(500)
    fine, coarse = (delta(spent, cohort, 1.0, grid=g) for g in (1e-4, 1e-3))
    assert fine * (1 - 1e-9) < coarse < 1.02 * fine
    for fits in (is_affordable, lambda *args: check_budget(*args)[0]):
        assert fits(spent, cohort, PrivacyBudget(1.0, fine * (1 + 1e-9)))
        assert not fits(spent, cohort, PrivacyBudget(1.0, fine * (1 - 1e-6)))


def test_a_budget_that_nothing_meets_is_refused() -> None:
    assert rounds_allowed(PoissonSampling(10), 10, 0.5, PrivacyBudget(0.1, 1e-6)) == 0
    with pytest.raises(CannotMeasure, match="no noise multiplier"):
        noise_needed(PoissonSampling(10), 10, 100, PrivacyBudget(0.0, 1e-9), digits=1)


def test_delta_not_below_one_in_k_gets_a_remark() -> None:
    assert figure((Spend(5, 1.0, 1),), PoissonSampling(100), 0.01).remarks
    assert "1/K" in figure((Spend(5, 1.0, 1),), PoissonSampling(100), 0.01).remarks[0]
    assert not figure((Spend(5, 1.0, 1),), PoissonSampling(100), 0.009).remarks


def test_a_figure_says_unit_relation_standing_and_method() -> None:
    certified = figure((Spend(5, 1.0, 3),), FixedSizeSampling(100), 1e-4)
    assert (certified.unit, certified.adjacency, certified.rounds) == ("client", "replace-one", 3)
    assert certified.standing is Standing.UPPER_BOUND
    quick = figure((Spend(5, 1.0, 3),), FixedSizeSampling(100), 1e-4, quick=True)
    assert quick.epsilon >= certified.epsilon
    assert "Rényi" in quick.method
    assert "replace-one: upper bound" in repr(certified)


@pytest.mark.parametrize("wrong", [(-1, 1e-5), (1, 0), (1, 1), (float("nan"), 1e-5), ("8", 1e-5)])
def test_invalid_budgets_are_refused(wrong: tuple[float, float]) -> None:
    with pytest.raises(Refusal):
        PrivacyBudget(*wrong)


@pytest.mark.parametrize("rounds", [0, -1, 2.5, True])
def test_a_plan_is_for_a_whole_number_of_rounds(rounds: int) -> None:
    with pytest.raises(Refusal, match="rounds"):
        noise_needed(PoissonSampling(10), 5, rounds, PrivacyBudget(8.0, 1e-3))


@pytest.mark.parametrize(
    "falls",
    [
        lambda s: (7321.5 / s) ** 30,
        lambda s: math.exp(-((s / 7321.5) ** 2 - 1) * 40),
        lambda s: math.erfc(2 * s / 7321.5) / math.erfc(2),
        lambda s: max(0.0, 1 - (s - 7321.5) / 500),
        lambda s: 2.0 if s < 7321.5 else 0.0,
        lambda s: 0.5,
    ],
    ids=["power", "square", "erfc", "line", "step", "low"],
)
def test_the_first_step_within_a_limit_is_found_on_any_falling_curve(falls: Callable[[int], float]) -> None:
    asked: list[int] = []

    def delta(steps: int) -> float:
        asked.append(steps)
        return falls(steps)

    brute = next(s for s in range(5000, 10001) if falls(s) <= 1.0)
    assert _first_within(delta, 1.0, 5000, 10000) == brute
    assert len(asked) <= 45
