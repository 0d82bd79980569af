"""The curator: noise of the promised size whoever answers, a budget checked first, a release that describes itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import chdtri

from dosimeter.core.errors import Refusal
from dosimeter.federated import (
    BudgetSpent,
    ClientUpdate,
    Constant,
    Curator,
    FixedClip,
    FixedSizeSampling,
    ListedSchedule,
    PoissonSampling,
    PrivacyBudget,
    QuantileClip,
    State,
    UpdateBatch,
)
from dosimeter.federated.schedule import ScheduleEnded

WIDE = PrivacyBudget(1e3, 1e-2)


def noise_of_a_round(curator: Curator, d: int, arrivals: int, rng: np.random.Generator | None) -> np.ndarray:
    """The model after a round minus the clipped sum, in units of C/m."""
    state = curator.open_round(curator.start(np.zeros(d)), rng)
    answering = state.participants[:arrivals]
    updates = np.zeros((len(answering), d))
    updates[:, 0] = 5.0
    after = curator.close_round(state, [UpdateBatch(answering, updates)], rng)
    m, C = after.history[0].per_round, after.history[0].clip
    noise = after.model * m / C
    noise[0] -= len(answering)
    return noise


def fits(noise: np.ndarray, z: float, error: float = 1e-6) -> bool:
    """Two-sided chi-square test of the noise at this multiplier."""
    squares, n = float(np.square(noise / z).sum()), noise.size
    return bool(chdtri(n, 1 - error / 2) <= squares <= chdtri(n, error / 2))


@pytest.mark.parametrize("rng", [None, np.random.default_rng(2)], ids=["operating system", "simulation"])
@pytest.mark.parametrize("arrivals", [0, 1, 40, 10_000])
def test_the_noise_has_the_declared_size_whoever_answers_and_five_per_cent_less_is_noticed(
    arrivals: int, rng: np.random.Generator | None
) -> None:
    """20,000 entries: a correct scale fails once in a million, and one off by 5 % passes once in a million too."""
    noise = noise_of_a_round(
        Curator(PoissonSampling(100), Constant(50, 0.8), WIDE, FixedClip(0.3)), 20_000, arrivals, rng
    )
    assert fits(noise, 0.8)
    assert not fits(noise, 0.8 * 1.05)
    assert not fits(noise, 0.8 * 0.95)
    # If it followed the answers instead of m, the noise would be this.
    assert not fits(noise * max(arrivals, 1) / 50, 0.8) or arrivals in (40, 10_000)


def test_beside_a_quantile_the_sum_gets_the_larger_share_of_noise() -> None:
    rule = QuantileClip(0.3, bit_noise_share=0.01)  # σ_b = z: a quarter of the cost goes to the bits
    noise = noise_of_a_round(Curator(PoissonSampling(100), Constant(50, 0.8), WIDE, rule), 20_000, 30, None)
    assert fits(noise, (0.8**-2 - 1.6**-2) ** -0.5)
    assert not fits(noise, 0.8)


def test_the_same_update_moves_the_model_by_the_same_amount_however_many_answer() -> None:
    """Divided by the expected number: half of the clients move the model half as far."""
    curator = Curator(PoissonSampling(1000), Constant(1000, 0.5), WIDE, FixedClip(1.0))
    steps = []
    for arrivals in (1000, 500):
        state = curator.open_round(curator.start(np.zeros(2000)))
        answering = state.participants[:arrivals]
        steps.append(
            curator.close_round(state, [UpdateBatch(answering, np.full((len(answering), 2000), 0.5))]).model.mean()
        )
    # Each entry moves by 0.022 with noise 0.0005, averaged over 2000 entries: the ratio is known to 5e-4.
    assert steps[1] / steps[0] == pytest.approx(0.5, abs=5e-3)


def test_poisson_cohorts_are_binomial_and_independent() -> None:
    """2,000 clients sampled 200 times: mean and variance of the size, and each client's share, at six deviations."""
    cohort, q = PoissonSampling(2000), 0.3
    curator = Curator(cohort, Constant(600, 1.0), PrivacyBudget(1e4, 1e-2), FixedClip(1.0))
    state, times_sampled, sizes = curator.start(np.zeros(1)), np.zeros(2000), []
    for _ in range(200):
        state = curator.open_round(state)
        times_sampled[state.participants] += 1
        sizes.append(len(state.participants))
        state = curator.close_round(state, [])
    deviation = np.sqrt(2000 * q * (1 - q))
    assert abs(np.mean(sizes) - 600) < 6 * deviation / np.sqrt(200)
    assert 0.6 < np.std(sizes) / deviation < 1.4
    assert np.abs(times_sampled - 60).max() < 6 * np.sqrt(200 * q * (1 - q))


