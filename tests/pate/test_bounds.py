"""The bounds of [Saeidian21] and ours: by the printed formulas in multiple precision, and above the exact leakage."""

from __future__ import annotations

import math
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter import pate
from dosimeter.core.density import Array, Density, Size
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Exponential, Gaussian, Gumbel, Laplace, LogisticNoise, no_noise
from dosimeter.core.notion import Standing
from dosimeter.pate.vote_noise import VOTE_LAWS
from tests.pate import oracle

LAWS = list(VOTE_LAWS)
few = settings(max_examples=80, deadline=None)
ROUNDING = 1e-12
gammas = st.sampled_from([1e-6, 1e-3, 0.05, 0.1, 0.5, 1.0, 3.0, 50.0])


@st.composite
def histograms(draw: st.DrawFn) -> list[int]:
    m = draw(st.integers(2, 8))
    return draw(st.lists(st.integers(0, 60), min_size=m, max_size=m))


def printed_B1(m: int, gamma: float) -> float:
    """log of eq. 17 with H of eq. 18, as printed, with enough digits for its cancellation."""
    with mp.workdps(60 + int(m * 0.01) + int(gamma)):
        g = mp.mpf(gamma)
        e = mp.exp(-g)
        q, H = 1 - e / 2, g
        power, half = mp.mpf(1), mp.mpf(1)
        for k in range(1, m - 1):
            power, half = power * q, half / 2
            H += (half - power) / k
        B1 = (1 - m) * mp.mpf(2) ** -m * e + (1 - q**m) / e + mp.mpf(m) / 2 * q ** (m - 1)
        return float(mp.log(B1 - mp.mpf(m) * (m - 1) / 4 * e * H))


@pytest.mark.parametrize("m", [2, 3, 10, 1000, 20_000])
@pytest.mark.parametrize("gamma", [1e-8, 1e-4, 0.05, 1.0, 40.0, 800.0])
def test_the_data_independent_bound_is_the_printed_one_where_float64_cannot_follow_it(m: int, gamma: float) -> None:
    assert pate.data_independent_bound(m, gamma) == pytest.approx(printed_B1(m, gamma), rel=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [1e-8, 0.05, 800.0])
def test_the_data_independent_bound_of_a_hundred_thousand_classes(gamma: float) -> None:
    assert pate.data_independent_bound(100_000, gamma) == pytest.approx(printed_B1(100_000, gamma), rel=1e-13)


@pytest.mark.parametrize("shift", [1, 4])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_every_law_has_its_own_at_equal_counts(law: type[Density], shift: int) -> None:
    noise = law(3.0)
    expected = oracle.leakage([2, 2, 2, 2], noise, shift)
    assert pate.data_independent_bound(4, noise, shift) == pytest.approx(expected, rel=1e-13)


def test_the_closed_form_for_gumbel_noise() -> None:
    """log(m e^γ / (m - 1 + e^γ)), the exponential mechanism."""
    for m, gamma in ((2, 0.05), (10, 1.0), (1000, 5.0)):
        with mp.workdps(30):
            e = mp.exp(mp.mpf(gamma))
            expected = float(mp.log(m * e / (m - 1 + e)))
        assert pate.data_independent_bound(m, Gumbel(1 / gamma)) == pytest.approx(expected, rel=1e-14)


@few
@given(histograms(), gammas, st.integers(1, 5))
def test_the_exact_leakage_lies_below_every_bound(others: list[int], gamma: float, shift: int) -> None:
    exact = pate.leakage([others], Laplace(1 / gamma), shift)[0]
    least = pate.bound([others], gamma, shift)
    for limit in (
        pate.uniform_bound(gamma, shift=shift),
        pate.data_independent_bound(len(others), gamma, shift),
        pate.data_dependent_bound([others], gamma, shift)[0],
        pate.overtaking_bound([others], gamma, shift)[0],
        least.values[0],
    ):
        assert exact <= limit * (1 + ROUNDING)
        assert least.values[0] <= limit


