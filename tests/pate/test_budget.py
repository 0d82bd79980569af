"""From a budget to the noise and back."""

from __future__ import annotations

import math

import pytest
from scipy.optimize import brentq

from dosimeter.core.density import Density
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Gumbel, Laplace
from dosimeter.pate.budget import nats, plan, queries_within
from dosimeter.pate.doses import public_bound
from dosimeter.pate.vote_noise import VOTE_LAWS
from tests.pate.brute import mp, wins

LAWS = list(VOTE_LAWS)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("budget", "k", "m"), [(1.0, 100, 10), (0.01, 2000, 2), (50.0, 40, 100), (1e-3, 100_000, 10)])
def test_the_plan_keeps_its_budget_and_uses_all_of_it(law: type[Density], budget: float, k: int, m: int) -> None:
    noise_plan = plan(budget, k, m, law)
    assert public_bound(k, m, noise_plan.noise).nats <= budget
    # slightly less noise: 1e-6 of the scale, or 1e-3 if the figure itself has only 1e-7
    less = noise_plan.noise.with_scale(noise_plan.noise.scale * (1 - (1e-3 if budget / k < 1e-6 else 1e-6)))
    assert public_bound(k, m, less).nats > budget
    assert noise_plan.gamma == pytest.approx(1 / noise_plan.noise.scale)


def test_a_gumbel_plan_is_the_closed_form_solved() -> None:
    """log(m e^γ/(m - 1 + e^γ)) = budget/k, solved by another root-finder."""
    gamma = brentq(lambda g: math.log(10) + g - math.log(9 + math.exp(g)) - 0.02, 1e-6, 1.0, xtol=1e-15)
    assert plan(2.0, 100, 10, Gumbel).gamma == pytest.approx(gamma, rel=1e-9)


def test_a_laplace_plan_holds_by_the_defining_integral() -> None:
    """The leakage at equal counts by quadrature, three classes: 7 queries of it spend the budget."""
    noise_plan = plan("0.7 nats", 7, 3)
    spent = 7 * mp.log(3 * wins([5, 4, 4], noise_plan.noise)[0])
    assert float(spent) == pytest.approx(0.7, rel=1e-9)


def test_a_person_with_more_votes_needs_more_noise() -> None:
    one_vote, three_votes = plan(1.0, 50, 10), plan(1.0, 50, 10, shift=3)
    assert three_votes.noise.scale > 2.9 * one_vote.noise.scale
    assert three_votes.public_bound.nats <= 1.0


@pytest.mark.parametrize("law", LAWS)
def test_the_queries_of_a_plan_are_those_the_budget_pays_for(law: type[Density]) -> None:
    noise_plan = plan(1.0, 123, 10, law)
    assert queries_within(1.0, 10, noise_plan.noise) == 123
    assert queries_within("1 nat", 10, noise_plan.noise.with_scale(noise_plan.noise.scale * 0.99)) < 123
    assert queries_within(1e-9, 10, law(1.0)) == 0


def test_queries_are_counted_by_the_public_bound_if_the_quotient_is_rounded() -> None:
    """Budgets just below, at and above k queries: the quotient is too large by one for some and too small for others.

    The answer is the largest k whose public bound keeps the budget; its neighbours are tried.
    """
    noise = Laplace(100.0)
    each = public_bound(1, 10, noise).nats
    up = down = 0
    for k in range(1, 400):
        top = public_bound(k, 10, noise).nats
        for budget in (math.nextafter(top, 0), top, math.nextafter(top, math.inf)):
            k_within = queries_within(budget, 10, noise)
            assert k_within == 0 or public_bound(k_within, 10, noise).nats <= budget
            assert public_bound(k_within + 1, 10, noise).nats > budget
            up, down = up + (int(budget / each) > k_within), down + (int(budget / each) < k_within)
    assert up > 0
    assert down > 0


@pytest.mark.parametrize("budget", [1e300, 1e308, 3e13])
def test_a_budget_for_more_queries_than_can_be_counted_is_refused(budget: float) -> None:
    """From 2^52 on k and k + 1 are nearly the same float; beyond float64 the quotient is infinite: refused."""
    with pytest.raises(Refusal, match="no limit"):
        queries_within(budget, 10, Laplace(1e3))


def test_a_budget_that_limits_nothing_and_one_out_of_reach_are_refused() -> None:
    with pytest.raises(Refusal, match="no limit"):
        plan(100 * math.log(10) + 1e-9, 100, 10)
    with pytest.raises(Refusal, match="out of reach"):
        plan(1e-8, 1000, 10)


@pytest.mark.parametrize(
    ("text", "value"), [("1 nat", 1.0), ("0.5 nats", 0.5), (" 2nats ", 2.0), ("1e-2 NATS", 0.01), (".5 nat", 0.5)]
)
def test_nats_are_read(text: str, value: float) -> None:
    assert nats(text) == value


@pytest.mark.parametrize(
    "text", ["1", "1 bit", "nat", "-1 nat", "0 nats", "1,5 nats", "inf nats", "nan nats", "1 nat 2", "", 1.0, None]
)
def test_other_units_and_bare_numbers_are_refused_in_one_line(text: object) -> None:
    with pytest.raises(Refusal) as refusal:
        nats(text)  # type: ignore[arg-type]
    assert "nat" in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("bad", [0, -1.0, float("nan"), float("inf"), True, None])
def test_invalid_budgets_are_refused(bad: object) -> None:
    with pytest.raises(Refusal, match="nats > 0"):
        plan(bad, 10, 10)  # type: ignore[arg-type]
    with pytest.raises(Refusal, match="nats > 0"):
        queries_within(bad, 10, Laplace(1.0))  # type: ignore[arg-type]


def test_a_law_is_given_without_its_scale() -> None:
    with pytest.raises(Refusal, match="without its scale"):
        plan(1.0, 10, 10, Laplace(2.0))  # type: ignore[arg-type]
