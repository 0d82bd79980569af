"""Algorithm 1 as published: it does what was printed, and says what its ε does not cover."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.core.notion import Standing
from dosimeter.federated import (
    BudgetSpent,
    ClientUpdate,
    Constant,
    FixedSizeSampling,
    LocalSGD,
    Network,
    PoissonSampling,
    PrivacyBudget,
    State,
    Task,
    UpdateBatch,
    UpdateStatistics,
    iid,
    simulate,
)
from dosimeter.reproductions.geyer19_algorithm import GeyerAlgorithm1

RECIPE = GeyerAlgorithm1(FixedSizeSampling(100), Constant(30, 1.0), PrivacyBudget(8.0, 1e-3))


def run_round(updates: np.ndarray, rng: np.random.Generator | None = None) -> State:
    state = RECIPE.open_round(RECIPE.start(np.zeros(updates.shape[1])), rng)
    return RECIPE.close_round(state, [UpdateBatch(state.participants, updates[state.participants])], rng)


def test_one_round_is_line_ten_with_the_noise_taken_away() -> None:
    """Median, clip and mean by brute force; the remainder is noise of standard deviation 1."""
    X = np.random.default_rng(0).normal(size=(100, 400)) * np.random.default_rng(1).uniform(0.1, 5, (100, 1))
    rng = np.random.default_rng(7)
    state = RECIPE.open_round(RECIPE.start(np.zeros(400)), rng)
    sampled = X[state.participants]
    norms = [np.sqrt(sum(x * x for x in row)) for row in sampled.tolist()]
    S = sorted(norms)[14:16]
    S = (S[0] + S[1]) / 2
    mean = sum(row / max(1.0, n / S) for row, n in zip(sampled, norms, strict=True)) / 30
    after = RECIPE.close_round(state, [UpdateBatch(state.participants, sampled)], rng)
    noise = (after.model - mean) * 30 / S
    assert after.history[0].clip == pytest.approx(S, rel=1e-9)
    # 400 standard normal entries: mean square 1 with standard deviation 0.07.
    assert abs(np.square(noise).mean() - 1) < 0.43
    assert len(state.participants) == 30


def test_the_accountant_is_called_before_the_round_and_stops_at_fourteen() -> None:
    state = RECIPE.start(np.zeros(2))
    while RECIPE.next_round_cost(state)[0]:
        state = RECIPE.close_round(RECIPE.open_round(state), [ClientUpdate(1, np.ones(2))])
    with pytest.raises(BudgetSpent, match="round 15 is not opened"):
        RECIPE.open_round(state)
    assert state.round == 14
    assert RECIPE.figure(state).delta <= 1e-3


def test_every_figure_lists_what_it_does_not_cover() -> None:
    state = run_round(np.ones((100, 3)))
    figure = RECIPE.figure(state)
    assert figure.standing is Standing.UNACCOUNTED
    assert "unaccounted" in repr(figure)
    assert any("median" in line for line in figure.not_covered)
    assert any("exactly m" in line for line in figure.not_covered)
    assert RECIPE.dose(state).standing is Standing.UNACCOUNTED


def test_one_client_moves_the_median_and_with_it_all_contributions() -> None:
    """The reason for the standing: one changed client moves the sum by much more than S, its clip."""
    norms = np.array([1.0] * 15 + [100.0] * 15)
    S = [float(np.median(v)) for v in (norms, np.r_[norms[:14], 100.0, norms[15:]])]
    assert S == [50.5, 100.0]
    assert (np.minimum(norms, S[1]).sum() - np.minimum(norms, S[0]).sum()) / S[0] > 10


def test_a_round_of_zeros_or_without_answers_leaves_a_finite_model() -> None:
    assert np.isfinite(run_round(np.zeros((100, 3))).model).all()
    state = RECIPE.close_round(RECIPE.open_round(RECIPE.start(np.zeros(3))), [])
    assert np.isfinite(state.model).all()


def test_an_observer_sees_the_updates_before_the_clip() -> None:
    statistics = UpdateStatistics()
    state = RECIPE.open_round(RECIPE.start(np.zeros(1)))
    RECIPE.close_round(
        state, [ClientUpdate(int(k), np.array([3.0])) for k in state.participants], observe=statistics.observe
    )
    assert (statistics.clients, statistics.variance, statistics.scale) == (30, 0.0, 9.0)


def test_abandoned_rounds_are_paid_for_and_steps_out_of_order_are_refused() -> None:
    state = RECIPE.open_round(RECIPE.start(np.zeros(1)))
    with pytest.raises(Refusal, match="is open"):
        RECIPE.open_round(state)
    state = RECIPE.abandon_round(state)
    assert (state.round, state.spent[0].rounds) == (1, 1)
    with pytest.raises(Refusal, match="not open"):
        RECIPE.close_round(state, [])


def test_it_runs_in_a_simulation_and_is_unaccounted() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 4)), rng.integers(3, size=200)
    task = Task(Network((4, 3)), LocalSGD(1, 0.2, batch=5), X, y, iid(200, 40, rng), X, y)
    recipe = GeyerAlgorithm1(FixedSizeSampling(40), Constant(20, 1.2), PrivacyBudget(8.0, 1e-2))
    history = simulate(task, recipe, seed=1, rounds=2)
    assert history.columns["sampled"].tolist() == [20, 20]
    assert history.figure.standing is Standing.UNACCOUNTED
    assert (np.diff(history.columns["delta"]) > 0).all()


def test_poisson_sampling_is_not_algorithm_1() -> None:
    with pytest.raises(Refusal, match="fixed number"):
        GeyerAlgorithm1(PoissonSampling(100), Constant(30, 1.0), PrivacyBudget(8.0, 1e-3))  # type: ignore[arg-type]