@few
@given(histograms(), st.sampled_from([0.3, 2.0, 20.0]), st.sampled_from(LAWS), st.integers(1, 3))
def test_no_histogram_leaks_more_than_equal_counts(
    others: list[int], scale: float, law: type[Density], shift: int
) -> None:
    most = pate.data_independent_bound(len(others), law(scale), shift)
    assert pate.leakage([others], law(scale), shift)[0] <= most * (1 + ROUNDING)


@pytest.mark.parametrize("gamma", [1e-3, 0.1, 1.0, 5.0])
def test_the_data_independent_bound_rises_with_the_classes_ever_more_slowly_up_to_gamma(gamma: float) -> None:
    """Eqs. 75 to 78."""
    B1 = np.exp([pate.data_independent_bound(m, gamma) for m in range(2, 60)])
    assert (np.diff(B1) > -1e-14).all()
    assert (np.diff(B1, 2) < 1e-14).all()
    assert np.diff(B1)[0] > 1.5 * np.diff(B1)[-1]
    assert pate.data_independent_bound(10**6, gamma) == pytest.approx(gamma, rel=1e-3)
    assert pate.data_independent_bound(10**6, gamma) <= gamma * (1 + 1e-15)


def test_the_data_independent_bound_of_little_noise_is_the_whole_label() -> None:
    assert pate.data_independent_bound(1000, 800.0) == pytest.approx(math.log(1000), rel=1e-12)
    for law in LAWS:
        assert pate.data_independent_bound(7, law(1e-4)) == pytest.approx(math.log(7), rel=1e-12)


def test_gaussian_noise_has_no_bound_that_holds_for_any_number_of_classes() -> None:
    """The others stay below 1/s; the Gaussian passes 1/σ between a hundred and a thousand classes and keeps rising."""
    bounds = [pate.data_independent_bound(m, Gaussian(10.0)) for m in (10, 100, 1000, 10**4, 10**5)]
    assert (np.diff(bounds) > 0.03).all()
    assert bounds[-1] > 0.4
    for law in (Laplace, Gumbel, Exponential, LogisticNoise):
        assert pate.data_independent_bound(10**5, law(10.0)) <= 0.1


# ---------------------------------------------------------------- for one histogram


def chance_to_overtake(gap: mp.mpf) -> mp.mpf:
    """P(N1 - N2 > gap) of two Laplace variables at scale one, by quadrature."""
    g, G = oracle.LAWS[Laplace]
    ends = sorted({mp.mpf(0), gap, *(mp.mpf(k) for k in range(-60, 61, 4)), gap + 60, gap - 60})
    return mp.quad(lambda s: g(s) * G(s - gap), ends, method="gauss-legendre")


@pytest.mark.parametrize(
    ("others", "gamma", "shift"),
    [([90, 5, 5, 0], 0.1, 1), ([7, 7, 7], 0.4, 1), ([20, 18, 10, 2], 0.3, 3), ([6, 2], 2.0, 1), ([5, 3, 0], 0.2, 4)],
)
def test_the_bounds_for_a_histogram_are_sums_of_chances_to_overtake(
    others: list[int], gamma: float, shift: int
) -> None:
    """Eqs. 82 and 83 for B2, docs/explanation/pate.md for B3: the chances by quadrature."""
    with mp.workdps(30):
        g, c = mp.mpf(gamma), shift
        pairs = [chance_to_overtake(g * (others[0] - v - c)) for v in others[1:]]
        first = chance_to_overtake(g * (others[1] - others[0] - c))
        B2, B3 = first + sum(pairs), 1 + (1 - mp.exp(-2 * c * g)) * sum(pairs)
        dependent, overtaking = float(mp.log(B2)), float(mp.log(B3))
    assert pate.data_dependent_bound([others], gamma, shift)[0] == pytest.approx(dependent, rel=1e-12)
    assert pate.overtaking_bound([others], gamma, shift)[0] == pytest.approx(overtaking, rel=1e-12)


@few
@given(st.integers(0, 80), gammas, st.integers(1, 5))
def test_of_two_classes_the_data_dependent_bound_is_exact(gap: int, gamma: float, shift: int) -> None:
    exact = pate.leakage([[gap, 0]], Laplace(1 / gamma), shift)
    np.testing.assert_allclose(pate.data_dependent_bound([[gap, 0]], gamma, shift), exact, rtol=1e-12, atol=1e-300)