def test_a_cohort_of_fixed_size_is_a_uniform_subset() -> None:
    """All ten pairs of five clients, 20,000 draws: chi-square with 9 degrees of freedom, fails once in a million."""
    from dosimeter.noise_addition.bits import fresh_bits

    cohort, bits, counts = FixedSizeSampling(5), fresh_bits(), {}
    for _ in range(20_000):
        pair = tuple(cohort.draw(2, bits).tolist())
        counts[pair] = counts.get(pair, 0) + 1
    assert len(counts) == 10
    assert sum((n - 2000) ** 2 / 2000 for n in counts.values()) < chdtri(9, 1e-6)


@pytest.mark.parametrize("clip", [FixedClip(1.0), QuantileClip()], ids=repr)
@pytest.mark.parametrize("cohort", [PoissonSampling(100), FixedSizeSampling(100)], ids=repr)
def test_the_budget_is_checked_before_the_round_and_never_exceeded(
    cohort: PoissonSampling | FixedSizeSampling, clip: FixedClip
) -> None:
    budget = PrivacyBudget(8.0, 1e-3)
    curator = Curator(cohort, Constant(30, 1.0), budget, clip)
    state = curator.start(np.zeros(2))
    while curator.next_round_cost(state)[0]:
        state = curator.close_round(curator.open_round(state), [])
    with pytest.raises(BudgetSpent, match=f"round {state.round + 1} is not opened") as stop:
        curator.open_round(state)
    assert stop.value.would_be > budget.delta
    assert state.round > 0
    assert curator.dose(state).delta(8.0) <= 1e-3
    assert curator.figure(state).epsilon <= 8.0


def test_changing_parameters_do_not_exceed_the_budget_either() -> None:
    curator = Curator(
        PoissonSampling(100),
        ListedSchedule((30, 60, 90, 90, 90), (1.0, 1.0, 1.0, 1.0, 1.0)),
        PrivacyBudget(5.0, 1e-3),
        FixedClip(1.0),
    )
    state = curator.start(np.zeros(1))
    while curator.next_round_cost(state)[0]:
        state = curator.close_round(curator.open_round(state), [])
    with pytest.raises(BudgetSpent):
        curator.open_round(state)
    assert 0 < state.round < 5
    assert curator.dose(state).epsilon(1e-3) <= 5.0


def test_drop_outs_do_not_change_what_is_paid() -> None:
    curator = Curator(PoissonSampling(50), Constant(25, 1.0), PrivacyBudget(20, 1e-3), FixedClip(1.0))
    doses = []
    for share in (0.0, 0.5, 1.0):
        state = curator.start(np.zeros(2))
        for _ in range(3):
            state = curator.open_round(state)
            answering = state.participants[: int(len(state.participants) * share)]
            state = curator.close_round(state, [UpdateBatch(answering, np.ones((len(answering), 2)))])
        doses.append(curator.dose(state).epsilon(1e-3))
    assert len(set(doses)) == 1


