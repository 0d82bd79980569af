"""Values for someone who holds the votes: Rényi costs against the exact divergence, and two schemes not to be used."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Gaussian, Laplace
from dosimeter.pate.leakage import leakage, win_probabilities
from dosimeter.reproductions.saeidian21_unsafe import (
    gnmax_rdp,
    laplace_rdp,
    log_answered,
    log_q_gaussian,
    log_q_laplace,
    threshold_rdp,
    unsafe_adaptive_gamma,
    unsafe_adaptive_gamma_leakage,
    unsafe_fixed_refusal_leakage,
)

FINE = np.geomspace(1e-3, 5.0, 801)


def test_the_costs_of_the_public_reference_code(golden: Path) -> None:
    cases = json.loads((golden / "pate" / "gnmax_rdp.json").read_text())
    for case in cases:
        v, sigma, orders = [case["counts"]], case["sigma"], case["orders"]
        assert log_q_gaussian(v, sigma)[0] == pytest.approx(case["logq"], rel=1e-9)
        assert gnmax_rdp(v, sigma, orders)[0] == pytest.approx(case["rdp"], rel=1e-9)
        assert [x / sigma**2 for x in orders] == pytest.approx(case["rdp_indep"], rel=1e-12)
        assert log_q_laplace(v, 1 / 20)[0] == pytest.approx(case["logq_laplace_lambda20"], rel=1e-9)
        assert laplace_rdp(v, 1 / 20, orders)[0] == pytest.approx(case["rdp_laplace_pure_eps_0p1"], rel=1e-9)
        threshold = case["threshold"]
        assert log_answered(max(case["counts"]), threshold["t"], threshold["sigma1"]) == pytest.approx(
            threshold["log_pr_answered"], rel=1e-9
        )
        assert threshold_rdp(v, threshold["t"], threshold["sigma1"], orders)[0] == pytest.approx(
            threshold["rdp"], rel=1e-9
        )
    assert any(case["rdp"][0] < 0.5 * case["rdp_indep"][0] for case in cases)


def divergence(P: np.ndarray, Q: np.ndarray, order: float) -> float:
    """Rényi divergence by its definition."""
    return math.log(float((P**order * Q ** (1 - order)).sum())) / (order - 1)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_the_costs_cover_the_exact_divergence_from_every_neighbour(kind: str) -> None:
    orders = np.array([1.5, 2.0, 4.0, 8.0])
    helped = 0
    for v in ([12, 2, 1], [30, 3, 0], [8, 7, 0], [20, 10, 5], [5, 5, 5]):
        noise = Gaussian(3.0) if kind == "gaussian" else Laplace(3.0)
        cost = gnmax_rdp([v], 3.0, orders)[0] if kind == "gaussian" else laplace_rdp([v], 1 / 3, orders)[0]
        usual = orders / 9 if kind == "gaussian" else np.minimum(orders * (2 / 3) ** 2 / 2, 2 / 3)
        helped += int((cost < usual * 0.9).any())
        for a in range(3):
            for b in range(3):
                if a == b or v[a] == 0:
                    continue
                other = list(v)
                other[a], other[b] = other[a] - 1, other[b] + 1
                P, Q = win_probabilities([v, other], noise)
                exact = [divergence(P, Q, order) for order in orders]
                assert (np.array(exact) <= cost * (1 + 1e-9)).all()
    assert helped >= 2  # the data-dependent cost is used, not only the plain one


def test_the_threshold_cost_covers_the_exact_divergence() -> None:
    orders = np.array([1.5, 2.0, 8.0])
    for top, T in ((40, 10), (12, 10), (3, 30)):
        cost = threshold_rdp([[top, 0]], T, 4.0, orders)[0]
        for moved in (top - 1, top + 1):
            p, q = (np.exp(log_answered(x, T, 4.0)) for x in (top, moved))
            rows = np.array([p, 1 - p]), np.array([q, 1 - q])
            assert all(divergence(*rows, o) <= f * (1 + 1e-9) for o, f in zip(orders, cost, strict=True))


def test_unanimity_at_small_noise_costs_nothing_and_never_nan() -> None:
    cost = gnmax_rdp([[10**6, 0], [1, 0], [0, 0]], 1.0, [1.01, 2, 1e6])
    assert np.isfinite(cost).all()
    assert cost[0, 1] == 0.0


@pytest.mark.parametrize("orders", [[1.0], [0.5], [np.nan], [np.inf]])
def test_invalid_orders_are_refused(orders: list[float]) -> None:
    with pytest.raises(Refusal, match="orders"):
        gnmax_rdp([[3, 1]], 1.0, orders)


# ---------------------------------------------------------------- the two unsafe schemes


def test_the_leakage_of_a_vote_is_not_monotone_in_gamma() -> None:
    """(52, 47, 0, 0): it rises, then falls to nothing as the noise is turned off."""
    low, middle, high = (float(leakage([[52, 47, 0, 0]], Laplace(1 / g))[0]) for g in (0.02, 0.42, 3.2))
    assert (round(low, 4), round(middle, 4)) == (0.0149, 0.0775)
    assert high == pytest.approx(1.02e-5, rel=5e-3)


@pytest.mark.parametrize(("budget", "truth"), [(0.02, 0.446), (0.05, 0.373)])
def test_a_gamma_chosen_from_the_votes_leaks_many_times_its_budget(budget: float, truth: float) -> None:
    """v⁻ = (53, 50, 0, 0). Every query seems to keep the budget, for every vote that the teacher may cast."""
    with_vote = np.array([53, 50, 0, 0]) + np.eye(4, dtype=int)
    chosen = unsafe_adaptive_gamma(with_vote, budget, FINE)
    for v, g in zip(with_vote, chosen, strict=True):
        others = [v - np.eye(4, dtype=int)[j] for j in range(4) if v[j]]
        assert leakage(others, Laplace(1 / g)).max() <= budget
    assert chosen[0] == FINE[-1]  # a margin of four votes: the noise is off
    assert chosen[1] < 0.2  # a margin of two: it is on
    leaked = float(unsafe_adaptive_gamma_leakage([[53, 50, 0, 0]], budget, FINE)[0])
    assert leaked == pytest.approx(truth, abs=2e-3)
    assert leaked > 7 * budget


def test_one_gamma_for_all_votes_is_the_plain_leakage() -> None:
    leaked = unsafe_adaptive_gamma_leakage([[53, 50, 0, 0]], 1.0, [0.05])
    assert leaked == pytest.approx(leakage([[53, 50, 0, 0]], Laplace(20.0)), rel=1e-9)


def test_a_fixed_refusal_leaks_log_two_if_one_vote_decides_it() -> None:
    boundary, above, below = unsafe_fixed_refusal_leakage([[59, 40, 0], [80, 40, 0], [30, 10, 0]], Laplace(20.0), 60)
    assert boundary == pytest.approx(math.log(2), rel=1e-9)
    assert above == pytest.approx(float(leakage([[80, 40, 0]], Laplace(20.0))[0]), rel=1e-9)
    assert below == 0.0


@pytest.mark.parametrize("gammas", [[], [0.0], [-1.0], [np.nan]])
def test_invalid_ladders_are_refused(gammas: list[float]) -> None:
    with pytest.raises(Refusal, match="gammas"):
        unsafe_adaptive_gamma([[3, 1]], 0.1, gammas)