@few
@given(histograms(), gammas, st.randoms(use_true_random=False))
def test_names_of_classes_do_not_matter(others: list[int], gamma: float, random: object) -> None:
    shuffled = list(others)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for f in (pate.data_dependent_bound, pate.overtaking_bound):
        first, second = f([others, shuffled], gamma)
        assert first == second


def test_each_bound_except_gamma_is_somewhere_the_smallest() -> None:
    """log B1 <= γ always, so γ is smallest only if rounding makes them equal."""
    rows = [[3, 3, 3], [90, 89, 5, 5], [99, 0], [90, 5, 5, 0]]
    which = [pate.bound([row], g).which[0] for row, g in zip(rows, (0.1, 0.5, 0.5, 0.1), strict=True)]
    assert set(which) == {"log B1", "log B2", "log B3"}


def test_the_smallest_bound_names_itself() -> None:
    least = pate.bound([[4, 3, 2, 1], [90, 5, 5, 0]], 0.1)
    assert least.standing is Standing.UPPER_BOUND
    assert repr(least) == "<Bound of 2 noisy votes: highest 0.08608 nats, upper bound>"
    assert repr(pate.bound(np.empty((0, 3), dtype=int), 0.1)) == "<Bound of 0 noisy votes, upper bound>"


def test_k_queries_leak_k_times_gamma_at_most() -> None:
    """Corollary 15."""
    assert pate.uniform_bound(0.05, queries=2000) == 100.0
    assert pate.uniform_bound(0.05, queries=10, shift=3) == pytest.approx(1.5)
    assert pate.uniform_bound(0.05, queries=0) == 0.0


# ---------------------------------------------------------------- refusals


@dataclass(frozen=True)
class Cauchy(Density):
    """Heavy tails: not log-concave."""

    s: float
    log_concave = False
    _parameter = "s"

    def _logpdf(self, z: Array) -> Array:
        return -np.log1p(z * z) - math.log(math.pi)

    def _cdf(self, z: Array) -> Array:
        return 0.5 + np.arctan(z) / math.pi

    def _logcdf(self, z: Array) -> Array:
        return np.log(self._cdf(z))

    def _score(self, z: Array) -> Array:
        return -2 * z / (1 + z * z)

    def _quantile(self, u: Array) -> Array:
        return np.tan(math.pi * (u - 0.5))

    def _draw(self, rng: np.random.Generator, size: Size) -> Array:
        return np.asarray(rng.standard_cauchy(size))


def test_a_law_that_is_not_log_concave_gets_no_figure_from_equal_counts() -> None:
    with pytest.raises(CannotMeasure, match="log-concave"):
        pate.data_independent_bound(3, Cauchy(1.0))
    with pytest.raises(CannotMeasure, match="not a law"):
        pate.leakage([[2, 1]], Cauchy(1.0))


@pytest.mark.parametrize("gamma", [0.0, -0.1, math.inf, math.nan, True, "0.1"])
def test_gamma_is_a_finite_number_above_zero(gamma: object) -> None:
    for f in (
        lambda: pate.uniform_bound(gamma),  # type: ignore[arg-type]
        lambda: pate.data_independent_bound(4, gamma),  # type: ignore[arg-type]
        lambda: pate.overtaking_bound([[1, 0]], gamma),  # type: ignore[arg-type]
    ):
        with pytest.raises(Refusal):
            f()


@pytest.mark.parametrize("m", [1, 0, 2.5, True])
def test_a_vote_has_at_least_two_classes(m: object) -> None:
    with pytest.raises(Refusal, match="number of classes"):
        pate.data_independent_bound(m, 0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize("queries", [-1, 1.5, True])
def test_queries_are_counted(queries: object) -> None:
    with pytest.raises(Refusal, match="number of labels"):
        pate.uniform_bound(0.1, queries)  # type: ignore[arg-type]


def test_without_noise_there_is_no_bound() -> None:
    with pytest.raises(CannotMeasure, match="without noise"):
        pate.data_independent_bound(3, no_noise)  # type: ignore[arg-type]