def test_momentum_and_step_use_released_values_only() -> None:
    seeds = [np.random.default_rng(4) for _ in range(2)]
    plain = Curator(PoissonSampling(20), Constant(10, 1.0), WIDE, FixedClip(1.0))
    with_momentum = Curator(PoissonSampling(20), Constant(10, 1.0), WIDE, FixedClip(1.0), momentum=0.5, step=2.0)
    a, b, v = plain.start(np.zeros(3)), with_momentum.start(np.zeros(3)), np.zeros(3)
    for _ in range(4):
        before = a.model
        a, b = (
            c.close_round(o, [ClientUpdate(int(k), np.ones(3)) for k in o.participants], r)
            for c, s, r in ((plain, a, seeds[0]), (with_momentum, b, seeds[1]))
            for o in [c.open_round(s, r)]
        )
        v = 0.5 * v + (a.model - before)
    np.testing.assert_allclose(b.velocity, v, rtol=1e-12)
    assert plain.dose(a).epsilon(1e-3) == with_momentum.dose(b).epsilon(1e-3)


def test_a_simulation_is_repeatable_and_says_so_and_a_production_run_is_neither() -> None:
    curator = Curator(PoissonSampling(20), Constant(10, 1.0), WIDE, FixedClip(1.0))

    def run(rng: np.random.Generator | None) -> State:
        state = curator.open_round(curator.start(np.zeros(3)), rng)
        return curator.close_round(state, [ClientUpdate(int(k), np.ones(3)) for k in state.participants], rng)

    seeded = [run(np.random.default_rng(3)) for _ in range(2)]
    assert seeded[0].model.tobytes() == seeded[1].model.tobytes()
    assert curator.release(seeded[0]).recipe.simulation
    assert "not for release" in repr(curator.release(seeded[0]))
    real = [run(None) for _ in range(2)]
    assert real[0].model.tobytes() != real[1].model.tobytes()
    assert not curator.release(real[0]).recipe.simulation
    mixed = curator.close_round(curator.open_round(seeded[0]), [])
    assert mixed.simulation


def test_the_release_carries_unit_adjacency_and_epsilon() -> None:
    curator = Curator(PoissonSampling(100), Constant(30, 1.0), PrivacyBudget(8, 1e-3), FixedClip(1.0))
    state = curator.close_round(curator.open_round(curator.start(np.zeros(2))), [])
    recipe = curator.release(state).recipe
    assert recipe.settings["unit"] == "client"
    assert recipe.settings["adjacency"] == "add-or-remove-one"
    assert recipe.settings["epsilon"] == curator.figure(state).epsilon
    assert "m=30, z=1" in recipe.noise
    with pytest.raises(Refusal, match="is open"):
        curator.release(curator.open_round(state))


def test_steps_out_of_order_are_refused() -> None:
    curator = Curator(PoissonSampling(10), Constant(5, 1.0), WIDE, FixedClip(1.0))
    state = curator.start(np.zeros(2))
    with pytest.raises(Refusal, match="not open"):
        curator.close_round(state, [])
    with pytest.raises(Refusal, match="not open"):
        curator.abandon_round(state)
    with pytest.raises(Refusal, match="is open"):
        curator.open_round(curator.open_round(state))


def test_a_schedule_that_has_ended_is_refused() -> None:
    curator = Curator(PoissonSampling(10), ListedSchedule((5,), (1.0,)), WIDE, FixedClip(1.0))
    state = curator.close_round(curator.open_round(curator.start(np.zeros(1))), [])
    with pytest.raises(ScheduleEnded, match="only 1 rounds"):
        curator.open_round(state)


@pytest.mark.parametrize("wrong", [{"momentum": 1.0}, {"momentum": -0.1}, {"step": 0}, {"step": np.nan}])
def test_invalid_recipes_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(Refusal):
        Curator(PoissonSampling(10), Constant(5, 1.0), WIDE, FixedClip(1.0), **wrong)


@pytest.mark.parametrize("per_round", [0, 11, -1, np.inf])
def test_more_clients_than_there_are_cannot_be_sampled(per_round: float) -> None:
    with pytest.raises(Refusal):
        Curator(PoissonSampling(10), Constant(per_round, 1.0), WIDE, FixedClip(1.0))


@pytest.mark.parametrize("model", [np.zeros((2, 2)), np.array([]), np.array([1.0, np.nan])])
def test_a_model_is_flat_and_finite(model: np.ndarray) -> None:
    with pytest.raises(Refusal, match="flat vector"):
        State.of(model, 1.0)
