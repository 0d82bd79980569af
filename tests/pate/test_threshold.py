"""Answers and refusals together, against the definition: every way of voting, in multiple precision."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter.core.channel import maximal_leakage
from dosimeter.core.density import Density
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Exponential, Gaussian, Gumbel, Laplace, LogisticNoise
from dosimeter.pate.adversary import channels
from dosimeter.pate.bounds import data_independent_bound
from dosimeter.pate.leakage import leakage, win_probabilities
from dosimeter.pate.threshold import Threshold, free_threshold, threshold_bound, threshold_leakage
from dosimeter.reproductions.saeidian21_unsafe import unsafe_fixed_refusal_leakage
from tests.pate.brute import cdf, mp, placements, two_class_wins, wins


def by_definition(
    others: list[int], noise: Density, threshold: Threshold, c: int = 1, closed: bool = False
) -> mpmath.mpf:
    """f - 1 over every placement of c votes, with the refusal as one more output."""
    best = [mp.mpf(0)] * (len(others) + 1)
    for a in placements(c, len(others)):
        v = [x + y for x, y in zip(others, a, strict=True)]
        refused = cdf(threshold.noise, mp.mpf(threshold.T) - max(v))
        won = two_class_wins(v, noise) if closed else wins(v, noise)  # type: ignore[arg-type]
        row = [(1 - refused) * p for p in won] + [refused]
        best = [max(x, y) for x, y in zip(best, row, strict=True)]
    return mp.fsum(best) - 1


# ---------------------------------------------------------------- the exact leakage


@pytest.mark.parametrize(
    "noise", [Laplace(3.0), Gaussian(3.0), Gumbel(3.0), Exponential(3.0), LogisticNoise(3.0)], ids=repr
)
@pytest.mark.parametrize("threshold_noise", [Laplace(2.0), Gaussian(4.0)], ids=repr)
def test_the_leakage_is_the_definition(noise: Density, threshold_noise: Density) -> None:
    for others, T in (([5, 4, 1], 5.0), ([3, 3, 3], 6.5), ([9, 2, 2], 4.0)):
        threshold = Threshold(T, threshold_noise)
        leaked = float(threshold_leakage([others], noise, threshold)[0])
        assert leaked == pytest.approx(float(mp.log1p(by_definition(others, noise, threshold))), rel=1e-11)


@pytest.mark.parametrize("c", [2, 3])
def test_a_person_with_several_votes_may_split_them(c: int) -> None:
    """The maximum over all placements of c votes, which exceeds the maximum over those with all votes on one class."""
    noise, threshold = Laplace(2.0), Threshold(6, Laplace(1.0))
    for others in ([5, 5], [5, 3, 1], [4, 4, 4]):
        leaked = float(threshold_leakage([others], noise, threshold, shift=c)[0])
        assert leaked == pytest.approx(float(mp.log1p(by_definition(others, noise, threshold, c))), rel=1e-11)
    m, together = 2, np.zeros(3)
    for j in range(m):
        v = [5 + c * (i == j) for i in range(m)]
        refused = float(cdf(threshold.noise, mp.mpf(threshold.T) - max(v)))
        row = np.array([*(float(p) * (1 - refused) for p in wins(v, noise)), refused])
        together = np.maximum(together, row)
    assert float(threshold_leakage([[5, 5]], noise, threshold, shift=c)[0]) > math.log(together.sum()) + 1e-3


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 8), min_size=2, max_size=4),
    st.integers(-2, 14),
    st.sampled_from([Laplace, Gaussian, Gumbel, Exponential, LogisticNoise]),
    st.sampled_from([0.4, 1.5, 6.0]),
    st.sampled_from([Laplace(0.3), Laplace(4.0), Gaussian(0.6), Gaussian(5.0)]),
    st.integers(1, 4),
)
def test_no_way_of_casting_the_votes_is_missed(
    others: list[int], T: int, law: type[Density], scale: float, threshold_noise: Density, c: int
) -> None:
    """All placements, by the win probabilities, which are tested against their own oracle."""
    voted = np.array([[x + y for x, y in zip(others, a, strict=True)] for a in placements(c, len(others))])
    short = T - voted.max(axis=1)
    rows = np.hstack(
        [win_probabilities(voted, law(scale)) * threshold_noise.sf(short)[:, None], threshold_noise.cdf(short)[:, None]]
    )
    expected = maximal_leakage(rows / rows.sum(axis=1, keepdims=True))
    leaked = float(threshold_leakage([others], law(scale), Threshold(T, threshold_noise), shift=c)[0])
    assert leaked == pytest.approx(expected, rel=1e-9, abs=1e-13)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 12), min_size=2, max_size=5),
    st.integers(-3, 20),
    st.sampled_from([0.3, 1.0, 4.0, 30.0]),
    st.sampled_from([0.3, 2.0, 20.0]),
)
def test_it_is_the_maximal_leakage_of_the_finite_channel(others: list[int], T: int, b: float, b0: float) -> None:
    noise, threshold = Laplace(b), Threshold(T, Laplace(b0))
    rows = channels([others], noise, threshold)[0]
    expected = maximal_leakage(rows / rows.sum(axis=1, keepdims=True))
    assert float(threshold_leakage([others], noise, threshold)[0]) == pytest.approx(expected, rel=1e-9, abs=1e-13)


def test_small_leakages_keep_their_digits() -> None:
    """1e-12 to 1e-60, two classes: the law of N₁ - N₂ in closed form at 200 digits."""
    leakages = []
    with mp.workdps(200):
        for others, T, b, b0 in (
            ([100, 20], 40, 2.0, 2.0),
            ([300, 20], 150, 3.0, 2.0),
            ([400, 100], 130, 2.5, 2.0),
            ([500, 490], 900, 2.0, 3.0),
            ([40, 10], 300, 20.0, 2.0),
        ):
            noise, threshold = Laplace(b), Threshold(T, Laplace(b0))
            exact = mp.log1p(by_definition(others, noise, threshold, closed=True))
            assert float(threshold_leakage([others], noise, threshold)[0]) == pytest.approx(float(exact), rel=1e-12)
            leakages.append(float(exact))
    assert min(leakages) < 1e-55
    assert sum(x < 1e-11 for x in leakages) >= 3


@pytest.mark.slow
def test_small_leakages_of_four_classes_and_gaussian_noise_keep_their_digits() -> None:
    """Below 1e-9 by quadrature at 50 digits."""
    with mp.workdps(50):
        for others, T, noise, threshold_noise in (
            ([60, 20, 20, 3], 25, Laplace(1.2), Laplace(1.3)),
            ([60, 20, 20, 3], 25, Gaussian(4.0), Gaussian(5.0)),
            ([60, 20, 11, 3], 20, Gumbel(1.3), Gaussian(4.0)),
        ):
            threshold = Threshold(T, threshold_noise)
            exact = float(mp.log1p(by_definition(others, noise, threshold)))
            assert exact < 1e-9
            assert float(threshold_leakage([others], noise, threshold)[0]) == pytest.approx(exact, rel=1e-10)


def test_equal_shapes_get_equal_figures_and_the_order_of_classes_does_not_matter() -> None:
    rng = np.random.default_rng(1)
    others = rng.integers(0, 6, (200, 4))
    threshold = Threshold(4, Laplace(2.0))
    leaked = threshold_leakage(others, Laplace(3.0), threshold)
    turned = threshold_leakage(others[:, ::-1], Laplace(3.0), threshold)
    alone = [float(threshold_leakage(row[None], Laplace(3.0), threshold)[0]) for row in others[:20]]
    assert np.array_equal(leaked, turned)
    assert leaked[:20] == pytest.approx(alone, rel=1e-13)


def test_far_from_the_threshold_it_is_the_plain_vote_or_nothing() -> None:
    """T far below: always answered, the plain leakage. T far above: always refused, nothing."""
    others, noise = [[8, 7, 2]], Laplace(4.0)
    below = threshold_leakage(others, noise, Threshold(-1000, Laplace(1.0)))
    assert below == pytest.approx(leakage(others, noise), rel=1e-12)
    assert float(threshold_leakage(others, noise, Threshold(100_000, Laplace(1.0)))[0]) == 0.0


def test_a_fixed_rule_costs_log_two_at_its_boundary_and_a_noisy_one_hardly_more_than_the_vote() -> None:
    """v⁻ = (59, 40, 0, 0), T = 60, γ = 0.05 throughout."""
    others, noise = [[59, 40, 0, 0]], Laplace(20.0)
    plain = float(leakage(others, noise)[0])
    fixed = float(unsafe_fixed_refusal_leakage(others, noise, 60)[0])
    noisy = float(threshold_leakage(others, noise, Threshold(60, Laplace(20.0)))[0])
    assert (round(plain, 4), round(fixed, 3), round(noisy, 4)) == (0.0225, 0.693, 0.0272)
    assert float(unsafe_fixed_refusal_leakage([[70, 40, 0, 0]], noise, 60)[0]) < plain  # away from it, the vote alone


# ---------------------------------------------------------------- its bound


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, 30), min_size=2, max_size=6),
    st.integers(-5, 45),
    st.sampled_from([Laplace(0.7), Laplace(5.0), Gaussian(3.0), Gumbel(2.0), Exponential(4.0), LogisticNoise(2.0)]),
    st.sampled_from([Laplace(0.5), Laplace(10.0), Gaussian(0.8), Gaussian(6.0)]),
    st.integers(1, 3),
)
def test_no_histogram_and_no_threshold_exceeds_the_bound(
    others: list[int], T: int, noise: Density, threshold_noise: Density, c: int
) -> None:
    threshold = Threshold(T, threshold_noise)
    limit = threshold_bound(len(others), noise, threshold, shift=c)
    assert float(threshold_leakage([others], noise, threshold, shift=c)[0]) <= limit * (1 + 1e-12)


@pytest.mark.parametrize("threshold_noise", [Laplace(3.0), Laplace(0.4), Gaussian(2.0), Gaussian(0.5)], ids=repr)
@pytest.mark.parametrize("c", [1, 2])
def test_the_bound_is_the_highest_point_of_its_curve(threshold_noise: Density, c: int) -> None:
    """log max_t B·P(N₀ >= t - c) + P(N₀ < t), the maximum by brute force on a fine grid."""
    noise = Laplace(4.0)
    B = math.exp(data_independent_bound(5, noise, shift=c))
    t = np.linspace(-60 * threshold_noise.scale, 60 * threshold_noise.scale + c, 400_001)
    highest = math.log(float((B * threshold_noise.sf(t - c) + threshold_noise.cdf(t)).max()))
    assert threshold_bound(5, noise, Threshold(0, threshold_noise), shift=c) == pytest.approx(highest, rel=1e-7)


def test_the_bound_lies_between_what_happens_and_what_composition_would_charge() -> None:
    """Lemma 5 would charge log B for the label and log(2 - e^(-γ₀/2)) for the refusal. Here: 0.048 < 0.073 < 0.097."""
    noise, threshold_noise = Laplace(20.0), Laplace(10.0)
    limit = threshold_bound(10, noise, Threshold(0, threshold_noise))
    composed = data_independent_bound(10, noise) + math.log(2 - math.exp(-1 / 20))
    worst = max(
        float(threshold_leakage([[10] + [9] * 9], noise, Threshold(9 + k / 4, threshold_noise))[0])
        for k in range(-60, 81)
    )
    assert worst < limit < composed


def test_a_free_threshold_costs_nothing_in_the_bound_and_a_little_less_noise_does() -> None:
    noise = Laplace(20.0)
    threshold = free_threshold(60, noise, 10)
    plain = data_independent_bound(10, noise)
    assert threshold_bound(10, noise, threshold) == plain
    assert threshold_bound(10, noise, Threshold(60, Laplace(threshold.noise.scale * 0.9))) > plain
    # and it is attained: with equal counts far above T every query is answered
    far = Threshold(-10_000, threshold.noise)
    assert float(threshold_leakage([[9] * 10], noise, far)[0]) == pytest.approx(plain, rel=1e-12)


def test_bad_shifts_and_histograms_are_refused() -> None:
    threshold = Threshold(3, Laplace(1.0))
    for bad in (0, -1, 1.0, True):
        with pytest.raises(Refusal, match="shift"):
            threshold_leakage([[3, 1]], Laplace(1.0), threshold, shift=bad)  # type: ignore[arg-type]
    with pytest.raises(Refusal, match="whole"):
        threshold_leakage([[3.5, 1]], Laplace(1.0), threshold)


def test_the_bound_for_all_votes_is_nearly_attained() -> None:
    """Many leaders and one class far behind: only a vote for the last leaves the leading count unchanged."""
    threshold = Threshold(50.25, Laplace(10.0))
    (leaked,) = threshold_leakage([[50] * 9 + [0]], Laplace(20.0), threshold)
    assert (
        0.99 * threshold_bound(10, Laplace(20.0), threshold) < leaked <= threshold_bound(10, Laplace(20.0), threshold)
    )
